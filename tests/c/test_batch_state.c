#include "graphzero/batch_state.h"

#include <unistd.h>

#include "check.h"
#include "support.h"

enum { NODES = 4, MORE = 1000 };

static const int DEGREES[NODES] = {0, 1, 3, 2};
static graph g;
static gz_batch batch;
static gz_error err;

static void start(const int64_t *seeds, int64_t count)
{
    graph_with_degrees(&g, DEGREES, NODES);
    gz_batch_init(&batch);
    CHECK_EQ(gz_idmap_reserve(&batch.map, (uint64_t)count, &err), GZ_OK);
    gz_idmap_seed(&batch.map, seeds, count);
    batch.num_nodes = count;
}

static void room_grows_and_keeps_what_is_there(void)
{
    gz_batch_init(&batch);
    for (int64_t count = 1; count <= MORE; count *= 10) {
        CHECK_EQ(gz_batch_reserve_edges(&batch, count, &err), GZ_OK);
        CHECK_EQ(gz_batch_reserve_frontier(&batch, count, &err), GZ_OK);
        CHECK_EQ(gz_batch_reserve_trees(&batch, count, &err), GZ_OK);
        for (int64_t i = count / 10; i < count; i++) {
            batch.sources[i] = i;
            batch.targets[i] = -i;
            batch.positions[i] = 2 * i;
            batch.lists[i] = (gz_list){(uint64_t)i, 1};
            batch.trees[i] = 3 * i;
            batch.of_trees[i] = 4 * i;
        }
        batch.offsets[count] = count; /* one more than there are frontier nodes */
    }
    for (int64_t i = 0; i < MORE; i++) {
        CHECK(batch.sources[i] == i && batch.targets[i] == -i && batch.positions[i] == 2 * i);
        CHECK(batch.lists[i].first == (uint64_t)i);
        CHECK(batch.trees[i] == 3 * i && batch.of_trees[i] == 4 * i);
    }
    gz_batch_free(&batch);
}

static void what_there_is_room_for_does_not_move(void)
{
    gz_batch_init(&batch);
    CHECK_EQ(gz_batch_reserve_edges(&batch, MORE, &err), GZ_OK);
    const int64_t *sources = batch.sources;
    CHECK_EQ(gz_batch_reserve_edges(&batch, MORE / 2, &err), GZ_OK);
    CHECK_EQ(gz_batch_reserve_edges(&batch, MORE, &err), GZ_OK);
    CHECK(batch.sources == sources);
    gz_batch_free(&batch);
    CHECK(batch.sources == NULL && batch.edge_capacity == 0);
}

static void too_much_is_refused_and_loses_nothing(void)
{
    const int64_t far_too_many = INT64_C(1) << 61;
    gz_batch_init(&batch);
    CHECK_EQ(gz_batch_reserve_edges(&batch, 1, &err), GZ_OK);
    batch.sources[0] = 7;
    CHECK_EQ(gz_batch_reserve_edges(&batch, far_too_many, &err), GZ_E_NOMEM);
    CHECK_EQ(gz_batch_reserve_frontier(&batch, far_too_many, &err), GZ_E_NOMEM);
    CHECK_EQ(gz_batch_reserve_trees(&batch, far_too_many, &err), GZ_E_NOMEM);
    CHECK_EQ(batch.sources[0], 7);
    gz_batch_free(&batch);
}

static void a_frontier_is_the_end_of_the_nodes(void)
{
    const int64_t seeds[] = {3, 1, 2}, times[] = {10, 20, 30};
    const gz_plan shared = {.until = times}, disjoint = {.disjoint = true, .until = times};
    start(seeds, 3);
    CHECK_EQ(gz_batch_reserve_trees(&batch, 3, &err), GZ_OK);
    for (int64_t i = 0; i < 3; i++) {
        batch.trees[i] = i;
        batch.of_trees[i] = seeds[i] + 100;
    }
    gz_frontier frontier = gz_batch_frontier(&batch, &shared, 1);
    CHECK(frontier.nodes[0] == 1 && frontier.nodes[1] == 2 && frontier.trees == NULL);
    frontier = gz_batch_frontier(&batch, &disjoint, 2);
    CHECK(frontier.nodes[0] == 102 && frontier.trees[0] == 2 && frontier.until == times);
    CHECK(gz_batch_stored_ids(&batch, &shared) == batch.map.nodes);
    CHECK(gz_batch_stored_ids(&batch, &disjoint) == batch.of_trees);
    gz_batch_free(&batch);
}

static void pages_are_requested_if_the_plan_says_so(void)
{
    unsigned char bytes[SMALL_FILE_BYTES];
    const int64_t seeds[] = {0, 2};
    const gz_hop hop = {.fanout = -1};
    char path[PATH_BYTES];
    gz_header header;
    gz_mapping mapping;
    gz_csr csr;
    small_header(&header);
    small_file(&header, bytes);
    write_file(path, "state.gl", bytes, sizeof bytes);
    if (!CHECK_EQ(gz_mapping_open(path, &mapping, &err), GZ_OK))
        return;
    unlink(path);
    CHECK_EQ(gz_csr_from_header(&header, &mapping, &csr, &err), GZ_OK);
    const gz_hop_readahead readahead = {&mapping, GZ_WILLNEED_ALL, 0};
    const gz_plan silent = {.fanouts = NULL}, reading = {.readahead = &readahead};
    start(seeds, 2);
    CHECK_EQ(gz_batch_read_hop_ahead(&batch, &csr, &silent, &hop, 0, 2, &err), GZ_OK);
    CHECK_EQ(batch.willneed.pages, 0);
    CHECK_EQ(gz_batch_read_hop_ahead(&batch, &csr, &reading, &hop, 0, 2, &err), GZ_OK);
    CHECK(batch.willneed.pages > 0);
    gz_batch_free(&batch);
    gz_mapping_close(&mapping);
}

void test_batch_state(void)
{
    RUN(room_grows_and_keeps_what_is_there);
    RUN(what_there_is_room_for_does_not_move);
    RUN(too_much_is_refused_and_loses_nothing);
    RUN(a_frontier_is_the_end_of_the_nodes);
    RUN(pages_are_requested_if_the_plan_says_so);
}
