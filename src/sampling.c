#include "graphzero/sampling.h"

#include <stddef.h>

#include "graphzero/rng.h"
#include "graphzero/temporal.h"

/* MOST_PICKS bounds the pick list on the stack, and Floyd's quadratic search for repeats. Looking
 * up a list takes so little that its hint must be given far ahead. */
enum { HINT_DISTANCE = 16, LIST_HINT_DISTANCE = 40, MOST_PICKS = 256, LINE_BYTES = 64 };

int64_t gz_hop_count(const gz_hop *hop, uint64_t degree)
{
    if (hop->fanout < 0)
        return (int64_t)degree;
    if (hop->rule.replace)
        return degree > 0 ? hop->fanout : 0;
    return degree < (uint64_t)hop->fanout ? (int64_t)degree : hop->fanout;
}

/* The time limit for the edges of a frontier node. */
static int64_t until_of(const gz_frontier *frontier, int64_t i)
{
    return frontier->until[frontier->trees[i]];
}

static uint64_t temporal_counts(const gz_csr *csr, const gz_hop *hop, const gz_frontier *frontier,
                                int64_t begin, int64_t end, gz_list *lists, int64_t *counts)
{
    uint64_t corrupt = 0;
    for (int64_t i = begin; i < end; i++) {
        if (i + HINT_DISTANCE < end)
            gz_cache_hint(gz_id_address(&csr->time_order, lists[i + HINT_DISTANCE].first +
                                                              lists[i + HINT_DISTANCE].degree / 2));
        lists[i].degree = gz_edges_until(csr, lists[i].first, lists[i].degree,
                                         until_of(frontier, i), hop->rule.strictly, &corrupt);
        counts[i] = gz_hop_count(hop, lists[i].degree);
    }
    return corrupt;
}

uint64_t gz_hop_counts(const gz_csr *csr, const gz_hop *hop, const gz_frontier *frontier,
                       int64_t begin, int64_t end, gz_list *lists, int64_t *counts)
{
    uint64_t corrupt = 0;
    const int64_t *nodes = frontier->nodes;
    for (int64_t i = begin; i < end; i++) {
        if (i + LIST_HINT_DISTANCE < end)
            gz_csr_hint_list(csr, nodes[i + LIST_HINT_DISTANCE]);
        lists[i].degree = gz_csr_list(csr, (uint64_t)nodes[i], &lists[i].first, &corrupt);
        counts[i] = gz_hop_count(hop, lists[i].degree);
    }
    if (hop->rule.kind != NULL)
        corrupt += hop->rule.kind->count(csr, hop, begin, end, lists, counts);
    else if (hop->rule.time != GZ_TIME_ANY)
        corrupt += temporal_counts(csr, hop, frontier, begin, end, lists, counts);
    return corrupt;
}

static void draw_with_replacement(uint64_t stream, uint64_t first, uint64_t degree, int64_t count,
                                  int64_t *out)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = (int64_t)(first + gz_bounded(gz_draw(stream, (uint64_t)i), degree));
}

static void draw_floyd(uint64_t stream, uint64_t first, uint64_t degree, int64_t count,
                       int64_t *out)
{
    uint64_t picks[MOST_PICKS];
    for (int64_t i = 0; i < count; i++) {
        uint64_t last = degree - (uint64_t)count + (uint64_t)i;
        uint64_t pick = gz_bounded(gz_draw(stream, (uint64_t)i), last + 1);
        for (int64_t j = 0; j < i; j++)
            if (picks[j] == pick) { /* `last` cannot be taken: it was out of range until now */
                pick = last;
                break;
            }
        picks[i] = pick;
        out[i] = (int64_t)(first + pick);
    }
}

static void draw_selection(uint64_t stream, uint64_t first, uint64_t degree, int64_t count,
                           int64_t *out)
{
    int64_t taken = 0;
    for (uint64_t i = 0; taken < count; i++)
        if (gz_bounded(gz_draw(stream, i), degree - i) < (uint64_t)(count - taken))
            out[taken++] = (int64_t)(first + i);
}

static uint64_t stream_of(const gz_hop *hop, const gz_frontier *frontier, int64_t i)
{
    uint64_t item = hop->rule.by_seed ? (uint64_t)i : (uint64_t)frontier->nodes[i];
    uint64_t stream = gz_stream(gz_draws_key(&hop->draws, item), item);
    return frontier->trees == NULL ? stream : gz_stream(stream, (uint64_t)frontier->trees[i]);
}

/* For frontier node i, out of a list of this degree. */
static void draw_one_node(const gz_hop *hop, const gz_frontier *frontier, int64_t i, uint64_t first,
                          uint64_t degree, int64_t count, int64_t *out)
{
    bool replace = hop->rule.replace && hop->fanout >= 0;
    if (!replace && (uint64_t)count == degree) { /* all: without a draw */
        for (int64_t k = 0; k < count; k++)
            out[k] = (int64_t)first + k;
        return;
    }
    uint64_t stream = stream_of(hop, frontier, i);
    if (replace)
        draw_with_replacement(stream, first, degree, count, out);
    else if (count <= MOST_PICKS)
        draw_floyd(stream, first, degree, count, out);
    else
        draw_selection(stream, first, degree, count, out);
}

/* Adjacent entries share cache lines: one hint per line is enough. */
static void hint_neighbors(const gz_csr *csr, const int64_t *positions, int64_t count)
{
    const char *last = NULL;
    for (int64_t i = 0; i < count; i++) {
        const char *entry = gz_id_address(&csr->indices, (uint64_t)positions[i]);
        if (last == NULL || entry < last || entry >= last + LINE_BYTES) {
            gz_cache_hint(entry);
            last = entry - (uintptr_t)entry % LINE_BYTES;
        }
    }
}

/* Converts ranks in time to stored positions. The whole lists are looked up again, because the
 * first pass has shortened theirs. */
static uint64_t positions_of_ranks(const gz_csr *csr, const gz_frontier *frontier,
                                   const int64_t *offsets, int64_t begin, int64_t end,
                                   int64_t *positions)
{
    uint64_t corrupt = 0;
    for (int64_t i = begin; i < end; i++) {
        uint64_t first, degree = gz_csr_list(csr, (uint64_t)frontier->nodes[i], &first, &corrupt);
        for (int64_t edge = offsets[i]; edge < offsets[i + 1]; edge++) {
            uint64_t rank = (uint64_t)positions[edge];
            positions[edge] = (int64_t)gz_edge_of_rank(csr, first, degree, rank, &corrupt);
        }
        hint_neighbors(csr, positions + offsets[i], offsets[i + 1] - offsets[i]);
    }
    return corrupt;
}

/* Draws ranks in time, and hints at their entries in time_order. */
static void draw_ranks(const gz_csr *csr, const gz_hop *hop, const gz_frontier *frontier, int64_t i,
                       const gz_list *list, int64_t count, int64_t *out)
{
    if (hop->rule.time == GZ_TIME_LAST)
        for (int64_t k = 0; k < count; k++)
            out[k] = (int64_t)list->degree - 1 - k;
    else
        draw_one_node(hop, frontier, i, 0, list->degree, count, out);
    for (int64_t k = 0; k < count; k++)
        gz_cache_hint(gz_id_address(&csr->time_order, list->first + (uint64_t)out[k]));
}

uint64_t gz_hop_positions(const gz_csr *csr, const gz_hop *hop, const gz_frontier *frontier,
                          const gz_list *lists, const int64_t *offsets, int64_t begin, int64_t end,
                          int64_t *positions)
{
    uint64_t corrupt = 0;
    const gz_draw_kind *kind = hop->rule.kind;
    for (int64_t i = begin; i < end; i++) {
        int64_t count = offsets[i + 1] - offsets[i];
        int64_t *out = positions + offsets[i];
        if (kind != NULL && kind->hint != NULL && i + HINT_DISTANCE < end)
            kind->hint(csr, &lists[i + HINT_DISTANCE]);
        if (count == 0)
            continue;
        if (kind != NULL)
            corrupt += kind->draw(csr, hop, stream_of(hop, frontier, i), &lists[i], count, out);
        else if (hop->rule.time != GZ_TIME_ANY)
            draw_ranks(csr, hop, frontier, i, &lists[i], count, out);
        else
            draw_one_node(hop, frontier, i, lists[i].first, lists[i].degree, count, out);
        if (hop->rule.time == GZ_TIME_ANY)
            hint_neighbors(csr, out, count);
    }
    if (hop->rule.time != GZ_TIME_ANY)
        corrupt += positions_of_ranks(csr, frontier, offsets, begin, end, positions);
    return corrupt;
}
