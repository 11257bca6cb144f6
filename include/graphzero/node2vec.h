/* Second-order random walks. */
#ifndef GRAPHZERO_NODE2VEC_H
#define GRAPHZERO_NODE2VEC_H

#include <stdint.h>

#include "graphzero/csr.h"
#include "graphzero/walk.h"

/* As gz_walk_first_order, for second-order walks (Grover, Leskovec: "node2vec", KDD 2016): from t
 * over v, a neighbour x of v is drawn with weight 1/p if x = t, 1 if the edge (t, x) exists, else
 * 1/q, times the weight of the edge (v, x). By rejection (Yang et al., "KnightKing", SOSP 2019).
 * The first step, and the first one after a restart, is first-order. */
uint64_t gz_walk_node2vec(const gz_csr *csr, const gz_walk *walk, const int64_t *start,
                          int64_t begin, int64_t end, int64_t length, int64_t *out);

#endif
