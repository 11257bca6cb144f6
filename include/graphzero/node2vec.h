/* Second-order random walks. */
#ifndef GRAPHZERO_NODE2VEC_H
#define GRAPHZERO_NODE2VEC_H

#include <stdint.h>

#include "graphzero/csr.h"
#include "graphzero/walk.h"

/* As gz_walk_first_order, for second-order walks (Grover, Leskovec: "node2vec", KDD 2016). After a
 * step from t to v, a neighbour x of v is drawn in proportion to its bias (see bias.h) times the
 * weight of the edge (v, x), by rejection (Yang et al., "KnightKing", SOSP 2019). The first step,
 * and the first one after a restart, is first-order. */
uint64_t gz_walk_node2vec(const gz_csr *csr, const gz_walk *walk, const gz_walks *walks,
                          int64_t begin, int64_t end);

#endif
