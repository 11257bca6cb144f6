#include <string.h>

#include "check.h"
#include "graphzero/node2vec.h"
#include "graphzero/rng.h"
#include "support.h"

enum { WALKS = 100, LENGTH = 20, STRIDE = LENGTH + 1, MANY = 20000, NODES = 60 };

static const int DEGREES[] = {5, 1, 0, 3, 8, 2, 2, 4};
static graph g;
static double sums[MOST_EDGES];
static int64_t start[MANY], out[MANY * 4];

static uint64_t node2vec(uint64_t key, double p, double q, int64_t count, int64_t length,
                         int64_t *walks)
{
    const gz_walk walk = {.key = key, .p = p, .q = q};
    return gz_walk_node2vec(&g.csr, &walk, start, 0, count, length, walks);
}

static void start_everywhere(int nodes)
{
    for (int i = 0; i < MANY; i++)
        start[i] = i % nodes;
}

static void make_small(void)
{
    graph_with_degrees(&g, DEGREES, 8);
    start_everywhere(8);
}

/* Ascending lists with repeats, most to low ids, of up to 400 entries; every seventh node has no
 * neighbour, others have one or two, every ninth only neighbours of weight 0. */
static void make_large(void)
{
    uint64_t at = 0;
    memset(&g, 0, sizeof g);
    for (uint64_t v = 0; v < NODES; v++) {
        uint64_t degree = v % 7 == 6 ? 0 : v % 7 == 5 ? 1 + v % 2 : 1 + v * v % 157;
        degree = v == 12 ? 400 : degree;
        g.indptr[v] = at;
        for (uint64_t i = 0; i < degree; i++, at++) {
            g.wide[at] = NODES * i * i / (degree * degree);
            g.indices[at] = (uint32_t)g.wide[at];
            sums[at] = (i > 0 ? sums[at - 1] : 0.0) +
                       (v % 9 == 8 || at % 4 == 3 ? 0.0 : gz_unit(gz_draw(9, at)));
        }
    }
    g.indptr[NODES] = at;
    g.csr = (gz_csr){.num_nodes = NODES,
                     .num_neighbors = NODES,
                     .num_edges = at,
                     .indptr = {g.indptr, true},
                     .cum_weights = sums};
    g.csr.indices = (gz_ids){g.indices, false};
    start_everywhere(NODES);
}

static void corrupt_entries_are_counted_and_not_followed(void)
{
    make_small();
    for (int i = 0; i < 25; i++)
        g.indices[i] = UINT32_MAX;
    CHECK(node2vec(1, 2, 0.5, WALKS, LENGTH, out) > 0);
    for (int i = 0; i < WALKS * STRIDE; i++)
        CHECK(out[i] >= -1 && out[i] < 8);
    make_small();
    g.indptr[5] = UINT64_C(1) << 60;
    CHECK(node2vec(1, 2, 0.5, WALKS, LENGTH, out) > 0);
}

/* Lists that do not ascend, whose ids are in range: nothing is counted, and nothing else is read.
 */
static void unsorted_lists_are_not_left(void)
{
    const double values[] = {1e-9, 0.5, 2.0};
    make_large();
    for (uint64_t i = 0; i < g.csr.num_edges; i++)
        g.indices[i] = (uint32_t)gz_bounded(gz_draw(8, i), NODES);
    for (int k = 0; k < 9; k++) {
        CHECK_EQ(node2vec(1, values[k / 3], values[k % 3], WALKS, LENGTH, out), 0);
        for (int i = 0; i < WALKS * STRIDE; i++)
            CHECK(out[i] >= -1 && out[i] < NODES);
    }
}

void test_node2vec(void)
{
    RUN(corrupt_entries_are_counted_and_not_followed);
    RUN(unsorted_lists_are_not_left);
}
