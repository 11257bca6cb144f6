/* The key that the draws of an item (a node) use, for batches that may share draws.
 *
 * With a dependency of n, every item keeps its draws for n consecutive batches and then switches to
 * new ones. Items switch in different batches, so that two consecutive batches share the draws of
 * all items but one in n. Each single batch is distributed as without dependency. Balin, LaSalle
 * and Catalyurek ("Cooperative Minibatching in Graph Neural Networks", arXiv:2310.12403)
 * interpolate between two normally distributed numbers instead, which needs transcendental
 * functions for every draw. */
#ifndef GRAPHZERO_DRAWS_H
#define GRAPHZERO_DRAWS_H

#include <stdint.h>

#include "graphzero/rng.h"

typedef struct gz_draws {
    uint64_t key;        /* of the batch's group of `dependency` batches */
    uint64_t next;       /* of the next group; unused if dependency is 1 */
    uint64_t phase;      /* decides at which place in a group an item switches to the next key */
    uint64_t dependency; /* batches in a group, at least 1 */
    uint64_t place;      /* of the batch within its group */
} gz_draws;

/* Draws of one batch. */
gz_draws gz_draws_of(gz_purpose purpose, uint64_t seed, uint64_t epoch, uint64_t batch,
                     uint64_t dependency);

/* Draws of one part of a batch, such as a hop. */
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
