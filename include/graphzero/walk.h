/* First-order random walks along the stored direction of the edges. */
#ifndef GRAPHZERO_WALK_H
#define GRAPHZERO_WALK_H

#include <stdbool.h>
#include <stdint.h>

#include "graphzero/csr.h"

typedef struct gz_walk {
    uint64_t key;
    double p, q;    /* finite and positive; only used by node2vec.h */
    double restart; /* probability of returning to the start instead of a step, in [0, 1) */
    bool weighted;  /* steps in proportion to the weights; csr->cum_weights must not be NULL */
} gz_walk;

/* Uniform walks of `length` steps from start[i], for i in [begin, end). Walk i fills length + 1 ids
 * of out, from index i * (length + 1) on; -1 after a dead end. Walker i draws from the stream of
 * (key, i) alone. Walkers are interleaved: each gives a cache hint for its next access, then the
 * others move first. Returns how many entries were corrupt. */
uint64_t gz_walk_uniform(const gz_csr *csr, uint64_t key, const int64_t *start, int64_t begin,
                         int64_t end, int64_t length, int64_t *out);

/* The same with weighted steps, with restarts, or both (random walk with restart, as in
 * personalised PageRank: Tong, Faloutsos, Pan, ICDM 2006). With restarts, a walk restarts at a dead
 * end. */
uint64_t gz_walk_first_order(const gz_csr *csr, const gz_walk *walk, const int64_t *start,
                             int64_t begin, int64_t end, int64_t length, int64_t *out);

/* In the walks [begin, end) of `length` steps, repeats the last node in place of -1. */
void gz_repeat_last(int64_t *walks, int64_t begin, int64_t end, int64_t length);

#endif
