#include "graphzero/edge_keys.h"

#include <stddef.h>

#include "check.h"

enum { EDGES = 100, NODES = 7 };

static uint32_t owners[EDGES], neighbors[EDGES];
static const uint32_t rank[NODES] = {3, 0, 6, 1, 5, 2, 4};
static uint64_t keys[EDGES], counts[NODES];

static void fill(void)
{
    for (uint32_t i = 0; i < EDGES; i++) {
        owners[i] = i * i % NODES;
        neighbors[i] = i % NODES;
    }
}

static void keys_have_stored_ids(void)
{
    const gz_ranks ranked = {rank, NODES}, same = {NULL, 0};
    fill();
    CHECK_EQ(gz_edge_keys(owners, neighbors, ranked, same, 0, EDGES, keys), 0);
    for (int64_t i = 0; i < EDGES; i++)
        CHECK(keys[i] == ((uint64_t)rank[owners[i]] << 32 | neighbors[i]));
    CHECK_EQ(gz_edge_keys(owners, neighbors, same, ranked, 40, 60, keys), 0);
    for (int64_t i = 0; i < EDGES; i++)
        CHECK(i < 40 || i >= 60 || keys[i] == ((uint64_t)owners[i] << 32 | rank[neighbors[i]]));
    CHECK(keys[39] == ((uint64_t)rank[owners[39]] << 32 | neighbors[39]));
}

static void ids_outside_their_table_are_counted(void)
{
    const gz_ranks ranked = {rank, NODES};
    fill();
    owners[50] = NODES;
    neighbors[50] = UINT32_MAX;
    neighbors[99] = NODES;
    CHECK_EQ(gz_edge_keys(owners, neighbors, ranked, ranked, 0, EDGES, keys), 3);
    CHECK_EQ(keys[50], 0);
    for (int64_t i = 0; i < NODES; i++)
        counts[i] = 0;
    CHECK_EQ(gz_count_ids(neighbors, 0, EDGES, counts, NODES), 2);
    uint64_t sum = 0;
    for (int64_t i = 0; i < NODES; i++)
        sum += counts[i];
    CHECK(sum == EDGES - 2 && counts[0] == 15 && counts[3] == 14);
}

static void lists_of_nodes_with_and_without_edges(void)
{
    static const uint64_t sorted[] = {UINT64_C(1) << 32 | 9, UINT64_C(1) << 32 | UINT32_MAX,
                                      UINT64_C(3) << 32};
    static const int64_t wanted[] = {10, 10, 12, 12, 13, 13};
    int64_t starts[6] = {0};
    uint32_t ends[3];
    gz_list_starts(sorted, 3, 10, 0, 6, starts);
    for (size_t i = 0; i < 6; i++)
        CHECK_EQ(starts[i], wanted[i]);
    gz_list_starts(sorted, 3, 10, 3, 5, starts);
    CHECK(starts[0] == 12 && starts[1] == 13 && starts[2] == 12);
    gz_list_starts(NULL, 0, 7, 2, 4, starts);
    CHECK(starts[0] == 7 && starts[1] == 7);
    gz_key_neighbors(sorted, 0, 3, ends);
    CHECK(ends[0] == 9 && ends[1] == UINT32_MAX && ends[2] == 0);
}

void test_edge_keys(void)
{
    RUN(keys_have_stored_ids);
    RUN(ids_outside_their_table_are_counted);
    RUN(lists_of_nodes_with_and_without_edges);
}
