#include "check.h"

#include "graphzero/hop_readahead.h"

#include <string.h>

#include "graphzero/rng.h"
#include "support.h"

enum { NODES = 3000, LONG_NODE = 2000, LONG_DEGREE = 40000, MOST_DEGREE = 200, WANTED = 400 };
enum { FILE_BYTES = 4 << 20, SMALLEST_PAGE = 4096, MOST_PAGES = FILE_BYTES / SMALLEST_PAGE };

static gz_mapping mapping;
static gz_csr csr;
static uint64_t page;

/* A graph in a file: indptr from the second page on, then lists, then edge ids. */
static void map_a_graph(bool with_edge_ids)
{
    static unsigned char bytes[FILE_BYTES];
    page = gz_system_page_bytes();
    uint64_t *indptr = (uint64_t *)(void *)(bytes + page), edges = 0;
    memset(bytes, 0, sizeof bytes);
    for (uint64_t v = 0; v < NODES; v++) {
        indptr[v] = edges;
        edges += v == LONG_NODE ? LONG_DEGREE : gz_bounded(gz_draw(7, v), MOST_DEGREE);
    }
    indptr[NODES] = edges;
    uint64_t lists = (page + (NODES + 1) * sizeof *indptr + page - 1) / page * page;
    uint64_t ids = (lists + edges * 4 + page - 1) / page * page;
    CHECK(ids + edges * 8 <= FILE_BYTES);
    CHECK(map_file(&mapping, bytes, sizeof bytes));
    csr = (gz_csr){.num_nodes = NODES,
                   .num_neighbors = NODES,
                   .num_edges = edges,
                   .indptr = {mapping.base + page, true},
                   .indices = {mapping.base + lists, false},
                   .edge_ids = {with_edge_ids ? mapping.base + ids : NULL, true}};
}

static bool wanted_pages[MOST_PAGES];

static void want(const void *array, unsigned width, uint64_t begin, uint64_t end)
{
    uint64_t origin = (uint64_t)((const unsigned char *)array - mapping.base);
    for (uint64_t byte = origin + begin * width; byte < origin + end * width; byte++)
        wanted_pages[byte / page] = true;
}

static uint64_t count_wanted(void)
{
    uint64_t count = 0;
    for (int i = 0; i < MOST_PAGES; i++)
        count += wanted_pages[i];
    return count;
}

static void want_edges(uint64_t begin, uint64_t end)
{
    want(csr.indices.data, 4, begin, end);
    if (csr.edge_ids.data != NULL)
        want(csr.edge_ids.data, 8, begin, end);
}

/* Page by page, what a hop reads for the nodes from `resident` on. */
static uint64_t naive_pages(const gz_hop *hop, const gz_frontier *frontier, int64_t count,
                            int64_t resident)
{
    memset(wanted_pages, 0, sizeof wanted_pages);
    for (int64_t i = 0; i < count; i++) {
        uint64_t v = (uint64_t)frontier->nodes[i], first = gz_id(&csr.indptr, v);
        int64_t offsets[2] = {0, hop->fanout}, positions[64];
        if ((int64_t)v < resident)
            continue;
        want(csr.indptr.data, 8, v, v + 2);
        if (v != LONG_NODE || hop->fanout < 0) {
            want_edges(first, gz_id(&csr.indptr, v + 1));
            continue;
        }
        const gz_frontier one = {.nodes = &frontier->nodes[i]};
        gz_list list = {first, LONG_DEGREE};
        gz_hop_positions(&csr, hop, &one, &list, offsets, 0, 1, positions);
        for (int64_t drawn = 0; drawn < hop->fanout; drawn++)
            want_edges((uint64_t)positions[drawn], (uint64_t)positions[drawn] + 1);
    }
    return count_wanted();
}

TEST(what_a_hop_reads_is_requested)
{
    static int64_t nodes[WANTED];
    static gz_pick picks[2 * WANTED];
    const int64_t fanouts[] = {1, 15, 64, -1}, resident[] = {0, 1000, NODES};
    for (int with_edge_ids = 0; with_edge_ids < 2; with_edge_ids++) {
        map_a_graph(with_edge_ids);
        for (int f = 0; f < 4; f++)
            for (int k = 0; k < 3; k++) {
                gz_hop hop = {.fanout = fanouts[f],
                              .draws = gz_draws_of(GZ_PURPOSE_SAMPLE, 1, 2, 3, 1)};
                gz_frontier frontier = {.nodes = nodes};
                gz_hop_readahead readahead = {&mapping, GZ_WILLNEED_ALL, resident[k]};
                gz_willneed_counts counts = {0, 0, 0};
                for (uint64_t i = 0; i < WANTED; i++)
                    nodes[i] = (int64_t)gz_bounded(gz_draw((uint64_t)f, i), NODES);
                nodes[WANTED / 2] = LONG_NODE;
                gz_read_hop_ahead(&readahead, &csr, &hop, &frontier, WANTED, picks, picks + WANTED,
                                  &counts);
                CHECK_EQ(counts.pages, naive_pages(&hop, &frontier, WANTED, resident[k]));
                CHECK(counts.missing <= counts.pages);
                CHECK((counts.calls == 0) == (resident[k] == NODES));
            }
        gz_mapping_close(&mapping);
    }
}

TEST(corrupt_lists_are_not_followed)
{
    const int64_t nodes[] = {LONG_NODE - 1, LONG_NODE};
    gz_pick picks[4];
    gz_hop hop = {.fanout = 5};
    gz_frontier frontier = {.nodes = nodes};
    gz_willneed_counts counts = {0, 0, 0};
    map_a_graph(false);
    csr.num_edges = gz_id(&csr.indptr, LONG_NODE) - 1; /* now both lists reach beyond the last */
    gz_hop_readahead readahead = {&mapping, GZ_WILLNEED_ALL, 0};
    gz_read_hop_ahead(&readahead, &csr, &hop, &frontier, 2, picks, picks + 2, &counts);
    memset(wanted_pages, 0, sizeof wanted_pages);
    want(csr.indptr.data, 8, LONG_NODE - 1, LONG_NODE + 2);
    CHECK_EQ(counts.pages, count_wanted());
    gz_mapping_close(&mapping);
}
