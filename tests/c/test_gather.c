#include <string.h>

#include "check.h"
#include "graphzero/format.h"
#include "graphzero/gather.h"
#include "graphzero/rng.h"

enum { ROWS = 50, PICKS = 40, WIDEST = 1000 };

static void copies_rows_of_any_width(void)
{
    const uint64_t widths[] = {0, 1, 3, 64, 100, 512, WIDEST};
    static unsigned char rows[ROWS * WIDEST], out[PICKS * WIDEST + 1], wanted[PICKS * WIDEST + 1];
    int64_t ids[PICKS];
    for (int i = 0; i < ROWS * WIDEST; i++)
        rows[i] = (unsigned char)gz_draw(1, (uint64_t)i);
    for (uint64_t i = 0; i < PICKS; i++)
        ids[i] = (int64_t)gz_bounded(gz_draw(2, i), ROWS);
    ids[0] = 0;
    ids[PICKS - 1] = ROWS - 1;
    for (unsigned w = 0; w < sizeof widths / sizeof widths[0]; w++) {
        uint64_t width = widths[w];
        memset(out, 0xEE, sizeof out);
        memset(wanted, 0xEE, sizeof wanted);
        for (uint64_t i = 5; i < PICKS; i++) /* the rows before the range stay untouched */
            for (uint64_t b = 0; b < width; b++)
                wanted[i * width + b] = rows[(uint64_t)ids[i] * width + b];
        gz_gather_rows(rows, width, &GZ_AS_STORED, ids, 5, 17, NULL, out);
        gz_gather_rows(rows, width, &GZ_AS_STORED, ids, 17, PICKS, NULL, out);
        CHECK(memcmp(out, wanted, sizeof out) == 0);
    }
}

static void rows_that_are_not_chosen_are_left_out(void)
{
    const unsigned char from[] = "aabbccdd";
    const int64_t ids[] = {3, 0, 2, 1, 2};
    const uint8_t chosen[] = {0, 1, 0, 1, 0};
    char out[] = "..........";
    gz_gather_rows(from, 2, &GZ_AS_STORED, ids, 0, 5, chosen, (unsigned char *)out);
    CHECK(strcmp(out, "..aa..bb..") == 0);
}

static void converts_rows_of_any_width(void)
{
    enum { WIDTH = 5 };
    static int16_t rows[ROWS * WIDTH];
    float out[PICKS * WIDTH];
    int64_t ids[PICKS];
    gz_cast cast = gz_cast_of(GZ_INT16);
    for (int i = 0; i < ROWS * WIDTH; i++)
        rows[i] = (int16_t)gz_draw(1, (uint64_t)i);
    for (uint64_t i = 0; i < PICKS; i++)
        ids[i] = (int64_t)gz_bounded(gz_draw(2, i), ROWS);
    for (int width = 1; width <= WIDTH; width += 2) {
        for (int i = 0; i < PICKS * WIDTH; i++)
            out[i] = 0.5f;
        gz_gather_rows((const unsigned char *)rows, (uint64_t)width * sizeof *rows, &cast, ids, 3,
                       PICKS, NULL, (unsigned char *)out);
        for (int i = 0; i < 3 * width; i++)
            CHECK(out[i] == 0.5f);
        for (int i = 3; i < PICKS; i++)
            for (int j = 0; j < width; j++)
                CHECK(out[i * width + j] == (float)rows[ids[i] * width + j]);
    }
}

static void translates_and_leaves_ended_walks(void)
{
    uint32_t narrow[100];
    uint64_t wide[100];
    int64_t ids[80], out[80];
    for (uint32_t i = 0; i < 100; i++) {
        narrow[i] = 99 - i;
        wide[i] = 99 - i;
    }
    for (int i = 0; i < 80; i++)
        ids[i] = i % 7 == 0 ? -1 : i;
    for (int is_wide = 0; is_wide < 2; is_wide++) {
        gz_ids table = {is_wide ? (const void *)wide : narrow, is_wide};
        memset(out, 0x77, sizeof out);
        CHECK_EQ(gz_translate(&table, 100, ids, 1, 80, out), 0);
        CHECK_EQ(out[0], INT64_C(0x7777777777777777));
        for (int i = 1; i < 80; i++)
            CHECK_EQ(out[i], i % 7 == 0 ? -1 : 99 - i);
    }
}

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
    RUN(copies_rows_of_any_width);
    RUN(rows_that_are_not_chosen_are_left_out);
    RUN(converts_rows_of_any_width);
    RUN(translates_and_leaves_ended_walks);
    RUN(entries_beyond_the_limit_become_0);
    RUN(finds_the_first_id_outside);
}
