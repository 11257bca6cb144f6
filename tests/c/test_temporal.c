#include "check.h"
#include "graphzero/sampling.h"
#include "graphzero/temporal.h"
#include "support.h"

enum { EDGES = 6 };

static const int LIST[][2] = {{0, 1}, {0, 2}, {0, 3}, {0, 4}, {0, 5}, {0, 6}, {-1, -1}};
static const int64_t TIMES[EDGES] = {30, 10, 20, 10, INT64_MAX, INT64_MIN};
static uint32_t order[EDGES];
static graph g;

static void make(void)
{
    const uint32_t by_time[EDGES] = {5, 1, 3, 2, 0, 4};
    graph_of_edges(&g, 8, LIST);
    for (int i = 0; i < EDGES; i++)
        order[i] = by_time[i];
    g.csr.times = TIMES;
    g.csr.time_order.data = order;
}

static void edges_are_counted_up_to_a_time(void)
{
    const int64_t until[] = {INT64_MIN, -1, 10, 11, 20, 30, 31, INT64_MAX};
    make();
    for (int strictly = 0; strictly < 2; strictly++)
        for (unsigned i = 0; i < sizeof until / sizeof until[0]; i++) {
            uint64_t corrupt = 0, wanted = 0;
            for (int e = 0; e < EDGES; e++)
                wanted += strictly ? TIMES[e] < until[i] : TIMES[e] <= until[i];
            CHECK_EQ(gz_edges_until(&g.csr, 0, EDGES, until[i], strictly, &corrupt), wanted);
            CHECK_EQ(corrupt, 0);
        }
}

static void ranks_are_in_the_order_of_time(void)
{
    uint64_t corrupt = 0;
    make();
    for (uint64_t rank = 1; rank < EDGES; rank++)
        CHECK(TIMES[gz_edge_of_rank(&g.csr, 0, EDGES, rank - 1, &corrupt)] <=
              TIMES[gz_edge_of_rank(&g.csr, 0, EDGES, rank, &corrupt)]);
    CHECK_EQ(corrupt, 0);
}

static void corrupt_orders_are_counted_and_not_followed(void)
{
    const int64_t node = 0, tree = 0, until = 25;
    const gz_frontier frontier = {&node, &tree, &until};
    int64_t offsets[2] = {0}, positions[EDGES];
    gz_list list;
    make();
    for (int i = 0; i < EDGES; i++)
        order[i] = UINT32_MAX;
    for (int rule = GZ_TIME_UNIFORM; rule <= GZ_TIME_LAST; rule++) {
        gz_hop hop = {.fanout = 3, .rule.time = (gz_time_rule)rule};
        uint64_t corrupt = gz_hop_counts(&g.csr, &hop, &frontier, 0, 1, &list, offsets + 1);
        CHECK(offsets[1] <= 3);
        corrupt += gz_hop_positions(&g.csr, &hop, &frontier, &list, offsets, 0, 1, positions);
        CHECK(corrupt > 0);
        for (int64_t i = 0; i < offsets[1]; i++)
            CHECK(positions[i] >= 0 && positions[i] < EDGES);
    }
}

void test_temporal(void)
{
    RUN(edges_are_counted_up_to_a_time);
    RUN(ranks_are_in_the_order_of_time);
    RUN(corrupt_orders_are_counted_and_not_followed);
}
