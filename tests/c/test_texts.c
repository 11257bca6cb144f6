#include <stddef.h>
#include <string.h>

#include "check.h"
#include "graphzero/texts.h"

/* "", "a", "a\0", "ab", "b", "\xc3\xa9" */
static const uint8_t bytes[] = {'a', 'a', 0, 'a', 'b', 'b', 0xC3, 0xA9};
static const uint64_t ends[] = {0, 1, 3, 5, 6, 8};
static const gz_texts table = {bytes, ends, 6, 8};

static void every_text_is_found(void)
{
    int64_t found[6];
    CHECK_EQ(gz_find_texts(&table, &table, 0, 6, found), 0);
    for (int64_t i = 0; i < 6; i++)
        CHECK_EQ(found[i], i);
}

static void other_texts_are_not(void)
{
    const uint8_t other[] = {'A', 'a', 'a', 'b', 'a', 'z', 0xC3};
    const uint64_t other_ends[] = {1, 3, 5, 6, 7};
    const gz_texts wanted = {other, other_ends, 5, 7}, none = {NULL, NULL, 0, 0};
    int64_t found[5] = {7, 7, 7, 7, 7};
    CHECK_EQ(gz_find_texts(&table, &wanted, 1, 5, found), 0);
    CHECK_EQ(found[0], 7); /* outside the range */
    for (int64_t i = 1; i < 5; i++)
        CHECK_EQ(found[i], -1);
    CHECK_EQ(gz_find_texts(&none, &wanted, 0, 5, found), 0);
    CHECK_EQ(found[0], -1);
}

/* Ends that descend, or lie beyond the bytes, are counted and lead nowhere. */
static void spans_outside_the_bytes_are_counted(void)
{
    const uint64_t wrong[] = {UINT64_MAX, 1, UINT64_MAX, 0, 9, 8};
    const gz_texts corrupt = {bytes, wrong, 6, 8};
    int64_t found[6];
    CHECK(gz_find_texts(&corrupt, &table, 0, 6, found) > 0);
    CHECK(gz_find_texts(&table, &corrupt, 0, 6, found) > 0);
}

void test_texts(void)
{
    RUN(every_text_is_found);
    RUN(other_texts_are_not);
    RUN(spans_outside_the_bytes_are_counted);
}
