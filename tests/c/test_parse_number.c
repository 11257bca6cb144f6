#include "graphzero/parse_number.h"

#include <stddef.h>
#include <string.h>

#include "check.h"
#include "graphzero/parse_records.h"

static unsigned char text[64];

/* The text with a line feed and padding behind it. */
static const unsigned char *padded(const char *cell)
{
    memset(text, '9', sizeof text);
    size_t length = strlen(cell);
    memcpy(text, cell, length);
    text[length] = '\n';
    return text;
}

static void unsigned_numbers_have_bounds(void)
{
    uint64_t got;
    CHECK(gz_parse_uint64(padded("4294967295"), UINT32_MAX, &got) == text + 10);
    CHECK(got == UINT32_MAX);
    CHECK(gz_parse_uint64(padded("4294967296"), UINT32_MAX, &got) == NULL);
    CHECK(gz_parse_uint64(padded("0"), 0, &got) == text + 1 && got == 0);
    CHECK(gz_parse_uint64(padded("007x"), 7, &got) == text + 3 && got == 7);
    CHECK(gz_parse_uint64(padded("12345678901234567890"), UINT64_MAX, &got) == NULL);
}

static void what_is_no_number_is_refused(void)
{
    static const char *const cells[] = {"", "-1", "+1", " 1", "x", "\"1\"", ",", "\xb1", "\xff"};
    uint64_t got;
    for (size_t i = 0; i < sizeof cells / sizeof cells[0]; i++)
        CHECK(gz_parse_uint64(padded(cells[i]), UINT64_MAX, &got) == NULL);
}

static void bytes_beyond_ascii_end_a_number(void)
{
    uint64_t got;
    CHECK(gz_parse_uint64(padded("12\xff"), 99, &got) == text + 2 && got == 12);
    CHECK(gz_parse_uint64(padded("1\x8a\x8a\x8a"), 99, &got) == text + 1 && got == 1);
    CHECK(gz_parse_uint64(padded("1/:"), 99, &got) == text + 1 && got == 1);
}

static void signed_numbers_have_bounds(void)
{
    int64_t got;
    CHECK(gz_parse_int64(padded("9223372036854775807"), INT64_MAX, &got) == text + 19);
    CHECK(got == INT64_MAX);
    CHECK(gz_parse_int64(padded("-9223372036854775808"), INT64_MAX, &got) == text + 20);
    CHECK(got == INT64_MIN);
    CHECK(gz_parse_int64(padded("9223372036854775808"), INT64_MAX, &got) == NULL);
    CHECK(gz_parse_int64(padded("-9223372036854775809"), INT64_MAX, &got) == NULL);
    CHECK(gz_parse_int64(padded("-2147483648"), INT32_MAX, &got) != NULL && got == INT32_MIN);
    CHECK(gz_parse_int64(padded("2147483648"), INT32_MAX, &got) == NULL);
    CHECK(gz_parse_int64(padded("-"), INT64_MAX, &got) == NULL);
    CHECK(gz_parse_int64(padded("--1"), INT64_MAX, &got) == NULL);
}

void test_parse_number(void)
{
    RUN(unsigned_numbers_have_bounds);
    RUN(what_is_no_number_is_refused);
    RUN(bytes_beyond_ascii_end_a_number);
    RUN(signed_numbers_have_bounds);
}
