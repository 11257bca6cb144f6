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
    RUN(trees_beyond_63_bits_are_refused);
    RUN(hops_follow_each_other);
    RUN(no_seeds_no_edges);
    RUN(corrupt_lists_are_counted_and_not_followed);
    RUN(neighbors_out_of_range_are_counted_by_edge_type);
}
