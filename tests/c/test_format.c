/* The bytes of the header, which may never change in version 1, and values that a hostile writer
 * puts there. That Python's twin reads and writes the same is tested in tests/test_format.py. */
#include "check.h"

#include <stdio.h>
#include <string.h>

#include "graphzero/checksum.h"
#include "support.h"

static unsigned char page[GZ_PAGE_BYTES];
static gz_header got;

static void encode_small(void)
{
    gz_header header;
    small_header(&header);
    gz_header_encode(&header, page);
}

static gz_code decode(void)
{
    return gz_header_decode(page, SMALL_FILE_BYTES, GZ_KIND_GRAPH, &got, &err);
}

/* As the byte table of the format says. */
TEST(bytes_are_where_the_table_says)
{
    encode_small();
    CHECK(memcmp(page, "\x89GZL\r\n\x1a\n\x01\0\0\0\x01\0\0\0", 16) == 0);
    CHECK(memcmp(page + 16, "\x10\x20\0\0\0\0\0\0\x03\0\0\0\0\0\0\0", 16) == 0);
    CHECK(memcmp(page + 32, "\x04\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0\x02\0\0\0", 20) == 0);
    CHECK(memcmp(page + 64, "indptr\0\0\0\0\0\0\0\0\0\0\x08\0\0\0\0\0\0\0", 24) == 0);
    CHECK(memcmp(page + 88, "\0\x10\0\0\0\0\0\0\x04\0\0\0\0\0\0\0\x20\0\0\0\0\0\0\0", 24) == 0);
    CHECK(memcmp(page + 112, "\x04\x03\x02\x01", 4) == 0);
    CHECK(memcmp(page + 128, "indices\0", 8) == 0);
}

TEST(sixty_two_sections_fit)
{
    gz_header header;
    small_header(&header);
    header.num_sections = GZ_MAX_SECTIONS;
    for (uint32_t i = 0; i < GZ_MAX_SECTIONS; i++) {
        header.sections[i] = (gz_section){"", GZ_UINT8, GZ_PAGE_BYTES, 0, 0, 0};
        snprintf(header.sections[i].name, GZ_NAME_BYTES + 1, "section-%08u", i); /* all 16 bytes */
    }
    gz_header_encode(&header, page);
    CHECK_EQ(decode(), GZ_OK);
    CHECK(gz_header_find(&got, "section-00000061") == &got.sections[61]);
    CHECK(gz_header_find(&got, "section-00000062") == NULL);
}

/* With a valid checksum: as from a hostile writer, not a broken disk. */
TEST(hostile_fields_are_refused)
{
    enum {
        SECOND = 64 + 64,
        OFFSET = SECOND + 24,
        FIELD_COUNT = SECOND + 32,
        LENGTH = SECOND + 40
    };
    const struct {
        size_t at;
        int size;
        uint64_t value;
        const char *message;
    } cases[] = {
        {0, 8, 0, "wrong magic bytes"},
        {8, 4, UINT32_MAX, "format version 4294967295"},
        {12, 4, UINT32_C(1) << 31, "flags"},
        {16, 8, UINT64_MAX, "truncated"},
        {16, 8, SMALL_FILE_BYTES - 1, "too long"},
        {48, 4, GZ_MAX_SECTIONS + 1, "sections"},
        {48, 4, 3, "known name or dtype"}, /* the third entry is all zeros */
        {56, 8, UINT64_MAX, "not the flag of an edge type"},
        {SECOND + 16, 4, 14, "known name or dtype"},
        {FIELD_COUNT, 8, (UINT64_C(1) << 62) + 4, "elements of 4 bytes"}, /* * 4 wraps to 16 */
        {FIELD_COUNT, 8, UINT64_MAX, "elements of 4 bytes"},
        {LENGTH, 8, UINT64_MAX, "elements of 4 bytes"},
        {OFFSET, 8, 2 * GZ_PAGE_BYTES + 8, "not on a page of its own"},
        {OFFSET, 8, GZ_PAGE_BYTES, "not on a page of its own"}, /* overlaps the first */
        {OFFSET, 8, UINT64_MAX - 4095, "beyond the end"},
        {OFFSET, 8, UINT64_C(1) << 63, "beyond the end"},
        {SECOND, 8, UINT64_C(0x0000727470646E69), "two sections named 'indptr'"},
    };
    for (unsigned i = 0; i < COUNT(cases); i++) {
        encode_small();
        for (int b = 0; b < cases[i].size; b++)
            page[cases[i].at + (size_t)b] = (unsigned char)(cases[i].value >> (8 * b));
        uint32_t crc = gz_crc32(page, GZ_PAGE_BYTES - 4);
        memcpy(page + GZ_PAGE_BYTES - 4, &crc, sizeof crc); /* little-endian, as csr.h demands */
        CHECK_EQ(decode(), GZ_E_FORMAT);
        check_message(cases[i].message);
    }
}
