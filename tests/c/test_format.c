#include <stdio.h>
#include <string.h>

#include "check.h"
#include "graphzero/checksum.h"
#include "graphzero/format.h"
#include "support.h"

static unsigned char page[GZ_PAGE_BYTES];
static gz_header got;
static gz_error err;

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

/* Encodes a header, changes one field (with a valid checksum), and expects this message. */
static void expect_refusal(size_t at, int size, uint64_t value, const char *message)
{
    encode_small();
    poke(page, at, size, value);
    CHECK_EQ(decode(), GZ_E_FORMAT);
    if (!CHECK(strstr(err.message, message) != NULL))
        printf("  value %llx at byte %zu: '%s'\n", (unsigned long long)value, at, err.message);
}

static void comes_back_as_written(void)
{
    gz_header header;
    small_header(&header);
    gz_header_encode(&header, page);
    if (!CHECK_EQ(decode(), GZ_OK))
        return;
    CHECK_EQ(got.kind, GZ_KIND_GRAPH);
    CHECK_EQ(got.flags, GZ_FLAG_DIRECTED);
    CHECK_EQ(got.file_bytes, SMALL_FILE_BYTES);
    CHECK_EQ(got.num_nodes, 3);
    CHECK_EQ(got.width, 4);
    CHECK_EQ(got.num_input_edges, 4);
    CHECK_EQ(got.num_sections, 2);
    for (uint32_t i = 0; i < 2; i++) {
        CHECK(strcmp(got.sections[i].name, header.sections[i].name) == 0);
        CHECK_EQ(got.sections[i].dtype, header.sections[i].dtype);
        CHECK_EQ(got.sections[i].offset, header.sections[i].offset);
        CHECK_EQ(got.sections[i].count, header.sections[i].count);
        CHECK_EQ(got.sections[i].length, header.sections[i].length);
        CHECK_EQ(got.sections[i].crc, header.sections[i].crc);
    }
    CHECK(gz_header_find(&got, "indices") == &got.sections[1]);
    CHECK(gz_header_find(&got, "weights") == NULL);
}

/* The byte table of the format: positions and byte order may never change in version 1. */
static void bytes_are_where_the_table_says(void)
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

static void every_dtype_has_its_size(void)
{
    const uint32_t sizes[] = {0, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8, 1, 0};
    for (uint32_t dtype = 0; dtype < sizeof sizes / sizeof sizes[0]; dtype++)
        CHECK_EQ(gz_dtype_size(dtype), sizes[dtype]);
    CHECK_EQ(gz_dtype_size(UINT32_MAX), 0);
}

static void sixty_two_sections_fit(void)
{
    gz_header header;
    small_header(&header);
    header.num_sections = GZ_MAX_SECTIONS;
    for (uint32_t i = 0; i < GZ_MAX_SECTIONS; i++) {
        header.sections[i] = (gz_section){"", GZ_UINT8, GZ_PAGE_BYTES, 0, 0, 0};
        snprintf(header.sections[i].name, GZ_NAME_BYTES + 1, "section-%08u", i);
    }
    gz_header_encode(&header, page);
    CHECK_EQ(decode(), GZ_OK);
    CHECK(gz_header_find(&got, "section-00000061") == &got.sections[61]);
}

static void every_byte_counts(void)
{
    encode_small();
    for (unsigned at = 0; at < GZ_PAGE_BYTES; at++) {
        const unsigned char flips[] = {(unsigned char)(1u << at % 8), 0xFF};
        for (int i = 0; i < 2; i++) {
            page[at] ^= flips[i];
            CHECK_EQ(decode(), GZ_E_FORMAT);
            page[at] ^= flips[i];
        }
    }
    CHECK_EQ(decode(), GZ_OK);
}

static void foreign_files_are_named(void)
{
    encode_small();
    CHECK_EQ(gz_header_decode(page, SMALL_FILE_BYTES, GZ_KIND_FEATURES, &got, &err), GZ_E_FORMAT);
    CHECK(strstr(err.message, "open it with Graph") != NULL);
    expect_refusal(3, 1, 'D', "open it with FeatureStore");
    expect_refusal(0, 8, 0, "wrong magic bytes");
    expect_refusal(8, 4, 2, "format version 2");
    expect_refusal(8, 4, UINT32_MAX, "format version 4294967295");
    expect_refusal(12, 4, 16, "flags");
    expect_refusal(12, 4, UINT32_C(1) << 31, "flags");
}

static void sizes_must_agree(void)
{
    expect_refusal(16, 8, SMALL_FILE_BYTES + 1, "truncated");
    expect_refusal(16, 8, SMALL_FILE_BYTES - 1, "too long");
    expect_refusal(16, 8, UINT64_MAX, "truncated");
    expect_refusal(48, 4, GZ_MAX_SECTIONS + 1, "sections");
    expect_refusal(48, 4, UINT32_MAX, "sections");
    expect_refusal(48, 4, 3, "known name or dtype"); /* the third entry is all zeros */
}

static void only_an_edge_type_has_a_second_set_of_nodes(void)
{
    gz_header header;
    small_header(&header);
    header.flags |= GZ_FLAG_TYPED;
    header.num_neighbors = UINT64_C(0x0102030405060708);
    gz_header_encode(&header, page);
    CHECK(memcmp(page + 12, "\x09\0\0\0", 4) == 0);
    CHECK(memcmp(page + 56, "\x08\x07\x06\x05\x04\x03\x02\x01", 8) == 0);
    if (CHECK_EQ(decode(), GZ_OK))
        CHECK_EQ(got.num_neighbors, header.num_neighbors);
    header.num_neighbors = 0; /* an empty set is one */
    gz_header_encode(&header, page);
    CHECK_EQ(decode(), GZ_OK);
    expect_refusal(56, 8, 1, "has 1 neighbours, but not the flag of an edge type");
    expect_refusal(56, 8, UINT64_MAX, "not the flag of an edge type");
    header.kind = GZ_KIND_FEATURES;
    gz_header_encode(&header, page);
    CHECK_EQ(gz_header_decode(page, SMALL_FILE_BYTES, GZ_KIND_FEATURES, &got, &err), GZ_E_FORMAT);
    CHECK(strstr(err.message, "has the flag of an edge type, but no edges") != NULL);
}

/* All with a valid checksum: as from a hostile writer, not a broken disk. */
static void sections_must_lie_in_the_file(void)
{
    const size_t second = 64 + 64, dtype = second + 16, offset = second + 24, count = second + 32,
                 length = second + 40;
    expect_refusal(second, 1, 0, "known name or dtype");
    expect_refusal(dtype, 4, 14, "known name or dtype");
    expect_refusal(dtype, 4, GZ_UINT64, "are not 4 elements of 8 bytes");
    expect_refusal(count, 8, 5, "are not 5 elements of 4 bytes");
    expect_refusal(count, 8, (UINT64_C(1) << 62) + 4, "elements of 4 bytes"); /* * 4 wraps to 16 */
    expect_refusal(count, 8, UINT64_MAX, "elements of 4 bytes");
    expect_refusal(length, 8, 17, "elements of 4 bytes");
    expect_refusal(length, 8, UINT64_MAX, "elements of 4 bytes");
    expect_refusal(offset, 8, 2 * GZ_PAGE_BYTES + 8, "not on a page of its own");
    expect_refusal(offset, 8, 0, "not on a page of its own");
    expect_refusal(offset, 8, GZ_PAGE_BYTES, "not on a page of its own"); /* overlaps the first */
    expect_refusal(offset, 8, 12288, "beyond the end");
    expect_refusal(offset, 8, UINT64_MAX - 4095, "beyond the end");
    expect_refusal(offset, 8, UINT64_C(1) << 63, "beyond the end");
    expect_refusal(second, 8, UINT64_C(0x0000727470646E69), "two sections named 'indptr'");
}

/* Count and length are consistent but reach far beyond the file. */
static void huge_sections_are_refused(void)
{
    const uint64_t counts[] = {5, UINT64_C(1) << 40, UINT64_C(1) << 61, UINT64_MAX / 4};
    for (unsigned i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        encode_small();
        poke(page, 64 + 64 + 32, 8, counts[i]);
        poke(page, 64 + 64 + 40, 8, counts[i] * 4);
        CHECK_EQ(decode(), GZ_E_FORMAT);
        CHECK(strstr(err.message, "beyond the end") != NULL);
    }
}

static void a_name_may_fill_its_field(void)
{
    gz_header header;
    small_header(&header);
    memcpy(header.sections[1].name, "sixteen-letters!", 17);
    gz_header_encode(&header, page);
    CHECK_EQ(decode(), GZ_OK);
    CHECK(strcmp(got.sections[1].name, "sixteen-letters!") == 0);
}

void test_format(void)
{
    RUN(comes_back_as_written);
    RUN(bytes_are_where_the_table_says);
    RUN(every_dtype_has_its_size);
    RUN(sixty_two_sections_fit);
    RUN(every_byte_counts);
    RUN(foreign_files_are_named);
    RUN(sizes_must_agree);
    RUN(only_an_edge_type_has_a_second_set_of_nodes);
    RUN(sections_must_lie_in_the_file);
    RUN(huge_sections_are_refused);
    RUN(a_name_may_fill_its_field);
}
