#include "graphzero/node2vec.h"

#include "graphzero/bias.h"
#include "graphzero/rng.h"
#include "graphzero/weighted.h"
#include "graphzero/window.h"

/* Fewer walkers do not hide the cache misses; more bring no gain. */
enum { WALKERS = 96, MOST_TRIES = 64 };

/* A walker between two visits. */
typedef struct walker {
    uint64_t stream;    /* after the draws made so far */
    int64_t *out, *end; /* the part of the call's steps that is not written yet */
    int64_t number, start, previous, node, next; /* next is only proposed until it is accepted */
    gz_weighted_list list, of_previous;          /* totals are set only for weighted walks */
    uint64_t position,
        quantile; /* of next in the file; of next in its list, as a fraction of 2^64 */
    int64_t coin;
    double x; /* of next on the cumulative weights */
    gz_window seen;
    int tries;
    bool first_order;
} walker;

/* Walkers that wait for the same kind of visit. */
typedef struct queue {
    int64_t count;
    walker *items[WALKERS];
} queue;

typedef struct run {
    const gz_csr *csr;
    const gz_walk *walk;
    const gz_walks *walks;
    int64_t begin, end; /* of the walks of the call, these have not begun */
    int64_t walking;
    uint64_t corrupt;
    gz_bias bias;
    queue lists, totals, sums, proposing, reading, judging, searching, accepted;
    walker walkers[WALKERS];
} run;

static inline void push(queue *to, walker *me) { to->items[to->count++] = me; }

/* Loops keep the end of a queue in a register and append without a branch: branches on random coins
 * cannot be predicted. */
static inline walker **end_of(queue *q) { return q->items + q->count; }

static inline walker **put_if(bool condition, walker **end, walker *me)
{
    *end = me;
    return end + condition;
}

static inline void set_end(queue *q, walker *const *end) { q->count = end - q->items; }

/* Returns how many walkers to visit, and empties the queue so that walkers can re-enter it. */
static inline int64_t take_all(queue *from)
{
    int64_t count = from->count;
    from->count = 0;
    return count;
}

static inline uint64_t draw(walker *me) { return gz_mix(me->stream += GZ_GOLDEN); }

GZ_INLINE void hint_sums(const run *r, const gz_window *w)
{
    gz_cache_hint(&r->csr->cum_weights[w->from]);
    gz_cache_hint(&r->csr->cum_weights[w->end - 1]);
}

static void begin_walk(run *r, walker *me)
{
    const gz_walks *walks = r->walks;
    int64_t i = me->number = gz_walk_number(walks, r->begin++);
    int64_t *row = walks->out + i * (walks->length + 1);
    me->start = walks->start[i];
    if (walks->from == 0) {
        row[0] = me->start;
        me->stream = gz_stream(r->walk->key, (uint64_t)i);
        me->first_order = true;
    } else {
        const gz_walker_state *state = &walks->states[i - walks->first_state];
        me->stream = state->stream;
        me->first_order = state->first_order;
        me->previous = row[walks->from - 1];
        me->of_previous = (gz_weighted_list){state->before_first, state->before, 0.0};
    }
    me->node = row[walks->from];
    me->out = row + walks->from + 1;
    me->end = row + walks->to + 1;
}

/* Keeps what the next step of a walk needs. */
static void end_steps(const run *r, const walker *me)
{
    if (r->walks->states != NULL)
        r->walks->states[me->number - r->walks->first_state] = (gz_walker_state){
            me->stream, me->of_previous.first, me->of_previous.degree, me->first_order};
}

/* A step back to the start, where there is no previous node. */
static inline void restart(walker *me)
{
    me->node = *me->out++ = me->start;
    me->first_order = true;
}

/* Hints at the list of the walker's node or, after the end of its walk, of the next start. */
static inline void go_on(run *r, walker *me)
{
    for (;;) {
        if (me->out == me->end && me->out != NULL)
            end_steps(r, me);
        if (me->out == me->end && r->begin == r->end) {
            r->walking--;
            return;
        }
        if (me->out == me->end)
            begin_walk(r, me);
        else if (r->walk->restart > 0.0 && gz_unit(draw(me)) < r->walk->restart)
            restart(me);
        else
            break;
    }
    gz_csr_hint_list(r->csr, me->node);
    push(&r->lists, me);
}

static void dead_end(run *r, walker *me)
{
    if (r->walk->restart > 0.0)
        restart(me);
    else
        while (me->out < me->end)
            *me->out++ = -1;
    go_on(r, me);
}

static void move(run *r)
{
    for (int64_t i = 0, count = take_all(&r->accepted); i < count; i++) {
        walker *me = r->accepted.items[i];
        me->previous = me->node;
        me->of_previous = me->list;
        me->node = *me->out++ = me->next;
        me->first_order = false;
        go_on(r, me);
    }
}

static void look_up(run *r)
{
    for (int64_t i = 0, count = take_all(&r->lists); i < count; i++) {
        walker *me = r->lists.items[i];
        gz_weighted_list *list = &me->list;
        list->degree = gz_csr_list(r->csr, (uint64_t)me->node, &list->first, &r->corrupt);
        me->tries = 0;
        if (list->degree == 0) {
            dead_end(r, me);
        } else if (r->walk->weighted) {
            gz_cache_hint(&r->csr->cum_weights[list->first + list->degree - 1]);
            push(&r->totals, me);
        } else {
            push(&r->proposing, me);
        }
    }
}

static void read_totals(run *r)
{
    for (int64_t i = 0, count = take_all(&r->totals); i < count; i++) {
        walker *me = r->totals.items[i];
        me->list = gz_weighted_list_of(r->csr, me->list.first, me->list.degree, &r->corrupt);
        if (me->list.total == 0.0)
            dead_end(r, me);
        else
            push(&r->proposing, me);
    }
}

/* Ends of the queues of walkers that have a position. Those in `judging` need to know whether the
 * edge from the previous node exists. */
typedef struct placed {
    walker **reading, **judging;
} placed;

static inline placed begin_placing(run *r)
{
    return (placed){end_of(&r->reading), end_of(&r->judging)};
}

static inline void place(const run *r, walker *me, placed *to)
{
    bool asks = (me->coin >= r->bias.least) & (me->coin < r->bias.most);
    gz_cache_hint(gz_id_address(&r->csr->indices, me->position));
    to->reading = put_if(!asks, to->reading, me);
    to->judging = put_if(asks, to->judging, me);
}

static inline void end_placing(run *r, const placed *to)
{
    set_end(&r->reading, to->reading);
    set_end(&r->judging, to->judging);
}

/* Draws a position and a coin. First-order steps are always accepted. A single neighbour is
 * accepted without a draw. */
static void propose(run *r)
{
    placed to = begin_placing(r);
    for (int64_t i = 0, count = take_all(&r->proposing); i < count; i++) {
        walker *me = r->proposing.items[i];
        uint64_t before = me->stream, first = me->list.first, degree = me->list.degree;
        bool only = degree == 1, weighted = r->walk->weighted;
        if (me->tries++ == MOST_TRIES) {
            me->next = gz_biased_exact(r->csr, &r->bias, weighted, gz_unit(draw(me)), me->previous,
                                       &me->of_previous, &me->list, &r->corrupt);
            push(&r->accepted, me);
            continue;
        }
        me->quantile = draw(me);
        me->coin = (int64_t)(draw(me) >> (64 - GZ_COIN_BITS)) | -(int64_t)(me->first_order | only);
        me->stream = only ? before : me->stream;
        me->position = first + gz_bounded(me->quantile, degree);
        if (!weighted || only) {
            place(r, me, &to);
            continue;
        }
        me->x = gz_unit(me->quantile) * me->list.total;
        me->seen = (gz_window){.low = first, .high = first + degree - 1};
        gz_window_about(&me->seen, first + gz_bounded(me->quantile, degree - 1), GZ_LINE_WIDE);
        hint_sums(r, &me->seen);
        push(&r->sums, me);
    }
    end_placing(r, &to);
}

/* Searches for the first sum above x. If no sum before seen.high is above x, it is the last one, at
 * seen.high. */
static void search_sums(run *r)
{
    placed to = begin_placing(r);
    const double *sums = r->csr->cum_weights;
    for (int64_t i = 0, count = take_all(&r->sums); i < count; i++) {
        walker *me = r->sums.items[i];
        gz_window *w = &me->seen;
        uint64_t at = w->from, span = w->end - w->from;
        double first = sums[w->from], last = sums[w->end - 1];
        bool left = first > me->x && w->from > w->low;
        if (left || (!(last > me->x) && w->end < w->high)) {
            gz_window_beyond(w, left, left ? first - me->x : me->x - last, last - first,
                             GZ_LINE_WIDE);
            hint_sums(r, w);
            push(&r->sums, me);
            continue;
        }
        for (; span > 1; span -= span / 2)
            at = sums[at + span / 2] > me->x ? at : at + span / 2;
        me->position = sums[at] > me->x ? at : at + 1;
        gz_weighted_check(r->csr, me->list.first, me->position, me->x, &r->corrupt);
        place(r, me, &to);
    }
    end_placing(r, &to);
}

/* Decides proposals that do not depend on the edge from the previous node. */
static void read_next(run *r)
{
    walker **accepted = end_of(&r->accepted), **refused = end_of(&r->proposing);
    for (int64_t i = 0, count = take_all(&r->reading); i < count; i++) {
        walker *me = r->reading.items[i];
        me->next = (int64_t)gz_csr_neighbor(r->csr, me->position, &r->corrupt);
        bool returns = me->next == me->previous;
        bool accepts = me->coin < (returns ? r->bias.accept[GZ_RETURNING] : r->bias.least);
        accepted = put_if(accepts, accepted, me);
        refused = put_if(!accepts, refused, me);
    }
    set_end(&r->accepted, accepted);
    set_end(&r->proposing, refused);
}

/* Chooses where to search for `next` before it is read: in the previous node's list, at the same
 * relative position as in the node's own list, because lists of a graph are alike. */
static void aim(run *r)
{
    const gz_ids *ids = &r->csr->indices;
    for (int64_t i = 0, count = r->judging.count; i < count; i++) {
        walker *me = r->judging.items[i];
        uint64_t first = me->of_previous.first, degree = me->of_previous.degree;
        me->seen = (gz_window){.low = first, .high = first + degree};
        gz_window_about(&me->seen, first + gz_bounded(me->quantile, degree),
                        ids->wide ? GZ_LINE_WIDE : GZ_LINE_NARROW);
        gz_window_hint(&me->seen, ids);
    }
}

typedef struct judged {
    walker **searching, **accepted, **refused;
} judged;

/* Searches for the edge from the previous node to `next`. */
static inline void look(const run *r, walker *me, judged *to)
{
    gz_sight sight = gz_window_look(&me->seen, &r->csr->indices, (uint64_t)me->next);
    bool returns = me->next == me->previous;
    bool known = returns | !(sight.goes_left | sight.goes_right);
    gz_relation relation = returns ? GZ_RETURNING : sight.found ? GZ_COMMON : GZ_FAR;
    bool accepts = me->coin < r->bias.accept[relation];
    to->searching = put_if(!known, to->searching, me);
    to->accepted = put_if(known & accepts, to->accepted, me);
    to->refused = put_if(known & !accepts, to->refused, me);
}

static void judge(run *r)
{
    const gz_ids *ids = &r->csr->indices;
    judged to = {r->searching.items, end_of(&r->accepted), end_of(&r->proposing)};
    for (int64_t i = 0, count = take_all(&r->searching); i < count; i++)
        look(r, r->searching.items[i], &to);
    for (int64_t i = 0, count = take_all(&r->judging); i < count; i++) {
        walker *me = r->judging.items[i];
        me->next = (int64_t)gz_csr_neighbor(r->csr, me->position, &r->corrupt);
        look(r, me, &to);
    }
    set_end(&r->searching, to.searching);
    set_end(&r->accepted, to.accepted);
    set_end(&r->proposing, to.refused);
    for (int64_t i = 0, count = r->searching.count; i < count; i++) {
        walker *me = r->searching.items[i];
        gz_window_follow(&me->seen, ids, (uint64_t)me->next);
        gz_window_hint(&me->seen, ids);
    }
}

/* Each round visits each queue once, in an order that visits no walker twice: a cache hint has the
 * rest of the round to take effect. */
uint64_t gz_walk_node2vec(const gz_csr *csr, const gz_walk *walk, const gz_walks *walks,
                          int64_t begin, int64_t end)
{
    run r = {.csr = csr, .walk = walk, .walks = walks, .begin = begin, .end = end};
    r.bias = gz_bias_of(walk->p, walk->q);
    r.walking = WALKERS;
    for (int w = 0; w < WALKERS; w++)
        go_on(&r, &r.walkers[w]);
    while (r.walking > 0) {
        judge(&r);
        read_next(&r);
        if (walk->weighted) {
            search_sums(&r);
            read_totals(&r);
        }
        look_up(&r);
        propose(&r);
        aim(&r);
        move(&r);
    }
    return r.corrupt;
}
