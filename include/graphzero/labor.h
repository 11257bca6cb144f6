/* Layer-neighbour sampling: Balin, Catalyurek: "Layer-Neighbor Sampling -- Defusing Neighborhood
 * Explosion in GNNs", NeurIPS 2023; the variant LABOR-0.
 *
 * Every node t has one uniform number r(t) in a hop, and each node s of degree d takes those of its
 * neighbours with r(t) < fanout / d: as many as the fanout on average, each neighbour with the same
 * probability, and the same neighbours as others take. */
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
