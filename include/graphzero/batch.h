/* A whole mini-batch in one thread: all hops, relabelled. Batches run side by side in as many
 * threads as there are processors, which scales better than threads that share one batch. */
#ifndef GRAPHZERO_BATCH_H
#define GRAPHZERO_BATCH_H

#include <stdint.h>

#include "graphzero/batch_state.h"
#include "graphzero/status.h"

/* Samples the neighbourhood of the seeds (of each node type), hop by hop, with gz_hop_positions.
 * In each hop the new nodes of the last one are expanded, by each edge type in turn whose lists
 * they have. With plan->induced, hop_edges counts the drawn edges, not those of the result. */
GZ_MUST_CHECK gz_code gz_batch_sample(gz_batch *batch, const gz_plan *plan, const gz_seeds *seeds,
                                      gz_error *err);

#endif
