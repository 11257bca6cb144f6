/* The induced subgraph of a batch: all edges of the graph between its nodes. */
#ifndef GRAPHZERO_INDUCED_H
#define GRAPHZERO_INDUCED_H

#include <stdint.h>

#include "graphzero/batch_state.h"

/* Replaces the edges of a batch by all edges between its nodes: node by node, each list in stored
 * order. With disjoint trees, only edges within a tree; with times, only edges up to the time of
 * the tree. If a seed is repeated, every copy is a target, and only the first one a source. */
GZ_MUST_CHECK gz_code gz_batch_induce(gz_batch *batch, const gz_csr *csr, const gz_plan *plan,
                                      uint64_t *corrupt, gz_error *err);

#endif
