/* One mini-batch: its plan, its nodes and edges, and their memory. Both the hops (batch.h) and the
 * induced subgraph (induced.h) write to it. */
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

/* The result of the last batch. Its memory is used for all batches and only grows. With disjoint
 * trees, the ids in the map are tree * num_nodes + node. */
typedef struct gz_batch {
    gz_idmap map;
    const int64_t *nodes; /* stored ids, seeds first, then hop by hop: map.nodes, or of_trees */
    int64_t num_nodes;
    int64_t *trees;    /* with disjoint trees: the tree (number of the seed) of each node */
    int64_t *of_trees; /* with disjoint trees: the stored id of each node */
    int64_t tree_capacity;
    int64_t *sources;   /* local id of each sampled neighbour */
    int64_t *targets;   /* local id of the node that it was sampled for */
    int64_t *positions; /* stored position of the edge */
    int64_t *offsets;   /* where the edges of each frontier node of the hop begin */
    gz_list *lists;     /* of the frontier nodes of the hop */
    int64_t num_edges;
    int64_t edge_capacity;
    int64_t frontier_capacity;
    gz_pick *picks; /* 2 * pick_capacity: half of it is scratch memory */
    int64_t pick_capacity;
    gz_willneed_counts willneed;         /* topology requested for this batch */
    int64_t hop_nodes[GZ_MOST_HOPS + 1]; /* seeds, then the new nodes of each hop */
    int64_t hop_edges[GZ_MOST_HOPS];
} gz_batch;

typedef struct gz_plan {
    const int64_t *fanouts;
    int num_hops;
    gz_rule rule;
    bool disjoint;        /* every seed has its own tree; trees share no local ids */
    bool induced;         /* replace the drawn edges by all edges between the nodes */
    gz_draws draws;       /* draws of the batch; hop h uses gz_draws_below(draws, h) */
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

/* Hop read-ahead for the frontier nodes [first, first + count) of the batch; does nothing if
 * plan->readahead is NULL. */
GZ_MUST_CHECK gz_code gz_batch_read_hop_ahead(gz_batch *batch, const gz_csr *csr,
                                              const gz_plan *plan, const gz_hop *hop, int64_t first,
                                              int64_t count, gz_error *err);

#endif
