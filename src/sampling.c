#include "graphzero/sampling.h"

#include <stddef.h>

#include "graphzero/rng.h"

/* MOST_PICKS bounds the pick list on the stack, and so Floyd's quadratic look for repeats. */
enum { AHEAD = 16, MOST_PICKS = 256, LINE_BYTES = 64 };

static int64_t count_of(const gz_hop *hop, uint64_t degree)
{
    if (hop->fanout < 0)
        return (int64_t)degree;
    if (hop->replace)
        return degree > 0 ? hop->fanout : 0;
    return degree < (uint64_t)hop->fanout ? (int64_t)degree : hop->fanout;
}

uint64_t gz_hop_counts(const gz_csr *csr, const gz_hop *hop, const int64_t *nodes, int64_t begin,
                       int64_t end, gz_row *rows, int64_t *counts)
{
    uint64_t corrupt = 0;
    for (int64_t i = begin; i < end; i++) {
        if (i + AHEAD < end)
            gz_prefetch(&csr->indptr[nodes[i + AHEAD]]);
        rows[i].degree = gz_csr_row(csr, (uint64_t)nodes[i], &rows[i].first, &corrupt);
        counts[i] = count_of(hop, rows[i].degree);
    }
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
            if (picks[j] == pick) { /* taken: `last` cannot be, it was out of reach until now */
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

static void draw_one_node(const gz_hop *hop, uint64_t stream, uint64_t first, uint64_t degree,
                          int64_t count, int64_t *out)
{
    if (hop->replace && hop->fanout >= 0)
        draw_with_replacement(stream, first, degree, count, out);
    else if ((uint64_t)count == degree)
        for (int64_t i = 0; i < count; i++)
            out[i] = (int64_t)first + i;
    else if (count <= MOST_PICKS)
        draw_floyd(stream, first, degree, count, out);
    else
        draw_selection(stream, first, degree, count, out);
}

/* Entries that follow each other share lines: one request a line is enough. */
static void prefetch_neighbors(const gz_csr *csr, const int64_t *positions, int64_t count)
{
    const char *last = NULL;
    for (int64_t i = 0; i < count; i++) {
        const char *entry = gz_id_address(&csr->indices, (uint64_t)positions[i]);
        if (last == NULL || entry < last || entry >= last + LINE_BYTES) {
            gz_prefetch(entry);
            last = entry - (uintptr_t)entry % LINE_BYTES;
        }
    }
}

void gz_hop_positions(const gz_csr *csr, const gz_hop *hop, const int64_t *nodes,
                      const gz_row *rows, const int64_t *offsets, int64_t begin, int64_t end,
                      int64_t *positions)
{
    for (int64_t i = begin; i < end; i++) {
        int64_t count = offsets[i + 1] - offsets[i];
        int64_t *out = positions + offsets[i];
        if (count == 0)
            continue;
        uint64_t item = hop->by_seed ? (uint64_t)i : (uint64_t)nodes[i];
        draw_one_node(hop, gz_stream(hop->key, item), rows[i].first, rows[i].degree, count, out);
        prefetch_neighbors(csr, out, count);
    }
}
