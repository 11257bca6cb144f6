/* The induced subgraph of a batch: all edges of the graph between its nodes. */
#ifndef GRAPHZERO_INDUCED_H
#define GRAPHZERO_INDUCED_H

#include <stdint.h>

#include "graphzero/batch_state.h"

/* Puts the edges between the nodes of a batch in place of those that it has: node by node, each
 * list in stored order. Of disjoint trees, edges within a tree; with times, up to that of the tree.
 * Where a seed is repeated, every copy is a target, and the first one a source. */
GZ_MUST_CHECK gz_code gz_batch_induce(gz_batch *batch, const gz_csr *csr, const gz_plan *plan,
                                      uint64_t *corrupt, gz_error *err);

#endif
