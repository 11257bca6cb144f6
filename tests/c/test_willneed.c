#include "check.h"

#include <fcntl.h>
#include <unistd.h>

#include "graphzero/willneed.h"
#include "support.h"

enum { FIVE_MIB = 5 << 20 };

static gz_mapping mapping;
static gz_willneed_counts counts;

static bool start(void) { return map_file(&mapping, NULL, FIVE_MIB + 100); }

static gz_code request(uint64_t offset, uint64_t length, gz_willneed_mode mode)
{
    const gz_run runs[] = {{0, FIVE_MIB}, {offset, length}};
    return gz_willneed(&mapping, runs, length > 0 ? 2 : 1, mode, &counts, &err);
}

TEST(no_rows_make_no_runs)
{
    gz_run run;
    CHECK_EQ(gz_page_runs(NULL, 0, GZ_PAGE_BYTES, 512, 0, 2 * GZ_PAGE_BYTES, &run), 0);
}

TEST(long_runs_are_split_and_resident_ones_not_requested)
{
    if (!start())
        return;
    CHECK_EQ(request(FIVE_MIB, 100, GZ_WILLNEED_ALL), GZ_OK);
    CHECK_EQ(counts.pages, FIVE_MIB / gz_system_page_bytes() + 1);
    CHECK_EQ(counts.calls, 4); /* 2 + 2 + 1 MiB, and the tail */
    CHECK_EQ(request(0, 0, GZ_WILLNEED_MISSING), GZ_OK);
    CHECK(counts.pages > 0 && counts.missing == 0 && counts.calls == 0);
    gz_mapping_close(&mapping);
}

#if defined(__linux__)
/* Of the files of others, mincore says that all is in memory. */
TEST(without_a_check_what_is_read_counts_as_missing)
{
    uint64_t resident;
    if (!start())
        return;
    CHECK_EQ(fsync(mapping.fd), 0);
    CHECK_EQ(posix_fadvise(mapping.fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    CHECK_EQ(gz_mapping_resident(&mapping, 0, FIVE_MIB, &resident, &err), GZ_OK);
    uint64_t missing = FIVE_MIB / gz_system_page_bytes() - resident; /* none on tmpfs */
    CHECK_EQ(request(0, 0, GZ_WILLNEED_ALL), GZ_OK);
    bool is_counted = access("/proc/self/io", F_OK) == 0;
    CHECK(!is_counted || counts.missing >= missing);
    CHECK_EQ(request(0, 0, GZ_WILLNEED_ALL), GZ_OK);
    CHECK_EQ(counts.missing, is_counted ? 0 : counts.pages);
    gz_mapping_close(&mapping);
}
#endif

TEST(runs_beyond_the_file_are_refused)
{
    if (!start())
        return;
    for (int mode = GZ_WILLNEED_ALL; mode <= GZ_WILLNEED_MISSING; mode++) {
        CHECK_EQ(request(FIVE_MIB, gz_system_page_bytes(), (gz_willneed_mode)mode), GZ_E_OS);
        CHECK_EQ(err.offset, FIVE_MIB);
    }
    gz_mapping_close(&mapping);
}
