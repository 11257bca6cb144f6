#include "check.h"

#include "graphzero/batch.h"
#include "support.h"

enum { MORE = 1000 };

static const int64_t TOO_MUCH = INT64_C(1) << 61;

static gz_batch batch;

TEST(room_grows_and_keeps_what_is_there)
{
    gz_batch_init(&batch);
    CHECK_EQ(gz_batch_reserve_types(&batch, 1, 1, &err), GZ_OK);
    gz_node_space *space = &batch.spaces[0];
    gz_edge_list *edges = &batch.edges[0];
    for (int64_t count = 1; count <= MORE; count *= 10) {
        CHECK_EQ(gz_batch_reserve_frontier(&batch, count, &err), GZ_OK);
        CHECK_EQ(gz_nodes_reserve_trees(space, count, &err), GZ_OK);
        CHECK_EQ(gz_edges_reserve(edges, count, &err), GZ_OK);
        for (int64_t i = count / 10; i < count; i++) {
            batch.lists[i] = (gz_list){(uint64_t)i, 1};
            batch.offsets[i] = i;
            space->trees[i] = 3 * i;
            space->of_trees[i] = 4 * i;
            edges->sources[i] = i;
            edges->targets[i] = -i;
            edges->positions[i] = 2 * i;
        }
        batch.offsets[count] = count; /* one more than there are frontier nodes */
    }
    const int64_t *sources = edges->sources; /* what there is room for does not move */
    CHECK_EQ(gz_edges_reserve(edges, MORE / 2, &err), GZ_OK);
    CHECK_EQ(gz_batch_reserve_frontier(&batch, TOO_MUCH, &err), GZ_E_NOMEM);
    CHECK_EQ(gz_nodes_reserve_trees(space, TOO_MUCH, &err), GZ_E_NOMEM);
    CHECK_EQ(gz_edges_reserve(edges, TOO_MUCH, &err), GZ_E_NOMEM);
    CHECK(edges->sources == sources);
    for (int64_t i = 0; i < MORE; i++) {
        CHECK(batch.lists[i].first == (uint64_t)i && batch.offsets[i] == i);
        CHECK(space->trees[i] == 3 * i && space->of_trees[i] == 4 * i);
        CHECK(sources[i] == i && edges->targets[i] == -i && edges->positions[i] == 2 * i);
    }
    gz_batch_free(&batch);
    CHECK(batch.offsets == NULL && batch.frontier_capacity == 0);
}

/* All trees may reach every type, also one without seeds. */
TEST(trees_beyond_63_bits_are_refused)
{
    const int64_t ids[] = {0, 1, 2}, fanouts[] = {1};
    const int degrees[] = {2, 1, 3};
    const gz_seeds seeds = {ids, 3};
    gz_node_space space;
    graph g;
    one_type one;
    gz_nodes_init(&space);
    CHECK_EQ(gz_nodes_start(&space, INT64_MAX / 2, true, NULL, 0, 0, 3, &err), GZ_E_NOMEM);
    CHECK_EQ(gz_nodes_start(&space, INT64_MAX / 3, true, NULL, 0, 0, 3, &err), GZ_OK);
    CHECK_EQ(gz_nodes_start(&space, INT64_MAX / 2, false, NULL, 0, 0, 3, &err), GZ_OK);
    gz_nodes_free(&space);
    graph_with_degrees(&g, degrees, 3);
    plan_of(&one, &g, fanouts, 1);
    one.plan.disjoint = true;
    one.num_nodes = INT64_MAX / 2;
    gz_batch_init(&batch);
    CHECK_EQ(gz_batch_sample(&batch, &one.plan, &seeds, &err), GZ_E_NOMEM);
    gz_batch_free(&batch);
}
