#include "graphzero/node_space.h"

#include <inttypes.h>
#include <string.h>

#include "graphzero/growable.h"

void gz_nodes_init(gz_node_space *space)
{
    memset(space, 0, sizeof *space);
    gz_idmap_init(&space->map);
}

void gz_nodes_free(gz_node_space *space)
{
    gz_idmap_free(&space->map);
    gz_free_array(space->trees);
    gz_free_array(space->of_trees);
    gz_nodes_init(space);
}

void gz_nodes_rest(gz_node_space *space)
{
    gz_idmap_rest(&space->map);
    gz_rest_array(space->trees);
    gz_rest_array(space->of_trees);
}

gz_code gz_nodes_reserve_trees(gz_node_space *space, int64_t count, gz_error *err)
{
    int64_t capacity = count + count / 2;
    if (count <= space->tree_capacity)
        return GZ_OK;
    int64_t *trees = gz_grown(space->trees, capacity, sizeof *trees, "nodes of trees", err);
    if (trees == NULL)
        return err->code;
    space->trees = trees;
    int64_t *of_trees =
        gz_grown(space->of_trees, capacity, sizeof *of_trees, "nodes of trees", err);
    if (of_trees == NULL)
        return err->code;
    space->of_trees = of_trees;
    space->tree_capacity = capacity;
    return GZ_OK;
}

gz_code gz_nodes_take(gz_node_space *space, gz_error *err)
{
    int64_t from = space->count, to = space->map.count;
    space->first = from;
    space->count = to;
    if (!space->disjoint)
        return GZ_OK;
    gz_code code = gz_nodes_reserve_trees(space, to, err);
    if (code != GZ_OK)
        return code;
    for (int64_t i = from; i < to; i++) {
        space->trees[i] = space->map.nodes[i] / space->num_ids;
        space->of_trees[i] = space->map.nodes[i] % space->num_ids;
    }
    return GZ_OK;
}

gz_code gz_nodes_start(gz_node_space *space, int64_t num_ids, bool disjoint, const int64_t *seeds,
                       int64_t count, int64_t first_tree, int64_t num_trees, gz_error *err)
{
    if (disjoint && num_trees > 0 && num_ids > INT64_MAX / num_trees)
        return gz_fail(err, GZ_E_NOMEM, 0, 0,
                       "%" PRId64 " disjoint trees over %" PRId64
                       " nodes need ids of more than 63 bits",
                       num_trees, num_ids);
    space->num_ids = num_ids;
    space->disjoint = disjoint;
    space->count = 0;
    gz_idmap_clear(&space->map, disjoint || num_ids > INT64_C(1) << 32);
    gz_code code = gz_idmap_reserve(&space->map, (uint64_t)count, err);
    if (code != GZ_OK)
        return code;
    if (!disjoint)
        gz_idmap_seed(&space->map, seeds, count);
    for (int64_t i = 0; disjoint && i < count; i++) {
        int64_t pair = (first_tree + i) * num_ids + seeds[i];
        gz_idmap_seed(&space->map, &pair, 1);
    }
    space->hop_nodes[0] = count;
    return gz_nodes_take(space, err);
}
