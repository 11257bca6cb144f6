/* Lists of a hostile or broken file: entries out of range are counted, and never followed. */
#include "check.h"

#include <math.h>
#include <string.h>

#include "graphzero/batch.h"
#include "graphzero/gather.h"
#include "graphzero/negatives.h"
#include "graphzero/node2vec.h"
#include "graphzero/rng.h"
#include "graphzero/sampling.h"
#include "graphzero/walk.h"
#include "graphzero/walk_ahead.h"
#include "graphzero/weighted.h"
#include "support.h"

enum { NODES = 8, ROOM = 2100, WALKS = 64, LENGTH = 20 };

static const int DEGREES[NODES] = {0, 1, 4, 10, 256, 300, 700, 2};
static const int64_t ALL[NODES] = {0, 1, 2, 3, 4, 5, 6, 7};
static const gz_frontier FRONTIER = {.nodes = ALL};

static graph g;
static double sums[MOST_EDGES];
static gz_list lists[NODES];
static int64_t offsets[NODES + 1], positions[ROOM];

/* Weights 1, 2, 3, 0, 1, 2, 3, 0 and so on; those of node 1 and 7 are 0. */
static void make_graph(void)
{
    graph_with_degrees(&g, DEGREES, NODES);
    for (int v = 0; v < NODES; v++) {
        double sum = 0.0;
        for (uint64_t i = 0; i < (uint64_t)DEGREES[v]; i++)
            sums[g.indptr[v] + i] = sum += v == 1 || v == 7 ? 0.0 : (double)((i + 1) % 4);
    }
    g.csr.cum_weights = sums;
}

static gz_hop hop_of(int64_t fanout, bool replace, bool weighted)
{
    const gz_draw_kind *kind = weighted ? gz_draw_kind_named("weighted") : NULL;
    return (gz_hop){.fanout = fanout, .rule = {.replace = replace, .kind = kind}, .draws.key = 1};
}

/* Both passes over all nodes, as callers make them; returns the corrupt lists of both. */
static uint64_t sample(const gz_hop *hop)
{
    uint64_t corrupt = gz_hop_counts(&g.csr, hop, &FRONTIER, 0, NODES, lists, offsets + 1);
    offsets[0] = 0;
    for (int v = 0; v < NODES; v++)
        offsets[v + 1] += offsets[v];
    if (!CHECK(offsets[NODES] <= ROOM))
        return corrupt;
    return corrupt + gz_hop_positions(&g.csr, hop, &FRONTIER, lists, offsets, 0, NODES, positions);
}

static void check_in_their_lists(void)
{
    for (int v = 0; v < NODES; v++)
        for (int64_t i = offsets[v]; i < offsets[v + 1]; i++)
            CHECK(positions[i] >= (int64_t)lists[v].first &&
                  positions[i] < (int64_t)(lists[v].first + lists[v].degree));
}

/* Walks step by step, with page read-ahead, are the walks without it, and count the same. */
static void walk_ahead(const gz_walk *walk, const int64_t *start)
{
    enum { PAGES = GZ_AHEAD_BLOCK * GZ_AHEAD_PAGES };
    static gz_pick pages[2 * PAGES], picks[WALKS], scratch[WALKS];
    static gz_walker_state states[WALKS];
    static int64_t expected[WALKS * (LENGTH + 1)], out[WALKS * (LENGTH + 1)];
    /* the arrays are in no file: their pages are looked at where they are */
    const gz_mapping memory = {.base = (unsigned char *)4096, .size = UINT64_MAX / 2, .fd = -1};
    gz_page_ahead ahead = {&memory, GZ_WILLNEED_ONLY_COUNT, pages, pages + PAGES, 0, WALKS / 4};
    gz_walks walks = {.start = start, .out = expected, .length = LENGTH, .to = LENGTH};
    uint64_t corrupt = gz_walk_steps(&g.csr, walk, &walks, 0, WALKS);
    walks.out = out;
    walks.states = states;
    CHECK_EQ(gz_walk_ahead(&ahead, &g.csr, walk, &walks, false, picks, scratch, 0, WALKS), corrupt);
    CHECK_EQ(memcmp(out, expected, sizeof out), 0);
}

/* Walks of both kinds; returns what they count. */
static uint64_t walk(double p, double q, bool weighted)
{
    static int64_t start[WALKS], out[WALKS * (LENGTH + 1)];
    gz_walk how = {.key = 1, .p = p, .q = q, .weighted = weighted};
    const gz_walks walks = {.start = start, .out = out, .length = LENGTH, .to = LENGTH};
    bool is_first_order = p == 1.0 && q == 1.0;
    for (int i = 0; i < WALKS; i++)
        start[i] = i % NODES;
    uint64_t corrupt =
        (is_first_order ? gz_walk_first_order : gz_walk_node2vec)(&g.csr, &how, &walks, 0, WALKS);
    for (int i = 0; i < WALKS * (LENGTH + 1); i++)
        CHECK(out[i] >= -1 && out[i] < NODES);
    walk_ahead(&how, start);
    return corrupt;
}

/* The same batch, whose topology is requested for so many nodes at once. */
static void sample_in_parts(one_type *one, const gz_seeds *seeds, const gz_batch *expected,
                            int64_t part)
{
    const gz_mapping memory = {.base = (unsigned char *)4096, .size = UINT64_MAX / 2, .fd = -1};
    const gz_hop_readahead readahead = {.mapping = &memory, .mode = GZ_WILLNEED_ONLY_COUNT};
    const gz_edge_list *edges = &expected->edges[0];
    gz_batch batch;
    gz_batch_init(&batch);
    batch.ahead = part;
    one->edge_type.readahead = &readahead;
    CHECK_EQ(gz_batch_sample(&batch, &one->plan, seeds, &err), GZ_OK);
    one->edge_type.readahead = NULL;
    size_t bytes = (size_t)edges->count * sizeof *edges->sources;
    if (CHECK_EQ(batch.edges[0].count, edges->count)) {
        CHECK_EQ(memcmp(batch.edges[0].sources, edges->sources, bytes), 0);
        CHECK_EQ(memcmp(batch.edges[0].targets, edges->targets, bytes), 0);
    }
    CHECK_EQ(batch.edges[0].corrupt, edges->corrupt);
    gz_batch_free(&batch);
}

TEST(less_is_requested_at_once_after_page_faults)
{
    CHECK_EQ(gz_ahead_adapted(4096, 4096, 4096, 0), 4096);
    CHECK_EQ(gz_ahead_adapted(4096, 4096, 4096, 1000), 2048);
    CHECK_EQ(gz_ahead_adapted(2048, 4096, 4096, 100), 2048); /* neither few nor many */
    CHECK_EQ(gz_ahead_adapted(2048, 4096, 4096, 10), 4096);
    CHECK_EQ(gz_ahead_adapted(3000, 4096, 4096, 10), 3000); /* not beyond the most */
    CHECK_EQ(gz_ahead_adapted(64, 4096, 4096, 4096), 64);
    CHECK_EQ(gz_ahead_adapted(4096, 4096, 10, 10), 4096); /* too few to tell */
}

static uint64_t sample_batch(void)
{
    const int64_t fanouts[] = {5, 5};
    const gz_seeds seeds = {ALL, NODES};
    one_type one;
    gz_batch batch;
    plan_of(&one, &g, fanouts, 2);
    gz_batch_init(&batch);
    CHECK_EQ(gz_batch_sample(&batch, &one.plan, &seeds, &err), GZ_OK);
    uint64_t corrupt = batch.edges[0].corrupt;
    for (int64_t part = 1; part <= 4; part++)
        sample_in_parts(&one, &seeds, &batch, part);
    gz_batch_free(&batch);
    return corrupt;
}

static uint64_t draw_negatives(void)
{
    enum { DRAWS = 100 };
    int64_t counts[NODES], from[DRAWS], to[DRAWS], destinations[9 * NODES];
    uint64_t corrupt = gz_negative_counts(&g.csr, ALL, ALL, 0, NODES, counts);
    CHECK_EQ(gz_negative_pairs(&g.csr, 1, NULL, 0, DRAWS, from, to) > 0, corrupt > 0);
    CHECK_EQ(gz_negative_destinations(&g.csr, 1, ALL, ALL, 9, 0, 9 * NODES, destinations) > 0,
             corrupt > 0);
    for (int i = 0; i < DRAWS; i++)
        CHECK(from[i] >= 0 && from[i] < NODES && to[i] >= 0 && to[i] < NODES);
    for (int i = 0; i < 9 * NODES; i++)
        CHECK(destinations[i] >= -1 && destinations[i] < NODES);
    return corrupt;
}

TEST(lists_beyond_the_edges_are_counted_and_not_followed)
{
    const gz_hop hop = hop_of(-1, false, false);
    make_graph();
    g.indptr[4] = UINT64_MAX - 5; /* lists 3 and 4 */
    CHECK_EQ(sample(&hop), 2);
    CHECK_EQ(offsets[5] - offsets[3], 0);
    CHECK_EQ(offsets[6] - offsets[5], DEGREES[5]);
    CHECK(walk(1, 1, false) > 0);
    CHECK(walk(2, 0.5, false) > 0);
    CHECK(sample_batch() > 0);
    CHECK(draw_negatives() > 0);
}

TEST(neighbors_out_of_range_are_counted_and_not_followed)
{
    make_graph();
    for (uint64_t i = 0; i < g.csr.num_edges; i++)
        g.indices[i] = UINT32_MAX;
    CHECK(walk(1, 1, false) > 0);
    CHECK(walk(2, 0.5, false) > 0);
    CHECK(sample_batch() > 0);
    draw_negatives(); /* an id that no node has is no edge */
}

TEST(entries_of_tables_beyond_the_nodes_become_0)
{
    const uint64_t entries[] = {3, 4, 5, UINT64_MAX};
    const gz_ids table = {entries, true};
    int64_t out[4];
    CHECK_EQ(gz_translate(&table, 4, ALL, 0, 4, out), 3);
    CHECK(out[0] == 3 && out[1] == 0 && out[2] == 0 && out[3] == 0);
}

/* Lists that do not ascend, whose ids are in range: nothing is counted, and nothing else is read.
 */
TEST(unsorted_lists_are_not_left)
{
    const double values[] = {1e-9, 0.5, 2.0};
    make_graph();
    for (uint64_t i = 0; i < g.csr.num_edges; i++)
        g.indices[i] = (uint32_t)gz_bounded(gz_draw(8, i), NODES);
    for (int k = 0; k < 9; k++)
        CHECK_EQ(walk(values[k / 3], values[k % 3], false), 0);
    CHECK_EQ(draw_negatives(), 0);
}

/* The file is read once: a list that changes after the first pass changes nothing. */
TEST(lists_that_change_between_the_passes)
{
    const gz_hop hops[] = {hop_of(-1, false, false), hop_of(2, false, false),
                           hop_of(5, true, false)};
    const uint64_t ends[] = {0, 1, 900, UINT64_MAX};
    for (unsigned i = 0; i < COUNT(hops) * COUNT(ends); i++) {
        int64_t again[ROOM];
        make_graph();
        CHECK_EQ(sample(&hops[i % 3]), 0);
        g.indptr[3] = ends[i / 3];
        CHECK_EQ(gz_hop_positions(&g.csr, &hops[i % 3], &FRONTIER, lists, offsets, 0, NODES, again),
                 0);
        CHECK(memcmp(again, positions, (size_t)offsets[NODES] * sizeof *again) == 0);
    }
}

/* Not always detected: a search in a descending list can end where its neighbours look right. */
enum { DESCENDING = 3, ZERO = 6, WAYS = 7 };

static void spoil_sums(int how)
{
    make_graph();
    for (uint64_t i = 0; i < g.csr.num_edges; i++)
        sums[i] = how == 0            ? NAN
                  : how == 1          ? -1.0 - (double)i
                  : how == 2          ? INFINITY
                  : how == DESCENDING ? 1e6 - (double)i
                  : how == 4          ? (i % 2 ? NAN : (double)i)
                  : how == 5          ? (i % 3 ? 4.9406564584124654e-324 : INFINITY)
                                      : 0.0;
}

TEST(hostile_sums_are_counted_and_not_followed)
{
    const int64_t fanouts[] = {3, 200, 290, -1};
    for (int how = 0; how < WAYS; how++) {
        uint64_t corrupt = 0;
        for (int f = 0; f < 8; f++) {
            gz_hop hop = hop_of(fanouts[f / 2], f % 2, true);
            spoil_sums(how);
            corrupt += sample(&hop);
            check_in_their_lists();
            /* or they change after the entries have been counted: all are written, in range */
            make_graph();
            CHECK_EQ(sample(&hop), 0);
            memset(positions, 0xFF, sizeof positions);
            spoil_sums(how);
            uint64_t later =
                gz_hop_positions(&g.csr, &hop, &FRONTIER, lists, offsets, 0, NODES, positions);
            CHECK(later > 0 || how == DESCENDING);
            check_in_their_lists();
        }
        spoil_sums(how);
        uint64_t walked = walk(1, 1, true), biased = walk(1e-9, 1, true);
        CHECK(how == ZERO || corrupt > 0);
        CHECK(how == ZERO || how == DESCENDING || (walked > 0 && biased > 0));
    }
}
