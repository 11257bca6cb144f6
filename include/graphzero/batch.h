/* A whole mini-batch in one thread: all hops, relabelled. Batches run side by side in as many
 * threads as there are processors, which scales better than threads that share one batch. */
#ifndef GRAPHZERO_BATCH_H
#define GRAPHZERO_BATCH_H

#include <stdint.h>

#include "graphzero/batch_state.h"
#include "graphzero/csr.h"
#include "graphzero/status.h"

/* Samples the neighbourhood of `count` seeds (stored ids, in range), hop by hop, with
 * gz_hop_positions. With plan->induced, hop_edges counts the drawn edges, not those of the result.
 * *corrupt counts entries of the file that were out of range. */
GZ_MUST_CHECK gz_code gz_batch_sample(gz_batch *batch, const gz_csr *csr, const gz_plan *plan,
                                      const int64_t *seeds, int64_t count, uint64_t *corrupt,
                                      gz_error *err);

#endif
