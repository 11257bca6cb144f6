#include <stddef.h>

#include "check.h"
#include "graphzero/idmap.h"
#include "graphzero/rng.h"

enum { MOST = 3000 };

static gz_error err;

/* The number of each id's first appearance, by looking through all that came before. */
static int64_t naive_relabel(const int64_t *ids, int64_t count, int64_t *local)
{
    static int64_t first[MOST];
    int64_t distinct = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t j = 0;
        while (j < distinct && first[j] != ids[i])
            j++;
        if (j == distinct)
            first[distinct++] = ids[i];
        local[i] = j;
    }
    return distinct;
}

static void numbers_in_order_of_appearance(void)
{
    static int64_t ids[MOST], local[MOST], wanted[MOST], added[MOST];
    const uint64_t bounds[] = {2, 50, 3000, UINT64_C(1) << 62};
    for (unsigned b = 0; b < sizeof bounds / sizeof bounds[0]; b++) {
        gz_idmap map;
        int64_t num_added = 0;
        for (uint64_t i = 0; i < MOST; i++)
            ids[i] = (int64_t)gz_bounded(gz_draw(b, i), bounds[b]);
        gz_idmap_init(&map);
        CHECK_EQ(gz_idmap_reserve(&map, MOST, &err), GZ_OK);
        gz_idmap_relabel(&map, ids, 0, 1000, 0, local, added, &num_added);
        gz_idmap_relabel(&map, ids, 1000, MOST, 0, local, added, &num_added);
        CHECK_EQ(num_added, naive_relabel(ids, MOST, wanted));
        for (int64_t i = 0; i < MOST; i++) {
            CHECK_EQ(local[i], wanted[i]);
            CHECK_EQ(added[local[i]], ids[i]);
        }
        gz_idmap_free(&map);
    }
}

static void seeds_keep_their_positions(void)
{
    const int64_t seeds[] = {7, 5, 7, 9}, ids[] = {9, 8, 7, 8, 5};
    const int64_t wanted[] = {3, 4, 0, 4, 1};
    int64_t local[5], added[5], num_added = 0;
    gz_idmap map;
    gz_idmap_init(&map);
    CHECK_EQ(gz_idmap_reserve(&map, 9, &err), GZ_OK);
    gz_idmap_number(&map, seeds, 0, 4);
    gz_idmap_relabel(&map, ids, 0, 5, 4, local, added, &num_added);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(local[i], wanted[i]);
    CHECK_EQ(num_added, 1);
    CHECK_EQ(added[0], 8);
    gz_idmap_free(&map);
}

static void growth_keeps_what_is_there(void)
{
    static int64_t ids[MOST], local[MOST], added[MOST];
    int64_t num_added = 0;
    gz_idmap map;
    gz_idmap_init(&map);
    for (int64_t i = 0; i < MOST; i++)
        ids[i] = i * 1000003;
    for (int64_t i = 0; i < MOST; i += 100) { /* room for exactly the next hundred */
        CHECK_EQ(gz_idmap_reserve(&map, (uint64_t)i + 100, &err), GZ_OK);
        CHECK((map.mask & (map.mask + 1)) == 0 && map.mask + 1 >= 2 * (uint64_t)(i + 100));
        gz_idmap_relabel(&map, ids, i, i + 100, 0, local, added, &num_added);
    }
    CHECK_EQ(num_added, MOST);
    gz_idmap_relabel(&map, ids, 0, MOST, 0, local, added, &num_added);
    CHECK_EQ(num_added, MOST);
    for (int64_t i = 0; i < MOST; i++)
        CHECK_EQ(local[i], i);
    gz_idmap_free(&map);
}

static int64_t count_new(gz_idmap *map, int64_t id)
{
    int64_t local, added, num_added = 0;
    CHECK_EQ(gz_idmap_reserve(map, 1, &err), GZ_OK);
    gz_idmap_relabel(map, &id, 0, 1, 0, &local, &added, &num_added);
    return num_added;
}

static void clearing_forgets(void)
{
    gz_idmap map;
    gz_idmap_init(&map);
    gz_idmap_clear(&map); /* before there is a table */
    CHECK_EQ(count_new(&map, 4), 1);
    CHECK_EQ(count_new(&map, 4), 0);
    gz_idmap_clear(&map);
    CHECK_EQ(count_new(&map, 4), 1);
    gz_idmap_free(&map);
    CHECK_EQ(count_new(&map, 4), 1); /* a freed map may be used again */
    gz_idmap_free(&map);
}

/* Stamps of the first generation must not look current when the counter comes round. */
static void the_generation_wraps(void)
{
    gz_idmap map;
    gz_idmap_init(&map);
    CHECK_EQ(map.generation, 1);
    CHECK_EQ(count_new(&map, 4), 1);
    map.generation = UINT32_MAX;
    CHECK_EQ(count_new(&map, 6), 1);
    gz_idmap_clear(&map);
    CHECK(map.generation != 0);
    CHECK_EQ(count_new(&map, 4), 1);
    CHECK_EQ(count_new(&map, 6), 1);
    CHECK_EQ(count_new(&map, 6), 0);
    gz_idmap_free(&map);
    gz_idmap_init(&map);
    map.generation = UINT32_MAX;
    gz_idmap_clear(&map); /* without a table */
    CHECK_EQ(count_new(&map, 4), 1);
    gz_idmap_free(&map);
}

static void too_many_nodes_are_refused(void)
{
    gz_idmap map;
    gz_idmap_init(&map);
    CHECK_EQ(gz_idmap_reserve(&map, (uint64_t)UINT32_MAX + 1, &err), GZ_E_NOMEM);
    CHECK_EQ(gz_idmap_reserve(&map, UINT64_MAX, &err), GZ_E_NOMEM);
    CHECK(map.slots == NULL);
    CHECK_EQ(count_new(&map, 4), 1);
    gz_idmap_free(&map);
}

void test_idmap(void)
{
    RUN(numbers_in_order_of_appearance);
    RUN(seeds_keep_their_positions);
    RUN(growth_keeps_what_is_there);
    RUN(clearing_forgets);
    RUN(the_generation_wraps);
    RUN(too_many_nodes_are_refused);
}
