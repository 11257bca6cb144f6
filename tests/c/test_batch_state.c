#include "graphzero/batch_state.h"

#include <unistd.h>

#include <stddef.h>

#include "check.h"
#include "support.h"

enum { MORE = 1000 };

static gz_batch batch;
static gz_error err;

static void room_grows_and_keeps_what_is_there(void)
{
    gz_batch_init(&batch);
    for (int64_t count = 1; count <= MORE; count *= 10) {
        CHECK_EQ(gz_batch_reserve_frontier(&batch, count, &err), GZ_OK);
        for (int64_t i = count / 10; i < count; i++) {
            batch.lists[i] = (gz_list){(uint64_t)i, 1};
            batch.offsets[i] = i;
        }
        batch.offsets[count] = count; /* one more than there are frontier nodes */
    }
    CHECK_EQ(gz_batch_reserve_frontier(&batch, INT64_C(1) << 61, &err), GZ_E_NOMEM);
    for (int64_t i = 0; i < MORE; i++)
        CHECK(batch.lists[i].first == (uint64_t)i && batch.offsets[i] == i);
    gz_batch_free(&batch);
    CHECK(batch.offsets == NULL && batch.frontier_capacity == 0);
}

static void new_types_are_empty_and_others_keep_their_memory(void)
{
    const int64_t seed = 5;
    gz_batch_init(&batch);
    CHECK_EQ(gz_batch_reserve_types(&batch, 1, 1, &err), GZ_OK);
    CHECK_EQ(gz_edges_reserve(&batch.edges[0], MORE, &err), GZ_OK);
    CHECK_EQ(gz_nodes_start(&batch.spaces[0], 10, false, &seed, 1, 0, 1, &err), GZ_OK);
    const int64_t *sources = batch.edges[0].sources;
    CHECK_EQ(gz_batch_reserve_types(&batch, 4, 16, &err), GZ_OK);
    CHECK(batch.num_spaces == 4 && batch.num_edge_lists == 16);
    CHECK(batch.edges[0].sources == sources && batch.edges[0].capacity >= MORE);
    CHECK_EQ(gz_idmap_find(&batch.spaces[0].map, seed), 0);
    for (int i = 1; i < 4; i++)
        CHECK(batch.spaces[i].map.slots == NULL && batch.spaces[i].trees == NULL);
    for (int i = 1; i < 16; i++)
        CHECK(batch.edges[i].sources == NULL && batch.edges[i].capacity == 0);
    CHECK_EQ(gz_batch_reserve_types(&batch, 2, 2, &err), GZ_OK); /* fewer are kept */
    CHECK(batch.num_spaces == 4 && batch.num_edge_lists == 16);
    gz_batch_free(&batch);
    CHECK(batch.spaces == NULL && batch.num_edge_lists == 0);
}

static void pages_are_requested_if_the_relation_says_so(void)
{
    unsigned char bytes[SMALL_FILE_BYTES];
    const int64_t nodes[] = {0, 2};
    const gz_frontier frontier = {.nodes = nodes};
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
    const gz_edge_type silent = {.csr = &csr}, reading = {.csr = &csr, .readahead = &readahead};
    gz_batch_init(&batch);
    CHECK_EQ(gz_batch_read_hop_ahead(&batch, &silent, &hop, &frontier, 2, &err), GZ_OK);
    CHECK_EQ(batch.willneed.pages, 0);
    CHECK_EQ(gz_batch_read_hop_ahead(&batch, &reading, &hop, &frontier, 2, &err), GZ_OK);
    CHECK(batch.willneed.pages > 0);
    gz_batch_free(&batch);
    gz_mapping_close(&mapping);
}

void test_batch_state(void)
{
    RUN(room_grows_and_keeps_what_is_there);
    RUN(new_types_are_empty_and_others_keep_their_memory);
    RUN(pages_are_requested_if_the_relation_says_so);
}
