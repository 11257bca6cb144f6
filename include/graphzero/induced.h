/* The induced subgraph of a batch: all edges of the graph between its nodes. */
#ifndef GRAPHZERO_INDUCED_H
#define GRAPHZERO_INDUCED_H

#include "graphzero/batch_state.h"
#include "graphzero/status.h"

/* Replaces the edges of a batch by all edges between its nodes: node by node, each list in stored
 * order. With disjoint trees, only edges within a tree; with times, only edges up to the time of
 * the tree. If a seed is repeated, every copy is a target, and only the first one a source. The
 * plan must have one node type and one edge type. */
GZ_MUST_CHECK gz_code gz_batch_induce(gz_batch *batch, const gz_plan *plan, gz_error *err);

#endif
