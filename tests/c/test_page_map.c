#include "check.h"

#include <errno.h>
#include <string.h>

#include "graphzero/page_map.h"
#include "support.h"

TEST(without_a_map_all_rows_are_missing)
{
    const int64_t rows[] = {0, 3, 3};
    gz_page_map map = {NULL, 0, 0, 512};
    gz_pick picks[3];
    uint8_t in_memory[3];
    CHECK_EQ(gz_picks_beyond(rows, 3, &map, picks, in_memory), 3);
}

TEST(both_sources_know_pages_that_are_mapped)
{
    uint64_t page = gz_system_page_bytes();
    uint8_t pages[8];
    gz_mapping mapping;
    if (!map_file(&mapping, NULL, 8 * page - 100))
        return;
    CHECK_EQ(gz_mapping_advise(&mapping, 0, mapping.size, GZ_ADVICE_POPULATE, &err), GZ_OK);
    for (int trust = 0; trust < 2; trust++) {
        memset(pages, 0xEE, sizeof pages);
        CHECK_EQ(gz_page_map_read(&mapping, 1, 7, trust, pages, &err), GZ_OK);
        for (int i = 0; i < 8; i++)
            CHECK_EQ(pages[i], i < 7 ? 1 : 0xEE);
    }
    CHECK_EQ(gz_mapping_advise(&mapping, 2 * page, 3 * page, GZ_ADVICE_RELEASE, &err), GZ_OK);
    CHECK_EQ(gz_page_map_read(&mapping, 0, 8, false, pages, &err), GZ_OK);
    for (int i = 0; i < 8; i++)
        CHECK_EQ(pages[i], i < 2 || i >= 5);
    gz_mapping_close(&mapping);
}

TEST(pages_beyond_the_file_are_refused)
{
    const uint64_t ranges[][2] = {{0, 4}, {4, 0}, {2, UINT64_MAX}};
    uint8_t pages[8];
    gz_mapping mapping;
    if (!map_file(&mapping, NULL, 3 * gz_system_page_bytes() - 1))
        return;
    for (unsigned i = 0; i < COUNT(ranges); i++) {
        CHECK_EQ(gz_page_map_read(&mapping, ranges[i][0], ranges[i][1], true, pages, &err),
                 GZ_E_OS);
        CHECK_EQ(err.saved_errno, EINVAL);
    }
    CHECK_EQ(gz_page_map_read(&mapping, 3, 0, true, pages, &err), GZ_OK);
    gz_mapping_close(&mapping);
}
