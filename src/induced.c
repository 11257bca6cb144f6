#include "graphzero/induced.h"

#include "graphzero/temporal.h"

/* How many entries ahead of a look-up its slot is hinted at. */
enum { HINT_DISTANCE = 16 };

/* Appends the edges of node `target` of the batch; room for them must be reserved. */
static void induce_node(gz_batch *batch, const gz_csr *csr, const gz_plan *plan, int64_t target,
                        uint64_t first, uint64_t degree, uint64_t *corrupt)
{
    int64_t tree = plan->disjoint ? batch->trees[target] : 0;
    int64_t base = tree * (int64_t)csr->num_nodes, edge = batch->num_edges;
    for (uint64_t i = first; i < first + degree; i++) {
        if (i + HINT_DISTANCE < first + degree)
            gz_idmap_hint(&batch->map, base + (int64_t)gz_id(&csr->indices, i + HINT_DISTANCE));
        if (plan->rule.time != GZ_TIME_ANY &&
            !gz_edge_is_until(csr, i, plan->until[tree], plan->rule.strictly))
            continue;
        int64_t source =
            gz_idmap_find(&batch->map, base + (int64_t)gz_csr_neighbor(csr, i, corrupt));
        if (source < 0)
            continue;
        batch->sources[edge] = source;
        batch->targets[edge] = target;
        batch->positions[edge++] = (int64_t)i;
    }
    batch->num_edges = edge;
}

gz_code gz_batch_induce(gz_batch *batch, const gz_csr *csr, const gz_plan *plan, uint64_t *corrupt,
                        gz_error *err)
{
    const gz_hop all = {.fanout = -1, .rule = {.time = plan->rule.time}};
    gz_code code = gz_batch_read_hop_ahead(batch, csr, plan, &all, 0, batch->num_nodes, err);
    if (code != GZ_OK)
        return code;
    batch->num_edges = 0;
    for (int64_t i = 0; i < batch->num_nodes; i++) {
        uint64_t first, degree;
        if (i + HINT_DISTANCE < batch->num_nodes)
            gz_cache_hint(gz_id_address(&csr->indptr, (uint64_t)batch->nodes[i + HINT_DISTANCE]));
        degree = gz_csr_list(csr, (uint64_t)batch->nodes[i], &first, corrupt);
        code = gz_batch_reserve_edges(batch, batch->num_edges + (int64_t)degree, err);
        if (code != GZ_OK)
            return code;
        induce_node(batch, csr, plan, i, first, degree, corrupt);
    }
    return GZ_OK;
}
