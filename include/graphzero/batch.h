/* A whole mini-batch in one thread: all hops, relabelled. Batches run side by side in as many
 * threads as there are processors, which scales better than threads that share one batch. */
#ifndef GRAPHZERO_BATCH_H
#define GRAPHZERO_BATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "graphzero/ahead.h"
#include "graphzero/csr.h"
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
    int64_t tree_room;
    int64_t *sources;   /* local id of each sampled neighbour */
    int64_t *targets;   /* local id of the node that it was sampled for */
    int64_t *positions; /* stored position of the edge */
    int64_t *offsets;   /* of one hop's edges, by frontier node */
    gz_row *rows;       /* of one hop's frontier */
    int64_t num_edges;
    int64_t edge_room;
    int64_t frontier_room;
    gz_pick *picks; /* twice as many as pick_room */
    int64_t pick_room;
    gz_readahead asked;                  /* for topology, in this batch */
    int64_t hop_nodes[GZ_MOST_HOPS + 1]; /* seeds, then the new nodes of each hop */
    int64_t hop_edges[GZ_MOST_HOPS];
} gz_batch;

typedef struct gz_plan {
    const int64_t *fanouts;
    int num_hops;
    gz_rule rule;
    bool disjoint;         /* every seed has a tree of its own, in which no node of another is */
    bool induced;          /* in place of the edges that were drawn, all between the nodes */
    gz_draws draws;        /* of the batch; those of hop h are gz_draws_below(draws, h) */
    const int64_t *until;  /* the time of each seed, with rule.time; needs disjoint trees */
    const gz_ahead *ahead; /* NULL if topology is not read ahead */
} gz_plan;

void gz_batch_init(gz_batch *batch);
void gz_batch_free(gz_batch *batch);

/* Samples the neighbourhood of `count` seeds (stored ids, in range). The draws are those of
 * gz_hop_positions. With plan->induced, hop_edges are not those of the result. *corrupt counts
 * entries of the file that were out of range. */
GZ_MUST_CHECK gz_code gz_batch_sample(gz_batch *batch, const gz_csr *csr, const gz_plan *plan,
                                      const int64_t *seeds, int64_t count, uint64_t *corrupt,
                                      gz_error *err);

/* Asks for what a hop will read, where the plan says so. The frontier is nodes [first, first +
 * count) of the batch. */
GZ_MUST_CHECK gz_code gz_batch_ask(gz_batch *batch, const gz_csr *csr, const gz_plan *plan,
                                   const gz_hop *hop, int64_t first, int64_t count, gz_error *err);

/* Makes room for `count` edges in all, keeping those that are there. */
GZ_MUST_CHECK gz_code gz_batch_reserve_edges(gz_batch *batch, int64_t count, gz_error *err);

#endif
