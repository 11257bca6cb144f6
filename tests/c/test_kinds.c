#include <stddef.h>
#include <string.h>

#include "check.h"
#include "graphzero/kinds.h"
#include "graphzero/sampling.h"
#include "support.h"

enum { NODES = 3, FANOUT = 2 };

static void kinds_are_found_by_their_names(void)
{
    const char *names[] = {"weighted", "labor"};
    for (size_t i = 0; i < 2; i++) {
        const gz_draw_kind *kind = gz_draw_kind_named(names[i]);
        if (CHECK(kind != NULL)) {
            CHECK(strcmp(kind->name, names[i]) == 0);
            CHECK(kind->count != NULL && kind->draw != NULL);
        }
    }
    CHECK(gz_draw_kind_named("weighted")->needs_weights);
    CHECK(!gz_draw_kind_named("labor")->needs_weights);
    CHECK(gz_draw_kind_named("labor")->reads_twice);
    CHECK(gz_draw_kind_named("") == NULL);
    CHECK(gz_draw_kind_named("uniform") == NULL);
}

static int hints;

static uint64_t count_one(const gz_csr *csr, const gz_hop *hop, int64_t begin, int64_t end,
                          const gz_list *lists, int64_t *counts)
{
    (void)csr, (void)hop;
    for (int64_t i = begin; i < end; i++)
        counts[i] = lists[i].degree > 0;
    return 0;
}

static void count_hint(const gz_csr *csr, const gz_list *list)
{
    (void)csr, (void)list;
    hints++;
}

static uint64_t draw_last(const gz_csr *csr, const gz_hop *hop, uint64_t stream,
                          const gz_list *list, int64_t count, int64_t *out)
{
    (void)csr, (void)hop, (void)stream;
    for (int64_t i = 0; i < count; i++)
        out[i] = (int64_t)(list->first + list->degree) - 1;
    return 7;
}

/* A kind of the test's own: the last edge of each list. */
static void a_hop_draws_by_its_kind(void)
{
    static graph g;
    static int degrees[NODES + 40];
    int64_t nodes[NODES + 40], offsets[NODES + 41] = {0}, positions[NODES + 40];
    gz_list lists[NODES + 40];
    const gz_draw_kind last = {
        .name = "last", .count = count_one, .hint = count_hint, .draw = draw_last};
    const gz_hop hop = {.fanout = FANOUT, .rule = {.kind = &last}};
    const int64_t n = NODES + 40;
    for (int v = 0; v < n; v++)
        nodes[v] = v, degrees[v] = v % 4;
    graph_with_degrees(&g, degrees, (int)n);
    const gz_frontier frontier = {.nodes = nodes};
    CHECK_EQ(gz_hop_counts(&g.csr, &hop, &frontier, 0, n, lists, offsets + 1), 0);
    for (int64_t v = 0; v < n; v++) {
        CHECK_EQ(offsets[v + 1], degrees[v] > 0);
        offsets[v + 1] += offsets[v];
    }
    CHECK_EQ(gz_hop_positions(&g.csr, &hop, &frontier, lists, offsets, 0, n, positions),
             7 * (uint64_t)offsets[n]);
    for (int v = 0; v < n; v++)
        if (degrees[v] > 0)
            CHECK_EQ(positions[offsets[v]], g.indptr[v + 1] - 1);
    CHECK(hints > 0);
}

void test_kinds(void)
{
    RUN(kinds_are_found_by_their_names);
    RUN(a_hop_draws_by_its_kind);
}
