#include "check.h"
#include "graphzero/batch.h"
#include "support.h"

enum { NODES = 8 };

static const int DEGREES[NODES] = {0, 1, 3, 6, 2, 5, 7, 2};
static graph g;
static gz_error err;

static bool is_in(const gz_node_space *space, int64_t node)
{
    for (int64_t i = 0; i < space->count; i++)
        if (gz_nodes_ids(space)[i] == node)
            return true;
    return false;
}

static void all_edges_between_the_nodes_are_there(void)
{
    const int64_t fanouts[] = {2, 1};
    one_type one;
    gz_batch batch;
    graph_with_degrees(&g, DEGREES, NODES);
    plan_of(&one, &g, fanouts, 2);
    one.plan.induced = true;
    gz_batch_init(&batch);
    for (int64_t seed = 0; seed < NODES; seed++) {
        int64_t edge = 0;
        const gz_seeds seeds = {&seed, 1};
        CHECK_EQ(gz_batch_sample(&batch, &one.plan, &seeds, &err), GZ_OK);
        const gz_node_space *space = &batch.spaces[0];
        const gz_edge_list *edges = &batch.edges[0];
        const int64_t *nodes = gz_nodes_ids(space);
        for (int64_t i = 0; i < space->count; i++)
            for (uint64_t p = g.indptr[nodes[i]]; p < g.indptr[nodes[i] + 1]; p++) {
                if (!is_in(space, g.indices[p]))
                    continue;
                CHECK_EQ(edges->positions[edge], p);
                CHECK_EQ(edges->targets[edge], i);
                CHECK_EQ(nodes[edges->sources[edge++]], g.indices[p]);
            }
        CHECK_EQ(edge, edges->count);
    }
    gz_batch_free(&batch);
}

static void neighbors_out_of_range_are_counted(void)
{
    const int64_t ids[] = {3, 0}, fanouts[] = {1};
    const gz_seeds seeds = {ids, 2};
    one_type one;
    gz_batch batch;
    graph_with_degrees(&g, DEGREES, NODES);
    plan_of(&one, &g, fanouts, 1);
    one.plan.induced = true;
    for (uint64_t p = g.indptr[3]; p < g.indptr[4]; p++)
        g.indices[p] = UINT32_MAX;
    gz_batch_init(&batch);
    CHECK_EQ(gz_batch_sample(&batch, &one.plan, &seeds, &err), GZ_OK);
    CHECK_EQ(batch.edges[0].corrupt, 1 + DEGREES[3]); /* the draw, then the whole list */
    gz_batch_free(&batch);
}

void test_induced(void)
{
    RUN(all_edges_between_the_nodes_are_there);
    RUN(neighbors_out_of_range_are_counted);
}
