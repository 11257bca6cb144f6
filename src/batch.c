#include "graphzero/batch.h"

#include <inttypes.h>

#include "graphzero/bounds.h"
#include "graphzero/induced.h"
#include "graphzero/padding.h"
#include "graphzero/sampling.h"

/* Frontier nodes that are drawn, read and relabelled together: their edges stay in the L1 cache
 * between these steps. Nodes with few edges make larger blocks: a step gives cache hints to the
 * next one, and the first entries of a block have none. */
enum { BLOCK = 64, BLOCK_EDGES = 1024 };

/* One edge type in one hop. The frontier is the nodes of `owner` from owner->first on. */
typedef struct step {
    gz_batch *batch;
    const gz_csr *csr;
    const gz_node_space *owner;
    gz_node_space *neighbor; /* the owner itself, where both have the same type */
    gz_edge_list *edges;
    const int64_t *until;
    gz_hop hop;
} step;

gz_code gz_batch_start(gz_batch *batch, const gz_plan *plan, const gz_seeds *seeds, gz_error *err)
{
    int64_t first_tree = 0, num_trees = 0;
    gz_code code = gz_batch_reserve_types(batch, plan->num_node_types, plan->num_edge_types, err);
    batch->willneed = (gz_willneed_counts){0, 0, 0};
    for (int i = 0; i < plan->num_node_types; i++)
        num_trees += seeds[i].count;
    for (int i = 0; i < plan->num_node_types && code == GZ_OK; i++) {
        code = gz_nodes_start(&batch->spaces[i], plan->num_nodes[i], plan->disjoint, seeds[i].ids,
                              seeds[i].count, first_tree, num_trees, err);
        first_tree += seeds[i].count;
    }
    for (int i = 0; i < plan->num_edge_types && code == GZ_OK; i++) {
        batch->edges[i].count = 0;
        batch->edges[i].corrupt = 0;
        batch->edges[i].has_ids = false;
    }
    return code;
}

/* Relabels the edges of frontier nodes [begin, end), whose sources are ids of neighbours until
 * then. The edges of frontier node i begin at batch->offsets[i]. */
static gz_code relabel_block(const step *s, int64_t begin, int64_t end, gz_error *err)
{
    const int64_t *offsets = s->batch->offsets;
    gz_edge_list *edges = s->edges;
    int64_t from = offsets[begin], to = offsets[end], first = s->owner->first;
    gz_code code =
        gz_idmap_reserve(&s->neighbor->map, (uint64_t)(s->neighbor->map.count + to - from), err);
    if (code != GZ_OK)
        return code;
    const gz_frontier frontier = gz_nodes_from(s->owner, first, s->until);
    for (int64_t i = begin; s->owner->disjoint && i < end; i++)
        for (int64_t edge = offsets[i]; edge < offsets[i + 1]; edge++)
            edges->sources[edge] += frontier.trees[i] * s->neighbor->num_ids;
    gz_idmap_relabel(&s->neighbor->map, edges->sources, from, to, edges->sources);
    for (int64_t i = begin; i < end; i++)
        for (int64_t edge = offsets[i]; edge < offsets[i + 1]; edge++)
            edges->targets[edge] = first + i;
    return GZ_OK;
}

/* Draws, reads and relabels the edges of frontier nodes [begin, end). */
static gz_code sample_block(const step *s, int64_t begin, int64_t end, gz_error *err)
{
    const int64_t *offsets = s->batch->offsets;
    gz_edge_list *edges = s->edges;
    const gz_frontier frontier = gz_nodes_from(s->owner, s->owner->first, s->until);
    edges->corrupt += gz_hop_positions(s->csr, &s->hop, &frontier, s->batch->lists, offsets, begin,
                                       end, edges->positions);
    edges->corrupt += gz_csr_read_neighbors(s->csr, edges->positions, offsets[begin], offsets[end],
                                            edges->sources);
    return relabel_block(s, begin, end, err);
}

/* The end of the block that begins with frontier node `begin`, of nodes up to `end`. */
static int64_t end_of_block(const int64_t *offsets, int64_t begin, int64_t end)
{
    int64_t after = begin + BLOCK < end ? begin + BLOCK : end;
    while (after < end && offsets[after] - offsets[begin] < BLOCK_EDGES)
        after++;
    return after;
}

/* Counts and samples the edges of frontier nodes [begin, end); they begin at batch->offsets[begin].
 */
static gz_code sample_part(const step *s, int64_t begin, int64_t end, gz_error *err)
{
    const gz_frontier frontier = gz_nodes_from(s->owner, s->owner->first, s->until);
    int64_t *offsets = s->batch->offsets;
    s->edges->corrupt +=
        gz_hop_counts(s->csr, &s->hop, &frontier, begin, end, s->batch->lists, offsets + 1);
    if (!gz_running_sums(offsets, begin, end))
        return gz_fail(err, GZ_E_NOMEM, 0, 0, "a hop of more than 2^63 edges");
    gz_code code = gz_edges_reserve(s->edges, offsets[end], err);
    for (int64_t i = begin, after; i < end && code == GZ_OK; i = after) {
        after = end_of_block(offsets, i, end);
        code = sample_block(s, i, after, err);
    }
    return code;
}

/* Requests what a part of the frontier from node `begin` on will read. */
static gz_code read_ahead(const step *s, const gz_edge_type *edge_type, int64_t begin,
                          int64_t count, gz_error *err)
{
    const gz_frontier rest = gz_nodes_from(s->owner, s->owner->first + begin, s->until);
    int64_t part = s->batch->ahead < count - begin ? s->batch->ahead : count - begin;
    if (part == 0)
        return GZ_OK;
    return gz_batch_read_hop_ahead(s->batch, edge_type, &s->hop, &rest, part, err);
}

/* After a hop with so many page faults. A hop that was smaller than what may be requested together
 * does not say that more could be. */
static void adapt(gz_batch *batch, int64_t count, uint64_t faults)
{
    int64_t used = batch->ahead < count ? batch->ahead : count;
    int64_t next = gz_ahead_adapted(used, GZ_WHOLE_HOP, count, faults);
    if (next < used || used == batch->ahead)
        batch->ahead = next;
}

static step step_of(gz_batch *batch, const gz_plan *plan, int number, int h)
{
    const gz_edge_type *edge_type = &plan->edge_types[number];
    return (step){.batch = batch,
                  .csr = edge_type->csr,
                  .owner = &batch->spaces[edge_type->owner],
                  .neighbor = &batch->spaces[edge_type->neighbor],
                  .edges = &batch->edges[number],
                  .until = plan->until,
                  .hop = {.fanout = edge_type->fanouts[h],
                          .rule = edge_type->rule,
                          .draws = gz_batch_draws(plan, number, h)}};
}

/* Some kinds read whole lists twice, to count and to draw: block by block, the second read hits the
 * cache. */
gz_code gz_batch_sample_type(gz_batch *batch, const gz_plan *plan, int number, int h, gz_error *err)
{
    const gz_edge_type *edge_type = &plan->edge_types[number];
    const step s = step_of(batch, plan, number, h);
    int64_t before = s.edges->count, count = s.owner->count - s.owner->first;
    s.edges->hop_edges[h] = 0;
    if (s.hop.fanout == 0 || count == 0)
        return GZ_OK;
    int64_t part = s.hop.rule.kind != NULL && s.hop.rule.kind->reads_twice ? BLOCK : count;
    gz_code code = gz_batch_reserve_frontier(batch, count, err);
    if (code != GZ_OK)
        return code;
    batch->offsets[0] = before;
    uint64_t faults = edge_type->readahead != NULL ? gz_major_faults() : 0;
    code = read_ahead(&s, edge_type, 0, count, err);
    for (int64_t i = 0, ahead = batch->ahead; i < count && code == GZ_OK; i += ahead) {
        int64_t end = i + ahead < count ? i + ahead : count;
        code = read_ahead(&s, edge_type, end, count, err);
        for (int64_t j = i; j < end && code == GZ_OK; j += part)
            code = sample_part(&s, j, j + part < end ? j + part : end, err);
    }
    if (edge_type->readahead != NULL)
        adapt(batch, count, gz_major_faults() - faults);
    if (code != GZ_OK)
        return code;
    s.edges->count = batch->offsets[count];
    s.edges->hop_edges[h] = s.edges->count - before;
    return GZ_OK;
}

gz_frontier gz_batch_frontier(const gz_batch *batch, const gz_plan *plan, int number, int h,
                              int64_t *count)
{
    const gz_edge_type *edge_type = &plan->edge_types[number];
    const gz_node_space *owner = &batch->spaces[edge_type->owner];
    *count = edge_type->fanouts[h] == 0 ? 0 : owner->count - owner->first;
    return gz_nodes_from(owner, owner->first, plan->until);
}

gz_code gz_batch_draw(gz_batch *batch, const gz_plan *plan, int number, int h, const gz_ids *ends,
                      gz_error *err)
{
    const step s = step_of(batch, plan, number, h);
    int64_t count;
    const gz_frontier frontier = gz_batch_frontier(batch, plan, number, h, &count);
    gz_code code = gz_batch_reserve_frontier(batch, count, err);
    if (code != GZ_OK)
        return code;
    int64_t *offsets = batch->offsets;
    offsets[0] = s.edges->count;
    for (int64_t i = 0; i < count; i++) {
        gz_list *list = &batch->lists[i];
        list->first = gz_id(ends, 2 * (uint64_t)i);
        list->degree = gz_csr_list_length(s.csr, list->first, gz_id(ends, 2 * (uint64_t)i + 1),
                                          &s.edges->corrupt);
        offsets[i + 1] = gz_hop_count(&s.hop, list->degree);
    }
    if (!gz_running_sums(offsets, 0, count))
        return gz_fail(err, GZ_E_NOMEM, 0, 0, "a hop of more than 2^63 edges");
    code = gz_edges_reserve(s.edges, offsets[count], err);
    if (code == GZ_OK)
        s.edges->corrupt += gz_hop_positions(s.csr, &s.hop, &frontier, batch->lists, offsets, 0,
                                             count, s.edges->positions);
    return code;
}

gz_code gz_batch_relabel(gz_batch *batch, const gz_plan *plan, int number, int h,
                         const gz_ids *neighbors, gz_error *err)
{
    const step s = step_of(batch, plan, number, h);
    const int64_t *offsets = batch->offsets;
    int64_t count;
    gz_code code = GZ_OK;
    (void)gz_batch_frontier(batch, plan, number, h, &count);
    for (int64_t edge = offsets[0]; edge < offsets[count]; edge++)
        s.edges->sources[edge] = (int64_t)gz_csr_checked(
            s.csr, gz_id(neighbors, (uint64_t)(edge - offsets[0])), &s.edges->corrupt);
    for (int64_t i = 0, after; i < count && code == GZ_OK; i = after) {
        after = end_of_block(offsets, i, count);
        code = relabel_block(&s, i, after, err);
    }
    s.edges->count = offsets[count];
    s.edges->hop_edges[h] = offsets[count] - offsets[0];
    return code;
}

gz_code gz_batch_end_hop(gz_batch *batch, const gz_plan *plan, int h, gz_error *err)
{
    gz_code code = GZ_OK;
    for (int i = 0; i < plan->num_node_types && code == GZ_OK; i++) {
        gz_node_space *space = &batch->spaces[i];
        code = gz_nodes_take(space, err);
        space->hop_nodes[h + 1] = space->count - space->first;
    }
    return code;
}

gz_code gz_batch_sample(gz_batch *batch, const gz_plan *plan, const gz_seeds *seeds, gz_error *err)
{
    gz_code code = gz_batch_start(batch, plan, seeds, err);
    for (int h = 0; h < plan->num_hops && code == GZ_OK; h++) {
        for (int i = 0; i < plan->num_edge_types && code == GZ_OK; i++)
            code = gz_batch_sample_type(batch, plan, i, h, err);
        if (code == GZ_OK)
            code = gz_batch_end_hop(batch, plan, h, err);
    }
    if (code == GZ_OK && plan->induced)
        code = gz_batch_induce(batch, plan, err);
    if (code == GZ_OK)
        code = gz_batch_pad(batch, plan, err);
    return code;
}
