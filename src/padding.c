#include "graphzero/padding.h"

/* The hops of one type: its real nodes or edges, and the sizes. */
typedef struct hops {
    const int64_t *real, *sizes;
    int count;
} hops;

static hops nodes_of(const gz_batch *batch, const gz_plan *plan, int size, int type)
{
    const int count = plan->num_hops + 1;
    const int64_t at = ((int64_t)size * plan->num_node_types + type) * count;
    return (hops){batch->spaces[type].hop_nodes, plan->node_sizes + at, count};
}

static hops edges_of(const gz_batch *batch, const gz_plan *plan, int size, int type)
{
    const int count = plan->num_hops;
    const int64_t at = ((int64_t)size * plan->num_edge_types + type) * count;
    return (hops){batch->edges[type].hop_edges, plan->edge_sizes + at, count};
}

static bool fits(const gz_batch *batch, const gz_plan *plan, int size)
{
    bool all = true;
    for (int i = 0; i < plan->num_node_types; i++) {
        hops nodes = nodes_of(batch, plan, size, i);
        for (int h = 0; h < nodes.count; h++)
            all = all && nodes.real[h] + (nodes.sizes[h] > 0) <= nodes.sizes[h];
    }
    for (int i = 0; i < plan->num_edge_types; i++) {
        hops edges = edges_of(batch, plan, size, i);
        hops sources = nodes_of(batch, plan, size, plan->edge_types[i].neighbor);
        hops targets = nodes_of(batch, plan, size, plan->edge_types[i].owner);
        for (int h = 0; h < edges.count; h++) {
            bool has_ends = sources.sizes[h + 1] > 0 && targets.sizes[h] > 0;
            all = all && edges.real[h] <= edges.sizes[h] && (edges.sizes[h] == 0 || has_ends);
        }
    }
    return all;
}

/* Local ids with the nodes that are added to hops from `first` to `last`, and those of hops before
 * for sure; from the last id to the first, because they need more room than before. */
static void move_ids(const hops *nodes, int first, int last, const int64_t *ids, int64_t count,
                     int64_t *out)
{
    int64_t ends[GZ_MOST_HOPS + 1], added[GZ_MOST_HOPS + 1], end = 0, for_sure = 0;
    for (int h = 0; h < last; h++) {
        end += nodes->real[h];
        ends[h] = end;
        added[h] = nodes->sizes[h] - nodes->real[h];
        for_sure += h < first ? added[h] : 0;
    }
    for (int64_t i = count - 1; i >= 0; i--) {
        int64_t id = ids[i], more = for_sure;
        for (int h = first; h < last; h++)
            more += id >= ends[h] ? added[h] : 0;
        out[i] = id + more;
    }
}

/* `count` ends of edges, ascending, among the nodes that are added to a hop. */
static void spread(const hops *nodes, int hop, int64_t count, int64_t *out)
{
    int64_t first = nodes->real[hop], added = nodes->sizes[hop] - nodes->real[hop];
    for (int h = 0; h < hop; h++)
        first += nodes->sizes[h];
    for (int64_t i = 0, node = 0, end; i < count; node++)
        for (end = i + (count - i + added - node - 1) / (added - node); i < end; i++)
            out[i] = first + node;
}

/* Moves the ends of one type's edges. Targets are of the hop before theirs; sources are of theirs
 * or of an earlier one. */
static void pad_ends(const hops *edges, const hops *nodes, int is_source, int64_t *ends)
{
    int64_t from = 0, to = 0;
    for (int h = 0; h < edges->count; h++) {
        from += edges->real[h];
        to += edges->sizes[h];
    }
    for (int h = edges->count - 1; h >= 0; h--) {
        from -= edges->real[h];
        to -= edges->sizes[h];
        move_ids(nodes, is_source ? 0 : h, h + is_source, ends + from, edges->real[h], ends + to);
        spread(nodes, h + is_source, edges->sizes[h] - edges->real[h], ends + to + edges->real[h]);
    }
}

gz_code gz_batch_pad(gz_batch *batch, const gz_plan *plan, gz_error *err)
{
    int size = 0;
    batch->size = -1;
    while (size < plan->num_sizes && !fits(batch, plan, size))
        size++;
    if (size == plan->num_sizes)
        return GZ_OK;
    for (int i = 0; i < plan->num_edge_types; i++) {
        const hops edges = edges_of(batch, plan, size, i);
        const hops sources = nodes_of(batch, plan, size, plan->edge_types[i].neighbor);
        const hops targets = nodes_of(batch, plan, size, plan->edge_types[i].owner);
        int64_t total = 0;
        for (int h = 0; h < edges.count; h++)
            total += edges.sizes[h];
        gz_code code = gz_edges_reserve(&batch->edges[i], total, err);
        if (code != GZ_OK)
            return code;
        pad_ends(&edges, &sources, 1, batch->edges[i].sources);
        pad_ends(&edges, &targets, 0, batch->edges[i].targets);
    }
    batch->size = size;
    return GZ_OK;
}
