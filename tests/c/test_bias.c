#include <float.h>
#include <math.h>

#include "check.h"
#include "graphzero/bias.h"
#include "graphzero/rng.h"
#include "support.h"

enum { NODES = 40, MOST_DEGREE = 90 };

static graph g;
static double sums[MOST_EDGES];

/* Lists with repeats; one entry in three weighs nothing. */
static void make_graph(void)
{
    static int edges[NODES * MOST_DEGREE + 1][2];
    int at = 0;
    for (int v = 0; v < NODES; v++) {
        int degree = 1 + (int)gz_bounded(gz_draw(1, (uint64_t)v), MOST_DEGREE);
        for (int i = 0; i < degree; i++, at++) {
            edges[at][0] = v;
            edges[at][1] = i * NODES / degree;
        }
    }
    edges[at][0] = -1;
    graph_of_edges(&g, NODES, (const int (*)[2])edges);
    for (int v = 0; v < NODES; v++)
        for (uint64_t i = g.indptr[v]; i < g.indptr[v + 1]; i++)
            sums[i] = (i > g.indptr[v] ? sums[i - 1] : 0.0) + (i % 3 ? 0.0 : 1.0 + (double)(i % 7));
    g.csr.cum_weights = sums;
}

static gz_weighted_list list_of(int v)
{
    return (gz_weighted_list){g.indptr[v], g.indptr[v + 1] - g.indptr[v], 0.0};
}

static double weight_naive(bool weighted, int v, uint64_t i)
{
    return !weighted ? 1.0 : i > g.indptr[v] ? sums[i] - sums[i - 1] : sums[i];
}

static double bias_naive(int previous, int64_t node, double p, double q)
{
    return node == previous ? 1 / p : has_edge_naive(&g, previous, node) ? 1.0 : 1 / q;
}

/* Whether `next` is the neighbour over which unit * total lies on the line of the masses. */
static bool lies_over(int previous, int v, double p, double q, bool weighted, double unit,
                      int64_t next)
{
    double total = 0.0, before = 0.0;
    for (uint64_t i = g.indptr[v]; i < g.indptr[v + 1]; i++)
        total += weight_naive(weighted, v, i) * bias_naive(previous, g.indices[i], p, q);
    for (uint64_t i = g.indptr[v]; i < g.indptr[v + 1]; i++) {
        double mass = weight_naive(weighted, v, i) * bias_naive(previous, g.indices[i], p, q);
        double goal = unit * total, slack = 1e-9 * total;
        if (mass > 0 && g.indices[i] == next && before <= goal + slack &&
            goal <= before + mass + slack)
            return true;
        before += mass;
    }
    return false;
}

static void exact_steps_are_by_inverse_transform(void)
{
    const double values[] = {0.25, 1.0, 3.0};
    uint64_t corrupt = 0;
    make_graph();
    for (uint64_t t = 0; t < 4000; t++) {
        int previous = (int)gz_bounded(gz_draw(2, t), NODES);
        int v = (int)gz_bounded(gz_draw(3, t), NODES);
        double p = values[t % 3], q = values[t / 3 % 3], unit = gz_unit(gz_draw(4, t));
        gz_weighted_list of_previous = list_of(previous), list = list_of(v);
        gz_bias bias = gz_bias_of(p, q);
        for (int weighted = 0; weighted < 2; weighted++) {
            int64_t next;
            if (weighted && sums[list.first + list.degree - 1] == 0.0)
                continue;
            next = gz_biased_exact(&g.csr, &bias, weighted, unit, previous, &of_previous, &list,
                                   &corrupt);
            CHECK(lies_over(previous, v, p, q, weighted, unit, next));
            g.csr.indices = (gz_ids){g.wide, true};
            CHECK_EQ(gz_biased_exact(&g.csr, &bias, weighted, unit, previous, &of_previous, &list,
                                     &corrupt),
                     next);
            g.csr.indices = (gz_ids){g.indices, false};
        }
    }
    CHECK_EQ(corrupt, 0);
}

/* A coin c of 53 bits stands for c / 2^53, and is accepted below the bias over the largest. */
static void coins_are_accepted_below_the_bias(void)
{
    const double values[] = {4.9406564584124654e-324, 1e-300, 0.3, 1.0, 7.0, 1e300, DBL_MAX};
    for (int i = 0; i < 49; i++) {
        double p = values[i / 7], q = values[i % 7], least = fmin(1.0, fmin(p, q));
        const double wanted[GZ_RELATIONS] = {least / p, least, least / q};
        gz_bias bias = gz_bias_of(p, q);
        for (int r = 0; r < GZ_RELATIONS; r++) {
            int64_t accept = bias.accept[r];
            CHECK(accept >= 0 && accept <= INT64_C(1) << 53);
            CHECK(accept == 0 || (double)(accept - 1) * 0x1p-53 < wanted[r]);
            CHECK(!((double)accept * 0x1p-53 < wanted[r]));
        }
        CHECK(bias.least <= bias.most);
        CHECK_EQ(bias.least + bias.most, bias.accept[GZ_COMMON] + bias.accept[GZ_FAR]);
    }
}

static void corrupt_ids_are_counted(void)
{
    const gz_bias bias = gz_bias_of(2.0, 0.5);
    gz_weighted_list of_previous, list;
    uint64_t corrupt = 0;
    make_graph();
    of_previous = list_of(1), list = list_of(2);
    for (uint64_t i = list.first; i < list.first + list.degree; i++)
        g.indices[i] = UINT32_MAX;
    int64_t next = gz_biased_exact(&g.csr, &bias, false, 0.5, 1, &of_previous, &list, &corrupt);
    CHECK(corrupt > 0 && next == 0);
}

void test_bias(void)
{
    RUN(exact_steps_are_by_inverse_transform);
    RUN(coins_are_accepted_below_the_bias);
    RUN(corrupt_ids_are_counted);
}
