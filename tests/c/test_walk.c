#include <float.h>
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

static uint64_t node2vec(uint64_t key, double p, double q, int64_t count, int64_t length,
                         int64_t *walks)
{
    const gz_walk walk = {.key = key, .p = p, .q = q};
    return gz_walk_node2vec(&g.csr, &walk, start, 0, count, length, walks);
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

static void node2vec_walks_follow_edges_to_dead_ends(void)
{
    const double values[] = {0.25, 1.0, 4.0};
    start_everywhere(start);
    for (int i = 0; i < 9; i++) {
        CHECK_EQ(node2vec(1, values[i / 3], values[i % 3], WALKS, LENGTH, out), 0);
        check_walks();
    }
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
    const gz_walk walk = {.key = 1, .p = 2.0, .q = 0.5};
    CHECK_EQ(gz_walk_node2vec(&g.csr, &walk, start, 0, WALKS, LENGTH, out), 0);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(gz_walk_node2vec(&g.csr, &walk, start, cuts[i], cuts[i + 1], LENGTH, again), 0);
    CHECK(memcmp(out, again, sizeof again) == 0);
}

/* Chi-square of where the walks over 0 -> 1 go next, against weights by node. */
static double chi_square(const int (*edges)[2], double p, double q, const double weights[5])
{
    double total = 0, sum = 0;
    int counts[5] = {0}, came = 0;
    graph_of_edges(&g, 5, edges);
    memset(start, 0, sizeof start);
    CHECK_EQ(node2vec(gz_key(GZ_PURPOSE_WALK, 5, 0, 0), p, q, MANY, 2, out), 0);
    for (int i = 0; i < MANY; i++)
        if (out[i * 3 + 1] == 1) {
            counts[out[i * 3 + 2]]++;
            came++;
        }
    for (int v = 0; v < 5; v++)
        total += weights[v];
    CHECK(came > MANY / 4);
    for (int v = 0; v < 5; v++) {
        double wanted = came * weights[v] / total;
        if (weights[v] > 0)
            sum += (counts[v] - wanted) * (counts[v] - wanted) / wanted;
        else
            CHECK_EQ(counts[v], 0);
    }
    return sum;
}

static const int TRIANGLE[][2] = {{0, 1}, {0, 2}, {1, 0}, {1, 2}, {1, 3}, {-1, 0}};
static const int NO_WAY_BACK[][2] = {{0, 1}, {0, 2}, {1, 2}, {1, 3}, {1, 4}, {-1, 0}};
static const int ALL_FAR[][2] = {{0, 1}, {1, 2}, {1, 3}, {1, 4}, {-1, 0}};

/* 2 degrees of freedom: 13.8 is the 0.1 % point. */
static void steps_have_the_weights_of_node2vec(void)
{
    const double values[] = {0.25, 1.0, 4.0};
    for (int i = 0; i < 9; i++) {
        double p = values[i / 3], q = values[i % 3];
        CHECK(chi_square(TRIANGLE, p, q, (double[]){1 / p, 0, 1, 1 / q, 0}) < 13.8);
        CHECK(chi_square(NO_WAY_BACK, p, q, (double[]){0, 0, 1, 1 / q, 1 / q}) < 13.8);
    }
}

/* Where every neighbour is refused almost always, the weights among them still decide. */
static void extreme_weights_terminate_with_the_right_shares(void)
{
    const double tiny[] = {1e-9, 1e-300, DBL_MIN, 4.9406564584124654e-324};
    for (int i = 0; i < 4; i++) {
        double p = tiny[i];
        CHECK(chi_square(NO_WAY_BACK, p, 0.25, (double[]){0, 0, 1, 4, 4}) < 13.8);
        CHECK(chi_square(NO_WAY_BACK, p, 1, (double[]){0, 0, 1, 1, 1}) < 13.8);
        CHECK(chi_square(ALL_FAR, p, 1e300, (double[]){0, 0, 1, 1, 1}) < 13.8);
        CHECK(chi_square(ALL_FAR, p, DBL_MAX, (double[]){0, 0, 1, 1, 1}) < 13.8);
        CHECK(chi_square(ALL_FAR, 1, p, (double[]){0, 0, 1, 1, 1}) < 13.8);
        CHECK(chi_square(TRIANGLE, p, 1, (double[]){1, 0, 0, 0, 0}) < 13.8);
        CHECK(chi_square(TRIANGLE, p, DBL_MAX, (double[]){1, 0, 0, 0, 0}) < 13.8);
        CHECK(chi_square(TRIANGLE, 1, p, (double[]){0, 0, 0, 1, 0}) < 13.8);
        CHECK(chi_square(TRIANGLE, DBL_MAX, 1, (double[]){0, 0, 1, 1, 0}) < 13.8);
        CHECK(chi_square(TRIANGLE, p, p, (double[]){1, 0, 0, 1, 0}) < 13.8);
    }
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
    CHECK_EQ(node2vec(1, 2, 2, WALKS, 0, again), 0);
    for (int i = 0; i < WALKS; i++)
        CHECK(out[i] == start[i] && again[i] == start[i]);
}

static void corrupt_entries_are_counted_and_not_followed(void)
{
    start_everywhere(start);
    for (int i = 0; i < 25; i++)
        g.indices[i] = UINT32_MAX;
    CHECK(gz_walk_uniform(&g.csr, 1, start, 0, WALKS, LENGTH, out) > 0);
    CHECK(node2vec(1, 2, 0.5, WALKS, LENGTH, again) > 0);
    for (int i = 0; i < WALKS * STRIDE; i++)
        CHECK(out[i] >= -1 && out[i] < 8 && again[i] >= -1 && again[i] < 8);
    graph_with_degrees(&g, DEGREES, 8);
    g.indptr[5] = UINT64_C(1) << 60;
    CHECK(gz_walk_uniform(&g.csr, 1, start, 0, WALKS, LENGTH, out) > 0);
    CHECK(node2vec(1, 2, 0.5, WALKS, LENGTH, again) > 0);
}

void test_walk(void)
{
    RUN(uniform_walks_follow_edges_to_dead_ends);
    RUN(node2vec_walks_follow_edges_to_dead_ends);
    RUN(walks_do_not_depend_on_the_ranges);
    RUN(steps_have_the_weights_of_node2vec);
    RUN(extreme_weights_terminate_with_the_right_shares);
    RUN(uniform_steps_are_uniform);
    RUN(a_walk_of_length_0_is_its_start);
    RUN(corrupt_entries_are_counted_and_not_followed);
}
