#include <string.h>

#include "check.h"
#include "graphzero/negatives.h"
#include "graphzero/rng.h"
#include "support.h"

enum { NODES = 8, DRAWS = 8000 };

static graph g;
static int64_t offsets[NODES + 1];
static int64_t from[DRAWS], to[DRAWS], to_again[DRAWS], counts[NODES];

/* Lists with parallel edges and a self-loop; 3 has all, and 4 all but 6. */
static const int EDGES[][2] = {{0, 1}, {0, 1}, {0, 5}, {1, 1}, {2, 0}, {2, 7}, {2, 7},
                               {3, 0}, {3, 1}, {3, 2}, {3, 4}, {3, 5}, {3, 6}, {3, 7},
                               {4, 0}, {4, 1}, {4, 2}, {4, 3}, {4, 5}, {4, 7}, {-1, 0}};
static const int64_t NODE_IDS[] = {0, 1, 2, 3, 4, 5, 6, 7};
static const int64_t ALLOWED[] = {5, 7, 5, 0, 1, 7, 7, 7};

static void start(void)
{
    graph_of_edges(&g, NODES, EDGES);
    offsets[0] = 0;
    for (int v = 0; v < NODES; v++)
        offsets[v + 1] = offsets[v] + ALLOWED[v];
}

static bool is_negative(int64_t source, int64_t node)
{
    return node >= 0 && node < NODES && node != source && !has_edge_naive(&g, source, node);
}

static void counts_are_of_the_complement(void)
{
    const int64_t positives[] = {2, 0, 7, 0, 6, 5, 0, 1};
    const int64_t left[] = {4, 6, 5, 0, 0, 7, 6, 6};
    start();
    CHECK_EQ(gz_negative_counts(&g.csr, NODE_IDS, NODE_IDS, 0, NODES, counts), 0);
    CHECK(memcmp(counts, ALLOWED, sizeof counts) == 0);
    CHECK_EQ(gz_negative_counts(&g.csr, NODE_IDS, positives, 0, NODES, counts), 0);
    CHECK(memcmp(counts, left, sizeof counts) == 0);
}

static void destinations_are_negatives(void)
{
    int64_t sources[NODES], positives[NODES];
    start();
    for (int i = 0; i < NODES; i++) {
        sources[i] = i;
        positives[i] = i == 4 ? 0 : (i + 3) % NODES;
    }
    CHECK_EQ(gz_negative_destinations(&g.csr, 1, sources, positives, 50, 0, 50 * NODES, to), 0);
    for (int i = 0; i < 50 * NODES; i++) {
        int64_t source = i / 50;
        if (source == 3)
            CHECK_EQ(to[i], -1);
        else
            CHECK(is_negative(source, to[i]) && to[i] != positives[source]);
    }
    g.csr.indices = (gz_ids){g.wide, true};
    CHECK_EQ(gz_negative_destinations(&g.csr, 1, sources, positives, 50, 0, 50 * NODES, to_again),
             0);
    CHECK(memcmp(to, to_again, 50 * NODES * sizeof to[0]) == 0);
}

/* If only one node in 64 is allowed, rejection seldom succeeds: the exact draw must find it. */
static void the_last_negative_of_a_long_list_is_found(void)
{
    int degrees[MOST_NODES] = {MOST_NODES};
    const int64_t source = 0, positive = 0;
    int found[MOST_NODES] = {0}, exact = 0;
    graph_with_degrees(&g, degrees, MOST_NODES);
    g.indices[10] = 9;  /* 10 is free, 9 is there twice */
    g.indices[63] = 62; /* and so is 63 */
    for (uint64_t i = 0; i < DRAWS; i++) {
        bool lucky = false;
        for (uint64_t t = 0; t < GZ_NEGATIVE_TRIES; t++) {
            uint64_t node = gz_bounded(gz_draw(gz_stream(9, i), t), MOST_NODES);
            lucky |= node == 10 || node == 63;
        }
        exact += !lucky;
    }
    CHECK(exact > 500);
    CHECK_EQ(gz_negative_destinations(&g.csr, 9, &source, &positive, DRAWS, 0, DRAWS, to), 0);
    for (int i = 0; i < DRAWS; i++)
        found[to[i]]++;
    CHECK_EQ(found[10] + found[63], DRAWS);
    CHECK(found[10] > DRAWS / 2 - 150 && found[10] < DRAWS / 2 + 150); /* 3.4 sigma */
}

/* All pairs are edges but 1 of node 0, and 62 and 63 of node 1: two draws in three must be the
 * latter. */
static void the_last_pairs_of_a_dense_graph_are_found(void)
{
    static int64_t ids[MOST_NODES], of_each[MOST_NODES], sums[MOST_NODES + 1];
    int degrees[MOST_NODES], seen[3] = {0};
    for (int v = 0; v < MOST_NODES; v++) {
        degrees[v] = MOST_NODES;
        ids[v] = v;
    }
    graph_with_degrees(&g, degrees, MOST_NODES);
    g.indices[1] = 0;
    g.indices[MOST_NODES + 62] = g.indices[MOST_NODES + 63] = 61;
    CHECK_EQ(gz_negative_counts(&g.csr, ids, ids, 0, MOST_NODES, of_each), 0);
    for (int v = 0; v < MOST_NODES; v++)
        sums[v + 1] = sums[v] + of_each[v];
    CHECK_EQ(sums[MOST_NODES], 3);
    CHECK_EQ(gz_negative_pairs(&g.csr, 3, sums, 0, 3000, from, to), 0);
    for (int i = 0; i < 3000; i++) {
        CHECK(from[i] == 0 ? to[i] == 1 : from[i] == 1 && (to[i] == 62 || to[i] == 63));
        seen[to[i] == 1 ? 0 : to[i] - 61]++;
    }
    for (int i = 0; i < 3; i++)
        CHECK(seen[i] > 900 && seen[i] < 1100); /* 3.9 sigma */
}

static void corrupt_lists_are_counted_and_not_followed(void)
{
    start();
    for (int i = 0; i < 20; i++)
        g.indices[i] = UINT32_MAX;
    gz_negative_counts(&g.csr, NODE_IDS, NODE_IDS, 0, NODES, counts);
    for (int v = 0; v < NODES; v++)
        CHECK_EQ(counts[v], NODES - 1);
    start();
    g.indptr[5] = UINT64_C(1) << 60;
    CHECK(gz_negative_counts(&g.csr, NODE_IDS, NODE_IDS, 0, NODES, counts) > 0);
    CHECK(gz_negative_destinations(&g.csr, 1, NODE_IDS, NODE_IDS, 9, 0, 9 * NODES, to) > 0);
    CHECK(gz_negative_pairs(&g.csr, 1, NULL, 0, 100, from, to) > 0);
    for (int i = 0; i < 100; i++)
        CHECK(from[i] >= 0 && from[i] < NODES && to[i] >= 0 && to[i] < NODES);
}

void test_negatives(void)
{
    RUN(counts_are_of_the_complement);
    RUN(destinations_are_negatives);
    RUN(the_last_negative_of_a_long_list_is_found);
    RUN(the_last_pairs_of_a_dense_graph_are_found);
    RUN(corrupt_lists_are_counted_and_not_followed);
}
