/* Mini-batches of one shape: each hop is filled up to a size by added nodes and added edges. Local
 * ids of real nodes move behind the nodes that were added to the hops before theirs. */
#ifndef GRAPHZERO_PADDING_H
#define GRAPHZERO_PADDING_H

#include <stdbool.h>
#include <stdint.h>

#include "graphzero/sampling.h"

/* The nodes of one type, by hop: seeds, then the new nodes of each hop. */
typedef struct gz_gaps {
    int hops;
    int64_t ends[GZ_MOST_HOPS + 1];   /* where the real nodes of a hop end, without added ones */
    int64_t firsts[GZ_MOST_HOPS + 1]; /* local id of the first node that is added to it */
    int64_t added[GZ_MOST_HOPS + 1];  /* how many are added */
} gz_gaps;

/* Whether the counts of all hops and `spare` more are at most their sizes; of 0, none has any. */
bool gz_fits_sizes(const int64_t *counts, const int64_t *sizes, int hops, int64_t spare);

/* Where the nodes are that fill up hops of some counts to sizes that they fit. */
void gz_gaps_set(gz_gaps *gaps, const int64_t *counts, const int64_t *sizes, int hops);

/* Local ids among the nodes of all hops, filled up, of those in [begin, end). */
void gz_gaps_move(const gz_gaps *gaps, const int64_t *ids, int64_t begin, int64_t end,
                  int64_t *out);

/* Ends of the added edges [begin, end) of `count`: `nodes` nodes from `first` on, ascending, each
 * as often as the next. */
void gz_spread_ends(int64_t first, int64_t nodes, int64_t count, int64_t begin, int64_t end,
                    int64_t *out);

/* Rows [begin, end), all alike; of zeros where `row` is NULL. */
void gz_repeat_row(const unsigned char *row, uint64_t row_bytes, int64_t begin, int64_t end,
                   unsigned char *out);

#endif
