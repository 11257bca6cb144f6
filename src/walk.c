#include "graphzero/walk.h"

#include "graphzero/rng.h"
#include "graphzero/weighted.h"

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
        gz_csr_ask_row(csr, group[w].node);
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
                gz_csr_ask_row(csr, me->node);
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

/* A walker that looks for its next edge among [low, high], by the running sums above x. */
typedef struct searcher {
    uint64_t stream;
    uint64_t first, degree, low, high;
    double x;
    int64_t node;
} searcher;

/* The list of the walker's node; none if it is to restart, which is what dead ends do too. */
static void look_up(const gz_csr *csr, const gz_walk *walk, searcher *me, int64_t step,
                    uint64_t *corrupt)
{
    me->degree = 0;
    if (me->node < 0)
        return;
    if (walk->restart > 0.0 && gz_unit(gz_draw(me->stream, 2 * (uint64_t)step)) < walk->restart)
        return;
    me->degree = gz_csr_row(csr, (uint64_t)me->node, &me->first, corrupt);
    if (walk->weighted && me->degree > 0)
        gz_prefetch(&csr->cum_weights[me->first + me->degree - 1]);
}

static void draw_edge(const gz_csr *csr, const gz_walk *walk, searcher *me, int64_t step,
                      uint64_t *corrupt)
{
    uint64_t draw = gz_draw(me->stream, 2 * (uint64_t)step + 1);
    if (me->degree > 0 && walk->weighted) {
        gz_weighted_row row = gz_weighted_row_of(csr, me->first, me->degree, corrupt);
        me->x = gz_unit(draw) * row.total;
        me->degree = row.total > 0.0 ? row.degree : 0;
        me->low = me->first;
        me->high = me->first + (me->degree > 0 ? me->degree - 1 : 0);
        gz_prefetch(&csr->cum_weights[me->low + (me->high - me->low) / 2]);
    } else if (me->degree > 0) {
        me->low = me->high = me->first + gz_bounded(draw, me->degree);
        gz_prefetch(gz_id_address(&csr->indices, me->low));
    }
}

/* One halving for each walker whose search has not ended; whether any is left. */
static bool search_on(const gz_csr *csr, searcher *group, int64_t count)
{
    bool any = false;
    for (int64_t w = 0; w < count; w++) {
        searcher *me = &group[w];
        if (me->degree == 0 || me->low >= me->high)
            continue;
        gz_weighted_halve(csr, me->x, &me->low, &me->high);
        any = any || me->low < me->high;
        if (me->low < me->high)
            gz_prefetch(&csr->cum_weights[me->low + (me->high - me->low) / 2]);
        else
            gz_prefetch(gz_id_address(&csr->indices, me->low));
    }
    return any;
}

static int64_t arrive(const gz_csr *csr, const gz_walk *walk, const searcher *me, int64_t start,
                      uint64_t *corrupt)
{
    if (me->degree == 0)
        return walk->restart > 0.0 ? start : -1;
    if (walk->weighted)
        gz_weighted_check(csr, me->first, me->low, me->x, corrupt);
    return (int64_t)gz_csr_neighbor(csr, me->low, corrupt);
}

static void search_group(const gz_csr *csr, const gz_walk *walk, const int64_t *start,
                         int64_t begin, int64_t count, int64_t length, int64_t *out,
                         uint64_t *corrupt)
{
    searcher group[WALKERS];
    for (int64_t w = 0; w < count; w++) {
        group[w].stream = gz_stream(walk->key, (uint64_t)(begin + w));
        group[w].node = start[begin + w];
        out[(begin + w) * (length + 1)] = group[w].node;
        gz_csr_ask_row(csr, group[w].node);
    }
    for (int64_t step = 0; step < length; step++) {
        for (int64_t w = 0; w < count; w++)
            look_up(csr, walk, &group[w], step, corrupt);
        for (int64_t w = 0; w < count; w++)
            draw_edge(csr, walk, &group[w], step, corrupt);
        while (walk->weighted && search_on(csr, group, count))
            continue;
        for (int64_t w = 0; w < count; w++) {
            group[w].node = arrive(csr, walk, &group[w], start[begin + w], corrupt);
            out[(begin + w) * (length + 1) + step + 1] = group[w].node;
            if (group[w].node >= 0)
                gz_csr_ask_row(csr, group[w].node);
        }
    }
}

uint64_t gz_walk_first_order(const gz_csr *csr, const gz_walk *walk, const int64_t *start,
                             int64_t begin, int64_t end, int64_t length, int64_t *out)
{
    uint64_t corrupt = 0;
    for (int64_t i = begin; i < end; i += WALKERS) {
        int64_t count = end - i < WALKERS ? end - i : WALKERS;
        search_group(csr, walk, start, i, count, length, out, &corrupt);
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

static double mass_of(const gz_csr *csr, bool weighted, uint64_t first, uint64_t position,
                      uint64_t *corrupt)
{
    return weighted ? gz_weight(csr, first, position, corrupt) : 1.0;
}

/* Inverse transform over the whole list: two passes, for when rejection has no luck. Biases are
 * relative to the largest in this list, so that they cannot all vanish beside an absent one. */
static int64_t step_exact(const gz_csr *csr, const bias *b, bool weighted, double unit,
                          int64_t previous, const gz_weighted_row *row, uint64_t *corrupt)
{
    double masses[RELATIONS] = {0.0}, least = 0.0, total = 0.0, sum = 0.0;
    uint64_t end = row->first + row->degree;
    int64_t next = 0;
    for (uint64_t i = row->first; i < end; i++) {
        int64_t node = (int64_t)gz_csr_neighbor(csr, i, corrupt);
        masses[relation_of(csr, b, previous, node, corrupt)] +=
            mass_of(csr, weighted, row->first, i, corrupt);
    }
    for (int r = 0; r < RELATIONS; r++)
        if (masses[r] > 0.0 && (least == 0.0 || b->cost[r] < least))
            least = b->cost[r];
    for (int r = 0; r < RELATIONS; r++)
        if (masses[r] > 0.0) /* 0 times an infinite quotient is no number */
            total += masses[r] * (least / b->cost[r]);
    for (uint64_t i = row->first; i < end && !(sum > unit * total); i++) {
        int64_t node = (int64_t)gz_csr_neighbor(csr, i, corrupt);
        double mass = mass_of(csr, weighted, row->first, i, corrupt);
        if (mass == 0.0)
            continue;
        sum += mass * (least / b->cost[relation_of(csr, b, previous, node, corrupt)]);
        next = node;
    }
    return next;
}

/* One step from `node`, reached from `previous`. Rejection gives up after MOST_TRIES: p or q of
 * 1e-9 would otherwise walk in place for hours. What is drawn then has the same distribution. */
static int64_t step_biased(const gz_csr *csr, const bias *b, bool weighted, uint64_t stream,
                           int64_t previous, int64_t node, uint64_t *draws, uint64_t *corrupt)
{
    uint64_t first, degree = gz_csr_row(csr, (uint64_t)node, &first, corrupt);
    gz_weighted_row row = {first, degree, 0.0};
    if (weighted)
        row = gz_weighted_row_of(csr, first, degree, corrupt);
    if (degree == 0 || (weighted && row.total == 0.0))
        return -1;
    if (degree == 1)
        return (int64_t)gz_csr_neighbor(csr, first, corrupt);
    for (int tries = 0; tries < MOST_TRIES; tries++) {
        uint64_t draw = gz_draw(stream, (*draws)++);
        uint64_t position = weighted
                                ? gz_weighted_find(csr, &row, gz_unit(draw) * row.total, corrupt)
                                : first + gz_bounded(draw, degree);
        int64_t next = (int64_t)gz_csr_neighbor(csr, position, corrupt);
        double coin = gz_unit(gz_draw(stream, (*draws)++));
        double least = b->accept[COMMON] < b->accept[FAR] ? b->accept[COMMON] : b->accept[FAR];
        if (next != previous && coin < least)
            return next; /* accepted whether the edge exists or not: no search */
        if (coin < b->accept[relation_of(csr, b, previous, next, corrupt)])
            return next;
    }
    return step_exact(csr, b, weighted, gz_unit(gz_draw(stream, (*draws)++)), previous, &row,
                      corrupt);
}

static void walk_biased(const gz_csr *csr, const gz_walk *walk, const bias *biased, uint64_t stream,
                        int64_t start, int64_t length, int64_t *out, uint64_t *corrupt)
{
    const bias unbiased = bias_of(1.0, 1.0), *now = &unbiased;
    int64_t previous = start, node = start;
    uint64_t draws = 0;
    out[0] = start;
    for (int64_t step = 1; step <= length; step++) {
        int64_t next = -1;
        bool restarts = walk->restart > 0.0 && gz_unit(gz_draw(stream, draws++)) < walk->restart;
        if (node >= 0 && !restarts)
            next = step_biased(csr, now, walk->weighted, stream, previous, node, &draws, corrupt);
        now = biased;
        previous = node;
        if (next < 0 && walk->restart > 0.0) {
            now = &unbiased;
            next = previous = start;
        }
        node = next;
        out[step] = node;
    }
}

uint64_t gz_walk_node2vec(const gz_csr *csr, const gz_walk *walk, const int64_t *start,
                          int64_t begin, int64_t end, int64_t length, int64_t *out)
{
    const bias biased = bias_of(walk->p, walk->q);
    uint64_t corrupt = 0;
    for (int64_t i = begin; i < end; i++)
        walk_biased(csr, walk, &biased, gz_stream(walk->key, (uint64_t)i), start[i], length,
                    out + i * (length + 1), &corrupt);
    return corrupt;
}
