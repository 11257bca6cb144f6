#include <string.h>

#include "check.h"
#include "graphzero/format.h"
#include "graphzero/gather.h"
#include "graphzero/rng.h"

enum { ROWS = 50, PICKS = 40, WIDEST = 1000 };

static void entries_beyond_the_limit_become_0(void)
{
    const uint64_t entries[] = {3, 4, 5, UINT64_MAX};
    const int64_t ids[] = {0, 1, 2, 3};
    int64_t out[4];
    gz_ids table = {entries, true};
    CHECK_EQ(gz_translate(&table, 4, ids, 0, 4, out), 3);
    CHECK_EQ(out[0], 3);
    CHECK(out[1] == 0 && out[2] == 0 && out[3] == 0);
}

static void finds_the_first_id_outside(void)
{
    int64_t ids[200];
    for (int i = 0; i < 200; i++)
        ids[i] = i % 10;
    CHECK_EQ(gz_first_outside(ids, 0, 200, 10), 200);
    CHECK_EQ(gz_first_outside(ids, 3, 9, 10), 9);
    CHECK_EQ(gz_first_outside(ids, 0, 200, 9), 9);
    CHECK_EQ(gz_first_outside(ids, 10, 200, 9), 19);
    CHECK_EQ(gz_first_outside(ids, 0, 0, 0), 0);
    CHECK_EQ(gz_first_outside(ids, 0, 200, 0), 0);
    const int64_t bad[] = {-1, INT64_MIN, INT64_MAX, 10};
    for (int i = 0; i < 4; i++) {
        ids[150] = bad[i];
        CHECK_EQ(gz_first_outside(ids, 0, 200, 10), 150);
        CHECK_EQ(gz_first_outside(ids, 0, 150, 10), 150);
        CHECK_EQ(gz_first_outside(ids, 151, 200, 10), 200);
    }
}

void test_gather(void)
{
    RUN(entries_beyond_the_limit_become_0);
    RUN(finds_the_first_id_outside);
}
