#include <string.h>

#include "check.h"
#include "graphzero/batch.h"
#include "graphzero/rng.h"
#include "graphzero/sampling.h"
#include "support.h"

enum { NODES = 8, ROOM = 20000 };

static const int DEGREES[NODES] = {0, 1, 3, 10, 256, 257, 700, 2};

static graph g;
static gz_error err;

/* One hop over a frontier, in two passes as documented. */
static int64_t naive_hop(const gz_hop *hop, const gz_frontier *frontier, int64_t count,
                         int64_t *offsets, int64_t *positions)
{
    static gz_list lists[ROOM];
    CHECK_EQ(gz_hop_counts(&g.csr, hop, frontier, 0, count, lists, offsets + 1), 0);
    offsets[0] = 0;
    for (int64_t i = 0; i < count; i++)
        offsets[i + 1] += offsets[i];
    CHECK_EQ(gz_hop_positions(&g.csr, hop, frontier, lists, offsets, 0, count, positions), 0);
    return offsets[count];
}

static void hops_follow_each_other(void)
{
    static int64_t offsets[ROOM], positions[ROOM];
    const int64_t seeds[] = {6, 2, 6, 3}, fanouts[] = {2, -1, 300};
    gz_plan plan = {
        .fanouts = fanouts, .num_hops = 3, .draws = gz_draws_of(GZ_PURPOSE_SAMPLE, 1, 2, 3, 1)};
    uint64_t corrupt;
    gz_batch batch;
    graph_with_degrees(&g, DEGREES, NODES);
    gz_batch_init(&batch);
    for (int round = 0; round < 3; round++) { /* the same memory, the same result */
        CHECK_EQ(gz_batch_sample(&batch, &g.csr, &plan, seeds, 4, &corrupt, &err), GZ_OK);
        CHECK_EQ(corrupt, 0);
        CHECK_EQ(batch.hop_nodes[0], 4);
        int64_t first = 0, edge = 0;
        for (int h = 0; h < 3; h++) {
            gz_hop hop = {.fanout = fanouts[h], .draws = gz_draws_below(&plan.draws, (uint64_t)h)};
            gz_frontier frontier = {.nodes = batch.nodes + first};
            int64_t count = batch.hop_nodes[h];
            int64_t edges = naive_hop(&hop, &frontier, count, offsets, positions);
            CHECK_EQ(batch.hop_edges[h], edges);
            for (int64_t i = 0; i < count; i++)
                for (int64_t e = offsets[i]; e < offsets[i + 1]; e++, edge++) {
                    uint64_t none = 0;
                    CHECK_EQ(batch.positions[edge], positions[e]);
                    CHECK_EQ(batch.targets[edge], first + i);
                    CHECK_EQ(batch.nodes[batch.sources[edge]],
                             gz_csr_neighbor(&g.csr, (uint64_t)positions[e], &none));
                }
            first += count;
        }
        CHECK_EQ(edge, batch.num_edges);
        CHECK_EQ(first + batch.hop_nodes[3], batch.num_nodes);
    }
    gz_batch_free(&batch);
}

static void no_seeds_no_edges(void)
{
    const int64_t fanouts[] = {5, 5};
    gz_plan plan = {.fanouts = fanouts, .num_hops = 2, .rule.replace = true};
    uint64_t corrupt;
    gz_batch batch;
    graph_with_degrees(&g, DEGREES, NODES);
    gz_batch_init(&batch);
    CHECK_EQ(gz_batch_sample(&batch, &g.csr, &plan, NULL, 0, &corrupt, &err), GZ_OK);
    CHECK_EQ(batch.num_edges + batch.num_nodes, 0);
    gz_batch_free(&batch);
}

static void corrupt_lists_are_counted_and_not_followed(void)
{
    const int64_t seeds[] = {3}, fanouts[] = {5, 5};
    gz_plan plan = {.fanouts = fanouts, .num_hops = 2};
    uint64_t corrupt;
    gz_batch batch;
    graph_with_degrees(&g, DEGREES, NODES);
    g.indptr[4] = UINT64_MAX;
    gz_batch_init(&batch);
    CHECK_EQ(gz_batch_sample(&batch, &g.csr, &plan, seeds, 1, &corrupt, &err), GZ_OK);
    CHECK(corrupt > 0);
    gz_batch_free(&batch);
}

/* A batch of one seed is a tree; a disjoint batch consists of such trees. */
static void disjoint_trees_are_batches_of_their_own(void)
{
    const int64_t seeds[] = {6, 2, 6}, fanouts[] = {-1, -1};
    gz_plan plan = {.fanouts = fanouts, .num_hops = 2, .disjoint = true}, alone = plan;
    uint64_t corrupt;
    gz_batch batch, one;
    alone.disjoint = false;
    graph_with_degrees(&g, DEGREES, NODES);
    gz_batch_init(&batch);
    gz_batch_init(&one);
    CHECK_EQ(gz_batch_sample(&batch, &g.csr, &plan, seeds, 3, &corrupt, &err), GZ_OK);
    for (int64_t tree = 0; tree < 3; tree++) {
        int64_t node = 0, edge = 0;
        CHECK_EQ(gz_batch_sample(&one, &g.csr, &alone, seeds + tree, 1, &corrupt, &err), GZ_OK);
        for (int64_t i = 0; i < batch.num_nodes; i++)
            if (batch.trees[i] == tree && CHECK(node < one.num_nodes))
                CHECK_EQ(batch.nodes[i], one.nodes[node++]);
        for (int64_t e = 0; e < batch.num_edges; e++)
            if (batch.trees[batch.targets[e]] == tree && CHECK(edge < one.num_edges)) {
                CHECK_EQ(batch.trees[batch.sources[e]], tree);
                CHECK_EQ(batch.positions[e], one.positions[edge]);
                CHECK_EQ(batch.nodes[batch.sources[e]], one.nodes[one.sources[edge]]);
                edge++;
            }
        CHECK_EQ(node, one.num_nodes);
        CHECK_EQ(edge, one.num_edges);
    }
    gz_batch_free(&batch);
    gz_batch_free(&one);
}

static void trees_beyond_63_bits_are_refused(void)
{
    const int64_t seeds[] = {0, 1, 2}, fanouts[] = {1};
    gz_plan plan = {.fanouts = fanouts, .num_hops = 1, .disjoint = true};
    uint64_t corrupt;
    gz_batch batch;
    graph_with_degrees(&g, DEGREES, NODES);
    g.csr.num_nodes = INT64_MAX / 2;
    gz_batch_init(&batch);
    CHECK_EQ(gz_batch_sample(&batch, &g.csr, &plan, seeds, 3, &corrupt, &err), GZ_E_NOMEM);
    gz_batch_free(&batch);
}

void test_batch(void)
{
    RUN(disjoint_trees_are_batches_of_their_own);
    RUN(trees_beyond_63_bits_are_refused);
    RUN(hops_follow_each_other);
    RUN(no_seeds_no_edges);
    RUN(corrupt_lists_are_counted_and_not_followed);
}
