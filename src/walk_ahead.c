#include "graphzero/walk_ahead.h"

#include "graphzero/rng.h"

enum { TRIES = 2 }; /* proposals of a second-order step whose pages are requested */

static bool is_first_order(const gz_walk *walk) { return walk->p == 1.0 && walk->q == 1.0; }

uint64_t gz_walk_steps(const gz_csr *csr, const gz_walk *walk, const gz_walks *walks, int64_t begin,
                       int64_t end)
{
    if (!is_first_order(walk))
        return gz_walk_node2vec(csr, walk, walks, begin, end);
    if (walk->weighted || walk->restart > 0.0)
        return gz_walk_first_order(csr, walk, walks, begin, end);
    return gz_walk_uniform(csr, walk->key, walks, begin, end);
}

static void want_entry(gz_page_ahead *ahead, const gz_csr *csr, const gz_walk *walk,
                       uint64_t position)
{
    gz_want(ahead, gz_id_address(&csr->indices, position));
    if (walk->weighted)
        gz_want(ahead, &csr->cum_weights[position]);
}

/* What one step will read of the list of its node, and of that before. By weight, an entry is
 * searched for: it is expected where it would be if all weights were equal. The draws are those
 * that the step will make. */
static void want_edges(gz_page_ahead *ahead, const gz_csr *csr, const gz_walk *walk,
                       const gz_walks *walks, const gz_pick *pick)
{
    uint64_t first, corrupt = 0, i = pick->place, step = (uint64_t)walks->from;
    uint64_t degree = gz_csr_list(csr, pick->row, &first, &corrupt); /* the step counts them */
    uint64_t stream = gz_stream(walk->key, i);
    if (degree == 0)
        return;
    if (walk->weighted)
        gz_want(ahead, &csr->cum_weights[first + degree - 1]);
    if (is_first_order(walk)) {
        bool plain = !walk->weighted && walk->restart <= 0.0;
        uint64_t draw = gz_draw(stream, plain ? step : 2 * step + 1);
        want_entry(ahead, csr, walk, first + gz_bounded(draw, degree));
        return;
    }
    const gz_walker_state *state =
        walks->from > 0 ? &walks->states[(int64_t)i - walks->first_state] : NULL;
    stream = state != NULL ? state->stream : stream;
    if (walk->restart > 0.0)
        stream += GZ_GOLDEN;
    for (int try = 0; try < TRIES; try++) {
        uint64_t quantile = gz_mix(stream += GZ_GOLDEN);
        stream += GZ_GOLDEN;
        if (try == 0)
            want_entry(ahead, csr, walk, first + gz_bounded(quantile, degree));
        else
            gz_want(ahead, gz_id_address(&csr->indices, first + gz_bounded(quantile, degree)));
        if (state == NULL || state->first_order)
            return;
        if (state->before > 0)
            gz_want(ahead, gz_id_address(&csr->indices, state->before_first +
                                                            gz_bounded(quantile, state->before)));
    }
}

/* Walkers that can make the next step, sorted by their nodes. The others get their -1. */
static int64_t collect(const gz_walks *walks, gz_pick *picks, gz_pick *scratch, int64_t begin,
                       int64_t end)
{
    int64_t count = 0;
    for (int64_t i = begin; i < end; i++) {
        int64_t *row = walks->out + i * (walks->length + 1);
        if (walks->from == 0)
            row[0] = walks->start[i];
        if (row[walks->from] >= 0)
            picks[count++] = (gz_pick){(uint64_t)row[walks->from], (uint64_t)i};
        else if (walks->from < walks->length)
            row[walks->from + 1] = -1;
    }
    gz_picks_sort(picks, scratch, count);
    return count;
}

/* Three blocks of walkers are under way: the lists of one are requested, then the edges of the one
 * before, then the one before that steps. Each has a block's time to arrive. */
static uint64_t step_all(gz_page_ahead *ahead, const gz_csr *csr, const gz_walk *walk,
                         const gz_walks *walks, int64_t count)
{
    uint64_t corrupt = 0;
    for (int64_t stepped = 0, edges = 0, lists = 0; stepped < count;) {
        int64_t next = lists + ahead->block < count ? lists + ahead->block : count;
        for (int64_t i = lists; i < next; i++) {
            gz_want(ahead, gz_id_address(&csr->indptr, walks->picks[i].row));
            gz_want(ahead, gz_id_address(&csr->indptr, walks->picks[i].row + 1));
        }
        gz_request_wanted(ahead);
        for (int64_t i = edges; i < lists; i++)
            want_edges(ahead, csr, walk, walks, &walks->picks[i]);
        gz_request_wanted(ahead);
        uint64_t faults = gz_major_faults();
        corrupt += gz_walk_steps(csr, walk, walks, stepped, edges);
        faults = gz_major_faults() - faults;
        ahead->block = gz_ahead_adapted(ahead->block, GZ_AHEAD_BLOCK, edges - stepped, faults);
        stepped = edges;
        edges = lists;
        lists = next;
    }
    return corrupt;
}

/* Column by column, in which ids are sorted as well. */
static uint64_t translate_all(gz_page_ahead *ahead, const gz_csr *csr, gz_walks *walks,
                              gz_pick *picks, gz_pick *scratch, int64_t begin, int64_t end)
{
    uint64_t corrupt = 0;
    for (walks->from = 0; walks->from <= walks->length; walks->from++) {
        int64_t count = collect(walks, picks, scratch, begin, end);
        corrupt += gz_translate_ahead(ahead, &csr->node_ids, csr->num_nodes, picks, count,
                                      walks->out + walks->from, walks->length + 1);
    }
    return corrupt;
}

uint64_t gz_walk_ahead(gz_page_ahead *ahead, const gz_csr *csr, const gz_walk *walk,
                       const gz_walks *walks, bool to_user, gz_pick *picks, gz_pick *scratch,
                       int64_t begin, int64_t end)
{
    uint64_t corrupt = 0;
    gz_walks one = *walks;
    one.picks = picks;
    for (one.from = 0; one.from < walks->length; one.from++) {
        one.to = one.from + 1;
        int64_t count = collect(&one, picks, scratch, begin, end);
        corrupt += step_all(ahead, csr, walk, &one, count);
    }
    if (to_user)
        corrupt += translate_all(ahead, csr, &one, picks, scratch, begin, end);
    return corrupt;
}
