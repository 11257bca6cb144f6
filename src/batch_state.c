#include "graphzero/batch_state.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "graphzero/bounds.h"

void gz_batch_init(gz_batch *batch)
{
    memset(batch, 0, sizeof *batch);
    gz_idmap_init(&batch->map);
}

void gz_batch_free(gz_batch *batch)
{
    gz_idmap_free(&batch->map);
    free(batch->trees);
    free(batch->of_trees);
    free(batch->sources);
    free(batch->targets);
    free(batch->positions);
    free(batch->offsets);
    free(batch->lists);
    free(batch->picks);
    gz_batch_init(batch);
}

/* The array, reallocated for `capacity` elements; NULL, with the array unchanged, on failure. */
static void *grown(void *array, int64_t capacity, size_t element, gz_error *err)
{
    void *larger = NULL;
    if ((uint64_t)capacity < SIZE_MAX / element)
        larger = realloc(array, (size_t)capacity * element);
    if (larger == NULL)
        gz_fail(err, GZ_E_NOMEM, 0, 0, "no memory for %" PRId64 " sampled edges", capacity);
    return larger;
}

/* Reserves half as much again, so that slightly longer batches do not reallocate. */
gz_code gz_batch_reserve_edges(gz_batch *batch, int64_t count, gz_error *err)
{
    int64_t **arrays[] = {&batch->sources, &batch->targets, &batch->positions};
    if (count <= batch->edge_capacity)
        return GZ_OK;
    if (!gz_fits_memory(count, sizeof arrays / sizeof arrays[0] * sizeof **arrays[0]))
        return gz_fail(err, GZ_E_NOMEM, 0, 0,
                       "%" PRId64 " sampled edges are more than the memory of this machine holds",
                       count);
    int64_t capacity = count + count / 2;
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
        int64_t *larger = grown(*arrays[i], capacity, sizeof *larger, err);
        if (larger == NULL)
            return err->code;
        *arrays[i] = larger;
    }
    batch->edge_capacity = capacity;
    return GZ_OK;
}

gz_code gz_batch_reserve_frontier(gz_batch *batch, int64_t count, gz_error *err)
{
    int64_t capacity = count + count / 2 + 1;
    if (count < batch->frontier_capacity)
        return GZ_OK;
    int64_t *offsets = grown(batch->offsets, capacity, sizeof *offsets, err);
    if (offsets == NULL)
        return err->code;
    batch->offsets = offsets;
    gz_list *lists = grown(batch->lists, capacity, sizeof *lists, err);
    if (lists == NULL)
        return err->code;
    batch->lists = lists;
    batch->frontier_capacity = capacity;
    return GZ_OK;
}

gz_code gz_batch_reserve_trees(gz_batch *batch, int64_t count, gz_error *err)
{
    int64_t capacity = count + count / 2;
    if (count <= batch->tree_capacity)
        return GZ_OK;
    int64_t *trees = grown(batch->trees, capacity, sizeof *trees, err);
    if (trees == NULL)
        return err->code;
    batch->trees = trees;
    int64_t *of_trees = grown(batch->of_trees, capacity, sizeof *of_trees, err);
    if (of_trees == NULL)
        return err->code;
    batch->of_trees = of_trees;
    batch->tree_capacity = capacity;
    return GZ_OK;
}

const int64_t *gz_batch_stored_ids(const gz_batch *batch, const gz_plan *plan)
{
    return plan->disjoint ? batch->of_trees : batch->map.nodes;
}

gz_frontier gz_batch_frontier(const gz_batch *batch, const gz_plan *plan, int64_t first)
{
    return (gz_frontier){.nodes = gz_batch_stored_ids(batch, plan) + first,
                         .trees = plan->disjoint ? batch->trees + first : NULL,
                         .until = plan->until};
}

gz_code gz_batch_read_hop_ahead(gz_batch *batch, const gz_csr *csr, const gz_plan *plan,
                                const gz_hop *hop, int64_t first, int64_t count, gz_error *err)
{
    if (plan->readahead == NULL)
        return GZ_OK;
    if (count > batch->pick_capacity) {
        int64_t capacity = count + count / 2;
        gz_pick *picks = grown(batch->picks, 2 * capacity, sizeof *picks, err);
        if (picks == NULL)
            return err->code;
        batch->picks = picks;
        batch->pick_capacity = capacity;
    }
    const gz_frontier frontier = gz_batch_frontier(batch, plan, first);
    gz_read_hop_ahead(plan->readahead, csr, hop, &frontier, count, batch->picks,
                      batch->picks + batch->pick_capacity, &batch->willneed);
    return GZ_OK;
}
