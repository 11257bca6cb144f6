/* One hop of neighbour sampling: which stored positions (edges) each node draws. */
#ifndef GRAPHZERO_SAMPLING_H
#define GRAPHZERO_SAMPLING_H

#include <stdbool.h>
#include <stdint.h>

#include "graphzero/csr.h"
#include "graphzero/draws.h"

/* Which of the edges up to a time are drawn. */
typedef enum gz_time_rule {
    GZ_TIME_ANY = 0, /* times are not looked at */
    GZ_TIME_UNIFORM,
    GZ_TIME_LAST, /* the most recent ones, without a draw */
} gz_time_rule;

/* How neighbours are drawn, in all hops alike. Of weighted, labor and time at most one is set;
 * labor is without replacement. */
typedef struct gz_rule {
    bool replace;      /* draw each neighbour from the whole list again */
    bool weighted;     /* by the weights of the edges; csr->cum_weights must not be NULL */
    bool labor;        /* a neighbour is drawn by all nodes of the hop or by few, see labor.h */
    bool by_seed;      /* draws depend on the position in nodes[] instead of on the node: repeats of
                          a node draw independently */
    gz_time_rule time; /* if set, csr->time_order and until must not be NULL */
    bool strictly;     /* with time: before it, not at it */
} gz_rule;

typedef struct gz_hop {
    int64_t fanout; /* neighbours per node, > 0; or -1 for all of them */
    gz_rule rule;
    gz_draws draws; /* of this hop */
} gz_hop;

/* The nodes whose neighbours are drawn. */
typedef struct gz_frontier {
    const int64_t *nodes;
    const int64_t *trees; /* the tree of each; NULL if they share one. Trees draw independently */
    const int64_t *until; /* the time of each tree */
} gz_frontier;

/* Where a frontier node's neighbours are: what the first pass reads, for the second. With times,
 * degree counts those up to the time. */
typedef struct gz_list {
    uint64_t first, degree;
} gz_list;

/* lists[i] = the list of frontier node i, and counts[i] = how many edges it will get, for i in
 * [begin, end): min(degree, fanout), or fanout (0 without neighbours) with replacement. By weight,
 * neighbours of weight 0 do not count; LABOR draws a number that is only `fanout` on average.
 * Returns how many entries were corrupt; such lists are empty. */
uint64_t gz_hop_counts(const gz_csr *csr, const gz_hop *hop, const gz_frontier *frontier,
                       int64_t begin, int64_t end, gz_list *lists, int64_t *counts);

/* Writes the drawn stored positions of frontier node i to positions[offsets[i] .. offsets[i + 1]),
 * for i in [begin, end); offsets are the running sums of the counts. Draws depend on hop->draws and
 * the node (or its position), and its tree, alone. Without replacement:
 *   fanout >= degree  all, in list order (with times: the oldest first);
 *   fanout <= 256     Floyd's algorithm (Bentley, Floyd: "A sample of brilliance", CACM 1987);
 *   more              selection sampling (Knuth, TAOCP 2, 3.4.2, algorithm S), ascending.
 * The most recent are written most recent first, whatever their number. By weight, see weighted.h.
 * The entries of csr->indices at the positions are on their way into the cache afterwards. Returns
 * how many entries were corrupt. */
uint64_t gz_hop_positions(const gz_csr *csr, const gz_hop *hop, const gz_frontier *frontier,
                          const gz_list *lists, const int64_t *offsets, int64_t begin, int64_t end,
                          int64_t *positions);

#endif
