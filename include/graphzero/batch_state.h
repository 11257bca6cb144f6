/* What one mini-batch is made from and in: its plan, its nodes and edges, and their memory. Both
 * the hops (batch.h) and the induced subgraph (induced.h) write here. */
#ifndef GRAPHZERO_BATCH_STATE_H
#define GRAPHZERO_BATCH_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "graphzero/csr.h"
#include "graphzero/hop_readahead.h"
#include "graphzero/idmap.h"
#include "graphzero/sampling.h"
#include "graphzero/status.h"

#define GZ_MOST_HOPS 64

/* The result of the last batch, and the memory of all of them: it only ever grows. Of disjoint
 * trees, the map numbers pairs: tree * num_nodes + node. */
typedef struct gz_batch {
    gz_idmap map;
    const int64_t *nodes; /* stored ids, seeds first, then hop by hop: map.nodes, or of_trees */
    int64_t num_nodes;
    int64_t *trees;    /* of disjoint trees: the tree of each node, which is that of its seed */
    int64_t *of_trees; /* and its stored id */
    int64_t tree_capacity;
    int64_t *sources;   /* local id of each sampled neighbour */
    int64_t *targets;   /* local id of the node that it was sampled for */
    int64_t *positions; /* stored position of the edge */
    int64_t *offsets;   /* of one hop's edges, by frontier node */
    gz_list *lists;     /* of one hop's frontier */
    int64_t num_edges;
    int64_t edge_capacity;
    int64_t frontier_capacity;
    gz_pick *picks; /* twice as many as pick_capacity */
    int64_t pick_capacity;
    gz_willneed_counts willneed;         /* for topology, in this batch */
    int64_t hop_nodes[GZ_MOST_HOPS + 1]; /* seeds, then the new nodes of each hop */
    int64_t hop_edges[GZ_MOST_HOPS];
} gz_batch;

typedef struct gz_plan {
    const int64_t *fanouts;
    int num_hops;
    gz_rule rule;
    bool disjoint;        /* every seed has a tree of its own, in which no node of another is */
    bool induced;         /* in place of the edges that were drawn, all between the nodes */
    gz_draws draws;       /* of the batch; those of hop h are gz_draws_below(draws, h) */
    const int64_t *until; /* the time of each seed, with rule.time; needs disjoint trees */
    const gz_hop_readahead *readahead; /* NULL if topology is not read ahead */
} gz_plan;

void gz_batch_init(gz_batch *batch);
void gz_batch_free(gz_batch *batch);

/* Make room for `count` elements in all, and keep those that are there. */
GZ_MUST_CHECK gz_code gz_batch_reserve_edges(gz_batch *batch, int64_t count, gz_error *err);
GZ_MUST_CHECK gz_code gz_batch_reserve_frontier(gz_batch *batch, int64_t count, gz_error *err);
GZ_MUST_CHECK gz_code gz_batch_reserve_trees(gz_batch *batch, int64_t count, gz_error *err);

/* Stored ids of the batch's nodes; valid until the map grows. */
const int64_t *gz_batch_stored_ids(const gz_batch *batch, const gz_plan *plan);

/* The nodes of the batch from `first` on; valid until the map grows. */
gz_frontier gz_batch_frontier(const gz_batch *batch, const gz_plan *plan, int64_t first);

/* Asks for what a hop will read, where the plan says so. The frontier is nodes [first, first +
 * count) of the batch. */
GZ_MUST_CHECK gz_code gz_batch_read_hop_ahead(gz_batch *batch, const gz_csr *csr,
                                              const gz_plan *plan, const gz_hop *hop, int64_t first,
                                              int64_t count, gz_error *err);

#endif
