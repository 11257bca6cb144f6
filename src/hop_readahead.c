#include "graphzero/hop_readahead.h"

#include <stddef.h>

enum {
    RUNS_PER_CALL = 128,
    LONG_LIST = 4096,  /* edges: several pages of the narrowest section */
    MOST_DRAWN = 64,   /* draws from a long list that are requested one by one */
    MOST_SECTIONS = 5, /* with an element for each edge that a hop may read */
};

/* Ascending byte ranges, merged into runs of pages that flush() requests. */
typedef struct request {
    const gz_hop_readahead *readahead;
    gz_willneed_counts *counts;
    gz_run runs[RUNS_PER_CALL];
    int64_t count;
    uint64_t page;
} request;

static void flush(request *to)
{
    const gz_hop_readahead *readahead = to->readahead;
    gz_willneed_counts counts;
    gz_error err;
    if (gz_willneed(readahead->mapping, to->runs, to->count, readahead->mode, &counts, &err) ==
        GZ_OK) {
        to->counts->pages += counts.pages;
        to->counts->missing += counts.missing;
        to->counts->calls += counts.calls;
    }
    to->count = 0;
}

/* Elements [begin, end) of an array in the file. */
static void request_elements(request *to, const void *array, unsigned width, uint64_t begin,
                             uint64_t end)
{
    uint64_t origin = (uint64_t)((const unsigned char *)array - to->readahead->mapping->base);
    uint64_t first = (origin + begin * width) / to->page * to->page, last = origin + end * width;
    gz_run *run = to->count > 0 ? &to->runs[to->count - 1] : NULL;
    if (begin >= end)
        return;
    if (run != NULL && first >= run->offset && first < run->offset + run->length + to->page) {
        if (last > run->offset + run->length)
            run->length = last - run->offset;
        return;
    }
    if (to->count == RUNS_PER_CALL)
        flush(to);
    to->runs[to->count++] = (gz_run){first, last - first};
}

/* A section with an element for each edge. */
typedef struct section {
    const void *data;
    unsigned width;
} section;

static unsigned width_of(const gz_ids *ids) { return ids->wide ? 8 : 4; }

/* The sections that a hop reads for each list. */
static int sections_of(const gz_csr *csr, const gz_rule *rule, section *out)
{
    int count = 0;
    out[count++] = (section){csr->indices.data, width_of(&csr->indices)};
    if (csr->edge_ids.data != NULL)
        out[count++] = (section){csr->edge_ids.data, width_of(&csr->edge_ids)};
    if (rule->kind != NULL && rule->kind->needs_weights)
        out[count++] = (section){csr->cum_weights, sizeof *csr->cum_weights};
    if (rule->time != GZ_TIME_ANY) {
        out[count++] = (section){csr->times, sizeof *csr->times};
        out[count++] = (section){csr->time_order.data, width_of(&csr->time_order)};
    }
    return count;
}

static void sort_positions(int64_t *positions, int64_t count)
{
    for (int64_t i = 1; i < count; i++) {
        int64_t moved = positions[i], at = i;
        for (; at > 0 && positions[at - 1] > moved; at--)
            positions[at] = positions[at - 1];
        positions[at] = moved;
    }
}

/* Node i of the frontier, alone. */
static gz_frontier only(const gz_frontier *frontier, uint64_t i)
{
    return (gz_frontier){frontier->nodes + i, frontier->trees ? frontier->trees + i : NULL,
                         frontier->until};
}

/* The positions that node i will draw from its long list, ascending; -1 if they are too many, or if
 * drawing needs the list's content. The hop will draw the same positions. */
static int64_t drawn_from(const gz_csr *csr, const gz_hop *hop, const gz_frontier *frontier,
                          uint64_t i, int64_t *positions)
{
    const gz_frontier one = only(frontier, i);
    int64_t offsets[2] = {0, 0};
    gz_list list;
    if (hop->fanout < 0 || hop->fanout > MOST_DRAWN || hop->rule.kind != NULL ||
        hop->rule.time != GZ_TIME_ANY)
        return -1;
    /* The hop itself counts what is corrupt. */
    (void)gz_hop_counts(csr, hop, &one, 0, 1, &list, &offsets[1]);
    (void)gz_hop_positions(csr, hop, &one, &list, offsets, 0, 1, positions);
    sort_positions(positions, offsets[1]);
    return offsets[1];
}

static void request_list(request *to, const gz_csr *csr, const gz_hop *hop,
                         const gz_frontier *frontier, const gz_pick *pick, section from)
{
    int64_t positions[MOST_DRAWN], count = -1;
    uint64_t first, corrupt = 0, degree = gz_csr_list(csr, pick->row, &first, &corrupt);
    if (degree > LONG_LIST)
        count = drawn_from(csr, hop, frontier, pick->place, positions);
    if (count < 0)
        request_elements(to, from.data, from.width, first, first + degree);
    for (int64_t i = 0; i < count; i++)
        request_elements(to, from.data, from.width, (uint64_t)positions[i],
                         (uint64_t)positions[i] + 1);
}

void gz_read_hop_ahead(const gz_hop_readahead *readahead, const gz_csr *csr, const gz_hop *hop,
                       const gz_frontier *frontier, int64_t count, gz_pick *picks, gz_pick *scratch,
                       gz_willneed_counts *counts)
{
    request to = {.readahead = readahead, .counts = counts, .page = gz_system_page_bytes()};
    section sections[MOST_SECTIONS];
    int64_t requested = gz_picks_split(frontier->nodes, count, readahead->resident_nodes, picks);
    gz_picks_sort(picks, scratch, requested);
    for (int64_t i = 0; i < requested; i++)
        request_elements(&to, csr->indptr.data, width_of(&csr->indptr), picks[i].row,
                         picks[i].row + 2);
    flush(&to);
    /* Ascending nodes have ascending lists. */
    for (int s = 0, all = sections_of(csr, &hop->rule, sections); s < all; s++) {
        for (int64_t i = 0; i < requested; i++)
            request_list(&to, csr, hop, frontier, &picks[i], sections[s]);
        flush(&to);
    }
}
