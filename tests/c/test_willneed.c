#define _GNU_SOURCE /* unlink under -std=c11 */
#define _DARWIN_C_SOURCE

#include "graphzero/willneed.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "graphzero/rng.h"
#include "support.h"

enum { MOST_PAGES = 2000, MOST_ROWS = 300 };

static uint64_t page;

static void no_rows_make_no_runs(void)
{
    gz_run run;
    page = gz_system_page_bytes();
    CHECK_EQ(gz_page_runs(NULL, 0, page, 512, 0, 2 * page, &run), 0);
}

enum { FILE_BYTES = (5 << 20) + 100 };

static bool map_file(gz_mapping *mapping)
{
    char path[PATH_BYTES];
    gz_error err;
    unsigned char *bytes = calloc(1, FILE_BYTES);
    if (!CHECK(bytes != NULL))
        return false;
    write_file(path, "rows", bytes, FILE_BYTES);
    free(bytes);
    bool mapped = CHECK_EQ(gz_mapping_open(path, mapping, &err), GZ_OK);
    unlink(path);
    return mapped;
}

static void long_runs_are_split(void)
{
    const gz_run runs[] = {{0, 5 << 20}, {5 << 20, 100}};
    gz_mapping mapping;
    gz_willneed_counts counts;
    gz_error err;
    if (!map_file(&mapping))
        return;
    page = gz_system_page_bytes();
    CHECK_EQ(gz_willneed(&mapping, runs, 2, GZ_WILLNEED_ALL, &counts, &err), GZ_OK);
    CHECK_EQ(counts.pages, (5 << 20) / page + 1);
    CHECK_EQ(counts.calls, 4); /* 2 + 2 + 1 MiB, and the tail */
    gz_mapping_close(&mapping);
}

#if defined(__linux__)
/* Of the files of others, mincore says that all is in memory. */
static void without_a_check_what_is_read_counts_as_missing(void)
{
    const gz_run runs[] = {{0, 5 << 20}};
    gz_mapping mapping;
    gz_willneed_counts counts;
    gz_error err;
    uint64_t resident;
    if (!map_file(&mapping))
        return;
    page = gz_system_page_bytes();
    CHECK_EQ(fsync(mapping.fd), 0);
    CHECK_EQ(posix_fadvise(mapping.fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    CHECK_EQ(gz_mapping_resident(&mapping, 0, 5 << 20, &resident, &err), GZ_OK);
    uint64_t missing = (5 << 20) / page - resident; /* none on tmpfs */
    CHECK_EQ(gz_willneed(&mapping, runs, 1, GZ_WILLNEED_ALL, &counts, &err), GZ_OK);
    bool is_counted = access("/proc/self/io", F_OK) == 0;
    CHECK(!is_counted || counts.missing >= missing);
    CHECK_EQ(gz_willneed(&mapping, runs, 1, GZ_WILLNEED_ALL, &counts, &err), GZ_OK);
    CHECK_EQ(counts.missing, is_counted ? 0 : counts.pages);
    gz_mapping_close(&mapping);
}
#endif

static void resident_pages_are_not_requested(void)
{
    const gz_run runs[] = {{0, 5 << 20}};
    gz_mapping mapping;
    gz_willneed_counts counts;
    gz_error err;
    if (!map_file(&mapping))
        return;
    CHECK_EQ(gz_willneed(&mapping, runs, 1, GZ_WILLNEED_MISSING, &counts, &err), GZ_OK);
    CHECK(counts.pages > 0);
    CHECK_EQ(counts.missing, 0);
    CHECK_EQ(counts.calls, 0);
    gz_mapping_close(&mapping);
}

static void runs_beyond_the_file_are_refused(void)
{
    page = gz_system_page_bytes();
    const gz_run runs[] = {{page, page}, {5 << 20, page}};
    gz_mapping mapping;
    gz_willneed_counts counts;
    gz_error err;
    if (!map_file(&mapping))
        return;
    for (int mode = GZ_WILLNEED_ALL; mode <= GZ_WILLNEED_MISSING; mode++) {
        CHECK_EQ(gz_willneed(&mapping, runs, 2, (gz_willneed_mode)mode, &counts, &err), GZ_E_OS);
        CHECK_EQ(err.offset, 5 << 20);
    }
    gz_mapping_close(&mapping);
}

void test_willneed(void)
{
    RUN(no_rows_make_no_runs);
    RUN(long_runs_are_split);
#if defined(__linux__)
    RUN(without_a_check_what_is_read_counts_as_missing);
#endif
    RUN(resident_pages_are_not_requested);
    RUN(runs_beyond_the_file_are_refused);
}
