/* One mini-batch: its plan, its nodes and edges, and their memory. Both the hops (batch.h) and the
 * induced subgraph (induced.h) write to it. */
#ifndef GRAPHZERO_BATCH_STATE_H
#define GRAPHZERO_BATCH_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "graphzero/csr.h"
#include "graphzero/edge_list.h"
#include "graphzero/hop_readahead.h"
#include "graphzero/node_space.h"
#include "graphzero/sampling.h"
#include "graphzero/status.h"

/* An edge type: which lists, of which type of nodes, and how they are sampled. */
typedef struct gz_edge_type {
    const gz_csr *csr;
    int owner;              /* number of the node type that has the lists */
    int neighbor;           /* number of the node type of the neighbours */
    const int64_t *fanouts; /* of each hop; 0: none in that hop */
    gz_rule rule;
    const gz_hop_readahead *readahead; /* NULL if topology is not read ahead */
} gz_edge_type;

/* What to sample. A graph without types has one type of nodes and one of edges. */
typedef struct gz_plan {
    const gz_edge_type *edge_types;
    int num_edge_types;
    const int64_t *num_nodes; /* of each node type, in the graph */
    int num_node_types;
    int num_hops;
    bool disjoint;  /* every seed has its own tree; trees share no local ids */
    bool induced;   /* replace the drawn edges by all edges between the nodes; one type only */
    gz_draws draws; /* draws of the batch; see gz_batch_draws */
    const int64_t *until; /* the time of each seed, with rule.time; needs disjoint trees */
    int num_sizes;        /* to which batches are filled up; 0, or neither disjoint nor induced */
    const int64_t *node_sizes; /* of each size, of each node type: seeds, then each hop */
    const int64_t *edge_sizes; /* of each size, of each edge type: each hop */
} gz_plan;

/* The seeds of one node type: stored ids, in range. */
typedef struct gz_seeds {
    const int64_t *ids;
    int64_t count;
} gz_seeds;

/* The result of the last batch, and memory that is used for all batches and only grows. Trees are
 * numbered as the seeds are: those of the first node type, then those of the next. */
typedef struct gz_batch {
    gz_node_space *spaces; /* of each node type */
    int num_spaces;
    gz_edge_list *edges; /* of each edge type */
    int num_edge_lists;
    int64_t *offsets; /* where the edges of each frontier node of an edge type begin, in a hop */
    gz_list *lists;   /* of the same frontier nodes */
    int64_t frontier_capacity;
    gz_pick *picks; /* 2 * pick_capacity: half of it is scratch memory */
    int64_t pick_capacity;
    gz_willneed_counts willneed; /* topology requested for this batch */
    int64_t ahead;               /* nodes of a frontier whose topology is requested together */
    int size;                    /* that it is filled up to; -1 for none */
} gz_batch;

void gz_batch_init(gz_batch *batch);
void gz_batch_free(gz_batch *batch);

/* Between two mini-batches: the kernel may take the memory back until the next one begins. */
void gz_batch_rest(gz_batch *batch);

/* Make room for `count` elements in all, and keep those that are there. Spaces and lists that are
 * new are empty. */
GZ_MUST_CHECK gz_code gz_batch_reserve_types(gz_batch *batch, int num_spaces, int num_edge_lists,
                                             gz_error *err);
GZ_MUST_CHECK gz_code gz_batch_reserve_frontier(gz_batch *batch, int64_t count, gz_error *err);

/* Draws of an edge type in a hop. Those of the first type are those of a graph without types. */
static inline gz_draws gz_batch_draws(const gz_plan *plan, int edge_type, int hop)
{
    return gz_draws_below(&plan->draws, (uint64_t)hop + (uint64_t)edge_type * GZ_MOST_HOPS);
}

enum { GZ_WHOLE_HOP = 1 << 30 }; /* nodes */

/* Hop read-ahead for the first `count` nodes of the frontier; does nothing if there is none for the
 * edge type. */
GZ_MUST_CHECK gz_code gz_batch_read_hop_ahead(gz_batch *batch, const gz_edge_type *edge_type,
                                              const gz_hop *hop, const gz_frontier *frontier,
                                              int64_t count, gz_error *err);

#endif
