#include "graphzero/group_hops.h"

#include <string.h>

#include "graphzero/batch.h"
#include "graphzero/growable.h"
#include "graphzero/preads.h"

enum { PICKS_PER_READ = 1 << 16 }; /* between two looks at the stop flag */

/* What one batch wants of a section: for each row, `span` entries from it on. */
typedef struct wanted {
    const int64_t *rows;
    int64_t count;
    int64_t first;   /* place of its first entry among those of all batches */
    int64_t missing; /* entries that are not in memory */
    int64_t picked;  /* the first of their picks */
} wanted;

typedef struct section {
    gz_ids ids;
    const gz_page_map *map;
    int span;
    uint64_t origin; /* byte of the file where it begins */
    unsigned page_shift;
} section;

typedef struct group group;
typedef gz_code step(const group *of, int64_t number, gz_batch *batch, gz_error *err);

struct group {
    gz_team *team;
    gz_group_batch *batches;
    int64_t count;
    gz_stop *stop;
    const gz_topology_reader *readers;
    step *step;
    int hop, edge_type;
    section from;
    wanted *wanted; /* of each batch */
    gz_ids entries; /* of all batches, as wide as in the section */
    unsigned char *memory;
    int64_t capacity;
    gz_pick *picks; /* 2 * pick_capacity: half of it is scratch memory */
    int64_t pick_capacity;
};

static void add_spent(gz_spent *sum, gz_spent spent)
{
    sum->wall += spent.wall;
    sum->disk += spent.disk;
}

/* One step of one batch. */
static void take_step(void *context, int64_t item, int thread)
{
    const group *of = context;
    gz_group_batch *batch = &of->batches[item];
    (void)thread;
    if (batch->code != GZ_OK || gz_is_stopped(of->stop))
        return;
    gz_moment begin = gz_now();
    uint64_t missing = batch->batch->willneed.missing;
    batch->code = of->step(of, item, batch->batch, &batch->err);
    add_spent(&batch->spent, gz_spent_since(&begin, batch->batch->willneed.missing > missing));
}

/* One step of all batches. False if the group is stopped: some may not have taken it. */
static bool run(group *of, step *next)
{
    of->step = next;
    gz_team_run(of->team, of->count, take_step, of);
    return !gz_is_stopped(of->stop);
}

static unsigned width_of(const gz_ids *ids) { return ids->wide ? 8 : 4; }

/* Entries are as wide as their origin is aligned: none is in two pages. */
static bool is_in_memory(const section *from, uint64_t row)
{
    uint64_t page = (UINT64_C(1) << from->page_shift) - 1;
    uint64_t at = ((from->origin & page) + row * width_of(&from->ids)) >> from->page_shift;
    return at < from->map->count && from->map->pages[at];
}

static gz_code count_missing(const group *of, int64_t number, gz_batch *batch, gz_error *err)
{
    wanted *own = &of->wanted[number];
    (void)batch, (void)err;
    own->missing = 0;
    for (int64_t i = 0; i < own->count; i++)
        for (int k = 0; k < of->from.span; k++)
            own->missing += !is_in_memory(&of->from, (uint64_t)own->rows[i] + (uint64_t)k);
    return GZ_OK;
}

static void copy_entry(const gz_ids *from, uint64_t row, const gz_ids *to, uint64_t place)
{
    if (from->wide)
        ((uint64_t *)to->data)[place] = ((const uint64_t *)from->data)[row];
    else
        ((uint32_t *)to->data)[place] = ((const uint32_t *)from->data)[row];
}

/* Copies the entries that are in memory, and picks the others. */
static gz_code take_entries(const group *of, int64_t number, gz_batch *batch, gz_error *err)
{
    const wanted *own = &of->wanted[number];
    uint64_t place = (uint64_t)own->first;
    gz_pick *pick = of->picks + own->picked;
    (void)batch, (void)err;
    for (int64_t i = 0; i < own->count; i++)
        for (int k = 0; k < of->from.span; k++, place++) {
            uint64_t row = (uint64_t)own->rows[i] + (uint64_t)k;
            if (is_in_memory(&of->from, row))
                copy_entry(&of->from.ids, row, &of->entries, place);
            else
                *pick++ = (gz_pick){row, place};
        }
    return GZ_OK;
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

/* The part of a total that batch `number` has, by what it missed; all of them add up to it. */
static uint64_t share_of(const group *of, int64_t number, int64_t missing, uint64_t total)
{
    const wanted *own = &of->wanted[number];
    uint64_t before = (uint64_t)own->picked, all = (uint64_t)missing;
    return total * (before + (uint64_t)own->missing) / all - total * before / all;
}

/* Makes room for the entries that all batches want, and for picks of those that are missing. */
static gz_code reserve(group *of, int64_t entries, int64_t missing, gz_error *err)
{
    int64_t bytes = entries * (int64_t)width_of(&of->from.ids);
    if (bytes > of->capacity) {
        unsigned char *memory = gz_grown(of->memory, bytes, 1, "bytes of a hop", err);
        if (memory == NULL)
            return err->code;
        of->memory = memory;
        of->capacity = bytes;
    }
    if (missing > of->pick_capacity) {
        gz_pick *picks = gz_grown(of->picks, 2 * missing, sizeof *picks, "entries of a hop", err);
        if (picks == NULL)
            return err->code;
        of->picks = picks;
        of->pick_capacity = missing;
    }
    of->entries = (gz_ids){of->memory, of->from.ids.wide};
    return GZ_OK;
}

/* Brings what all batches want of a section into memory. */
static gz_code fetch_entries(group *of, const gz_ids *ids, const gz_page_map *map, int span,
                             gz_error *err)
{
    const gz_mapping *mapping = of->readers[of->edge_type].mapping;
    uint64_t pages = 0;
    int64_t entries = 0, missing = 0;
    of->from = (section){.ids = *ids, .map = map, .span = span};
    of->from.origin = (uint64_t)((const unsigned char *)ids->data - mapping->base);
    while (UINT64_C(1) << of->from.page_shift < gz_system_page_bytes())
        of->from.page_shift++;
    if (!run(of, count_missing))
        return GZ_OK;
    for (int64_t i = 0; i < of->count; i++) {
        wanted *own = &of->wanted[i];
        own->first = entries;
        own->picked = missing;
        entries += own->count * span;
        missing += own->count > 0 ? own->missing : 0;
    }
    gz_code code = reserve(of, entries, missing, err);
    if (code != GZ_OK || !run(of, take_entries) || missing == 0)
        return code;
    gz_moment begin = gz_now();
    gz_picks_sort(of->picks, of->picks + of->pick_capacity, missing);
    code = read_picks(of, missing, &pages, err);
    gz_spent spent = gz_spent_since(&begin, true);
    for (int64_t i = 0; i < of->count; i++) {
        if (of->wanted[i].count == 0)
            continue;
        of->batches[i].batch->willneed.missing += share_of(of, i, missing, pages);
        add_spent(&of->batches[i].spent, (gz_spent){share_of(of, i, missing, spent.wall),
                                                    share_of(of, i, missing, spent.disk)});
    }
    return code;
}

/* The entries of one batch. */
static gz_ids entries_of(const group *of, int64_t number)
{
    return (gz_ids){gz_id_address(&of->entries, (uint64_t)of->wanted[number].first),
                    of->entries.wide};
}

static gz_code begin_batch(const group *of, int64_t number, gz_batch *batch, gz_error *err)
{
    return gz_batch_start(batch, &of->batches[number].plan, of->batches[number].seeds, err);
}

static gz_code sample_type(const group *of, int64_t number, gz_batch *batch, gz_error *err)
{
    return gz_batch_sample_type(batch, &of->batches[number].plan, of->edge_type, of->hop, err);
}

static gz_code draw(const group *of, int64_t number, gz_batch *batch, gz_error *err)
{
    const gz_ids ends = entries_of(of, number);
    if (of->wanted[number].count == 0)
        return GZ_OK;
    return gz_batch_draw(batch, &of->batches[number].plan, of->edge_type, of->hop, &ends, err);
}

static gz_code relabel(const group *of, int64_t number, gz_batch *batch, gz_error *err)
{
    const gz_ids neighbors = entries_of(of, number);
    if (of->wanted[number].count == 0)
        return GZ_OK;
    return gz_batch_relabel(batch, &of->batches[number].plan, of->edge_type, of->hop, &neighbors,
                            err);
}

static gz_code keep_ids(const group *of, int64_t number, gz_batch *batch, gz_error *err)
{
    const wanted *own = &of->wanted[number];
    const gz_ids ids = entries_of(of, number);
    gz_edge_list *edges = &batch->edges[of->edge_type];
    if (own->count == 0)
        return GZ_OK;
    gz_code code = gz_edges_reserve_ids(edges, err);
    if (code != GZ_OK)
        return code;
    int64_t *out = edges->ids + (own->rows - edges->positions);
    for (int64_t i = 0; i < own->count; i++) {
        uint64_t id = gz_id(&ids, (uint64_t)i);
        edges->corrupt += id >= of->readers[of->edge_type].id_limit;
        out[i] = (int64_t)id;
    }
    edges->has_ids = true;
    return GZ_OK;
}

static gz_code end_hop(const group *of, int64_t number, gz_batch *batch, gz_error *err)
{
    return gz_batch_end_hop(batch, &of->batches[number].plan, of->hop, err);
}

static gz_code end_batch(const group *of, int64_t number, gz_batch *batch, gz_error *err)
{
    return gz_batch_end(batch, &of->batches[number].plan, err);
}

/* The edges of one type in one hop of all batches. */
static gz_code read_type(group *of, const gz_csr *csr, gz_error *err)
{
    const gz_topology_reader *reader = &of->readers[of->edge_type];
    for (int64_t i = 0; i < of->count; i++) {
        const gz_group_batch *batch = &of->batches[i];
        int64_t count = 0;
        if (batch->code == GZ_OK) {
            batch->batch->edges[of->edge_type].hop_edges[of->hop] = 0;
            of->wanted[i].rows =
                gz_batch_frontier(batch->batch, &batch->plan, of->edge_type, of->hop, &count).nodes;
        }
        of->wanted[i].count = count;
    }
    gz_code code = fetch_entries(of, &csr->indptr, &reader->indptr, 2, err);
    if (code != GZ_OK || gz_is_stopped(of->stop) || !run(of, draw))
        return code;
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
    code = fetch_entries(of, &csr->indices, &reader->indices, 1, err);
    if (code != GZ_OK || gz_is_stopped(of->stop) || !run(of, relabel) || csr->edge_ids.data == NULL)
        return code;
    code = fetch_entries(of, &csr->edge_ids, &reader->edge_ids, 1, err);
    if (code == GZ_OK && !gz_is_stopped(of->stop))
        (void)run(of, keep_ids);
    return code;
}

static gz_code sample_all(group *of, gz_error *err)
{
    const gz_plan *plan = &of->batches[0].plan;
    gz_code code;
    bool goes_on = run(of, begin_batch);
    for (of->hop = 0; of->hop < plan->num_hops && goes_on; of->hop++) {
        for (of->edge_type = 0; of->edge_type < plan->num_edge_types && goes_on; of->edge_type++) {
            if (of->readers[of->edge_type].file == NULL)
                goes_on = run(of, sample_type);
            else if ((code = read_type(of, plan->edge_types[of->edge_type].csr, err)) != GZ_OK)
                return code;
            goes_on = goes_on && !gz_is_stopped(of->stop);
        }
        goes_on = goes_on && run(of, end_hop);
    }
    if (goes_on)
        (void)run(of, end_batch);
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
