/* Checks of neighbour lists that no checksum can make: order, ranges, sums of weights, order
 * of times. `graphzero verify` is their only user.
 *
 * A check looks at the entries [begin, end) and returns the first faulty one, or `end` if there is
 * none. An entry is compared with the one before it, also with that before `begin`. */
#ifndef GRAPHZERO_CHECK_LISTS_H
#define GRAPHZERO_CHECK_LISTS_H

#include <stdbool.h>
#include <stdint.h>

#include "graphzero/csr.h"

/* The sections of a .gl by stored edge. The entries of indptr must have passed
 * gz_first_descent, begin with 0 and end with the number of edges. */
typedef struct gz_edge_lists {
    gz_ids indptr;
    uint64_t num_lists;
    uint64_t num_neighbors;
    gz_ids indices;
    const float *weights; /* NULL if absent, as all below */
    const double *cum_weights;
    const int64_t *times;
    gz_ids time_order;
    gz_ids edge_ids;
} gz_edge_lists;

/* Entries that are below the previous one, or above `most`. */
int64_t gz_first_descent(const gz_ids *ids, uint64_t most, int64_t begin, int64_t end);

/* Entries that are not below `limit`. */
int64_t gz_first_beyond(const gz_ids *ids, uint64_t limit, int64_t begin, int64_t end);

/* Entries i of `ids` with ranks[ids[i]] != i; both tables have `count` entries. If there is none,
 * both are permutations. */
int64_t gz_first_not_inverse(const gz_ids *ids, const gz_ids *ranks, uint64_t count, int64_t begin,
                             int64_t end);

/* Weights that are negative, infinite or NaN. */
int64_t gz_first_bad_weight(const float *weights, int64_t begin, int64_t end);

/* Neighbours that are below the previous one of their list, or not below num_neighbors. */
int64_t gz_first_unsorted(const gz_edge_lists *lists, int64_t begin, int64_t end);

/* Sums that are not, to the last bit, the previous sum of their list plus the weight. */
int64_t gz_first_bad_sum(const gz_edge_lists *lists, int64_t begin, int64_t end);

/* Entries of time_order that are out of range, or not after the previous one of their list by
 * (time, offset). If there is none, each list is a permutation. */
int64_t gz_first_untimely(const gz_edge_lists *lists, int64_t begin, int64_t end);

#endif
