#include "graphzero/batch.h"

#include <inttypes.h>

#include "graphzero/bounds.h"
#include "graphzero/induced.h"
#include "graphzero/sampling.h"

/* Frontier nodes that are drawn, read and relabelled together: their edges stay in the L1 cache
 * between these steps. */
enum { BLOCK = 64 };

/* Adds the ids that the map has numbered since the last call to the batch's nodes. */
static gz_code take_new_nodes(gz_batch *batch, const gz_csr *csr, const gz_plan *plan,
                              gz_error *err)
{
    int64_t from = batch->num_nodes, to = batch->map.count;
    batch->num_nodes = to;
    if (!plan->disjoint)
        return GZ_OK;
    gz_code code = gz_batch_reserve_trees(batch, to, err);
    if (code != GZ_OK)
        return code;
    for (int64_t i = from; i < to; i++) {
        batch->trees[i] = batch->map.nodes[i] / (int64_t)csr->num_nodes;
        batch->of_trees[i] = batch->map.nodes[i] % (int64_t)csr->num_nodes;
    }
    return GZ_OK;
}

/* Numbers the seeds. */
static gz_code start(gz_batch *batch, const gz_csr *csr, const gz_plan *plan, const int64_t *seeds,
                     int64_t count, gz_error *err)
{
    int64_t num_nodes = (int64_t)csr->num_nodes;
    gz_idmap_clear(&batch->map, csr->indices.wide || plan->disjoint);
    batch->num_edges = batch->num_nodes = 0;
    batch->willneed = (gz_willneed_counts){0, 0, 0};
    gz_code code = gz_idmap_reserve(&batch->map, (uint64_t)count, err);
    if (code != GZ_OK)
        return code;
    if (!plan->disjoint) {
        gz_idmap_seed(&batch->map, seeds, count);
    } else {
        if (count > 0 && num_nodes > INT64_MAX / count)
            return gz_fail(err, GZ_E_NOMEM, 0, 0,
                           "%" PRId64 " disjoint trees over %" PRId64
                           " nodes need ids of more than 63 bits",
                           count, num_nodes);
        for (int64_t i = 0; i < count; i++) {
            int64_t pair = i * num_nodes + seeds[i];
            gz_idmap_seed(&batch->map, &pair, 1);
        }
    }
    batch->hop_nodes[0] = count;
    return take_new_nodes(batch, csr, plan, err);
}

/* Draws, reads and relabels the edges of frontier nodes [begin, end). Frontier node i is node first
 * + i of the batch; its edges begin at batch->offsets[i]. */
static gz_code sample_block(gz_batch *batch, const gz_csr *csr, const gz_plan *plan,
                            const gz_hop *hop, int64_t first, int64_t begin, int64_t end,
                            uint64_t *corrupt, gz_error *err)
{
    const int64_t *offsets = batch->offsets;
    int64_t from = offsets[begin], to = offsets[end];
    gz_code code = gz_idmap_reserve(&batch->map, (uint64_t)(batch->map.count + to - from), err);
    if (code != GZ_OK)
        return code;
    const gz_frontier frontier = gz_batch_frontier(batch, plan, first);
    *corrupt +=
        gz_hop_positions(csr, hop, &frontier, batch->lists, offsets, begin, end, batch->positions);
    *corrupt += gz_csr_read_neighbors(csr, batch->positions, from, to, batch->sources);
    for (int64_t i = begin; plan->disjoint && i < end; i++)
        for (int64_t edge = offsets[i]; edge < offsets[i + 1]; edge++)
            batch->sources[edge] += frontier.trees[i] * (int64_t)csr->num_nodes;
    gz_idmap_relabel(&batch->map, batch->sources, from, to, batch->sources);
    for (int64_t i = begin; i < end; i++)
        for (int64_t edge = offsets[i]; edge < offsets[i + 1]; edge++)
            batch->targets[edge] = first + i;
    return GZ_OK;
}

/* Counts and samples the edges of frontier nodes [begin, end); they begin at batch->offsets[begin].
 */
static gz_code sample_part(gz_batch *batch, const gz_csr *csr, const gz_plan *plan,
                           const gz_hop *hop, int64_t first, int64_t begin, int64_t end,
                           uint64_t *corrupt, gz_error *err)
{
    const gz_frontier frontier = gz_batch_frontier(batch, plan, first);
    int64_t *offsets = batch->offsets;
    *corrupt += gz_hop_counts(csr, hop, &frontier, begin, end, batch->lists, offsets + 1);
    if (!gz_running_sums(offsets, begin, end))
        return gz_fail(err, GZ_E_NOMEM, 0, 0, "a hop of more than 2^63 edges");
    gz_code code = gz_batch_reserve_edges(batch, offsets[end], err);
    for (int64_t i = begin; i < end && code == GZ_OK; i += BLOCK)
        code = sample_block(batch, csr, plan, hop, first, i, i + BLOCK < end ? i + BLOCK : end,
                            corrupt, err);
    return code;
}

/* The frontier is nodes [first, first + count) of the batch. Some kinds read
 * whole lists twice, to count and to draw: block by block, the second read hits the cache. */
static gz_code sample_hop(gz_batch *batch, const gz_csr *csr, const gz_plan *plan,
                          const gz_hop *hop, int64_t first, int64_t count, uint64_t *corrupt,
                          gz_error *err)
{
    int64_t part = hop->rule.kind != NULL && hop->rule.kind->reads_twice ? BLOCK : count;
    gz_code code = gz_batch_reserve_frontier(batch, count, err);
    if (code == GZ_OK)
        code = gz_batch_read_hop_ahead(batch, csr, plan, hop, first, count, err);
    if (code != GZ_OK)
        return code;
    batch->offsets[0] = batch->num_edges;
    for (int64_t i = 0; i < count && code == GZ_OK; i += part)
        code = sample_part(batch, csr, plan, hop, first, i, i + part < count ? i + part : count,
                           corrupt, err);
    if (code != GZ_OK)
        return code;
    batch->num_edges = batch->offsets[count];
    return take_new_nodes(batch, csr, plan, err);
}

gz_code gz_batch_sample(gz_batch *batch, const gz_csr *csr, const gz_plan *plan,
                        const int64_t *seeds, int64_t count, uint64_t *corrupt, gz_error *err)
{
    int64_t first = 0;
    *corrupt = 0;
    gz_code code = start(batch, csr, plan, seeds, count, err);
    for (int h = 0; h < plan->num_hops && code == GZ_OK; h++) {
        gz_hop hop = {.fanout = plan->fanouts[h],
                      .rule = plan->rule,
                      .draws = gz_draws_below(&plan->draws, (uint64_t)h)};
        int64_t edges_before = batch->num_edges, frontier = batch->hop_nodes[h];
        code = sample_hop(batch, csr, plan, &hop, first, frontier, corrupt, err);
        first += frontier;
        batch->hop_nodes[h + 1] = batch->num_nodes - first;
        batch->hop_edges[h] = batch->num_edges - edges_before;
    }
    batch->nodes = gz_batch_stored_ids(batch, plan);
    if (code == GZ_OK && plan->induced)
        code = gz_batch_induce(batch, csr, plan, corrupt, err);
    return code;
}
