/* One hop of neighbour sampling: which stored positions (edges) each node draws. */
#ifndef GRAPHZERO_SAMPLING_H
#define GRAPHZERO_SAMPLING_H

#include <stdint.h>

#include "graphzero/csr.h"
#include "graphzero/kinds.h"

/* Of a batch. */
#define GZ_MOST_HOPS 64

/* The nodes whose neighbours are drawn. */
typedef struct gz_frontier {
    const int64_t *nodes;
    const int64_t *trees; /* NULL without disjoint trees. Trees draw independently */
    const int64_t *until; /* the time of each tree */
} gz_frontier;

/* How many edges uniform draws take from a list of this degree. */
int64_t gz_hop_count(const gz_hop *hop, uint64_t degree);

/* First pass, for i in [begin, end): lists[i] = the list of frontier node i, and counts[i] = how
 * many edges will be drawn for it: min(degree, fanout), or with replacement fanout (0 without
 * neighbours). By weight, neighbours of weight 0 do not count; LABOR draws `fanout` on average.
 * Returns how many entries were corrupt; corrupt lists are empty. */
uint64_t gz_hop_counts(const gz_csr *csr, const gz_hop *hop, const gz_frontier *frontier,
                       int64_t begin, int64_t end, gz_list *lists, int64_t *counts);

/* Second pass, for i in [begin, end): writes the drawn stored positions of frontier node i to
 * positions[offsets[i] .. offsets[i + 1]); offsets are the running sums of the counts. Draws depend
 * only on hop->draws, the node (or its index), and its tree. Without replacement:
 *   fanout >= degree  all, in list order (with times: the oldest first);
 *   fanout <= 256     Floyd's algorithm (Bentley, Floyd: "A sample of brilliance", CACM 1987);
 *   more              selection sampling (Knuth, TAOCP 2, 3.4.2, algorithm S), ascending.
 * GZ_TIME_LAST always writes the most recent edge first. By weight, see weighted.h. Gives cache
 * hints for the entries of csr->indices at the positions. Returns how many entries were corrupt. */
uint64_t gz_hop_positions(const gz_csr *csr, const gz_hop *hop, const gz_frontier *frontier,
                          const gz_list *lists, const int64_t *offsets, int64_t begin, int64_t end,
                          int64_t *positions);

#endif
