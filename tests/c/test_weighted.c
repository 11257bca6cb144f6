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

void test_weighted(void)
{
    RUN(hostile_sums_are_counted_and_not_followed);
    RUN(sums_that_change_between_the_passes);
}
