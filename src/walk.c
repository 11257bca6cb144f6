#include "graphzero/walk.h"

#include "graphzero/rng.h"
#include "graphzero/weighted.h"

enum { WALKERS = 32 };

/* One walker between two visits: the list of its node, and the position that it has drawn. */
typedef struct walker {
    uint64_t stream;
    uint64_t first, degree;
    int64_t node; /* -1 after a dead end */
    int64_t *out; /* its row */
} walker;

/* The row of walk i, whose first id is written before its first step. */
static int64_t *row_of(const gz_walks *walks, int64_t i)
{
    int64_t *row = walks->out + i * (walks->length + 1);
    if (walks->from == 0)
        row[0] = walks->start[i];
    return row;
}

static void walk_group(const gz_csr *csr, uint64_t key, const gz_walks *walks, int64_t begin,
                       int64_t count, uint64_t *corrupt)
{
    walker group[WALKERS];
    for (int64_t w = 0; w < count; w++) {
        int64_t i = gz_walk_number(walks, begin + w);
        group[w].stream = gz_stream(key, (uint64_t)i);
        group[w].out = row_of(walks, i);
        group[w].node = group[w].out[walks->from];
        gz_csr_hint_list(csr, group[w].node);
    }
    for (int64_t step = walks->from; step < walks->to; step++) {
        for (int64_t w = 0; w < count; w++) {
            walker *me = &group[w];
            if (me->node < 0)
                continue;
            me->degree = gz_csr_list(csr, (uint64_t)me->node, &me->first, corrupt);
            if (me->degree == 0)
                continue;
            me->first += gz_bounded(gz_draw(me->stream, (uint64_t)step), me->degree);
            gz_cache_hint(gz_id_address(&csr->indices, me->first));
        }
        for (int64_t w = 0; w < count; w++) {
            walker *me = &group[w];
            if (me->node >= 0 && me->degree > 0) {
                me->node = (int64_t)gz_csr_neighbor(csr, me->first, corrupt);
                gz_csr_hint_list(csr, me->node);
            } else {
                me->node = -1;
            }
            me->out[step + 1] = me->node;
        }
    }
}

uint64_t gz_walk_uniform(const gz_csr *csr, uint64_t key, const gz_walks *walks, int64_t begin,
                         int64_t end)
{
    uint64_t corrupt = 0;
    for (int64_t i = begin; i < end; i += WALKERS) {
        int64_t count = end - i < WALKERS ? end - i : WALKERS;
        walk_group(csr, key, walks, i, count, &corrupt);
    }
    return corrupt;
}

/* A walker that searches [low, high] for its next edge: the first running sum above x. */
typedef struct searcher {
    uint64_t stream;
    uint64_t first, degree, low, high;
    double x;
    int64_t node;
    int64_t *out; /* its row */
} searcher;

/* Looks up the list of the walker's node; degree 0 if the walker restarts here, as at a dead end.
 */
static void look_up(const gz_csr *csr, const gz_walk *walk, searcher *me, int64_t step,
                    uint64_t *corrupt)
{
    me->degree = 0;
    if (me->node < 0)
        return;
    if (walk->restart > 0.0 && gz_unit(gz_draw(me->stream, 2 * (uint64_t)step)) < walk->restart)
        return;
    me->degree = gz_csr_list(csr, (uint64_t)me->node, &me->first, corrupt);
    if (walk->weighted && me->degree > 0)
        gz_cache_hint(&csr->cum_weights[me->first + me->degree - 1]);
}

static void draw_edge(const gz_csr *csr, const gz_walk *walk, searcher *me, int64_t step,
                      uint64_t *corrupt)
{
    uint64_t draw = gz_draw(me->stream, 2 * (uint64_t)step + 1);
    if (me->degree > 0 && walk->weighted) {
        gz_weighted_list list = gz_weighted_list_of(csr, me->first, me->degree, corrupt);
        me->x = gz_unit(draw) * list.total;
        me->degree = list.total > 0.0 ? list.degree : 0;
        me->low = me->first;
        me->high = me->first + (me->degree > 0 ? me->degree - 1 : 0);
        gz_cache_hint(&csr->cum_weights[me->low + (me->high - me->low) / 2]);
    } else if (me->degree > 0) {
        me->low = me->high = me->first + gz_bounded(draw, me->degree);
        gz_cache_hint(gz_id_address(&csr->indices, me->low));
    }
}

/* One step of binary search for each unfinished walker; returns whether any is still unfinished. */
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
            gz_cache_hint(&csr->cum_weights[me->low + (me->high - me->low) / 2]);
        else
            gz_cache_hint(gz_id_address(&csr->indices, me->low));
    }
    return any;
}

static int64_t arrive(const gz_csr *csr, const gz_walk *walk, const searcher *me, uint64_t *corrupt)
{
    if (me->degree == 0)
        return walk->restart > 0.0 ? me->out[0] : -1;
    if (walk->weighted)
        gz_weighted_check(csr, me->first, me->low, me->x, corrupt);
    return (int64_t)gz_csr_neighbor(csr, me->low, corrupt);
}

static void search_group(const gz_csr *csr, const gz_walk *walk, const gz_walks *walks,
                         int64_t begin, int64_t count, uint64_t *corrupt)
{
    searcher group[WALKERS];
    for (int64_t w = 0; w < count; w++) {
        int64_t i = gz_walk_number(walks, begin + w);
        group[w].stream = gz_stream(walk->key, (uint64_t)i);
        group[w].out = row_of(walks, i);
        group[w].node = group[w].out[walks->from];
        gz_csr_hint_list(csr, group[w].node);
    }
    for (int64_t step = walks->from; step < walks->to; step++) {
        for (int64_t w = 0; w < count; w++)
            look_up(csr, walk, &group[w], step, corrupt);
        for (int64_t w = 0; w < count; w++)
            draw_edge(csr, walk, &group[w], step, corrupt);
        while (walk->weighted && search_on(csr, group, count))
            continue;
        for (int64_t w = 0; w < count; w++) {
            group[w].node = arrive(csr, walk, &group[w], corrupt);
            group[w].out[step + 1] = group[w].node;
            if (group[w].node >= 0)
                gz_csr_hint_list(csr, group[w].node);
        }
    }
}

uint64_t gz_walk_first_order(const gz_csr *csr, const gz_walk *walk, const gz_walks *walks,
                             int64_t begin, int64_t end)
{
    uint64_t corrupt = 0;
    for (int64_t i = begin; i < end; i += WALKERS) {
        int64_t count = end - i < WALKERS ? end - i : WALKERS;
        search_group(csr, walk, walks, i, count, &corrupt);
    }
    return corrupt;
}

void gz_repeat_last(int64_t *walks, int64_t begin, int64_t end, int64_t length)
{
    for (int64_t i = begin; i < end; i++) {
        int64_t *walk = walks + i * (length + 1);
        for (int64_t step = 1; step <= length; step++)
            if (walk[step] < 0)
                walk[step] = walk[step - 1];
    }
}
