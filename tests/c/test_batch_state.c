#include "check.h"

#include "graphzero/batch.h"
#include "support.h"

static gz_batch batch;

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
