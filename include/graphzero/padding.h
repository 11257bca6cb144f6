/* Mini-batches of one shape: each hop is filled up to a size by added nodes and edges. */
#ifndef GRAPHZERO_PADDING_H
#define GRAPHZERO_PADDING_H

#include "graphzero/batch_state.h"
#include "graphzero/status.h"

/* Fills the edges of a batch up to the first of plan->sizes that it fits, batch->size: with at
 * least one node more in each hop that has a size. Nodes are added behind those of each hop, whose
 * local ids move; added edges go from nodes that are added to a hop to those of the hop before,
 * spread over them. Counts of nodes and edges, and positions, stay those of real ones. */
GZ_MUST_CHECK gz_code gz_batch_pad(gz_batch *batch, const gz_plan *plan, gz_error *err);

#endif
