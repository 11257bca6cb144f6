#include "graphzero/node_space.h"

#include <stddef.h>

#include "check.h"

enum { IDS = 100, MORE = 1000 };

static gz_node_space space;
static gz_error err;

/* Numbers ids as a hop does. */
static void reach(const int64_t *ids, int64_t count)
{
    int64_t local[IDS];
    CHECK_EQ(gz_idmap_reserve(&space.map, (uint64_t)(space.map.count + count), &err), GZ_OK);
    gz_idmap_relabel(&space.map, ids, 0, count, local);
    CHECK_EQ(gz_nodes_take(&space, &err), GZ_OK);
}

static void seeds_come_first_then_the_new_nodes(void)
{
    const int64_t seeds[] = {3, 1, 3}, reached[] = {1, 7, 3, 9};
    gz_nodes_init(&space);
    for (int round = 0; round < 2; round++) {
        CHECK_EQ(gz_nodes_start(&space, IDS, false, seeds, 3, 0, 3, &err), GZ_OK);
        CHECK(space.first == 0 && space.count == 3 && space.hop_nodes[0] == 3);
        reach(reached, 4);
        CHECK(space.first == 3 && space.count == 5);
        gz_frontier frontier = gz_nodes_from(&space, space.first, NULL);
        CHECK(frontier.nodes[0] == 7 && frontier.nodes[1] == 9 && frontier.trees == NULL);
        reach(reached, 4);
        CHECK(space.first == 5 && space.count == 5);
    }
    gz_nodes_free(&space);
}

static void trees_share_no_nodes(void)
{
    const int64_t seeds[] = {3, 3}, pairs[] = {4 * IDS + 7, 5 * IDS + 7, 4 * IDS + 3},
                  times[] = {0};
    gz_nodes_init(&space);
    CHECK_EQ(gz_nodes_start(&space, IDS, true, seeds, 2, 4, 6, &err), GZ_OK);
    reach(pairs, 3);
    CHECK(space.first == 2 && space.count == 4);
    const int64_t ids[] = {3, 3, 7, 7}, trees[] = {4, 5, 4, 5};
    for (int i = 0; i < 4; i++)
        CHECK(gz_nodes_ids(&space)[i] == ids[i] && space.trees[i] == trees[i]);
    gz_frontier frontier = gz_nodes_from(&space, 3, times);
    CHECK(frontier.nodes[0] == 7 && frontier.trees[0] == 5 && frontier.until == times);
    gz_nodes_free(&space);
}

/* All trees may reach every type, also one without seeds. */
static void trees_beyond_63_bits_are_refused(void)
{
    gz_nodes_init(&space);
    CHECK_EQ(gz_nodes_start(&space, INT64_MAX / 2, true, NULL, 0, 0, 3, &err), GZ_E_NOMEM);
    CHECK_EQ(gz_nodes_start(&space, INT64_MAX / 3, true, NULL, 0, 0, 3, &err), GZ_OK);
    CHECK_EQ(gz_nodes_start(&space, INT64_MAX / 2, false, NULL, 0, 0, 3, &err), GZ_OK);
    gz_nodes_free(&space);
}

/* Ids that differ only beyond 32 bits are different nodes. */
static void many_nodes_have_wide_ids(void)
{
    const int64_t far = INT64_C(1) << 32, seeds[] = {5, 5 + far};
    gz_nodes_init(&space);
    CHECK_EQ(gz_nodes_start(&space, 2 * far, false, seeds, 2, 0, 2, &err), GZ_OK);
    CHECK_EQ(gz_idmap_find(&space.map, 5 + far), 1);
    CHECK(space.map.wide);
    CHECK_EQ(gz_nodes_start(&space, far, false, seeds, 1, 0, 1, &err), GZ_OK);
    CHECK(!space.map.wide);
    gz_nodes_free(&space);
}

static void room_for_trees_grows_and_keeps_what_is_there(void)
{
    gz_nodes_init(&space);
    for (int64_t count = 1; count <= MORE; count *= 10) {
        CHECK_EQ(gz_nodes_reserve_trees(&space, count, &err), GZ_OK);
        for (int64_t i = count / 10; i < count; i++) {
            space.trees[i] = 3 * i;
            space.of_trees[i] = 4 * i;
        }
    }
    CHECK_EQ(gz_nodes_reserve_trees(&space, INT64_C(1) << 61, &err), GZ_E_NOMEM);
    for (int64_t i = 0; i < MORE; i++)
        CHECK(space.trees[i] == 3 * i && space.of_trees[i] == 4 * i);
    gz_nodes_free(&space);
    CHECK(space.trees == NULL && space.tree_capacity == 0);
}

void test_node_space(void)
{
    RUN(seeds_come_first_then_the_new_nodes);
    RUN(trees_share_no_nodes);
    RUN(trees_beyond_63_bits_are_refused);
    RUN(many_nodes_have_wide_ids);
    RUN(room_for_trees_grows_and_keeps_what_is_there);
}
