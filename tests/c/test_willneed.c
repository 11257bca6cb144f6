#include "check.h"

#include "graphzero/willneed.h"
#include "support.h"

enum { FIVE_MIB = 5 << 20 };

TEST(no_rows_make_no_runs)
{
    gz_run run;
    CHECK_EQ(gz_page_runs(NULL, 0, GZ_PAGE_BYTES, 512, 0, 2 * GZ_PAGE_BYTES, &run), 0);
}

TEST(runs_beyond_the_file_are_refused)
{
    const gz_run runs[] = {{0, FIVE_MIB}, {FIVE_MIB, gz_system_page_bytes()}};
    gz_mapping mapping;
    gz_willneed_counts counts;
    if (!map_file(&mapping, NULL, FIVE_MIB + 100))
        return;
    for (int mode = GZ_WILLNEED_ALL; mode <= GZ_WILLNEED_MISSING; mode++) {
        CHECK_EQ(gz_willneed(&mapping, runs, 2, (gz_willneed_mode)mode, &counts, &err), GZ_E_OS);
        CHECK_EQ(err.offset, FIVE_MIB);
    }
    gz_mapping_close(&mapping);
}
