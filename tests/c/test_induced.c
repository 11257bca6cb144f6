#include "check.h"
#include "graphzero/batch.h"
#include "support.h"

enum { NODES = 8 };

static const int DEGREES[NODES] = {0, 1, 3, 6, 2, 5, 7, 2};
static graph g;
static gz_error err;

static bool is_in(const gz_batch *batch, int64_t node)
{
    for (int64_t i = 0; i < batch->num_nodes; i++)
        if (batch->nodes[i] == node)
            return true;
    return false;
}

static void all_edges_between_the_nodes_are_there(void)
{
    const int64_t fanouts[] = {2, 1};
    gz_plan plan = {.fanouts = fanouts, .num_hops = 2, .induced = true};
    uint64_t corrupt;
    gz_batch batch;
    graph_with_degrees(&g, DEGREES, NODES);
    gz_batch_init(&batch);
    for (int64_t seed = 0; seed < NODES; seed++) {
        int64_t edge = 0;
        CHECK_EQ(gz_batch_sample(&batch, &g.csr, &plan, &seed, 1, &corrupt, &err), GZ_OK);
        for (int64_t i = 0; i < batch.num_nodes; i++)
            for (uint64_t p = g.indptr[batch.nodes[i]]; p < g.indptr[batch.nodes[i] + 1]; p++) {
                if (!is_in(&batch, g.indices[p]))
                    continue;
                CHECK_EQ(batch.positions[edge], p);
                CHECK_EQ(batch.targets[edge], i);
                CHECK_EQ(batch.nodes[batch.sources[edge++]], g.indices[p]);
            }
        CHECK_EQ(edge, batch.num_edges);
    }
    gz_batch_free(&batch);
}

static void neighbors_out_of_range_are_counted(void)
{
    const int64_t seeds[] = {3, 0}, fanouts[] = {1};
    gz_plan plan = {.fanouts = fanouts, .num_hops = 1, .induced = true};
    uint64_t corrupt;
    gz_batch batch;
    graph_with_degrees(&g, DEGREES, NODES);
    for (uint64_t p = g.indptr[3]; p < g.indptr[4]; p++)
        g.indices[p] = UINT32_MAX;
    gz_batch_init(&batch);
    CHECK_EQ(gz_batch_sample(&batch, &g.csr, &plan, seeds, 2, &corrupt, &err), GZ_OK);
    CHECK_EQ(corrupt, 1 + DEGREES[3]); /* the draw, then the whole list */
    gz_batch_free(&batch);
}

void test_induced(void)
{
    RUN(all_edges_between_the_nodes_are_there);
    RUN(neighbors_out_of_range_are_counted);
}
