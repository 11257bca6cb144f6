#include "check.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "support.h"

enum { SIZE = 20000 };

static char path[PATH_BYTES];
static unsigned char out[SIZE];
static gz_mapping mapping;

/* Maps a file of known bytes that keeps its name. */
static bool start(void)
{
    write_file(path, "file", known_bytes(), SIZE);
    return CHECK_EQ(gz_mapping_open(path, &mapping, &err), GZ_OK);
}

static void end(void)
{
    gz_mapping_close(&mapping);
    unlink(path);
}

static void expect_os_error(gz_code code, int wanted_errno)
{
    CHECK_EQ(code, GZ_E_OS);
    CHECK_EQ(err.saved_errno, wanted_errno);
}

TEST(a_mapping_keeps_the_file_that_was_opened)
{
    char other[PATH_BYTES];
    if (!start())
        return;
    CHECK_EQ(mapping.size, SIZE);
    write_file(other, "other", (const unsigned char *)"new", 3);
    CHECK_EQ(rename(other, path), 0);
    CHECK(memcmp(mapping.base, known_bytes(), SIZE) == 0);
    end();
    CHECK(mapping.base == NULL);
    gz_mapping_close(&mapping); /* harmless */
}

TEST(an_empty_file_has_no_pages)
{
    uint64_t pages = 1;
    if (!map_file(&mapping, NULL, 0))
        return;
    CHECK(mapping.base == NULL && mapping.size == 0);
    CHECK_EQ(gz_mapping_advise(&mapping, 0, 0, GZ_ADVICE_RANDOM, &err), GZ_OK);
    CHECK_EQ(gz_mapping_resident(&mapping, 0, 0, &pages, &err), GZ_OK);
    CHECK_EQ(pages, 0);
    CHECK_EQ(gz_mapping_read(&mapping, 0, 1, out, &err), GZ_E_FORMAT);
    gz_mapping_close(&mapping);
}

/* A read through the descriptor returns an error where the mapping would raise SIGBUS. */
TEST(reads_what_is_there)
{
    if (!start())
        return;
    CHECK_EQ(gz_mapping_read(&mapping, 4095, 5000, out, &err), GZ_OK);
    CHECK(memcmp(out, known_bytes() + 4095, 5000) == 0);
    CHECK_EQ(gz_mapping_read(&mapping, SIZE, 0, out, &err), GZ_OK);
    CHECK_EQ(gz_mapping_read(&mapping, SIZE - 1, 2, out, &err), GZ_E_FORMAT);
    CHECK_EQ(err.offset, SIZE);
    expect_os_error(gz_mapping_read(&mapping, UINT64_MAX, 1, out, &err), EINVAL);
    CHECK_EQ(truncate(path, 100), 0);
    CHECK_EQ(gz_mapping_read(&mapping, SIZE / 2, 8, out, &err), GZ_E_FORMAT);
    check_message("truncated");
    CHECK_EQ(gz_mapping_read(&mapping, 96, 8, out, &err), GZ_E_FORMAT);
    CHECK_EQ(err.offset, 100);
    end();
}

TEST(ranges_must_lie_in_the_file)
{
    const uint64_t ranges[][2] = {
        {SIZE + 1, 0}, {SIZE, 1}, {0, SIZE + 1}, {1, UINT64_MAX}, {UINT64_MAX, 1}, {UINT64_MAX, 2},
    };
    uint64_t pages;
    if (!start())
        return;
    for (unsigned i = 0; i < COUNT(ranges); i++) {
        uint64_t offset = ranges[i][0], length = ranges[i][1];
        expect_os_error(gz_mapping_advise(&mapping, offset, length, GZ_ADVICE_WILLNEED, &err),
                        EINVAL);
        expect_os_error(gz_mapping_resident(&mapping, offset, length, &pages, &err), EINVAL);
    }
    for (int advice = GZ_ADVICE_NORMAL; advice <= GZ_ADVICE_WILLNEED; advice++)
        CHECK_EQ(gz_mapping_advise(&mapping, 5000, SIZE - 5000, (gz_advice)advice, &err), GZ_OK);
    end();
}
