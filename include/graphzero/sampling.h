/* One hop of neighbour sampling, uniform or by weight: which stored positions (edges) each node
 * draws. */
#ifndef GRAPHZERO_SAMPLING_H
#define GRAPHZERO_SAMPLING_H

#include <stdbool.h>
#include <stdint.h>

#include "graphzero/csr.h"

typedef struct gz_hop {
    int64_t fanout; /* neighbours per node, > 0; or -1 for all of them */
    bool replace;   /* draw each neighbour from the whole list again */
    bool by_seed;   /* draws depend on the position in nodes[] instead of on the node: repeats of a
                       node draw independently */
    uint64_t key;   /* gz_key, then gz_stream by hop */
    bool weighted;  /* draw by the weights of the edges; csr->cum_weights must not be NULL */
} gz_hop;

/* Where a frontier node's neighbours are: what the first pass reads, for the second. */
typedef struct gz_row {
    uint64_t first, degree;
} gz_row;

/* rows[i] = the list of nodes[i], and counts[i] = how many edges it will get, for i in
 * [begin, end): min(degree, fanout), or fanout (0 without neighbours) with replacement. By weight,
 * neighbours of weight 0 do not count. Returns how many entries were corrupt; such rows are
 * empty. */
uint64_t gz_hop_counts(const gz_csr *csr, const gz_hop *hop, const int64_t *nodes, int64_t begin,
                       int64_t end, gz_row *rows, int64_t *counts);

/* Writes the drawn stored positions of nodes[i] to positions[offsets[i] .. offsets[i + 1]), for i
 * in [begin, end); offsets are the running sums of the counts. Draws depend on the key and the
 * node (or its position) alone. Without replacement:
 *   fanout >= degree  all, in list order;
 *   fanout <= 256     Floyd's algorithm (Bentley, Floyd: "A sample of brilliance", CACM 1987);
 *   more              selection sampling (Knuth, TAOCP 2, 3.4.2, algorithm S), ascending.
 * By weight, see weighted.h. The entries of csr->indices at the positions are on their way into
 * the cache afterwards. Returns how many running sums were corrupt. */
uint64_t gz_hop_positions(const gz_csr *csr, const gz_hop *hop, const int64_t *nodes,
                          const gz_row *rows, const int64_t *offsets, int64_t begin, int64_t end,
                          int64_t *positions);

#endif
