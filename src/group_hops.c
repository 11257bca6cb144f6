#include "graphzero/group_hops.h"

#include <string.h>

#include "graphzero/batch.h"
#include "graphzero/growable.h"
#include "graphzero/padding.h"
#include "graphzero/preads.h"

enum { PICKS_PER_READ = 1 << 16 }; /* between two looks at the stop flag */

/* What one batch wants of a section: for each row, `span` entries from it on. */
typedef struct wanted {
    const int64_t *rows;
    int64_t count;
    int64_t first;   /* place of its first entry among those of all batches */
    int64_t missing; /* entries that are not in memory */
    int64_t before;  /* such entries of the batches before it */
} wanted;

typedef struct section {
    gz_ids ids;
    const gz_page_map *map;
    int span;
    uint64_t origin; /* byte of the file where it begins */
    unsigned page_shift;
} section;

/* What all batches do side by side. */
typedef enum step { BEGIN, SAMPLE, TAKE, DRAW, RELABEL, KEEP_IDS, END_HOP, PAD } step;

typedef struct group {
    gz_team *team;
    gz_group_batch *batches;
    int64_t count;
    gz_stop *stop;
    const gz_topology_reader *readers;
    step step;
    int hop, edge_type;
    section from;
    wanted *wanted; /* of each batch */
    gz_ids entries; /* of all batches, as wide as in the section */
    unsigned char *memory;
    gz_pick *picks; /* 2 * capacity: half of it is scratch memory */
    int64_t capacity;
} group;

static bool run(group *of, step next);

static unsigned width_of(const gz_ids *ids) { return ids->wide ? 8 : 4; }

/* Entries are as wide as their origin is aligned: none is in two pages. */
static bool is_in_memory(const section *from, uint64_t row)
{
    uint64_t page = (UINT64_C(1) << from->page_shift) - 1;
    uint64_t at = ((from->origin & page) + row * width_of(&from->ids)) >> from->page_shift;
    return at < from->map->count && from->map->pages[at];
}

static void copy_entry(const gz_ids *from, uint64_t row, const gz_ids *to, uint64_t place)
{
    if (from->wide)
        ((uint64_t *)to->data)[place] = ((const uint64_t *)from->data)[row];
    else
        ((uint32_t *)to->data)[place] = ((const uint32_t *)from->data)[row];
}

/* Copies the entries that are in memory, and picks the others. */
static void take_entries(const group *of, wanted *own)
{
    uint64_t place = (uint64_t)own->first;
    gz_pick *picks = of->picks + own->first;
    own->missing = 0;
    for (int64_t i = 0; i < own->count; i++)
        for (int k = 0; k < of->from.span; k++, place++) {
            uint64_t row = (uint64_t)own->rows[i] + (uint64_t)k;
            if (is_in_memory(&of->from, row))
                copy_entry(&of->from.ids, row, &of->entries, place);
            else
                picks[own->missing++] = (gz_pick){row, place};
        }
}

/* Reads sorted picks. Parts of them end with a page, which would else be read for the next one. */
static gz_code read_picks(const group *of, int64_t count, uint64_t *pages, gz_error *err)
{
    const gz_topology_reader *reader = &of->readers[of->edge_type];
    unsigned width = width_of(&of->from.ids), shift = of->from.page_shift;
    gz_code code = gz_direct_check(reader->file, err);
    for (int64_t i = 0, end; i < count && code == GZ_OK && !gz_is_stopped(of->stop); i = end) {
        end = i + PICKS_PER_READ < count ? i + PICKS_PER_READ : count;
        while (end < count && (of->from.origin + of->picks[end].row * width) >> shift ==
                                  (of->from.origin + of->picks[end - 1].row * width) >> shift)
            end++;
        gz_fetch fetch = {.file = reader->file,
                          .reads = {.picks = of->picks + i,
                                    .count = end - i,
                                    .origin = of->from.origin,
                                    .row_bytes = width,
                                    .gap_pages = reader->gap_pages,
                                    .most_bytes = GZ_BUFFER_BYTES,
                                    .page_bytes = UINT64_C(1) << shift},
                          .out = of->memory};
        code = reader->ring != NULL ? gz_uring_fetch(reader->ring, &fetch, err)
                                    : gz_preads_fetch(reader->buffers, &fetch, err);
        *pages += fetch.reads.pages_wanted;
    }
    return code;
}

/* The part of a total that a batch has, by what it missed; all of them add up to it. */
static uint64_t share_of(const wanted *own, uint64_t all, uint64_t total)
{
    uint64_t before = (uint64_t)own->before;
    return total * (before + (uint64_t)own->missing) / all - total * before / all;
}

/* Room for the entries that all batches want, and their picks. Those that are not written, because
 * the entries are in memory, take none. */
static gz_code reserve(group *of, int64_t entries, gz_error *err)
{
    if (entries > of->capacity) {
        unsigned char *memory = gz_grown(of->memory, entries, 8, "entries of a hop", err);
        if (memory == NULL)
            return err->code;
        of->memory = memory;
        gz_pick *picks = gz_grown(of->picks, 2 * entries, sizeof *picks, "entries of a hop", err);
        if (picks == NULL)
            return err->code;
        of->picks = picks;
        of->capacity = entries;
    }
    of->entries = (gz_ids){of->memory, of->from.ids.wide};
    return GZ_OK;
}

/* Moves the picks of all batches together; returns how many there are. */
static int64_t collect_picks(group *of)
{
    int64_t count = 0;
    for (int64_t i = 0; i < of->count; i++) {
        wanted *own = &of->wanted[i];
        memmove(of->picks + count, of->picks + own->first,
                (size_t)own->missing * sizeof *of->picks);
        own->before = count;
        count += own->missing;
    }
    return count;
}

/* Brings what all batches want of a section into memory. */
static gz_code fetch_entries(group *of, const gz_ids *ids, const gz_page_map *map, int span,
                             gz_error *err)
{
    const gz_mapping *mapping = of->readers[of->edge_type].mapping;
    uint64_t pages = 0;
    int64_t entries = 0;
    of->from = (section){.ids = *ids, .map = map, .span = span};
    of->from.origin = (uint64_t)((const unsigned char *)ids->data - mapping->base);
    while (UINT64_C(1) << of->from.page_shift < gz_system_page_bytes())
        of->from.page_shift++;
    for (int64_t i = 0; i < of->count; i++) {
        of->wanted[i].first = entries;
        of->wanted[i].missing = 0;
        entries += of->wanted[i].count * span;
    }
    gz_code code = reserve(of, entries, err);
    if (code != GZ_OK || !run(of, TAKE))
        return code;
    gz_moment begin = gz_now();
    int64_t missing = collect_picks(of);
    if (missing == 0)
        return GZ_OK;
    gz_picks_sort(of->picks, of->picks + missing, missing);
    code = read_picks(of, missing, &pages, err);
    gz_spent spent = gz_spent_since(&begin, true);
    for (int64_t i = 0; i < of->count; i++) {
        const wanted *own = &of->wanted[i];
        of->batches[i].batch->willneed.missing += share_of(own, (uint64_t)missing, pages);
        of->batches[i].spent.wall += share_of(own, (uint64_t)missing, spent.wall);
        of->batches[i].spent.disk += share_of(own, (uint64_t)missing, spent.disk);
    }
    return code;
}

/* Ids in the user's list of the edges whose positions a batch wanted. */
static gz_code keep_ids(const wanted *own, const gz_ids *ids, uint64_t limit, gz_edge_list *edges,
                        gz_error *err)
{
    gz_code code = gz_edges_reserve_ids(edges, err);
    if (code != GZ_OK)
        return code;
    int64_t *out = edges->ids + (own->rows - edges->positions);
    for (int64_t i = 0; i < own->count; i++) {
        out[i] = (int64_t)gz_id(ids, (uint64_t)i);
        edges->corrupt += (uint64_t)out[i] >= limit;
    }
    edges->has_ids = true;
    return GZ_OK;
}

static gz_code take_step(const group *of, int64_t number, gz_error *err)
{
    const gz_plan *plan = &of->batches[number].plan;
    gz_batch *batch = of->batches[number].batch;
    wanted *own = &of->wanted[number];
    int type = of->edge_type, hop = of->hop;
    switch (of->step) {
    case BEGIN: return gz_batch_start(batch, plan, of->batches[number].seeds, err);
    case SAMPLE: return gz_batch_sample_type(batch, plan, type, hop, err);
    case END_HOP: return gz_batch_end_hop(batch, plan, hop, err);
    case PAD: return gz_batch_pad(batch, plan, err);
    default: break;
    }
    if (own->count == 0)
        return GZ_OK;
    if (of->step == TAKE) {
        take_entries(of, own);
        return GZ_OK;
    }
    const gz_ids entries = {gz_id_address(&of->entries, (uint64_t)own->first), of->entries.wide};
    if (of->step == DRAW)
        return gz_batch_draw(batch, plan, type, hop, &entries, err);
    if (of->step == RELABEL)
        return gz_batch_relabel(batch, plan, type, hop, &entries, err);
    return keep_ids(own, &entries, of->readers[type].id_limit, &batch->edges[type], err);
}

static void step_of_batch(void *context, int64_t item, int thread)
{
    const group *of = context;
    gz_group_batch *batch = &of->batches[item];
    (void)thread;
    if (batch->code != GZ_OK || gz_is_stopped(of->stop))
        return;
    gz_moment begin = gz_now();
    uint64_t missing = batch->batch->willneed.missing;
    batch->code = take_step(of, item, &batch->err);
    gz_spent spent = gz_spent_since(&begin, batch->batch->willneed.missing > missing);
    batch->spent.wall += spent.wall;
    batch->spent.disk += spent.disk;
}

/* One step of all batches. False if the group is stopped: some may not have taken it. */
static bool run(group *of, step next)
{
    of->step = next;
    gz_team_run(of->team, of->count, step_of_batch, of);
    return !gz_is_stopped(of->stop);
}

/* What the next hop of each batch begins with. */
static void want_lists(const group *of)
{
    for (int64_t i = 0; i < of->count; i++) {
        const gz_group_batch *batch = &of->batches[i];
        wanted *own = &of->wanted[i];
        own->count = 0;
        if (batch->code != GZ_OK)
            continue;
        batch->batch->edges[of->edge_type].hop_edges[of->hop] = 0;
        own->rows =
            gz_batch_frontier(batch->batch, &batch->plan, of->edge_type, of->hop, &own->count)
                .nodes;
    }
}

/* What each batch has drawn. */
static void want_drawn(const group *of)
{
    for (int64_t i = 0; i < of->count; i++) {
        const gz_group_batch *batch = &of->batches[i];
        const gz_edge_list *edges = &batch->batch->edges[of->edge_type];
        wanted *own = &of->wanted[i];
        if (batch->code != GZ_OK)
            own->count = 0;
        if (own->count == 0)
            continue;
        own->rows = edges->positions + edges->count;
        own->count = batch->batch->offsets[own->count] - edges->count;
    }
}

/* The edges of one type in one hop of all batches. */
static gz_code read_type(group *of, const gz_csr *csr, gz_error *err)
{
    const gz_topology_reader *reader = &of->readers[of->edge_type];
    want_lists(of);
    gz_code code = fetch_entries(of, &csr->indptr, &reader->indptr, 2, err);
    if (code != GZ_OK || !run(of, DRAW))
        return code;
    want_drawn(of);
    code = fetch_entries(of, &csr->indices, &reader->indices, 1, err);
    if (code != GZ_OK || !run(of, RELABEL) || csr->edge_ids.data == NULL)
        return code;
    code = fetch_entries(of, &csr->edge_ids, &reader->edge_ids, 1, err);
    if (code == GZ_OK)
        (void)run(of, KEEP_IDS);
    return code;
}

static gz_code sample_all(group *of, gz_error *err)
{
    const gz_plan *plan = &of->batches[0].plan;
    gz_code code = GZ_OK;
    bool goes_on = run(of, BEGIN);
    for (of->hop = 0; of->hop < plan->num_hops && goes_on; of->hop++) {
        for (of->edge_type = 0; of->edge_type < plan->num_edge_types && goes_on; of->edge_type++) {
            if (of->readers[of->edge_type].file == NULL)
                goes_on = run(of, SAMPLE);
            else if ((code = read_type(of, plan->edge_types[of->edge_type].csr, err)) != GZ_OK)
                return code;
            goes_on = goes_on && !gz_is_stopped(of->stop);
        }
        goes_on = goes_on && run(of, END_HOP);
    }
    if (goes_on)
        (void)run(of, PAD);
    return GZ_OK;
}

gz_code gz_group_sample_hops(gz_team *team, gz_group_batch *batches, int64_t count, gz_stop *stop,
                             const gz_topology_reader *readers, int *edge_type, gz_error *err)
{
    group of = {.team = team, .batches = batches, .count = count, .stop = stop, .readers = readers};
    for (int64_t i = 0; i < count; i++) {
        batches[i].code = GZ_OK;
        batches[i].is_sampled = false;
        batches[i].spent = (gz_spent){0, 0};
    }
    if (count == 0)
        return GZ_OK;
    of.wanted = gz_zeroed(count, sizeof *of.wanted, "batches", err);
    gz_code code = of.wanted == NULL ? err->code : sample_all(&of, err);
    for (int64_t i = 0; i < count; i++)
        batches[i].is_sampled = code == GZ_OK && !gz_is_stopped(stop);
    *edge_type = of.edge_type;
    gz_free_array(of.wanted);
    gz_free_array(of.memory);
    gz_free_array(of.picks);
    return code;
}
