#include "graphzero/node_space.h"

#include <stddef.h>

#include "check.h"

enum { IDS = 100, MORE = 1000 };

static gz_node_space space;
static gz_error err;

/* All trees may reach every type, also one without seeds. */
static void trees_beyond_63_bits_are_refused(void)
{
    gz_nodes_init(&space);
    CHECK_EQ(gz_nodes_start(&space, INT64_MAX / 2, true, NULL, 0, 0, 3, &err), GZ_E_NOMEM);
    CHECK_EQ(gz_nodes_start(&space, INT64_MAX / 3, true, NULL, 0, 0, 3, &err), GZ_OK);
    CHECK_EQ(gz_nodes_start(&space, INT64_MAX / 2, false, NULL, 0, 0, 3, &err), GZ_OK);
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
    RUN(trees_beyond_63_bits_are_refused);
    RUN(room_for_trees_grows_and_keeps_what_is_there);
}
