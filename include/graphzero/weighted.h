/* Neighbours drawn by the weights of their edges. The file keeps the running sums of the weights
 * of each list, so that a draw is a binary search: entry i has the weight sum[i] - sum[i - 1]. */
#ifndef GRAPHZERO_WEIGHTED_H
#define GRAPHZERO_WEIGHTED_H

#include <float.h>
#include <stdint.h>

#include "graphzero/csr.h"

/* A list with the sum of its weights. */
typedef struct gz_weighted_list {
    uint64_t first, degree;
    double total; /* of the weights; 0 if nothing can be drawn */
} gz_weighted_list;

/* Reads the sum of a list. A sum that is not finite or below 0 is counted as corrupt and read as 0.
 */
static inline gz_weighted_list gz_weighted_list_of(const gz_csr *csr, uint64_t first,
                                                   uint64_t degree, uint64_t *corrupt)
{
    gz_weighted_list list = {first, degree, 0.0};
    if (degree > 0) {
        double total = csr->cum_weights[first + degree - 1];
        if (total >= 0.0 && total <= DBL_MAX)
            list.total = total;
        else
            *corrupt += 1;
    }
    return list;
}

static inline double gz_weight_before(const gz_csr *csr, uint64_t first, uint64_t position)
{
    return position > first ? csr->cum_weights[position - 1] : 0.0;
}

/* Weight of the entry at a position of the list that begins at first. A weight that is not finite
 * or below 0 is counted as corrupt and read as 0. */
static inline double gz_weight(const gz_csr *csr, uint64_t first, uint64_t position,
                               uint64_t *corrupt)
{
    double weight = csr->cum_weights[position] - gz_weight_before(csr, first, position);
    if (weight >= 0.0 && weight <= DBL_MAX)
        return weight;
    *corrupt += 1;
    return 0.0;
}

/* One step of the search for the first sum above x in [*low, *high]. */
static inline void gz_weighted_halve(const gz_csr *csr, double x, uint64_t *low, uint64_t *high)
{
    uint64_t middle = *low + (*high - *low) / 2;
    if (csr->cum_weights[middle] > x)
        *high = middle;
    else
        *low = middle + 1;
}

/* Counts a found position whose interval does not contain x: then the sums do not ascend. */
static inline void gz_weighted_check(const gz_csr *csr, uint64_t first, uint64_t position, double x,
                                     uint64_t *corrupt)
{
    double before = gz_weight_before(csr, first, position);
    if (!(before >= 0.0 && before <= x && x < csr->cum_weights[position]))
        *corrupt += 1;
}

/* Position of the first sum above x. For x uniform on [0, total), each entry is found with a
 * probability proportional to its weight. total must not be 0. */
uint64_t gz_weighted_find(const gz_csr *csr, const gz_weighted_list *list, double x,
                          uint64_t *corrupt);

/* How many entries of a list have a positive weight, counted up to `most`. */
int64_t gz_weighted_count(const gz_csr *csr, const gz_weighted_list *list, int64_t most,
                          uint64_t *corrupt);

/* These three functions write `count` positions of one list and draw from the stream alone. They
 * return how many entries were corrupt. If fewer entries can be drawn, they repeat the first
 * position. */

/* Independent draws. */
uint64_t gz_weighted_replace(const gz_csr *csr, uint64_t stream, uint64_t first, uint64_t degree,
                             int64_t count, int64_t *out);

/* All entries of positive weight, in list order. */
uint64_t gz_weighted_all(const gz_csr *csr, uint64_t first, uint64_t degree, int64_t count,
                         int64_t *out);

/* Successive sampling without replacement: each draw is proportional to the weights among the
 * remaining entries. Up to 256 draws use inverse transform on the cumulative weights with the
 * picked entries removed. More draws, or draws when less than 2^-20 of the total remains (where the
 * subtraction would lose precision), use exponential keys: the entries with the smallest -log(u) /
 * weight (Efraimidis, Spirakis: "Weighted random sampling with a reservoir", IPL 2006). Both
 * methods continue exactly from any set of picks, so that the switch does not change the
 * distribution. */
uint64_t gz_weighted_distinct(const gz_csr *csr, uint64_t stream, uint64_t first, uint64_t degree,
                              int64_t count, int64_t *out);

#endif
