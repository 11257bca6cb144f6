#define _GNU_SOURCE /* mkfifo and truncate under -std=c11 */
#define _DARWIN_C_SOURCE

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "graphzero/mapping.h"
#include "support.h"

enum { SIZE = 20000 };

static char path[PATH_BYTES];
static unsigned char bytes[SIZE], out[SIZE];
static gz_mapping mapping;
static gz_error err;

static void make_file(void)
{
    for (int i = 0; i < SIZE; i++)
        bytes[i] = (unsigned char)(i * 7 + i / 256);
    write_file(path, "file", bytes, SIZE);
}

static void expect_os_error(gz_code code, int wanted_errno)
{
    CHECK_EQ(code, GZ_E_OS);
    CHECK_EQ(err.saved_errno, wanted_errno);
}

static void maps_the_whole_file(void)
{
    make_file();
    if (!CHECK_EQ(gz_mapping_open(path, &mapping, &err), GZ_OK))
        return;
    CHECK_EQ(mapping.size, SIZE);
    CHECK(memcmp(mapping.base, bytes, SIZE) == 0);
    gz_mapping_close(&mapping);
    CHECK(mapping.base == NULL);
    gz_mapping_close(&mapping); /* harmless */
    unlink(path);
}

static void an_empty_file_has_no_pages(void)
{
    uint64_t pages = 1;
    write_file(path, "empty", bytes, 0);
    if (!CHECK_EQ(gz_mapping_open(path, &mapping, &err), GZ_OK))
        return;
    CHECK(mapping.base == NULL);
    CHECK_EQ(mapping.size, 0);
    CHECK_EQ(gz_mapping_advise(&mapping, 0, 0, GZ_ADVICE_RANDOM, &err), GZ_OK);
    CHECK_EQ(gz_mapping_resident(&mapping, 0, 0, &pages, &err), GZ_OK);
    CHECK_EQ(pages, 0);
    CHECK_EQ(gz_mapping_read(&mapping, 0, 1, out, &err), GZ_E_FORMAT);
    gz_mapping_close(&mapping);
    unlink(path);
}

static void only_regular_files(void)
{
    path_of(path, "missing");
    expect_os_error(gz_mapping_open(path, &mapping, &err), ENOENT);
    expect_os_error(gz_mapping_open("/", &mapping, &err), EISDIR);
    CHECK(strstr(err.message, "folder") != NULL);
    expect_os_error(gz_mapping_open("/dev/null", &mapping, &err), ENODEV);
    path_of(path, "pipe");
    if (!CHECK_EQ(mkfifo(path, 0600), 0))
        return;
    expect_os_error(gz_mapping_open(path, &mapping, &err), ENODEV); /* nor does it wait */
    unlink(path);
}

static void a_refused_file_leaves_no_descriptor(void)
{
    int before = dup(0);
    close(before);
    CHECK_EQ(gz_mapping_open("/", &mapping, &err), GZ_E_OS);
    int after = dup(0);
    close(after);
    CHECK_EQ(after, before);
}

static void reads_what_is_there(void)
{
    make_file();
    if (!CHECK_EQ(gz_mapping_open(path, &mapping, &err), GZ_OK))
        return;
    CHECK_EQ(gz_mapping_read(&mapping, 4095, 5000, out, &err), GZ_OK);
    CHECK(memcmp(out, bytes + 4095, 5000) == 0);
    CHECK_EQ(gz_mapping_read(&mapping, SIZE, 0, out, &err), GZ_OK);
    CHECK_EQ(gz_mapping_read(&mapping, SIZE - 1, 2, out, &err), GZ_E_FORMAT);
    CHECK_EQ(err.offset, SIZE);
    expect_os_error(gz_mapping_read(&mapping, UINT64_MAX, 1, out, &err), EINVAL);
    gz_mapping_close(&mapping);
    unlink(path);
}

/* A read through the descriptor returns an error where the mapping would raise SIGBUS. */
static void a_file_cut_under_the_mapping(void)
{
    make_file();
    if (!CHECK_EQ(gz_mapping_open(path, &mapping, &err), GZ_OK))
        return;
    CHECK_EQ(truncate(path, 100), 0);
    CHECK_EQ(gz_mapping_read(&mapping, SIZE / 2, 8, out, &err), GZ_E_FORMAT);
    CHECK(strstr(err.message, "truncated") != NULL);
    CHECK_EQ(gz_mapping_read(&mapping, 96, 8, out, &err), GZ_E_FORMAT);
    CHECK_EQ(err.offset, 100);
    gz_mapping_close(&mapping);
    unlink(path);
}

static void a_replaced_file_stays_as_it_was_mapped(void)
{
    char other[PATH_BYTES];
    make_file();
    if (!CHECK_EQ(gz_mapping_open(path, &mapping, &err), GZ_OK))
        return;
    write_file(other, "other", (const unsigned char *)"new", 3);
    CHECK_EQ(rename(other, path), 0);
    CHECK(memcmp(mapping.base, bytes, SIZE) == 0);
    gz_mapping_close(&mapping);
    unlink(path);
}

static void ranges_must_lie_in_the_file(void)
{
    const uint64_t ranges[][2] = {
        {SIZE + 1, 0}, {SIZE, 1}, {0, SIZE + 1}, {1, UINT64_MAX}, {UINT64_MAX, 1}, {UINT64_MAX, 2},
    };
    uint64_t pages;
    make_file();
    if (!CHECK_EQ(gz_mapping_open(path, &mapping, &err), GZ_OK))
        return;
    for (unsigned i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        uint64_t offset = ranges[i][0], length = ranges[i][1];
        expect_os_error(gz_mapping_advise(&mapping, offset, length, GZ_ADVICE_WILLNEED, &err),
                        EINVAL);
        expect_os_error(gz_mapping_resident(&mapping, offset, length, &pages, &err), EINVAL);
    }
    for (int advice = GZ_ADVICE_NORMAL; advice <= GZ_ADVICE_WILLNEED; advice++)
        CHECK_EQ(gz_mapping_advise(&mapping, 5000, SIZE - 5000, (gz_advice)advice, &err), GZ_OK);
    gz_mapping_close(&mapping);
    unlink(path);
}

static void pages_just_written_are_resident(void)
{
    uint64_t pages, page = gz_system_page_bytes();
    CHECK(page >= 4096 && (page & (page - 1)) == 0);
    make_file();
    if (!CHECK_EQ(gz_mapping_open(path, &mapping, &err), GZ_OK))
        return;
    CHECK_EQ(gz_mapping_resident(&mapping, 0, SIZE, &pages, &err), GZ_OK);
    CHECK_EQ(pages, (SIZE + page - 1) / page);
    CHECK_EQ(gz_mapping_resident(&mapping, page - 1, 2, &pages, &err), GZ_OK);
    CHECK_EQ(pages, 2);
    CHECK_EQ(gz_mapping_resident(&mapping, page, 1, &pages, &err), GZ_OK);
    CHECK_EQ(pages, 1);
    gz_mapping_close(&mapping);
    unlink(path);
}

void test_mapping(void)
{
    RUN(maps_the_whole_file);
    RUN(an_empty_file_has_no_pages);
    RUN(only_regular_files);
    RUN(a_refused_file_leaves_no_descriptor);
    RUN(reads_what_is_there);
    RUN(a_file_cut_under_the_mapping);
    RUN(a_replaced_file_stays_as_it_was_mapped);
    RUN(ranges_must_lie_in_the_file);
    RUN(pages_just_written_are_resident);
}
