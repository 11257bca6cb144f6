#include <float.h>
#include <math.h>
#include <string.h>

#include "check.h"
#include "graphzero/bias.h"
#include "graphzero/node2vec.h"
#include "graphzero/rng.h"
#include "support.h"

enum { WALKS = 100, LENGTH = 20, STRIDE = LENGTH + 1, MANY = 20000, NODES = 60 };

static const int DEGREES[] = {5, 1, 0, 3, 8, 2, 2, 4};
static graph g;
static double sums[MOST_EDGES];
static int64_t start[MANY], out[MANY * 4], again[MANY * 4];

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

/* One walker after another, one entry after another. */
typedef struct naive {
    const gz_walk *walk;
    uint64_t stream, draws;
    int64_t previous, node;
    bool first_order;
} naive;

static double unit_naive(naive *me) { return gz_unit(gz_draw(me->stream, me->draws++)); }

static uint64_t propose_naive(naive *me, uint64_t first, uint64_t degree)
{
    uint64_t drawn = gz_draw(me->stream, me->draws++), i = first;
    if (!me->walk->weighted)
        return first + gz_bounded(drawn, degree);
    while (!(sums[i] > gz_unit(drawn) * sums[first + degree - 1]))
        i++;
    return i;
}

static int64_t step_naive(naive *me)
{
    uint64_t first = g.indptr[me->node], degree = g.indptr[me->node + 1] - first, corrupt = 0;
    uint64_t before = g.indptr[me->previous];
    double p = me->first_order ? 1.0 : me->walk->p, q = me->first_order ? 1.0 : me->walk->q;
    double least = fmin(1.0, fmin(p, q));
    if (degree == 0 || (me->walk->weighted && sums[first + degree - 1] == 0.0))
        return -1;
    if (degree == 1)
        return g.indices[first];
    for (int tries = 0; tries < 64; tries++) {
        int64_t next = g.indices[propose_naive(me, first, degree)];
        double coin = unit_naive(me);
        if (coin < (next == me->previous                     ? least / p
                    : has_edge_naive(&g, me->previous, next) ? least
                                                             : least / q))
            return next;
    }
    const gz_weighted_list of_previous = {before, g.indptr[me->previous + 1] - before, 0.0};
    const gz_weighted_list list = {first, degree, 0.0};
    const gz_bias bias = gz_bias_of(p, q);
    return gz_biased_exact(&g.csr, &bias, me->walk->weighted, unit_naive(me), me->previous,
                           &of_previous, &list, &corrupt);
}

static void walk_naive(const gz_walk *walk, int64_t i, int64_t length, int64_t *walked)
{
    naive me = {walk, gz_stream(walk->key, (uint64_t)i), 0, start[i], start[i], true};
    walked[0] = start[i];
    for (int64_t step = 1; step <= length; step++) {
        bool restarts = walk->restart > 0.0 && unit_naive(&me) < walk->restart;
        int64_t next = me.node < 0 || restarts ? -1 : step_naive(&me);
        me.previous = me.node;
        me.first_order = false;
        if (next < 0 && walk->restart > 0.0) {
            next = start[i];
            me.first_order = true;
            me.previous = start[i];
        }
        walked[step] = me.node = next;
    }
}

static void compare_with_naive(const gz_walk *walk, int64_t count, int64_t length)
{
    int64_t ids = count * (length + 1);
    for (int64_t i = 0; i < count; i++)
        walk_naive(walk, i, length, again + i * (length + 1));
    for (int wide = 0; wide < 2; wide++) {
        g.csr.indices = wide ? (gz_ids){g.wide, true} : (gz_ids){g.indices, false};
        memset(out, 0x55, sizeof out);
        CHECK_EQ(gz_walk_node2vec(&g.csr, walk, start, 0, count, length, out), 0);
        CHECK(memcmp(out, again, (size_t)ids * sizeof *out) == 0);
        CHECK_EQ(out[ids], 0x5555555555555555);
    }
    g.csr.indices = (gz_ids){g.indices, false};
}

/* The last values make rejection give up. */
static void interleaved_walks_equal_lone_ones(void)
{
    const double values[][2] = {{1, 0.5}, {0.25, 4}, {4, 0.25}, {1, 1}, {1e-9, 1}, {0.7, 1e9}};
    make_large();
    for (int i = 0; i < 6 * 2 * 2; i++) {
        const gz_walk walk = {.key = (uint64_t)i,
                              .p = values[i / 4][0],
                              .q = values[i / 4][1],
                              .weighted = i % 2,
                              .restart = i / 2 % 2 ? 0.2 : 0.0};
        compare_with_naive(&walk, 250, 30);
    }
}

static void any_number_of_walks_of_any_length(void)
{
    const int64_t counts[] = {1, 2, 31, 95, 96, 97, 191, 192, 193, 500};
    const gz_walk walk = {.key = 1, .p = 0.5, .q = 2.0, .weighted = true, .restart = 0.1};
    make_large();
    for (int i = 0; i < 10; i++)
        for (int64_t length = 0; length < 4; length++)
            compare_with_naive(&walk, counts[i], length);
}

static void walks_follow_edges_to_dead_ends(void)
{
    const double values[] = {0.25, 1.0, 4.0};
    make_small();
    for (int i = 0; i < 9; i++) {
        CHECK_EQ(node2vec(1, values[i / 3], values[i % 3], WALKS, LENGTH, out), 0);
        for (int w = 0; w < WALKS; w++) {
            const int64_t *walk = out + w * STRIDE;
            CHECK_EQ(walk[0], start[w]);
            for (int s = 0; s < LENGTH; s++) {
                bool ended = walk[s] < 0 || DEGREES[walk[s]] == 0;
                CHECK(ended ? walk[s + 1] == -1 : has_edge_naive(&g, walk[s], walk[s + 1]));
            }
        }
    }
}

static void walks_do_not_depend_on_the_ranges(void)
{
    const int64_t cuts[] = {0, 1, 7, 39, 40, 100};
    const gz_walk walk = {.key = 1, .p = 2.0, .q = 0.5};
    make_small();
    CHECK_EQ(gz_walk_node2vec(&g.csr, &walk, start, 0, WALKS, LENGTH, out), 0);
    memset(again, 0x55, sizeof again);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(gz_walk_node2vec(&g.csr, &walk, start, cuts[i], cuts[i + 1], LENGTH, again), 0);
    CHECK(memcmp(out, again, WALKS * STRIDE * sizeof *out) == 0);
    CHECK_EQ(node2vec(2, 2.0, 0.5, WALKS, LENGTH, again), 0);
    CHECK(memcmp(out, again, WALKS * STRIDE * sizeof *out) != 0);
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

/* If every neighbour is rejected almost always, their relative weights still count. */
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
    RUN(interleaved_walks_equal_lone_ones);
    RUN(any_number_of_walks_of_any_length);
    RUN(walks_follow_edges_to_dead_ends);
    RUN(walks_do_not_depend_on_the_ranges);
    RUN(steps_have_the_weights_of_node2vec);
    RUN(extreme_weights_terminate_with_the_right_shares);
    RUN(corrupt_entries_are_counted_and_not_followed);
    RUN(unsorted_lists_are_not_left);
}
