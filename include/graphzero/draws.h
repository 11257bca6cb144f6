/* Which key the draws of an item (a node) come from, in batches that may share draws.
 *
 * With a dependency of n, every item keeps its draws for n consecutive batches, and goes over to
 * new ones in a batch of its own: two consecutive batches share the draws of all items but one in
 * n, each batch on its own being distributed as if there were no dependency. Balin, LaSalle and
 * Catalyurek ("Cooperative Minibatching in Graph Neural Networks", arXiv:2310.12403) interpolate
 * between two normally distributed numbers instead, which costs transcendental functions a draw. */
#ifndef GRAPHZERO_DRAWS_H
#define GRAPHZERO_DRAWS_H

#include <stdint.h>

#include "graphzero/rng.h"

typedef struct gz_draws {
    uint64_t key;        /* of this batch; of its group of `dependency` batches */
    uint64_t next;       /* of the next group; not read where every batch is a group */
    uint64_t phase;      /* of the places at which items go over from one to the other */
    uint64_t dependency; /* batches in a group, at least 1 */
    uint64_t place;      /* of the batch in its group */
} gz_draws;

/* Draws of one batch. */
gz_draws gz_draws_of(gz_purpose purpose, uint64_t seed, uint64_t epoch, uint64_t batch,
                     uint64_t dependency);

/* Those of one hop, or other part, of a batch. */
gz_draws gz_draws_below(const gz_draws *draws, uint64_t part);

/* The key that the item draws from in this batch. */
static inline uint64_t gz_draws_key(const gz_draws *draws, uint64_t item)
{
    if (draws->dependency <= 1)
        return draws->key;
    uint64_t moves = gz_bounded(gz_draw(draws->phase, item), draws->dependency);
    return draws->place + moves >= draws->dependency ? draws->next : draws->key;
}

#endif
