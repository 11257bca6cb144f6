/* Biases of a second-order walk (Grover, Leskovec: "node2vec", KDD 2016). After a step from t to v,
 * the edge from v to x has bias 1/p if x = t, 1 if the edge (t, x) exists, and 1/q otherwise. */
#ifndef GRAPHZERO_BIAS_H
#define GRAPHZERO_BIAS_H

#include <stdbool.h>
#include <stdint.h>

#include "graphzero/csr.h"
#include "graphzero/weighted.h"

/* The relation of x to t. */
typedef enum gz_relation { GZ_RETURNING, GZ_COMMON, GZ_FAR, GZ_RELATIONS } gz_relation;

enum { GZ_COIN_BITS = 53 };

typedef struct gz_bias {
    double cost[GZ_RELATIONS]; /* 1 / bias: p, 1, q */
    int64_t
        accept[GZ_RELATIONS]; /* accept if a random number of 53 bits is below this; at most 2^53 */
    int64_t least, most; /* of common and far: a coin outside [least, most) needs no look-up of the
                            edge (t, x) */
} gz_bias;

/* p and q must be finite and positive. */
gz_bias gz_bias_of(double p, double q);

/* Draws the next node without rejection, by inverse transform of `unit` over the whole list of a
 * node that was reached from `previous`. Same distribution as rejection sampling; linear in the
 * lengths of both lists. Reads the cumulative weights if `weighted`, but not list->total. Degrees
 * must not be 0. */
int64_t gz_biased_exact(const gz_csr *csr, const gz_bias *bias, bool weighted, double unit,
                        int64_t previous, const gz_weighted_list *of_previous,
                        const gz_weighted_list *list, uint64_t *corrupt);

#endif
