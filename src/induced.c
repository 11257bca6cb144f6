#include "graphzero/induced.h"

#include "graphzero/temporal.h"

/* How many entries ahead of a look-up its slot is hinted at. */
enum { HINT_DISTANCE = 16 };

/* Appends the edges of node `target` of the batch; room for them must be reserved. */
static void induce_node(gz_batch *batch, const gz_plan *plan, int64_t target, uint64_t first,
                        uint64_t degree)
{
    const gz_node_space *space = &batch->spaces[0];
    gz_edge_list *edges = &batch->edges[0];
    const gz_csr *csr = plan->edge_types[0].csr;
    const gz_rule *rule = &plan->edge_types[0].rule;
    int64_t tree = space->disjoint ? space->trees[target] : 0;
    int64_t base = tree * space->num_ids, edge = edges->count;
    for (uint64_t i = first; i < first + degree; i++) {
        if (i + HINT_DISTANCE < first + degree)
            gz_idmap_hint(&space->map, base + (int64_t)gz_id(&csr->indices, i + HINT_DISTANCE));
        if (rule->time != GZ_TIME_ANY &&
            !gz_edge_is_until(csr, i, plan->until[tree], rule->strictly))
            continue;
        int64_t source =
            gz_idmap_find(&space->map, base + (int64_t)gz_csr_neighbor(csr, i, &edges->corrupt));
        if (source < 0)
            continue;
        edges->sources[edge] = source;
        edges->targets[edge] = target;
        edges->positions[edge++] = (int64_t)i;
    }
    edges->count = edge;
}

gz_code gz_batch_induce(gz_batch *batch, const gz_plan *plan, gz_error *err)
{
    const gz_edge_type *edge_type = &plan->edge_types[0];
    const gz_csr *csr = edge_type->csr;
    const gz_hop all = {.fanout = -1, .rule = {.time = edge_type->rule.time}};
    const gz_node_space *space = &batch->spaces[0];
    gz_edge_list *edges = &batch->edges[0];
    const gz_frontier nodes = gz_nodes_from(space, 0, plan->until);
    gz_code code = gz_batch_read_hop_ahead(batch, edge_type, &all, &nodes, space->count, err);
    if (code != GZ_OK)
        return code;
    edges->count = 0;
    for (int64_t i = 0; i < space->count; i++) {
        uint64_t first, degree;
        if (i + HINT_DISTANCE < space->count)
            gz_cache_hint(gz_id_address(&csr->indptr, (uint64_t)nodes.nodes[i + HINT_DISTANCE]));
        degree = gz_csr_list(csr, (uint64_t)nodes.nodes[i], &first, &edges->corrupt);
        code = gz_edges_reserve(edges, edges->count + (int64_t)degree, err);
        if (code != GZ_OK)
            return code;
        induce_node(batch, plan, i, first, degree);
    }
    return GZ_OK;
}
