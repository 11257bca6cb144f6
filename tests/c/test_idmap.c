#include "check.h"

#include <string.h>

#include "graphzero/idmap.h"
#include "support.h"

/* Ids that agree in their low 32 bits are told apart in a wide map. */
TEST(wide_ids_are_confirmed)
{
    const int64_t ids[] = {5, 5 + (INT64_C(4) << 32), 5, 5 + (INT64_C(8) << 32)};
    const int64_t wanted[] = {0, 1, 0, 2};
    int64_t local[4];
    gz_idmap map;
    gz_idmap_init(&map);
    gz_idmap_clear(&map, true);
    CHECK_EQ(gz_idmap_reserve(&map, 4, &err), GZ_OK);
    map.mask = 3; /* of so few slots, all of them belong into the same */
    gz_idmap_relabel(&map, ids, 0, 4, local);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(local[i], wanted[i]);
    gz_idmap_free(&map);
}

static int64_t count_new(gz_idmap *map, int64_t id)
{
    int64_t local, before = map->count;
    CHECK_EQ(gz_idmap_reserve(map, (uint64_t)map->count + 1, &err), GZ_OK);
    gz_idmap_relabel(map, &id, 0, 1, &local);
    CHECK_EQ(map->nodes[local], id);
    return map->count - before;
}

/* Stamps of early batches must not look current after the base wraps around. */
TEST(the_base_wraps)
{
    gz_idmap map;
    gz_idmap_init(&map);
    CHECK_EQ(map.base, 1);
    CHECK_EQ(count_new(&map, 4), 1);
    map.base = (uint32_t)GZ_MOST_LOCAL_IDS;
    CHECK_EQ(count_new(&map, 6), 1);
    gz_idmap_clear(&map, false);
    CHECK_EQ(map.base, 1);
    CHECK_EQ(count_new(&map, 4), 1);
    CHECK_EQ(count_new(&map, 6), 1);
    CHECK_EQ(count_new(&map, 6), 0);
    gz_idmap_free(&map);
    map.base = UINT32_MAX - 1;
    gz_idmap_clear(&map, false); /* without a table */
    CHECK_EQ(count_new(&map, 4), 1);
    gz_idmap_free(&map);
}

TEST(too_many_nodes_are_refused)
{
    gz_idmap map;
    gz_idmap_init(&map);
    CHECK_EQ(gz_idmap_reserve(&map, GZ_MOST_LOCAL_IDS + 1, &err), GZ_E_NOMEM);
    CHECK_EQ(gz_idmap_reserve(&map, UINT64_MAX, &err), GZ_E_NOMEM);
    CHECK(map.slots == NULL);
    CHECK_EQ(count_new(&map, 4), 1);
    gz_idmap_free(&map);
}

TEST(a_map_that_rested_relabels_as_a_new_one)
{
    enum { COUNT = 1 << 15 };
    static int64_t ids[COUNT], local[COUNT];
    for (int64_t i = 0; i < COUNT; i++)
        ids[i] = 7 * i;
    gz_idmap map;
    gz_idmap_init(&map);
    for (int round = 0; round < 2; round++) {
        gz_idmap_clear(&map, false);
        CHECK_EQ(gz_idmap_reserve(&map, COUNT, &err), GZ_OK);
        gz_idmap_relabel(&map, ids + round, round, COUNT - round, local);
        int64_t different = 0;
        for (int64_t i = round; i < COUNT - round; i++)
            different += local[i] != i - round || map.nodes[i - round] != ids[i + round];
        CHECK_EQ(different, 0);
        gz_idmap_rest(&map);
        if (map.slots != NULL && round == 0) /* as the kernel may do it at any time */
            memset(map.slots, 0, (map.mask / 2) * sizeof *map.slots);
    }
    gz_idmap_free(&map);
}
