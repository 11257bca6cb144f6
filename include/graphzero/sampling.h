/* One hop of neighbour sampling: which stored positions (edges) each node draws. */
#ifndef GRAPHZERO_SAMPLING_H
#define GRAPHZERO_SAMPLING_H

#include <stdbool.h>
#include <stdint.h>

#include "graphzero/csr.h"
#include "graphzero/draws.h"

/* How edges are drawn among those up to a time. */
typedef enum gz_time_rule {
    GZ_TIME_ANY = 0, /* times are ignored */
    GZ_TIME_UNIFORM,
    GZ_TIME_LAST, /* the most recent edges, without randomness */
} gz_time_rule;

/* How neighbours are drawn, the same in all hops. At most one of weighted, labor and time is set;
 * labor is without replacement. */
typedef struct gz_rule {
    bool replace;      /* with replacement */
    bool weighted;     /* by the weights of the edges; csr->cum_weights must not be NULL */
    bool labor;        /* layer-neighbour sampling, see labor.h */
    bool by_seed;      /* draws depend on the index in nodes[], not on the node: repeated nodes draw
                          independently */
    gz_time_rule time; /* if set, csr->time_order and until must not be NULL */
    bool strictly;     /* with time: edges before it, not at it */
} gz_rule;

typedef struct gz_hop {
    int64_t fanout; /* neighbours per node, > 0; or -1 for all of them */
    gz_rule rule;
    gz_draws draws; /* of this hop */
} gz_hop;

/* The nodes whose neighbours are drawn. */
typedef struct gz_frontier {
    const int64_t *nodes;
    const int64_t *trees; /* NULL without disjoint trees. Trees draw independently */
    const int64_t *until; /* the time of each tree */
} gz_frontier;

/* The neighbour list of a frontier node; the first pass reads it for the second. With times, degree
 * counts the edges up to the time. */
typedef struct gz_list {
    uint64_t first, degree;
} gz_list;

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
