/* First-order random walks along the stored direction of the edges. */
#ifndef GRAPHZERO_WALK_H
#define GRAPHZERO_WALK_H

#include <stdbool.h>
#include <stdint.h>

#include "graphzero/csr.h"
#include "graphzero/reads.h"

typedef struct gz_walk {
    uint64_t key;
    double p, q;    /* finite and positive; only used by node2vec.h */
    double restart; /* probability of returning to the start instead of a step, in [0, 1) */
    bool weighted;  /* steps in proportion to the weights; csr->cum_weights must not be NULL */
} gz_walk;

/* A second-order walker between two steps. */
typedef struct gz_walker_state {
    uint64_t stream;               /* after the draws made so far */
    uint64_t before_first, before; /* the list of the previous node: its first entry, its length */
    bool first_order;              /* no previous node */
} gz_walker_state;

/* The walks of a call, in rows of out: length + 1 ids each, -1 after a dead end. Walk i begins at
 * start[i], and draws from the stream of (key, i) alone. A call makes the steps [from, to) of walks
 * [begin, end), or of those that picks[begin .. end) have as places; these must have no -1 yet. */
typedef struct gz_walks {
    const int64_t *start;
    int64_t *out;
    int64_t length;
    const gz_pick *picks;    /* or NULL */
    int64_t from, to;        /* 0 and length without picks */
    gz_walker_state *states; /* of second-order walks with picks, from first_state on; else NULL */
    int64_t first_state;
} gz_walks;

static inline int64_t gz_walk_number(const gz_walks *walks, int64_t i)
{
    return walks->picks != NULL ? (int64_t)walks->picks[i].place : i;
}

/* Uniform walks. Walkers are interleaved: each gives a cache hint for its next access, then the
 * others move first. Returns how many entries were corrupt. */
uint64_t gz_walk_uniform(const gz_csr *csr, uint64_t key, const gz_walks *walks, int64_t begin,
                         int64_t end);

/* The same with weighted steps, with restarts, or both (random walk with restart, as in
 * personalised PageRank: Tong, Faloutsos, Pan, ICDM 2006). With restarts, a walk restarts at a dead
 * end. */
uint64_t gz_walk_first_order(const gz_csr *csr, const gz_walk *walk, const gz_walks *walks,
                             int64_t begin, int64_t end);

/* In the walks [begin, end) of `length` steps, repeats the last node in place of -1. */
void gz_repeat_last(int64_t *walks, int64_t begin, int64_t end, int64_t length);

#endif
