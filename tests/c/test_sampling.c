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
    RUN(corrupt_lists_are_counted_and_not_followed);
    RUN(lists_that_change_between_the_passes);
}
