/* Layer-neighbour sampling, variant LABOR-0: Balin, Catalyurek: "Layer-Neighbor Sampling --
 * Defusing Neighborhood Explosion in GNNs", NeurIPS 2023.
 *
 * In each hop, every node t has one uniform number r(t). A node of degree d takes its neighbours t
 * with r(t) < fanout / d: on average as many as the fanout, each with the same probability, and
 * often the same neighbours as other nodes take. */
#ifndef GRAPHZERO_LABOR_H
#define GRAPHZERO_LABOR_H

#include <stdint.h>

#include "graphzero/csr.h"
#include "graphzero/draws.h"

/* How many of a list's neighbours are taken; corrupt ones are counted. */
int64_t gz_labor_count(const gz_csr *csr, const gz_draws *draws, uint64_t first, uint64_t degree,
                       int64_t fanout, uint64_t *corrupt);

/* Their positions, in list order; never more than `count`. */
uint64_t gz_labor_positions(const gz_csr *csr, const gz_draws *draws, uint64_t first,
                            uint64_t degree, int64_t fanout, int64_t count, int64_t *out);

#endif
