#include "graphzero/batch.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "graphzero/rng.h"
#include "graphzero/sampling.h"

/* Frontier nodes between two steps of the pipeline draw, read, relabel: their edges stay in the
 * first-level cache from one step to the next. */
enum { BLOCK = 64 };

void gz_batch_init(gz_batch *batch)
{
    memset(batch, 0, sizeof *batch);
    gz_idmap_init(&batch->map);
}

void gz_batch_free(gz_batch *batch)
{
    gz_idmap_free(&batch->map);
    free(batch->sources);
    free(batch->targets);
    free(batch->positions);
    free(batch->offsets);
    free(batch->rows);
    gz_batch_init(batch);
}

/* An array moved to where there is room for `room` elements; NULL, and unchanged, if nowhere. */
static void *grown(void *array, int64_t room, size_t element, gz_error *err)
{
    void *larger = NULL;
    if ((uint64_t)room < SIZE_MAX / element)
        larger = realloc(array, (size_t)room * element);
    if (larger == NULL)
        gz_fail(err, GZ_E_NOMEM, 0, 0, "no memory for %" PRId64 " sampled edges", room);
    return larger;
}

/* Half as much again as is needed: a longer batch seldom moves them twice. */
static gz_code reserve_edges(gz_batch *batch, int64_t count, gz_error *err)
{
    int64_t **arrays[] = {&batch->sources, &batch->targets, &batch->positions};
    int64_t room = count + count / 2;
    if (count <= batch->edge_room)
        return GZ_OK;
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
        int64_t *larger = grown(*arrays[i], room, sizeof *larger, err);
        if (larger == NULL)
            return err->code;
        *arrays[i] = larger;
    }
    batch->edge_room = room;
    return GZ_OK;
}

static gz_code reserve_frontier(gz_batch *batch, int64_t count, gz_error *err)
{
    int64_t room = count + count / 2 + 1;
    if (count < batch->frontier_room)
        return GZ_OK;
    int64_t *offsets = grown(batch->offsets, room, sizeof *offsets, err);
    if (offsets == NULL)
        return err->code;
    batch->offsets = offsets;
    gz_row *rows = grown(batch->rows, room, sizeof *rows, err);
    if (rows == NULL)
        return err->code;
    batch->rows = rows;
    batch->frontier_room = room;
    return GZ_OK;
}

/* Draws, reads and relabels the edges of frontier nodes [begin, end), which are the nodes
 * first + begin and on of the batch; batch->offsets are where their edges go. */
static gz_code sample_block(gz_batch *batch, const gz_csr *csr, const gz_hop *hop, int64_t first,
                            int64_t begin, int64_t end, uint64_t *corrupt, gz_error *err)
{
    const int64_t *offsets = batch->offsets;
    int64_t from = offsets[begin], to = offsets[end];
    gz_code code = gz_idmap_reserve(&batch->map, (uint64_t)(batch->map.count + to - from), err);
    if (code != GZ_OK)
        return code;
    *corrupt += gz_hop_positions(csr, hop, batch->map.nodes + first, batch->rows, offsets, begin,
                                 end, batch->positions);
    *corrupt += gz_csr_read_neighbors(csr, batch->positions, from, to, batch->sources);
    gz_idmap_relabel(&batch->map, batch->sources, from, to, batch->sources);
    for (int64_t i = begin; i < end; i++)
        for (int64_t edge = offsets[i]; edge < offsets[i + 1]; edge++)
            batch->targets[edge] = first + i;
    return GZ_OK;
}

/* The frontier is nodes [first, first + count) of the batch. */
static gz_code sample_hop(gz_batch *batch, const gz_csr *csr, const gz_hop *hop, int64_t first,
                          int64_t count, uint64_t *corrupt, gz_error *err)
{
    gz_code code = reserve_frontier(batch, count, err);
    if (code != GZ_OK)
        return code;
    int64_t *offsets = batch->offsets;
    *corrupt +=
        gz_hop_counts(csr, hop, batch->map.nodes + first, 0, count, batch->rows, offsets + 1);
    offsets[0] = batch->num_edges;
    for (int64_t i = 0; i < count; i++)
        offsets[i + 1] += offsets[i];
    code = reserve_edges(batch, offsets[count], err);
    for (int64_t i = 0; i < count && code == GZ_OK; i += BLOCK)
        code = sample_block(batch, csr, hop, first, i, i + BLOCK < count ? i + BLOCK : count,
                            corrupt, err);
    batch->num_edges = offsets[count];
    return code;
}

gz_code gz_batch_sample(gz_batch *batch, const gz_csr *csr, const gz_plan *plan,
                        const int64_t *seeds, int64_t count, uint64_t *corrupt, gz_error *err)
{
    int64_t first = 0;
    gz_idmap_clear(&batch->map, csr->indices.wide);
    batch->num_edges = 0;
    *corrupt = 0;
    gz_code code = gz_idmap_reserve(&batch->map, (uint64_t)count, err);
    if (code != GZ_OK)
        return code;
    gz_idmap_seed(&batch->map, seeds, count);
    batch->hop_nodes[0] = count;
    for (int h = 0; h < plan->num_hops; h++) {
        gz_hop hop = {.fanout = plan->fanouts[h],
                      .replace = plan->replace,
                      .by_seed = false,
                      .weighted = plan->weighted,
                      .key = gz_stream(plan->key, (uint64_t)h)};
        int64_t edges_before = batch->num_edges, frontier = batch->hop_nodes[h];
        code = sample_hop(batch, csr, &hop, first, frontier, corrupt, err);
        if (code != GZ_OK)
            return code;
        first += frontier;
        batch->hop_nodes[h + 1] = batch->map.count - first;
        batch->hop_edges[h] = batch->num_edges - edges_before;
    }
    return GZ_OK;
}
