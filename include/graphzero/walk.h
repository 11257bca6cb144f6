/* First-order random walks along the stored direction of the edges. */
#ifndef GRAPHZERO_WALK_H
#define GRAPHZERO_WALK_H

#include <stdbool.h>
#include <stdint.h>

#include "graphzero/csr.h"

typedef struct gz_walk {
    uint64_t key;
    double p, q;    /* of node2vec.h: finite and positive; first-order walks do not read them */
    double restart; /* probability of going back to the start instead of a step, in [0, 1) */
    bool weighted;  /* steps in proportion to the weights; csr->cum_weights must not be NULL */
} gz_walk;

/* Walks of `length` steps from start[i], for i in [begin, end), into rows of out, each
 * length + 1 ids long; -1 after a dead end. Walker i draws from the stream of (key, i) alone.
 * Walkers run interleaved, each asking for the cache lines of its next access and then letting
 * the others go first. Returns how many entries were corrupt. */
uint64_t gz_walk_uniform(const gz_csr *csr, uint64_t key, const int64_t *start, int64_t begin,
                         int64_t end, int64_t length, int64_t *out);

/* The same by the weights of the edges, or with restarts, or both (random walk with restart, the
 * walk of personalised PageRank: Tong, Faloutsos, Pan, ICDM 2006). At a dead end a walk that may
 * restart does so. */
uint64_t gz_walk_first_order(const gz_csr *csr, const gz_walk *walk, const int64_t *start,
                             int64_t begin, int64_t end, int64_t length, int64_t *out);

#endif
