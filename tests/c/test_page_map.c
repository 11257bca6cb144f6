#define _GNU_SOURCE /* unlink under -std=c11 */
#define _DARWIN_C_SOURCE

#include "graphzero/page_map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "graphzero/rng.h"
#include "support.h"

enum { PAGES = 40, MOST_ROWS = 400 };

static void without_a_map_all_rows_are_missing(void)
{
    const int64_t rows[] = {0, 3, 3};
    gz_page_map map = {NULL, 0, 0, 512};
    gz_pick picks[3];
    uint8_t in_memory[3];
    CHECK_EQ(gz_picks_beyond(rows, 3, &map, picks, in_memory), 3);
}

static void open_file(gz_mapping *out, uint64_t bytes)
{
    char path[PATH_BYTES];
    gz_error err;
    unsigned char *content = calloc(bytes, 1);
    write_file(path, "page_map", content, bytes);
    free(content);
    CHECK_EQ(gz_mapping_open(path, out, &err), GZ_OK);
    unlink(path);
}

static void both_sources_know_pages_that_are_mapped(void)
{
    uint64_t page = gz_system_page_bytes();
    uint8_t pages[8];
    gz_mapping mapping;
    gz_error err;
    open_file(&mapping, 8 * page - 100);
    CHECK_EQ(gz_mapping_advise(&mapping, 0, mapping.size, GZ_ADVICE_POPULATE, &err), GZ_OK);
    for (int trust = 0; trust < 2; trust++) {
        memset(pages, 0xEE, sizeof pages);
        CHECK_EQ(gz_page_map_read(&mapping, 1, 7, trust, pages, &err), GZ_OK);
        for (int i = 0; i < 7; i++)
            CHECK_EQ(pages[i], 1);
        CHECK_EQ(pages[7], 0xEE);
    }
    gz_mapping_close(&mapping);
}

static void pages_that_are_released_are_not_mapped(void)
{
    uint64_t page = gz_system_page_bytes();
    uint8_t pages[8];
    gz_mapping mapping;
    gz_error err;
    open_file(&mapping, 8 * page);
    CHECK_EQ(gz_mapping_advise(&mapping, 0, mapping.size, GZ_ADVICE_POPULATE, &err), GZ_OK);
    CHECK_EQ(gz_mapping_advise(&mapping, 2 * page, 3 * page, GZ_ADVICE_RELEASE, &err), GZ_OK);
    CHECK_EQ(gz_page_map_read(&mapping, 0, 8, false, pages, &err), GZ_OK);
    for (int i = 0; i < 8; i++)
        CHECK_EQ(pages[i], i < 2 || i >= 5);
    gz_mapping_close(&mapping);
}

static void ranges_beyond_the_file_are_refused(void)
{
    uint64_t page = gz_system_page_bytes();
    uint8_t pages[8];
    gz_mapping mapping;
    gz_error err;
    open_file(&mapping, 3 * page - 1);
    CHECK_EQ(gz_page_map_read(&mapping, 0, 4, true, pages, &err), GZ_E_OS);
    CHECK_EQ(err.saved_errno, EINVAL);
    CHECK_EQ(gz_page_map_read(&mapping, 4, 0, true, pages, &err), GZ_E_OS);
    CHECK_EQ(gz_page_map_read(&mapping, 2, UINT64_MAX, true, pages, &err), GZ_E_OS);
    CHECK_EQ(gz_page_map_read(&mapping, 3, 0, true, pages, &err), GZ_OK);
    gz_mapping_close(&mapping);
}

void test_page_map(void)
{
    RUN(without_a_map_all_rows_are_missing);
    RUN(both_sources_know_pages_that_are_mapped);
    RUN(pages_that_are_released_are_not_mapped);
    RUN(ranges_beyond_the_file_are_refused);
}
