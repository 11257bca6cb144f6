#include "graphzero/sort_keys.h"

#include <stddef.h>
#include <string.h>

#include "check.h"

enum { MOST = 100000, RANGES = 3 };

static uint64_t keys[MOST], sorted[MOST], spare[MOST];
static uint32_t order[MOST], spare_order[MOST];

/* Pseudo-random keys in which only the bits of a mask differ. */
static void fill(int64_t count, uint64_t mask)
{
    uint64_t state = 12345;
    for (int64_t i = 0; i < count; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        keys[i] = (state ^ state >> 29) & mask;
        order[i] = (uint32_t)i;
    }
    memcpy(sorted, keys, (size_t)count * sizeof *keys);
}

static bool is_sorted_stably(int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        if (keys[i] != sorted[order[i]])
            return false;
        if (i > 0 &&
            (keys[i - 1] > keys[i] || (keys[i - 1] == keys[i] && order[i - 1] >= order[i])))
            return false;
    }
    return true;
}

static const uint64_t masks[] = {0,
                                 1,
                                 0xff,
                                 UINT64_C(0x8000000000000001),
                                 UINT64_C(0x000fffff000fffff),
                                 UINT64_C(0xffff000000000000),
                                 UINT64_MAX};
static const int64_t counts[] = {0, 1, 2, 32, 33, 1000, 40000, MOST};

static void keys_of_every_shape_are_sorted_stably(void)
{
    for (size_t i = 0; i < sizeof masks / sizeof masks[0]; i++) {
        for (size_t j = 0; j < sizeof counts / sizeof counts[0]; j++) {
            fill(counts[j], masks[i]);
            gz_sort_keys(keys, order, 0, counts[j], spare, spare_order);
            CHECK(is_sorted_stably(counts[j]));
        }
    }
}

static void keys_without_an_order(void)
{
    fill(MOST, UINT64_MAX);
    gz_sort_keys(keys, NULL, 0, MOST, spare, NULL);
    for (int64_t i = 1; i < MOST; i++)
        CHECK(keys[i - 1] <= keys[i]);
}

static void only_the_range_moves(void)
{
    fill(1000, UINT64_MAX);
    gz_sort_keys(keys, order, 100, 900, spare, spare_order);
    for (int64_t i = 0; i < 1000; i++)
        CHECK(i < 100 || i >= 900 ? keys[i] == sorted[i] : i == 100 || keys[i - 1] <= keys[i]);
}

void test_sort_keys(void)
{
    RUN(keys_of_every_shape_are_sorted_stably);
    RUN(keys_without_an_order);
    RUN(only_the_range_moves);
}
