#include "graphzero/walk.h"

#include "graphzero/rng.h"

enum { WALKERS = 32, MOST_TRIES = 64 };

/* One walker between two visits: the row it stands on, and the position that it has drawn. */
typedef struct walker {
    uint64_t stream;
    uint64_t first, degree;
    int64_t node; /* -1 after a dead end */
} walker;

static void walk_group(const gz_csr *csr, uint64_t key, const int64_t *start, int64_t begin,
                       int64_t count, int64_t length, int64_t *out, uint64_t *corrupt)
{
    walker group[WALKERS];
    for (int64_t w = 0; w < count; w++) {
        group[w].stream = gz_stream(key, (uint64_t)(begin + w));
        group[w].node = start[begin + w];
        out[(begin + w) * (length + 1)] = group[w].node;
        gz_prefetch(&csr->indptr[group[w].node]);
    }
    for (int64_t step = 0; step < length; step++) {
        for (int64_t w = 0; w < count; w++) {
            walker *me = &group[w];
            if (me->node < 0)
                continue;
            me->degree = gz_csr_row(csr, (uint64_t)me->node, &me->first, corrupt);
            if (me->degree == 0)
                continue;
            me->first += gz_bounded(gz_draw(me->stream, (uint64_t)step), me->degree);
            gz_prefetch(gz_id_address(&csr->indices, me->first));
        }
        for (int64_t w = 0; w < count; w++) {
            walker *me = &group[w];
            if (me->node >= 0 && me->degree > 0) {
                me->node = (int64_t)gz_csr_neighbor(csr, me->first, corrupt);
                gz_prefetch(&csr->indptr[me->node]);
            } else {
                me->node = -1;
            }
            out[(begin + w) * (length + 1) + step + 1] = me->node;
        }
    }
}

uint64_t gz_walk_uniform(const gz_csr *csr, uint64_t key, const int64_t *start, int64_t begin,
                         int64_t end, int64_t length, int64_t *out)
{
    uint64_t corrupt = 0;
    for (int64_t i = begin; i < end; i += WALKERS) {
        int64_t count = end - i < WALKERS ? end - i : WALKERS;
        walk_group(csr, key, start, i, count, length, out, &corrupt);
    }
    return corrupt;
}

/* What the edge from the previous node makes of a neighbour. */
enum { RETURNING, COMMON, FAR, RELATIONS };

typedef struct bias {
    double cost[RELATIONS];   /* 1 / weight: p, 1, q */
    double accept[RELATIONS]; /* acceptance probabilities, the largest of them 1 */
} bias;

/* By division by the costs: 1 / p overflows for a p that is a subnormal number. */
static bias bias_of(double p, double q)
{
    double least = 1.0;
    least = p < least ? p : least;
    least = q < least ? q : least;
    return (bias){{p, 1.0, q}, {least / p, least, least / q}};
}

static int relation_of(const gz_csr *csr, const bias *b, int64_t previous, int64_t next,
                       uint64_t *corrupt)
{
    if (next == previous)
        return RETURNING;
    if (b->cost[COMMON] == b->cost[FAR])
        return COMMON;
    return gz_csr_has_edge(csr, (uint64_t)previous, (uint64_t)next, corrupt) ? COMMON : FAR;
}

/* Inverse transform over the whole list: two passes, for when rejection has no luck. Weights are
 * relative to the largest in this list, so that they cannot all vanish beside an absent one. */
static int64_t step_exact(const gz_csr *csr, const bias *b, double unit, int64_t previous,
                          uint64_t first, uint64_t degree, uint64_t *corrupt)
{
    uint64_t counts[RELATIONS] = {0};
    double least = 0.0, total = 0.0, sum = 0.0;
    int64_t next = 0;
    for (uint64_t i = 0; i < degree; i++) {
        next = (int64_t)gz_csr_neighbor(csr, first + i, corrupt);
        counts[relation_of(csr, b, previous, next, corrupt)]++;
    }
    for (int r = 0; r < RELATIONS; r++)
        if (counts[r] > 0 && (least == 0.0 || b->cost[r] < least))
            least = b->cost[r];
    for (int r = 0; r < RELATIONS; r++)
        if (counts[r] > 0) /* 0 times an infinite quotient is no number */
            total += (double)counts[r] * (least / b->cost[r]);
    for (uint64_t i = 0; i < degree; i++) {
        next = (int64_t)gz_csr_neighbor(csr, first + i, corrupt);
        sum += least / b->cost[relation_of(csr, b, previous, next, corrupt)];
        if (sum > unit * total)
            break;
    }
    return next;
}

/* One step from `node`, reached from `previous`. Rejection gives up after MOST_TRIES: p or q of
 * 1e-9 would otherwise walk in place for hours. What is drawn then has the same distribution. */
static int64_t step_biased(const gz_csr *csr, const bias *b, uint64_t stream, int64_t previous,
                           int64_t node, uint64_t *draws, uint64_t *corrupt)
{
    uint64_t first, degree = gz_csr_row(csr, (uint64_t)node, &first, corrupt);
    if (degree == 0)
        return -1;
    if (degree == 1)
        return (int64_t)gz_csr_neighbor(csr, first, corrupt);
    for (int tries = 0; tries < MOST_TRIES; tries++) {
        uint64_t position = first + gz_bounded(gz_draw(stream, (*draws)++), degree);
        int64_t next = (int64_t)gz_csr_neighbor(csr, position, corrupt);
        double coin = gz_unit(gz_draw(stream, (*draws)++));
        double least = b->accept[COMMON] < b->accept[FAR] ? b->accept[COMMON] : b->accept[FAR];
        if (next != previous && coin < least)
            return next; /* accepted whether the edge exists or not: no search */
        if (coin < b->accept[relation_of(csr, b, previous, next, corrupt)])
            return next;
    }
    return step_exact(csr, b, gz_unit(gz_draw(stream, (*draws)++)), previous, first, degree,
                      corrupt);
}

uint64_t gz_walk_node2vec(const gz_csr *csr, uint64_t key, double p, double q, const int64_t *start,
                          int64_t begin, int64_t end, int64_t length, int64_t *out)
{
    const bias unbiased = bias_of(1.0, 1.0), biased = bias_of(p, q);
    uint64_t corrupt = 0;
    for (int64_t i = begin; i < end; i++) {
        uint64_t stream = gz_stream(key, (uint64_t)i), draws = 0;
        int64_t *walk = out + i * (length + 1), previous = start[i], node = start[i];
        walk[0] = node;
        for (int64_t step = 1; step <= length; step++) {
            int64_t next = node < 0 ? -1
                                    : step_biased(csr, step == 1 ? &unbiased : &biased, stream,
                                                  previous, node, &draws, &corrupt);
            previous = node;
            node = next;
            walk[step] = node;
        }
    }
    return corrupt;
}
