#include "graphzero/bias.h"

#include <math.h>

/* Divides by costs instead of multiplying by biases: 1 / p overflows for subnormal p. */
gz_bias gz_bias_of(double p, double q)
{
    gz_bias b = {.cost = {p, 1.0, q}};
    double least = fmin(1.0, fmin(p, q));
    for (int r = 0; r < GZ_RELATIONS; r++)
        b.accept[r] = (int64_t)ceil(ldexp(least / b.cost[r], GZ_COIN_BITS));
    b.least = b.accept[q < 1.0 ? GZ_COMMON : GZ_FAR];
    b.most = b.accept[q < 1.0 ? GZ_FAR : GZ_COMMON];
    return b;
}

/* First position in [at, end) whose neighbour is not below `node`, by galloping search. */
static uint64_t advance(const gz_csr *csr, uint64_t at, uint64_t end, uint64_t node)
{
    uint64_t step = 1;
    for (; step <= end - at && gz_id(&csr->indices, at + step - 1) < node; step *= 2)
        at += step;
    uint64_t high = step <= end - at ? at + step - 1 : end;
    while (at < high) {
        uint64_t middle = at + (high - at) / 2;
        if (gz_id(&csr->indices, middle) < node)
            at = middle + 1;
        else
            high = middle;
    }
    return at;
}

/* A joint pass over two ascending lists: of a node, and of the previous node, which has been read
 * up to `at`. */
typedef struct pass {
    const gz_csr *csr;
    const gz_bias *bias;
    bool weighted;
    uint64_t previous, first, at, end;
    uint64_t *corrupt;
} pass;

static inline gz_relation relation_of(pass *p, uint64_t node)
{
    const gz_ids *ids = &p->csr->indices;
    if (node == p->previous)
        return GZ_RETURNING;
    if (p->bias->cost[GZ_COMMON] == p->bias->cost[GZ_FAR])
        return GZ_COMMON;
    if (p->at < p->end && gz_id(ids, p->at) < node)
        p->at = advance(p->csr, p->at + 1, p->end, node);
    return p->at < p->end && gz_id(ids, p->at) == node ? GZ_COMMON : GZ_FAR;
}

static inline double mass_of(const pass *p, uint64_t position)
{
    return p->weighted ? gz_weight(p->csr, p->first, position, p->corrupt) : 1.0;
}

/* Two passes. Biases are relative to the largest bias that occurs in this list, so that they cannot
 * all underflow. */
int64_t gz_biased_exact(const gz_csr *csr, const gz_bias *bias, bool weighted, double unit,
                        int64_t previous, const gz_weighted_list *of_previous,
                        const gz_weighted_list *list, uint64_t *corrupt)
{
    double masses[GZ_RELATIONS] = {0.0}, least = 0.0, total = 0.0, sum = 0.0;
    uint64_t before = of_previous->first, end = list->first + list->degree;
    pass p = {csr,
              bias,
              weighted,
              (uint64_t)previous,
              list->first,
              before,
              before + of_previous->degree,
              corrupt};
    int64_t next = 0;
    for (uint64_t i = list->first; i < end; i++) {
        uint64_t node = gz_csr_neighbor(csr, i, corrupt);
        masses[relation_of(&p, node)] += mass_of(&p, i);
    }
    for (int r = 0; r < GZ_RELATIONS; r++)
        if (masses[r] > 0.0 && (least == 0.0 || bias->cost[r] < least))
            least = bias->cost[r];
    for (int r = 0; r < GZ_RELATIONS; r++)
        if (masses[r] > 0.0) /* 0 times an infinite quotient is NaN */
            total += masses[r] * (least / bias->cost[r]);
    p.at = before;
    for (uint64_t i = list->first; i < end && !(sum > unit * total); i++) {
        uint64_t node = gz_csr_neighbor(csr, i, corrupt);
        double mass = mass_of(&p, i);
        if (mass == 0.0)
            continue;
        sum += mass * (least / bias->cost[relation_of(&p, node)]);
        next = (int64_t)node;
    }
    return next;
}
