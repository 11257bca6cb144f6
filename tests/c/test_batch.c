#include <string.h>

#include "check.h"
#include "graphzero/batch.h"
#include "graphzero/rng.h"
#include "graphzero/sampling.h"
#include "support.h"

enum { NODES = 8, ROOM = 20000 };

static const int DEGREES[NODES] = {0, 1, 3, 10, 256, 257, 700, 2};

static graph g;
static gz_error err;

static gz_code sample(gz_batch *batch, const one_type *one, const int64_t *ids, int64_t count)
{
    const gz_seeds seeds = {ids, count};
    return gz_batch_sample(batch, &one->plan, &seeds, &err);
}

/* One hop over a frontier, in two passes as documented. */
static int64_t naive_hop(const gz_hop *hop, const gz_frontier *frontier, int64_t count,
                         int64_t *offsets, int64_t *positions)
{
    static gz_list lists[ROOM];
    CHECK_EQ(gz_hop_counts(&g.csr, hop, frontier, 0, count, lists, offsets + 1), 0);
    offsets[0] = 0;
    for (int64_t i = 0; i < count; i++)
        offsets[i + 1] += offsets[i];
    CHECK_EQ(gz_hop_positions(&g.csr, hop, frontier, lists, offsets, 0, count, positions), 0);
    return offsets[count];
}

static void hops_follow_each_other(void)
{
    static int64_t offsets[ROOM], positions[ROOM];
    const int64_t seeds[] = {6, 2, 6, 3}, fanouts[] = {2, -1, 300};
    gz_batch batch;
    one_type one;
    graph_with_degrees(&g, DEGREES, NODES);
    plan_of(&one, &g, fanouts, 3);
    one.plan.draws = gz_draws_of(GZ_PURPOSE_SAMPLE, 1, 2, 3, 1);
    gz_batch_init(&batch);
    for (int round = 0; round < 3; round++) { /* the same memory, the same result */
        CHECK_EQ(sample(&batch, &one, seeds, 4), GZ_OK);
        const gz_node_space *space = &batch.spaces[0];
        const gz_edge_list *edges = &batch.edges[0];
        const int64_t *nodes = gz_nodes_ids(space);
        CHECK_EQ(edges->corrupt, 0);
        CHECK_EQ(space->hop_nodes[0], 4);
        int64_t first = 0, edge = 0;
        for (int h = 0; h < 3; h++) {
            gz_hop hop = {.fanout = fanouts[h],
                          .draws = gz_draws_below(&one.plan.draws, (uint64_t)h)};
            gz_frontier frontier = {.nodes = nodes + first};
            int64_t count = space->hop_nodes[h];
            CHECK_EQ(edges->hop_edges[h], naive_hop(&hop, &frontier, count, offsets, positions));
            for (int64_t i = 0; i < count; i++)
                for (int64_t e = offsets[i]; e < offsets[i + 1]; e++, edge++) {
                    uint64_t none = 0;
                    CHECK_EQ(edges->positions[edge], positions[e]);
                    CHECK_EQ(edges->targets[edge], first + i);
                    CHECK_EQ(nodes[edges->sources[edge]],
                             gz_csr_neighbor(&g.csr, (uint64_t)positions[e], &none));
                }
            first += count;
        }
        CHECK_EQ(edge, edges->count);
        CHECK_EQ(first + space->hop_nodes[3], space->count);
    }
    gz_batch_free(&batch);
}

static void no_seeds_no_edges(void)
{
    const int64_t fanouts[] = {5, 5};
    one_type one;
    gz_batch batch;
    graph_with_degrees(&g, DEGREES, NODES);
    plan_of(&one, &g, fanouts, 2);
    one.edge_type.rule.replace = true;
    gz_batch_init(&batch);
    CHECK_EQ(sample(&batch, &one, NULL, 0), GZ_OK);
    CHECK_EQ(batch.edges[0].count + batch.spaces[0].count, 0);
    gz_batch_free(&batch);
}

static void corrupt_lists_are_counted_and_not_followed(void)
{
    const int64_t seeds[] = {3}, fanouts[] = {5, 5};
    one_type one;
    gz_batch batch;
    graph_with_degrees(&g, DEGREES, NODES);
    plan_of(&one, &g, fanouts, 2);
    g.indptr[4] = UINT64_MAX;
    gz_batch_init(&batch);
    CHECK_EQ(sample(&batch, &one, seeds, 1), GZ_OK);
    CHECK(batch.edges[0].corrupt > 0);
    gz_batch_free(&batch);
}

/* A batch of one seed is a tree; a disjoint batch consists of such trees. */
static void disjoint_trees_are_batches_of_their_own(void)
{
    const int64_t seeds[] = {6, 2, 6}, fanouts[] = {-1, -1};
    one_type together, alone;
    gz_batch batch, single;
    graph_with_degrees(&g, DEGREES, NODES);
    plan_of(&together, &g, fanouts, 2);
    plan_of(&alone, &g, fanouts, 2);
    together.plan.disjoint = true;
    gz_batch_init(&batch);
    gz_batch_init(&single);
    CHECK_EQ(sample(&batch, &together, seeds, 3), GZ_OK);
    const gz_node_space *space = &batch.spaces[0];
    const gz_edge_list *edges = &batch.edges[0];
    for (int64_t tree = 0; tree < 3; tree++) {
        int64_t node = 0, edge = 0;
        CHECK_EQ(sample(&single, &alone, seeds + tree, 1), GZ_OK);
        const gz_node_space *one = &single.spaces[0];
        const gz_edge_list *its = &single.edges[0];
        for (int64_t i = 0; i < space->count; i++)
            if (space->trees[i] == tree && CHECK(node < one->count))
                CHECK_EQ(gz_nodes_ids(space)[i], gz_nodes_ids(one)[node++]);
        for (int64_t e = 0; e < edges->count; e++)
            if (space->trees[edges->targets[e]] == tree && CHECK(edge < its->count)) {
                CHECK_EQ(space->trees[edges->sources[e]], tree);
                CHECK_EQ(edges->positions[e], its->positions[edge]);
                CHECK_EQ(gz_nodes_ids(space)[edges->sources[e]],
                         gz_nodes_ids(one)[its->sources[edge]]);
                edge++;
            }
        CHECK_EQ(node, one->count);
        CHECK_EQ(edge, its->count);
    }
    gz_batch_free(&batch);
    gz_batch_free(&single);
}

static void trees_beyond_63_bits_are_refused(void)
{
    const int64_t seeds[] = {0, 1, 2}, fanouts[] = {1};
    one_type one;
    gz_batch batch;
    graph_with_degrees(&g, DEGREES, NODES);
    plan_of(&one, &g, fanouts, 1);
    one.plan.disjoint = true;
    one.num_nodes = INT64_MAX / 2;
    gz_batch_init(&batch);
    CHECK_EQ(sample(&batch, &one, seeds, 3), GZ_E_NOMEM);
    gz_batch_free(&batch);
}

/* Two node types; "likes" has lists of users (0) with ids of films (1), "seen by" the reverse, and
 * "knows" of users among themselves. */
enum { USERS = 3, FILMS = 5, LIKES = 0, SEEN_BY = 1, KNOWS = 2, EDGE_TYPES = 3 };

typedef struct typed {
    graph graphs[EDGE_TYPES];
    gz_edge_type edge_types[EDGE_TYPES];
    int64_t num_nodes[2];
    gz_plan plan;
} typed;

static void make_typed(typed *out, const int64_t *const fanouts[EDGE_TYPES], int num_hops)
{
    static const int LIKED[][2] = {{0, 3}, {0, 4}, {1, 4}, {2, 0}, {2, 2}, {2, 4}, {-1, 0}};
    static const int SEEN[][2] = {{0, 2}, {2, 2}, {3, 0}, {4, 0}, {4, 1}, {4, 2}, {-1, 0}};
    static const int KNOWN[][2] = {{0, 1}, {1, 2}, {2, 0}, {-1, 0}};
    memset(out, 0, sizeof *out);
    graph_of_edges(&out->graphs[LIKES], USERS, LIKED);
    graph_of_edges(&out->graphs[SEEN_BY], FILMS, SEEN);
    graph_of_edges(&out->graphs[KNOWS], USERS, KNOWN);
    out->graphs[LIKES].csr.num_neighbors = FILMS;
    out->graphs[SEEN_BY].csr.num_neighbors = USERS;
    out->num_nodes[0] = USERS;
    out->num_nodes[1] = FILMS;
    for (int i = 0; i < EDGE_TYPES; i++)
        out->edge_types[i] =
            (gz_edge_type){.csr = &out->graphs[i].csr, .owner = 0, .fanouts = fanouts[i]};
    out->edge_types[LIKES].neighbor = 1;
    out->edge_types[SEEN_BY].owner = 1;
    out->plan = (gz_plan){.edge_types = out->edge_types,
                          .num_edge_types = EDGE_TYPES,
                          .num_nodes = out->num_nodes,
                          .num_node_types = 2,
                          .num_hops = num_hops,
                          .draws = gz_draws_of(GZ_PURPOSE_SAMPLE, 1, 2, 3, 1)};
}

/* The stored ids at the ends of an edge, as in the graph. */
static void ends_of(const gz_batch *batch, const gz_edge_type *edge_type, int number, int64_t edge,
                    int64_t *owner, int64_t *neighbor)
{
    const gz_edge_list *edges = &batch->edges[number];
    *owner = gz_nodes_ids(&batch->spaces[edge_type->owner])[edges->targets[edge]];
    *neighbor = gz_nodes_ids(&batch->spaces[edge_type->neighbor])[edges->sources[edge]];
}

static void expect_edges(const gz_batch *batch, const typed *t, int number,
                         const int (*expected)[2], int64_t count)
{
    CHECK_EQ(batch->edges[number].count, count);
    for (int64_t e = 0; e < count && e < batch->edges[number].count; e++) {
        int64_t owner, neighbor;
        ends_of(batch, &t->edge_types[number], number, e, &owner, &neighbor);
        CHECK_EQ(owner, expected[e][0]);
        CHECK_EQ(neighbor, expected[e][1]);
    }
}

/* User 1 likes film 4 and knows user 2; then film 4 is seen by 0, 1, 2, and user 2 is expanded;
 * user 0, whom two edge types reach in that hop, is one node. */
static void every_type_has_its_own_numbers(void)
{
    static const int64_t all[] = {-1, -1};
    static const int64_t *const fanouts[] = {all, all, all};
    static const int liked[][2] = {{1, 4}, {2, 0}, {2, 2}, {2, 4}},
                     seen[][2] = {{4, 0}, {4, 1}, {4, 2}}, known[][2] = {{1, 2}, {2, 0}};
    const int64_t user = 1;
    const gz_seeds seeds[] = {{&user, 1}, {NULL, 0}};
    static typed t;
    gz_batch batch;
    make_typed(&t, fanouts, 2);
    gz_batch_init(&batch);
    for (int round = 0; round < 2; round++) {
        CHECK_EQ(gz_batch_sample(&batch, &t.plan, seeds, &err), GZ_OK);
        expect_edges(&batch, &t, LIKES, liked, 4);
        expect_edges(&batch, &t, SEEN_BY, seen, 3);
        expect_edges(&batch, &t, KNOWS, known, 2);
        const int64_t users[] = {1, 1, 1}, films[] = {0, 1, 2};
        for (int h = 0; h < 3; h++) {
            CHECK_EQ(batch.spaces[0].hop_nodes[h], users[h]);
            CHECK_EQ(batch.spaces[1].hop_nodes[h], films[h]);
        }
        const int64_t counts[EDGE_TYPES][2] = {{1, 3}, {0, 3}, {1, 1}};
        for (int i = 0; i < EDGE_TYPES; i++)
            for (int h = 0; h < 2; h++)
                CHECK_EQ(batch.edges[i].hop_edges[h], counts[i][h]);
    }
    gz_batch_free(&batch);
}

static void a_fanout_of_zero_takes_nothing_in_that_hop(void)
{
    static const int64_t none[] = {0, 0}, second[] = {0, -1}, all[] = {-1, -1};
    static const int64_t *const fanouts[] = {all, none, second};
    static const int known[][2] = {{0, 1}};
    const int64_t film = 4, user = 1;
    const gz_seeds seeds[] = {{&user, 1}, {&film, 1}};
    static typed t;
    gz_batch batch;
    make_typed(&t, fanouts, 2);
    gz_batch_init(&batch);
    CHECK_EQ(gz_batch_sample(&batch, &t.plan, seeds, &err), GZ_OK);
    CHECK_EQ(batch.edges[LIKES].count, 1);
    CHECK_EQ(batch.edges[SEEN_BY].count, 0);
    expect_edges(&batch, &t, KNOWS, known, 0); /* user 1 is expanded in the first hop only */
    gz_batch_free(&batch);
}

/* Edge type 0 draws as a graph without types; others have draws of their own. */
static void edge_types_draw_independently(void)
{
    static const int64_t some[] = {40};
    const int64_t seed = 6;
    const gz_seeds seeds = {&seed, 1};
    gz_batch alone, twice;
    one_type one;
    graph_with_degrees(&g, DEGREES, NODES);
    plan_of(&one, &g, some, 1);
    one.plan.draws = gz_draws_of(GZ_PURPOSE_SAMPLE, 1, 2, 3, 1);
    gz_batch_init(&alone);
    gz_batch_init(&twice);
    CHECK_EQ(gz_batch_sample(&alone, &one.plan, &seeds, &err), GZ_OK);
    const gz_edge_type same[] = {one.edge_type, one.edge_type};
    gz_plan plan = one.plan;
    plan.edge_types = same;
    plan.num_edge_types = 2;
    CHECK_EQ(gz_batch_sample(&twice, &plan, &seeds, &err), GZ_OK);
    const size_t bytes = 40 * sizeof(int64_t);
    CHECK(memcmp(twice.edges[0].positions, alone.edges[0].positions, bytes) == 0);
    CHECK(memcmp(twice.edges[1].positions, alone.edges[0].positions, bytes) != 0);
    gz_draws other = gz_draws_below(&plan.draws, GZ_MOST_HOPS);
    CHECK_EQ(gz_batch_draws(&plan, 1, 0).key, other.key);
    gz_batch_free(&alone);
    gz_batch_free(&twice);
}

/* The trees of both types' seeds have numbers that follow each other, and share no node. */
static void trees_number_the_seeds_of_all_types(void)
{
    static const int64_t all[] = {-1, -1};
    static const int64_t *const fanouts[] = {all, all, all};
    const int64_t users[] = {2, 2}, film = 4;
    const gz_seeds seeds[] = {{users, 2}, {&film, 1}};
    static typed t;
    gz_batch batch;
    make_typed(&t, fanouts, 2);
    t.plan.disjoint = true;
    gz_batch_init(&batch);
    CHECK_EQ(gz_batch_sample(&batch, &t.plan, seeds, &err), GZ_OK);
    CHECK_EQ(batch.spaces[0].trees[0], 0);
    CHECK_EQ(batch.spaces[0].trees[1], 1);
    CHECK_EQ(batch.spaces[1].trees[0], 2);
    for (int i = 0; i < EDGE_TYPES; i++)
        for (int64_t e = 0; e < batch.edges[i].count; e++)
            CHECK_EQ(batch.spaces[t.edge_types[i].owner].trees[batch.edges[i].targets[e]],
                     batch.spaces[t.edge_types[i].neighbor].trees[batch.edges[i].sources[e]]);
    for (int type = 0; type < 2; type++) { /* no node twice in a tree */
        const gz_node_space *space = &batch.spaces[type];
        for (int64_t i = 0; i < space->count; i++)
            for (int64_t j = 0; j < i; j++)
                CHECK(space->trees[i] != space->trees[j] ||
                      gz_nodes_ids(space)[i] != gz_nodes_ids(space)[j]);
    }
    gz_batch_free(&batch);
}

/* A list may have ids up to the other type's nodes, and no more; the type that has them is named.
 */
static void neighbors_out_of_range_are_counted_by_edge_type(void)
{
    static const int64_t all[] = {-1};
    static const int64_t *const fanouts[] = {all, all, all};
    const int64_t user = 2, film = 4;
    const gz_seeds seeds[] = {{&user, 1}, {&film, 1}};
    static typed t;
    gz_batch batch;
    make_typed(&t, fanouts, 1);
    t.graphs[SEEN_BY].indices[5] = USERS; /* below the number of films */
    gz_batch_init(&batch);
    CHECK_EQ(gz_batch_sample(&batch, &t.plan, seeds, &err), GZ_OK);
    CHECK_EQ(batch.edges[LIKES].corrupt, 0);
    CHECK_EQ(batch.edges[SEEN_BY].corrupt, 1);
    CHECK_EQ(batch.edges[KNOWS].corrupt, 0);
    const gz_seeds sound[] = {{&user, 1}, {NULL, 0}};
    CHECK_EQ(gz_batch_sample(&batch, &t.plan, sound, &err), GZ_OK); /* counted anew */
    CHECK_EQ(batch.edges[SEEN_BY].corrupt, 0);
    gz_batch_free(&batch);
}

void test_batch(void)
{
    RUN(disjoint_trees_are_batches_of_their_own);
    RUN(trees_beyond_63_bits_are_refused);
    RUN(hops_follow_each_other);
    RUN(no_seeds_no_edges);
    RUN(corrupt_lists_are_counted_and_not_followed);
    RUN(every_type_has_its_own_numbers);
    RUN(a_fanout_of_zero_takes_nothing_in_that_hop);
    RUN(edge_types_draw_independently);
    RUN(trees_number_the_seeds_of_all_types);
    RUN(neighbors_out_of_range_are_counted_by_edge_type);
}
