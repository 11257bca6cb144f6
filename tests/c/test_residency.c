#include "check.h"

#include <errno.h>

#include "graphzero/residency.h"
#include "support.h"

enum { PAGES = 61 };

static gz_mapping mapping;

/* Maps a file of zeros, all of them in memory. */
static bool map_resident(uint64_t bytes)
{
    return map_file(&mapping, NULL, bytes) &&
           CHECK_EQ(gz_mapping_advise(&mapping, 0, bytes, GZ_ADVICE_POPULATE, &err), GZ_OK);
}

/* Linux 6.18 loses pages of ranges that begin within a large folio, once in some 2,000 calls. */
TEST(cachestat_loses_no_pages)
{
    uint64_t pages[PAGES];
    if (!map_resident(PAGES * gz_system_page_bytes()))
        return;
    for (int i = 0; i < 6000; i++) {
        uint64_t parts = 2 + (uint64_t)i % 28, counted = 0;
        if (gz_residency(&mapping, GZ_RESIDENCY_CACHESTAT, parts, pages, &err) != GZ_OK) {
            /* where a system may refuse for good, the library falls back on mincore */
            CHECK(err.saved_errno == ENOSYS || err.saved_errno == EOPNOTSUPP ||
                  err.saved_errno == EPERM);
            break;
        }
        for (uint64_t k = 0; k < parts; k++)
            counted += pages[k];
        CHECK_EQ(counted, PAGES);
    }
    gz_mapping_close(&mapping);
}

/* The first half is not in memory, and ends within a part; the parts are large ones. */
TEST(parts_of_a_large_file_are_told_apart)
{
    uint64_t pages[5], incore[5];
    if (!map_file(&mapping, NULL, 9 << 20))
        return;
    CHECK_EQ(gz_mapping_advise(&mapping, 0, 4 << 20, GZ_ADVICE_RELEASE, &err), GZ_OK);
    CHECK_EQ(gz_residency(&mapping, GZ_RESIDENCY_FASTEST, 5, pages, &err), GZ_OK);
    CHECK_EQ(gz_residency(&mapping, GZ_RESIDENCY_MINCORE, 5, incore, &err), GZ_OK);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(pages[i], incore[i]);
    gz_mapping_close(&mapping);
}
