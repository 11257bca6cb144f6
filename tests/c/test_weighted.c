#include <math.h>
#include <string.h>

#include "check.h"
#include "graphzero/node2vec.h"
#include "graphzero/rng.h"
#include "graphzero/sampling.h"
#include "graphzero/walk.h"
#include "graphzero/weighted.h"
#include "support.h"

enum { NODES = 8, MOST_DRAWS = 2100, TRIALS = 20000 };

static const int DEGREES[NODES] = {0, 1, 4, 10, 256, 300, 700, 2};
static const int64_t ALL[NODES] = {0, 1, 2, 3, 4, 5, 6, 7};

static graph g;
static double sums[MOST_EDGES], weights[MOST_EDGES];
static gz_list lists[NODES];
static int64_t offsets[NODES + 1], positions[MOST_DRAWS];

static void sum_up(void)
{
    for (int v = 0; v < NODES; v++) {
        double sum = 0.0;
        for (uint64_t i = g.indptr[v]; i < g.indptr[v + 1]; i++)
            sums[i] = sum += weights[i];
    }
    g.csr.cum_weights = sums;
}

/* Weights 1, 2, 3, 0, 1, 2, 3, 0 and so on; those of node 1 and 7 are 0. */
static void make_graph(void)
{
    graph_with_degrees(&g, DEGREES, NODES);
    for (int v = 0; v < NODES; v++)
        for (uint64_t i = 0; i < (uint64_t)DEGREES[v]; i++)
            weights[g.indptr[v] + i] = v == 1 || v == 7 ? 0.0 : (double)((i + 1) % 4);
    sum_up();
}

static gz_hop hop_of(int64_t fanout, bool replace, uint64_t key)
{
    return (gz_hop){.fanout = fanout,
                    .rule = {.replace = replace, .kind = gz_draw_kind_named("weighted")},
                    .draws.key = key};
}

static uint64_t sample(const gz_hop *hop)
{
    uint64_t corrupt =
        gz_hop_counts(&g.csr, hop, &(gz_frontier){.nodes = ALL}, 0, NODES, lists, offsets + 1);
    offsets[0] = 0;
    for (int v = 0; v < NODES; v++)
        offsets[v + 1] += offsets[v];
    if (!CHECK(offsets[NODES] <= MOST_DRAWS))
        return corrupt;
    return corrupt + gz_hop_positions(&g.csr, hop, &(gz_frontier){.nodes = ALL}, lists, offsets, 0,
                                      NODES, positions);
}

static void check_in_their_lists(void)
{
    for (int v = 0; v < NODES; v++)
        for (int64_t i = offsets[v]; i < offsets[v + 1]; i++)
            CHECK(positions[i] >= (int64_t)lists[v].first &&
                  positions[i] < (int64_t)(lists[v].first + lists[v].degree));
}

static void no_repeats_and_no_zeros(void)
{
    const int64_t fanouts[] = {1, 3, 7, 8, 9, 100, 192, 225, 256, 257, 500, 526, 700, -1};
    make_graph();
    for (unsigned f = 0; f < sizeof fanouts / sizeof fanouts[0]; f++) {
        gz_hop hop = hop_of(fanouts[f], false, f);
        CHECK_EQ(sample(&hop), 0);
        check_in_their_lists();
        for (int v = 0; v < NODES; v++) {
            static bool seen[MOST_EDGES];
            int64_t drawable = 0, count = offsets[v + 1] - offsets[v];
            memset(seen, 0, sizeof seen);
            for (uint64_t i = g.indptr[v]; i < g.indptr[v + 1]; i++)
                drawable += weights[i] > 0.0;
            CHECK_EQ(count, fanouts[f] < 0 || drawable < fanouts[f] ? drawable : fanouts[f]);
            for (int64_t i = offsets[v]; i < offsets[v + 1]; i++) {
                CHECK(weights[positions[i]] > 0.0 && !seen[positions[i]]);
                seen[positions[i]] = true;
            }
        }
    }
}

static void replacement_draws_the_whole_fanout(void)
{
    gz_hop hop = hop_of(50, true, 1);
    make_graph();
    CHECK_EQ(sample(&hop), 0);
    check_in_their_lists();
    for (int v = 0; v < NODES; v++)
        CHECK_EQ(offsets[v + 1] - offsets[v], v == 0 || v == 1 || v == 7 ? 0 : 50);
    for (int64_t i = 0; i < offsets[NODES]; i++)
        CHECK(weights[positions[i]] > 0.0);
}

/* Chi-square of the ordered draws of two out of the four entries of node 2, against successive
 * sampling. 11 degrees of freedom for positive weights: 31.3 is the 0.1 % point. */
static double chi_square_of_pairs(const double w[4])
{
    static int counts[4][4];
    double sum = 0, total = w[0] + w[1] + w[2] + w[3];
    uint64_t first = g.indptr[2];
    memset(counts, 0, sizeof counts);
    memcpy(weights + first, w, 4 * sizeof *w);
    sum_up();
    for (uint64_t t = 0; t < TRIALS; t++) {
        int64_t out[2];
        CHECK_EQ(gz_weighted_distinct(&g.csr, gz_stream(t, 1), first, 4, 2, out), 0);
        counts[out[0] - (int64_t)first][out[1] - (int64_t)first]++;
    }
    for (int a = 0; a < 4; a++)
        for (int b = 0; b < 4; b++) {
            double wanted = a == b ? 0 : TRIALS * w[a] / total * w[b] / (total - w[a]);
            CHECK(counts[a][b] == 0 || wanted > 0);
            if (wanted > 0)
                sum += (counts[a][b] - wanted) * (counts[a][b] - wanted) / wanted;
        }
    return sum;
}

static void pairs_come_as_in_successive_sampling(void)
{
    make_graph();
    CHECK(chi_square_of_pairs((double[]){1, 2, 3, 4}) < 31.3);
    CHECK(chi_square_of_pairs((double[]){5, 1, 1, 5}) < 31.3);
    CHECK(chi_square_of_pairs((double[]){3, 0, 1, 2}) < 20.5); /* 5 degrees */
}

/* One entry outweighs the others so far that they are drawn by keys: 5 degrees. */
static void pairs_beside_a_giant(void)
{
    static int counts[4];
    double sum = 0;
    make_graph();
    uint64_t first = g.indptr[2];
    memcpy(weights + first, (double[]){1, 2, 0x1p40, 3}, 4 * sizeof *weights);
    sum_up();
    memset(counts, 0, sizeof counts);
    for (uint64_t t = 0; t < TRIALS; t++) {
        int64_t out[2];
        CHECK_EQ(gz_weighted_distinct(&g.csr, gz_stream(t, 2), first, 4, 2, out), 0);
        CHECK_EQ(out[0] - (int64_t)first, 2);
        counts[out[1] - (int64_t)first]++;
    }
    for (int i = 0; i < 4; i++) {
        double wanted = TRIALS * weights[first + (uint64_t)i] / 6;
        if (i != 2)
            sum += (counts[i] - wanted) * (counts[i] - wanted) / wanted;
    }
    CHECK(sum < 13.8); /* 2 degrees */
}

/* Entries of one weight come equally often by keys, which more than 256 draws are made by. */
static void many_draws_are_by_keys(void)
{
    static int counts[700];
    static int64_t out[300];
    double share = 300.0 / 700.0, sum = 0;
    make_graph();
    uint64_t first = g.indptr[6];
    for (int i = 0; i < 700; i++)
        weights[first + (uint64_t)i] = 0.5;
    sum_up();
    memset(counts, 0, sizeof counts);
    for (uint64_t t = 0; t < 500; t++) {
        CHECK_EQ(gz_weighted_distinct(&g.csr, gz_stream(t, 3), first, 700, 300, out), 0);
        for (int i = 0; i < 300; i++)
            counts[out[i] - (int64_t)first]++;
    }
    for (int i = 0; i < 700; i++)
        sum += (counts[i] - 500 * share) * (counts[i] - 500 * share);
    CHECK(sum / (500 * share * (1 - share)) * 699 / 700 < 819.1);
}

/* Not always detected: a search in a descending list can end where its neighbours look right. */
enum { DESCENDING = 3 };

static void spoil(int how)
{
    make_graph();
    for (uint64_t i = 0; i < g.csr.num_edges; i++)
        sums[i] = how == 0            ? NAN
                  : how == 1          ? -1.0 - (double)i
                  : how == 2          ? INFINITY
                  : how == DESCENDING ? 1e6 - (double)i
                  : how == 4          ? (i % 2 ? NAN : (double)i)
                                      : (i % 3 ? 4.9406564584124654e-324 : INFINITY);
}

static void hostile_sums_are_counted_and_not_followed(void)
{
    static int64_t start[64], out[64 * 21];
    for (int how = 0; how < 6; how++) {
        const int64_t fanouts[] = {3, 200, 290, -1};
        uint64_t corrupt = 0;
        spoil(how);
        for (int f = 0; f < 8; f++) {
            gz_hop hop = hop_of(fanouts[f / 2], f % 2, 1);
            corrupt += sample(&hop);
            check_in_their_lists();
        }
        CHECK(corrupt > 0);
        for (int i = 0; i < 64; i++)
            start[i] = i % NODES;
        for (int i = 0; i < 2; i++) {
            gz_walk walk = {.key = 1, .p = i ? 1e-9 : 1, .q = 1, .weighted = true};
            corrupt =
                (i ? gz_walk_node2vec : gz_walk_first_order)(&g.csr, &walk, start, 0, 64, 20, out);
            CHECK(corrupt > 0 || how == DESCENDING);
            for (int j = 0; j < 64 * 21; j++)
                CHECK(out[j] >= -1 && out[j] < NODES);
        }
    }
}

/* The sums change after the entries have been counted: everything is written, in range. */
static void sums_that_change_between_the_passes(void)
{
    const int64_t fanouts[] = {3, 200, 290, -1};
    for (int f = 0; f < 8; f++)
        for (int how = 0; how < 7; how++) {
            gz_hop hop = hop_of(fanouts[f / 2], f % 2, 1);
            make_graph();
            CHECK_EQ(sample(&hop), 0);
            memset(positions, 0xFF, sizeof positions);
            if (how < 6)
                spoil(how);
            else
                memset(sums, 0, sizeof sums);
            uint64_t corrupt = gz_hop_positions(&g.csr, &hop, &(gz_frontier){.nodes = ALL}, lists,
                                                offsets, 0, NODES, positions);
            CHECK(corrupt > 0 || how == DESCENDING);
            check_in_their_lists();
        }
}

static void walks_step_by_weight(void)
{
    static int64_t start[TRIALS], out[TRIALS * 2];
    int counts[NODES] = {0};
    double sum = 0;
    make_graph(); /* the neighbours of node 2 are 0, 2, 4 and 6 */
    memcpy(weights + g.indptr[2], (double[]){1, 0, 3, 2}, 4 * sizeof *weights);
    sum_up();
    for (int i = 0; i < TRIALS; i++)
        start[i] = 2;
    const gz_walk walk = {.key = 4, .weighted = true};
    CHECK_EQ(gz_walk_first_order(&g.csr, &walk, start, 0, TRIALS, 1, out), 0);
    for (int i = 0; i < TRIALS; i++)
        counts[out[2 * i + 1]]++;
    for (int v = 0; v < NODES; v += 2) {
        double wanted = TRIALS * weights[g.indptr[2] + (uint64_t)v / 2] / 6;
        if (wanted > 0)
            sum += (counts[v] - wanted) * (counts[v] - wanted) / wanted;
        else
            CHECK_EQ(counts[v], 0);
    }
    CHECK(sum < 13.8); /* 2 degrees */
}

void test_weighted(void)
{
    RUN(no_repeats_and_no_zeros);
    RUN(replacement_draws_the_whole_fanout);
    RUN(pairs_come_as_in_successive_sampling);
    RUN(pairs_beside_a_giant);
    RUN(many_draws_are_by_keys);
    RUN(hostile_sums_are_counted_and_not_followed);
    RUN(sums_that_change_between_the_passes);
    RUN(walks_step_by_weight);
}
