#include "check.h"

#include <stdlib.h>

#include "graphzero/rng.h"
#include "graphzero/window.h"

enum { MOST = 3000, FIRST = 5, SHAPES = 6 };

static uint32_t narrow[MOST + FIRST];
static uint64_t wide[MOST + FIRST];

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Ascending ids, all even: few and many repeats, all the same, bent, and with a jump. */
static void make_list(int shape, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        uint64_t drawn = gz_draw((uint64_t)shape, i), id = gz_bounded(drawn, 1 << 20);
        id = shape == 1 ? id % 40 : shape == 2 ? 77 : shape == 3 ? id * id >> 20 : id;
        id = shape == 4 ? 1u << (id % 20) : shape == 5 ? (i % 2 ? id % 500 : id + (1u << 30)) : id;
        narrow[FIRST + i] = (uint32_t)(2 * id);
    }
    qsort(narrow + FIRST, count, sizeof *narrow, compare);
    for (uint64_t i = 0; i < count; i++)
        wide[FIRST + i] = narrow[FIRST + i];
}

/* Number of looks of the search; 0 if its answer is wrong. */
static int looks_for(const gz_ids *ids, uint64_t count, uint64_t x, uint64_t guess, bool is_there)
{
    gz_window w = {.low = FIRST, .high = FIRST + count};
    gz_sight sight;
    gz_window_about(&w, FIRST + guess, ids->wide ? GZ_LINE_WIDE : GZ_LINE_NARROW);
    for (;;) {
        bool inside = w.low <= w.from && w.from < w.end && w.end <= w.high;
        if (!CHECK(inside && w.end - w.from <= 32 && w.low >= FIRST && w.high <= FIRST + count))
            return 0;
        sight = gz_window_look(&w, ids, x);
        if (!sight.goes_left && !sight.goes_right)
            return sight.found == is_there ? 1 + w.looks : 0;
        gz_window_follow(&w, ids, x);
    }
}

TEST(finds_what_is_there_and_nothing_else)
{
    const uint64_t counts[] = {1, 2, 7, 16, 31, 32, 33, 100, MOST};
    for (int shape = 0; shape < SHAPES; shape++)
        for (int c = 0; c < 9; c++) {
            uint64_t count = counts[c];
            make_list(shape, count);
            for (uint64_t t = 0; t < 200; t++) {
                uint64_t guess = gz_bounded(gz_draw(50, t), count);
                uint64_t x = narrow[FIRST + gz_bounded(gz_draw(51, t), count)];
                for (int i = 0; i < 2; i++) {
                    gz_ids ids = {i ? (const void *)wide : narrow, i};
                    int most = 1 + GZ_MOST_GUESSES + 12; /* 2^12 > MOST */
                    int there = looks_for(&ids, count, x, guess, true);
                    int between = looks_for(&ids, count, x + 1, guess, false);
                    CHECK(there >= 1 && there <= most && between >= 1 && between <= most);
                    CHECK(looks_for(&ids, count, UINT32_MAX, guess, false) >= 1);
                }
            }
        }
}

/* Ids that do not ascend: the search ends, within its list. */
TEST(a_hostile_list_is_not_left)
{
    make_list(0, MOST);
    for (uint64_t i = 0; i < MOST; i++) {
        narrow[FIRST + i] = (uint32_t)gz_draw(3, i);
        wide[FIRST + i] = gz_draw(4, i);
    }
    for (uint64_t t = 0; t < 1000; t++)
        for (int i = 0; i < 2; i++) {
            gz_ids ids = {i ? (const void *)wide : narrow, i};
            uint64_t x = gz_draw(5, t) >> (i ? 1 : 33);
            looks_for(&ids, MOST, x, gz_bounded(gz_draw(6, t), MOST), false);
        }
}
