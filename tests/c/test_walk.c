#include <string.h>

#include "check.h"
#include "graphzero/rng.h"
#include "graphzero/walk.h"
#include "support.h"

enum { WALKS = 100, LENGTH = 20, STRIDE = LENGTH + 1, MANY = 20000 };

static const int DEGREES[] = {5, 1, 0, 3, 8, 2, 2, 4};
static graph g;
static int64_t start[MANY], out[MANY * 4], again[WALKS * STRIDE];

static void start_everywhere(int64_t *from)
{
    graph_with_degrees(&g, DEGREES, 8);
    for (int i = 0; i < WALKS; i++)
        from[i] = i % 8;
}

static void check_walks(void)
{
    for (int i = 0; i < WALKS; i++) {
        const int64_t *walk = out + i * STRIDE;
        CHECK_EQ(walk[0], start[i]);
        for (int s = 0; s < LENGTH; s++) {
            bool ended = walk[s] < 0 || DEGREES[walk[s]] == 0;
            CHECK(ended ? walk[s + 1] == -1 : has_edge_naive(&g, walk[s], walk[s + 1]));
        }
    }
}

static void uniform_walks_follow_edges_to_dead_ends(void)
{
    start_everywhere(start);
    CHECK_EQ(gz_walk_uniform(&g.csr, 1, start, 0, WALKS, LENGTH, out), 0);
    check_walks();
    g.csr.indices = (gz_ids){g.wide, true};
    CHECK_EQ(gz_walk_uniform(&g.csr, 1, start, 0, WALKS, LENGTH, again), 0);
    CHECK(memcmp(out, again, sizeof again) == 0);
}

static void walks_do_not_depend_on_the_ranges(void)
{
    const int64_t cuts[] = {0, 1, 7, 39, 40, 100};
    start_everywhere(start);
    CHECK_EQ(gz_walk_uniform(&g.csr, 1, start, 0, WALKS, LENGTH, out), 0);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(gz_walk_uniform(&g.csr, 1, start, cuts[i], cuts[i + 1], LENGTH, again), 0);
    CHECK(memcmp(out, again, sizeof again) == 0);
    CHECK_EQ(gz_walk_uniform(&g.csr, 2, start, 0, WALKS, LENGTH, again), 0);
    CHECK(memcmp(out, again, sizeof again) != 0);
}

static void uniform_steps_are_uniform(void)
{
    int counts[8] = {0};
    double chi2 = 0;
    graph_with_degrees(&g, DEGREES, 8);
    for (int i = 0; i < MANY; i++)
        start[i] = 4; /* its eight neighbours are all nodes */
    CHECK_EQ(gz_walk_uniform(&g.csr, 3, start, 0, MANY, 1, out), 0);
    for (int i = 0; i < MANY; i++)
        counts[out[2 * i + 1]]++;
    for (int v = 0; v < 8; v++)
        chi2 += (counts[v] - MANY / 8.0) * (counts[v] - MANY / 8.0) / (MANY / 8.0);
    CHECK(chi2 < 24.3); /* 7 degrees of freedom, the 0.1 % point */
}

static void a_walk_of_length_0_is_its_start(void)
{
    start_everywhere(start);
    CHECK_EQ(gz_walk_uniform(&g.csr, 1, start, 0, WALKS, 0, out), 0);
    for (int i = 0; i < WALKS; i++)
        CHECK_EQ(out[i], start[i]);
}

static void corrupt_entries_are_counted_and_not_followed(void)
{
    start_everywhere(start);
    for (int i = 0; i < 25; i++)
        g.indices[i] = UINT32_MAX;
    CHECK(gz_walk_uniform(&g.csr, 1, start, 0, WALKS, LENGTH, out) > 0);
    for (int i = 0; i < WALKS * STRIDE; i++)
        CHECK(out[i] >= -1 && out[i] < 8);
    graph_with_degrees(&g, DEGREES, 8);
    g.indptr[5] = UINT64_C(1) << 60;
    CHECK(gz_walk_uniform(&g.csr, 1, start, 0, WALKS, LENGTH, out) > 0);
}

void test_walk(void)
{
    RUN(uniform_walks_follow_edges_to_dead_ends);
    RUN(walks_do_not_depend_on_the_ranges);
    RUN(uniform_steps_are_uniform);
    RUN(a_walk_of_length_0_is_its_start);
    RUN(corrupt_entries_are_counted_and_not_followed);
}
