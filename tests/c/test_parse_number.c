#include "check.h"

#include <string.h>

#include "graphzero/parse_number.h"
#include "support.h"

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

TEST(unsigned_numbers_have_bounds)
{
    const struct {
        const char *cell;
        uint64_t most;
        int length; /* what was parsed; 0 where it is refused */
        uint64_t value;
    } cases[] = {
        {"4294967295", UINT32_MAX, 10, UINT32_MAX},
        {"4294967296", UINT32_MAX, 0, 0},
        {"0", 0, 1, 0},
        {"007x", 7, 3, 7},
        {"12345678901234567890", UINT64_MAX, 0, 0},
        {"12\xff", 99, 2, 12}, /* bytes beyond digits end a number */
        {"1\x8a\x8a\x8a", 99, 1, 1},
        {"1/:", 99, 1, 1},
        {"", UINT64_MAX, 0, 0}, /* and these are none */
        {"-1", UINT64_MAX, 0, 0},
        {"+1", UINT64_MAX, 0, 0},
        {" 1", UINT64_MAX, 0, 0},
        {"\"1\"", UINT64_MAX, 0, 0},
        {"\xb1", UINT64_MAX, 0, 0},
    };
    for (unsigned i = 0; i < COUNT(cases); i++) {
        uint64_t got = 0;
        const unsigned char *end = gz_parse_uint64(padded(cases[i].cell), cases[i].most, &got);
        CHECK(end == (cases[i].length > 0 ? text + cases[i].length : NULL));
        CHECK(end == NULL || got == cases[i].value);
    }
}

TEST(signed_numbers_have_bounds)
{
    const struct {
        const char *cell;
        int64_t most;
        bool is_number;
        int64_t value;
    } cases[] = {
        {"9223372036854775807", INT64_MAX, true, INT64_MAX},
        {"-9223372036854775808", INT64_MAX, true, INT64_MIN},
        {"9223372036854775808", INT64_MAX, false, 0},
        {"-9223372036854775809", INT64_MAX, false, 0},
        {"-2147483648", INT32_MAX, true, INT32_MIN},
        {"2147483648", INT32_MAX, false, 0},
        {"-", INT64_MAX, false, 0},
        {"--1", INT64_MAX, false, 0},
    };
    for (unsigned i = 0; i < COUNT(cases); i++) {
        int64_t got = 0;
        const unsigned char *end = gz_parse_int64(padded(cases[i].cell), cases[i].most, &got);
        CHECK(end == (cases[i].is_number ? text + strlen(cases[i].cell) : NULL));
        CHECK(end == NULL || got == cases[i].value);
    }
}
