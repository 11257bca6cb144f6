/* How a second-order walk prefers one neighbour to another (Grover, Leskovec: "node2vec", KDD
 * 2016): from t over v, the edge to x counts 1/p times if x = t, once if the edge (t, x) exists,
 * else 1/q times. */
#ifndef GRAPHZERO_BIAS_H
#define GRAPHZERO_BIAS_H

#include <stdbool.h>
#include <stdint.h>

#include "graphzero/csr.h"
#include "graphzero/weighted.h"

/* What x is to t. */
typedef enum gz_relation { GZ_RETURNING, GZ_COMMON, GZ_FAR, GZ_RELATIONS } gz_relation;

enum { GZ_COIN_BITS = 53 };

typedef struct gz_bias {
    double cost[GZ_RELATIONS];    /* 1 / bias: p, 1, q */
    int64_t accept[GZ_RELATIONS]; /* a coin of 53 bits below this accepts; the largest is 2^53 */
    int64_t least, most;          /* of common and far: a coin outside does not ask for the edge */
} gz_bias;

/* p and q must be finite and positive. */
gz_bias gz_bias_of(double p, double q);

/* The step that rejection would come to in the end, by inverse transform of `unit` over the whole
 * list of a node that was reached from `previous`; linear in the lists of both. The sums of the
 * weights are read if `weighted`, the totals of the lists are not. Degrees must not be 0. */
int64_t gz_biased_exact(const gz_csr *csr, const gz_bias *bias, bool weighted, double unit,
                        int64_t previous, const gz_weighted_list *of_previous,
                        const gz_weighted_list *list, uint64_t *corrupt);

#endif
