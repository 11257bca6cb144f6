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

/* Marks the pages of every row, then closes the gaps, then reads off the runs. */
static int64_t naive_runs(const int64_t *rows, int64_t count, uint64_t origin, uint64_t row_bytes,
                          uint64_t gap_pages, uint64_t file_bytes, gz_run *runs)
{
    static bool wanted[MOST_PAGES];
    int64_t written = 0;
    uint64_t since = MOST_PAGES; /* pages since the last wanted one */
    memset(wanted, 0, sizeof wanted);
    for (int64_t i = 0; i < count; i++)
        for (uint64_t b = 0; b < row_bytes; b++)
            wanted[(origin + (uint64_t)rows[i] * row_bytes + b) / page] = true;
    for (uint64_t at = 0; at < MOST_PAGES; at++, since++) {
        if (!wanted[at])
            continue;
        if (written == 0 || since > gap_pages)
            runs[written++] = (gz_run){at * page, 0};
        gz_run *run = &runs[written - 1];
        uint64_t end = (at + 1) * page < file_bytes ? (at + 1) * page : file_bytes;
        run->length = end - run->offset;
        since = (uint64_t)-1; /* 0 at the next page */
    }
    return written;
}

static void runs_are_those_of_the_naive_version(void)
{
    static gz_run runs[MOST_ROWS], wanted[MOST_ROWS];
    static int64_t rows[MOST_ROWS];
    const uint64_t widths[] = {1, 100, 512, 4096, 5000, 20000};
    page = gz_system_page_bytes();
    for (unsigned w = 0; w < sizeof widths / sizeof widths[0]; w++)
        for (uint64_t gap_pages = 0; gap_pages < 8; gap_pages += gap_pages + 1)
            for (uint64_t trial = 0; trial < 20; trial++) {
                uint64_t width = widths[w], origin = trial % 2 ? page : 128, row = 0;
                uint64_t spread = 1 + gz_bounded(gz_draw(w, trial), 1 + 12 * page / width);
                int64_t count = 0;
                while (count < MOST_ROWS && origin + (row + 1) * width < MOST_PAGES * page) {
                    rows[count++] = (int64_t)row; /* repeats where the step is 0 */
                    row += gz_bounded(gz_draw(trial, row + (uint64_t)count), 2 * spread);
                }
                uint64_t file_bytes = origin + ((uint64_t)rows[count - 1] + 1) * width;
                int64_t got = gz_page_runs(rows, count, origin, width, gap_pages, file_bytes, runs);
                if (!CHECK_EQ(
                        got, naive_runs(rows, count, origin, width, gap_pages, file_bytes, wanted)))
                    return;
                for (int64_t i = 0; i < got; i++) {
                    CHECK_EQ(runs[i].offset, wanted[i].offset);
                    CHECK_EQ(runs[i].length, wanted[i].length);
                }
            }
}

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
    RUN(runs_are_those_of_the_naive_version);
    RUN(no_rows_make_no_runs);
    RUN(long_runs_are_split);
#if defined(__linux__)
    RUN(without_a_check_what_is_read_counts_as_missing);
#endif
    RUN(resident_pages_are_not_requested);
    RUN(runs_beyond_the_file_are_refused);
}
