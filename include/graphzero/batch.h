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

/* The steps of gz_batch_sample without plan->induced, in their order, for callers that read the
 * topology of several batches together (group_hops.h). Seeds are numbered; in each hop the edges of
 * each type are sampled, and then the hop ends. */
GZ_MUST_CHECK gz_code gz_batch_start(gz_batch *batch, const gz_plan *plan, const gz_seeds *seeds,
                                     gz_error *err);
GZ_MUST_CHECK gz_code gz_batch_sample_type(gz_batch *batch, const gz_plan *plan, int number, int h,
                                           gz_error *err);
GZ_MUST_CHECK gz_code gz_batch_end_hop(gz_batch *batch, const gz_plan *plan, int h, gz_error *err);

/* The nodes that edge type `number` expands in hop h; none where it has no fanout there. */
gz_frontier gz_batch_frontier(const gz_batch *batch, const gz_plan *plan, int number, int h,
                              int64_t *count);

/* gz_batch_sample_type in two steps, for uniform draws without times; the frontier must not be
 * empty. `ends` has the two entries of indptr of each of its nodes. The positions that are drawn
 * are batch->edges[number].positions from its count on, batch->offsets[of the frontier] of them in
 * all; `neighbors` has their entries of indices. */
GZ_MUST_CHECK gz_code gz_batch_draw(gz_batch *batch, const gz_plan *plan, int number, int h,
                                    const gz_ids *ends, gz_error *err);
GZ_MUST_CHECK gz_code gz_batch_relabel(gz_batch *batch, const gz_plan *plan, int number, int h,
                                       const gz_ids *neighbors, gz_error *err);

#endif
