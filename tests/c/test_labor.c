#include "check.h"
#include "graphzero/labor.h"
#include "support.h"

enum { NODES = 64, ROUNDS = 4000 };

static graph g;
static int degrees[NODES];

/* Node 0 has 40 neighbours, node 1 the first 20 of them, node 2 three. */
static void make(void)
{
    int edges[64][2], count = 0;
    for (int t = 0; t < 40; t++)
        edges[count][0] = 0, edges[count++][1] = t;
    for (int t = 0; t < 20; t++)
        edges[count][0] = 1, edges[count++][1] = t;
    for (int t = 5; t < 8 && count < 63; t++)
        edges[count][0] = 2, edges[count][1] = t, count += t < 6;
    edges[count][0] = -1;
    graph_of_edges(&g, NODES, (const int (*)[2])edges);
    for (int v = 0; v < NODES; v++)
        degrees[v] = (int)(g.indptr[v + 1] - g.indptr[v]);
}

static int64_t take(const gz_draws *draws, int node, int64_t fanout, int64_t *out)
{
    uint64_t corrupt = 0, first = g.indptr[node], degree = (uint64_t)degrees[node];
    int64_t count = gz_labor_count(&g.csr, draws, first, degree, fanout, &corrupt);
    corrupt += gz_labor_positions(&g.csr, draws, first, degree, fanout, count, out);
    CHECK_EQ(corrupt, 0);
    for (int64_t i = 0; i < count; i++) {
        CHECK(out[i] >= (int64_t)first && out[i] < (int64_t)(first + degree));
        CHECK(i == 0 || out[i] > out[i - 1]);
    }
    return count;
}

static void each_neighbor_is_taken_with_the_same_probability(void)
{
    int64_t out[NODES], total = 0;
    int taken[40] = {0};
    make();
    for (uint64_t round = 0; round < ROUNDS; round++) {
        gz_draws draws = {.key = gz_key(GZ_PURPOSE_SAMPLE, 1, 2, round)};
        int64_t count = take(&draws, 0, 10, out);
        total += count;
        for (int64_t i = 0; i < count; i++)
            taken[out[i]]++;
    }
    CHECK((double)total > 9.8 * ROUNDS && (double)total < 10.2 * ROUNDS);
    for (int t = 0; t < 40; t++) /* a quarter each; five standard deviations are 137 */
        CHECK(taken[t] > ROUNDS / 4 - 137 && taken[t] < ROUNDS / 4 + 137);
}

/* Of 20 neighbours at fanout 10, node 1 takes half: all those that node 0, at a quarter, takes. */
static void nodes_take_the_same_neighbors(void)
{
    int64_t of_0[NODES], of_1[NODES];
    make();
    for (uint64_t round = 0; round < 100; round++) {
        gz_draws draws = {.key = round};
        int64_t count_0 = take(&draws, 0, 10, of_0), count_1 = take(&draws, 1, 10, of_1);
        for (int64_t i = 0; i < count_0 && of_0[i] < 20; i++) {
            bool found = false;
            for (int64_t j = 0; j < count_1; j++)
                found = found || of_1[j] - 40 == of_0[i];
            CHECK(found);
        }
    }
}

static void short_lists_are_taken_whole(void)
{
    int64_t out[NODES];
    const gz_draws draws = {.key = 3};
    make();
    CHECK_EQ(take(&draws, 2, degrees[2], out), degrees[2]);
    CHECK_EQ(take(&draws, 0, -1, out), 40);
    CHECK_EQ(take(&draws, 0, 1000, out), 40);
    CHECK_EQ(take(&draws, 9, 5, out), 0);
}

static void lists_that_have_changed_are_filled_up_and_counted(void)
{
    int64_t out[8];
    const gz_draws draws = {.key = 3};
    make();
    CHECK_EQ(gz_labor_positions(&g.csr, &draws, g.indptr[2], (uint64_t)degrees[2], 8, 8, out),
             8 - degrees[2]);
    for (int i = degrees[2]; i < 8; i++)
        CHECK_EQ(out[i], g.indptr[2]);
}

void test_labor(void)
{
    RUN(each_neighbor_is_taken_with_the_same_probability);
    RUN(nodes_take_the_same_neighbors);
    RUN(short_lists_are_taken_whole);
    RUN(lists_that_have_changed_are_filled_up_and_counted);
}
