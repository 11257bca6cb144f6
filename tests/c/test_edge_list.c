#include "graphzero/edge_list.h"

#include <stddef.h>

#include "check.h"

enum { MORE = 1000 };

static gz_edge_list edges;
static gz_error err;

static void room_grows_and_keeps_what_is_there(void)
{
    gz_edges_init(&edges);
    for (int64_t count = 1; count <= MORE; count *= 10) {
        CHECK_EQ(gz_edges_reserve(&edges, count, &err), GZ_OK);
        for (int64_t i = count / 10; i < count; i++) {
            edges.sources[i] = i;
            edges.targets[i] = -i;
            edges.positions[i] = 2 * i;
        }
    }
    for (int64_t i = 0; i < MORE; i++)
        CHECK(edges.sources[i] == i && edges.targets[i] == -i && edges.positions[i] == 2 * i);
    gz_edges_free(&edges);
}

static void what_there_is_room_for_does_not_move(void)
{
    gz_edges_init(&edges);
    CHECK_EQ(gz_edges_reserve(&edges, MORE, &err), GZ_OK);
    const int64_t *sources = edges.sources;
    CHECK_EQ(gz_edges_reserve(&edges, MORE / 2, &err), GZ_OK);
    CHECK_EQ(gz_edges_reserve(&edges, MORE, &err), GZ_OK);
    CHECK(edges.sources == sources);
    gz_edges_free(&edges);
    CHECK(edges.sources == NULL && edges.capacity == 0);
}

static void too_much_is_refused_and_loses_nothing(void)
{
    gz_edges_init(&edges);
    CHECK_EQ(gz_edges_reserve(&edges, 1, &err), GZ_OK);
    edges.sources[0] = 7;
    CHECK_EQ(gz_edges_reserve(&edges, INT64_C(1) << 61, &err), GZ_E_NOMEM);
    CHECK_EQ(edges.sources[0], 7);
    gz_edges_free(&edges);
}

void test_edge_list(void)
{
    RUN(room_grows_and_keeps_what_is_there);
    RUN(what_there_is_room_for_does_not_move);
    RUN(too_much_is_refused_and_loses_nothing);
}
