#include <string.h>

#include "check.h"
#include "graphzero/rng.h"
#include "graphzero/sampling.h"
#include "support.h"

enum { NODES = 8, ROOM = 20000 };

static const int DEGREES[NODES] = {0, 1, 3, 10, 256, 257, 700, 2};
static const int64_t ALL[NODES] = {0, 1, 2, 3, 4, 5, 6, 7};

static graph g;
static gz_list lists[NODES];
static int64_t offsets[NODES + 1], positions[ROOM];

static gz_hop hop_of(int64_t fanout, bool replace, uint64_t key)
{
    return (gz_hop){.fanout = fanout,
                    .rule.replace = replace,
                    .draws.key = gz_key(GZ_PURPOSE_SAMPLE, key, 0, 0)};
}

/* Both passes over all nodes, as callers make them; returns the corrupt lists of both. */
static uint64_t sample(const gz_hop *hop, const int64_t *nodes)
{
    uint64_t corrupt =
        gz_hop_counts(&g.csr, hop, &(gz_frontier){.nodes = nodes}, 0, NODES, lists, offsets + 1);
    offsets[0] = 0;
    for (int i = 0; i < NODES; i++)
        offsets[i + 1] += offsets[i];
    CHECK(offsets[NODES] <= ROOM);
    CHECK_EQ(gz_hop_positions(&g.csr, hop, &(gz_frontier){.nodes = nodes}, lists, offsets, 0, NODES,
                              positions),
             0);
    return corrupt;
}

static void no_repeats_in_any_regime(void)
{
    const int64_t fanouts[] = {1, 2, 3, 9, 10, 11, 255, 256, 257, 300, 699, 700, 701, 1 << 20, -1};
    graph_with_degrees(&g, DEGREES, NODES);
    for (unsigned f = 0; f < sizeof fanouts / sizeof fanouts[0]; f++) {
        gz_hop hop = hop_of(fanouts[f], false, f);
        CHECK_EQ(sample(&hop, ALL), 0);
        for (int v = 0; v < NODES; v++) {
            bool seen[700] = {false};
            int64_t count = offsets[v + 1] - offsets[v];
            bool all = fanouts[f] < 0 || fanouts[f] >= DEGREES[v];
            CHECK_EQ(count, all ? DEGREES[v] : fanouts[f]);
            for (int64_t i = 0; i < count; i++) {
                int64_t pick = positions[offsets[v] + i] - (int64_t)g.indptr[v];
                if (!CHECK(pick >= 0 && pick < DEGREES[v]))
                    return;
                CHECK(!seen[pick]);
                CHECK(!all || pick == i);
                seen[pick] = true;
            }
        }
    }
}

static void replacement_draws_the_whole_fanout(void)
{
    gz_hop hop = hop_of(50, true, 1);
    graph_with_degrees(&g, DEGREES, NODES);
    CHECK_EQ(sample(&hop, ALL), 0);
    for (int v = 0; v < NODES; v++) {
        CHECK_EQ(offsets[v + 1] - offsets[v], DEGREES[v] > 0 ? 50 : 0);
        for (int64_t i = offsets[v]; i < offsets[v + 1]; i++)
            CHECK(positions[i] >= (int64_t)g.indptr[v] && positions[i] < (int64_t)g.indptr[v + 1]);
    }
    hop.fanout = -1; /* all neighbours, once each */
    CHECK_EQ(sample(&hop, ALL), 0);
    CHECK_EQ(offsets[NODES], g.csr.num_edges);
    for (int64_t i = 0; i < offsets[NODES]; i++)
        CHECK_EQ(positions[i], i);
}

/* Chi-square over the positions of one node. Without replacement the draws of one sample exclude
 * each other: the variance is that of the hypergeometric distribution. */
static double chi_square(int node, int64_t fanout, bool replace, int trials)
{
    static int counts[700];
    double degree = DEGREES[node], share = (double)fanout / degree, sum = 0;
    double variance = replace ? share * (1 - 1 / degree) : share * (1 - share);
    memset(counts, 0, sizeof counts);
    for (int t = 0; t < trials; t++) {
        gz_hop hop = hop_of(fanout, replace, (uint64_t)t);
        int64_t ends[2] = {0, fanout};
        const int64_t one[] = {node};
        const gz_list list = {g.indptr[node], (uint64_t)DEGREES[node]};
        CHECK_EQ(gz_hop_positions(&g.csr, &hop, &(gz_frontier){.nodes = one}, &list, ends, 0, 1,
                                  positions),
                 0);
        for (int64_t i = 0; i < fanout; i++)
            counts[positions[i] - (int64_t)g.indptr[node]]++;
    }
    for (int i = 0; i < DEGREES[node]; i++) {
        double off = counts[i] - trials * share;
        sum += off * off / (trials * variance);
    }
    return sum * (degree - 1) / degree;
}

/* The bounds are the 0.1 % points for degree - 1 degrees of freedom. */
static void every_neighbor_is_as_likely(void)
{
    graph_with_degrees(&g, DEGREES, NODES);
    CHECK(chi_square(3, 1, false, 4000) < 27.9);
    CHECK(chi_square(3, 4, false, 4000) < 27.9);
    CHECK(chi_square(3, 9, false, 4000) < 27.9);
    CHECK(chi_square(3, 7, true, 4000) < 27.9);
    CHECK(chi_square(5, 40, false, 1000) < 330.5);
    CHECK(chi_square(6, 300, false, 500) < 819.1);
}

static void draws_depend_on_key_and_node_alone(void)
{
    const int64_t reversed[NODES] = {7, 6, 5, 4, 3, 2, 1, 0};
    static int64_t one_way[ROOM], ends[NODES + 1];
    graph_with_degrees(&g, DEGREES, NODES);
    const int64_t fanouts[] = {4, 300};
    for (int f = 0; f < 2; f++) {
        gz_hop hop = hop_of(fanouts[f], false, 9);
        CHECK_EQ(sample(&hop, ALL), 0);
        memcpy(one_way, positions, sizeof one_way);
        memcpy(ends, offsets, sizeof ends);
        memset(positions, 0, sizeof positions);
        for (int i = 0; i < NODES; i++) /* in eight ranges */
            CHECK_EQ(gz_hop_positions(&g.csr, &hop, &(gz_frontier){.nodes = ALL}, lists, offsets, i,
                                      i + 1, positions),
                     0);
        CHECK(memcmp(positions, one_way, (size_t)ends[NODES] * sizeof *positions) == 0);
        CHECK_EQ(sample(&hop, reversed), 0);
        for (int i = 0; i < NODES; i++)
            CHECK(memcmp(positions + offsets[i], one_way + ends[NODES - 1 - i],
                         (size_t)(offsets[i + 1] - offsets[i]) * sizeof *positions) == 0);
        hop.draws.key++;
        CHECK_EQ(sample(&hop, ALL), 0);
        CHECK(memcmp(positions, one_way, (size_t)ends[NODES] * sizeof *positions) != 0);
    }
}

static void repeats_draw_together_or_each_for_itself(void)
{
    const int64_t repeats[NODES] = {6, 6, 6, 6, 3, 6, 6, 6};
    gz_hop hop = hop_of(20, false, 9);
    graph_with_degrees(&g, DEGREES, NODES);
    CHECK_EQ(sample(&hop, repeats), 0);
    CHECK(memcmp(positions + offsets[0], positions + offsets[7], 20 * sizeof *positions) == 0);
    hop.rule.by_seed = true;
    CHECK_EQ(sample(&hop, repeats), 0);
    for (int i = 1; i < 4; i++)
        CHECK(memcmp(positions, positions + offsets[i], 20 * sizeof *positions) != 0);
}

static void corrupt_lists_are_counted_and_not_followed(void)
{
    gz_hop hop = hop_of(-1, false, 1);
    graph_with_degrees(&g, DEGREES, NODES);
    g.indptr[4] = UINT64_MAX - 5; /* lists 3 and 4 */
    CHECK_EQ(sample(&hop, ALL), 2);
    CHECK_EQ(offsets[4] - offsets[3], 0);
    CHECK_EQ(offsets[5] - offsets[4], 0);
    CHECK_EQ(offsets[6] - offsets[5], 257);
}

/* The file is read once: a list that changes after the first pass changes nothing. */
static void lists_that_change_between_the_passes(void)
{
    const gz_hop hops[] = {hop_of(-1, false, 1), hop_of(2, false, 1), hop_of(5, true, 1)};
    const uint64_t ends[] = {0, 1, 900, UINT64_MAX};
    const int64_t one[] = {2};
    for (int h = 0; h < 3; h++) {
        int64_t place[2] = {0, 0}, wanted[12], out[12];
        graph_with_degrees(&g, DEGREES, NODES);
        CHECK_EQ(
            gz_hop_counts(&g.csr, &hops[h], &(gz_frontier){.nodes = one}, 0, 1, lists, &place[1]),
            0);
        CHECK_EQ(gz_hop_positions(&g.csr, &hops[h], &(gz_frontier){.nodes = one}, lists, place, 0,
                                  1, wanted),
                 0);
        for (int e = 0; e < 4; e++) {
            g.indptr[3] = ends[e];
            CHECK_EQ(gz_hop_positions(&g.csr, &hops[h], &(gz_frontier){.nodes = one}, lists, place,
                                      0, 1, out),
                     0);
            CHECK(memcmp(out, wanted, (size_t)place[1] * sizeof *out) == 0);
        }
    }
}

void test_sampling(void)
{
    RUN(no_repeats_in_any_regime);
    RUN(replacement_draws_the_whole_fanout);
    RUN(every_neighbor_is_as_likely);
    RUN(draws_depend_on_key_and_node_alone);
    RUN(repeats_draw_together_or_each_for_itself);
    RUN(corrupt_lists_are_counted_and_not_followed);
    RUN(lists_that_change_between_the_passes);
}
