#define _GNU_SOURCE /* RUSAGE_THREAD under -std=c11 */
#define _DARWIN_C_SOURCE

#include "graphzero/willneed.h"

#include <stdbool.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    MOST_BYTES_PER_CALL = 2 << 20,
    LEAST_AHEAD = 64,
    MANY_FAULTS = 8, /* one for so many items: pages are dropped before they are used */
    FEW_FAULTS = 64,
};

int64_t gz_page_runs(const int64_t *rows, int64_t count, uint64_t origin, uint64_t row_bytes,
                     uint64_t gap_pages, uint64_t file_bytes, gz_run *runs)
{
    uint64_t page = gz_system_page_bytes(), first = 0, end = 0; /* of the open run, in pages */
    int64_t written = 0;
    for (int64_t i = 0; i < count; i++) {
        uint64_t begin_byte = origin + (uint64_t)rows[i] * row_bytes;
        uint64_t row_first = begin_byte / page, row_end = (begin_byte + row_bytes - 1) / page + 1;
        if (i > 0 && row_first <= end + gap_pages) {
            end = row_end > end ? row_end : end;
            continue;
        }
        if (i > 0)
            runs[written++] = (gz_run){first * page, (end - first) * page};
        first = row_first;
        end = row_end;
    }
    if (count > 0)
        runs[written++] = (gz_run){first * page, (end - first) * page};
    if (written > 0 && runs[written - 1].length > file_bytes - runs[written - 1].offset)
        runs[written - 1].length = file_bytes - runs[written - 1].offset;
    return written;
}

/* Bytes that this thread has had read from disks: Linux counts them where they are requested.
 * False where the system does not say. */
static bool bytes_read(uint64_t *bytes)
{
#if defined(RUSAGE_THREAD)
    struct rusage usage;
    if (access("/proc/self/io", F_OK) == 0 && getrusage(RUSAGE_THREAD, &usage) == 0) {
        *bytes = (uint64_t)usage.ru_inblock * 512;
        return true;
    }
#endif
    *bytes = 0;
    return false;
}

uint64_t gz_major_faults(void)
{
#if defined(RUSAGE_THREAD)
    struct rusage usage;
    if (getrusage(RUSAGE_THREAD, &usage) == 0)
        return (uint64_t)usage.ru_majflt;
#endif
    return 0;
}

int64_t gz_ahead_adapted(int64_t items, int64_t most, int64_t done, uint64_t faults)
{
    if (done < LEAST_AHEAD)
        return items;
    if (faults > (uint64_t)done / MANY_FAULTS)
        return items / 2 > LEAST_AHEAD ? items / 2 : LEAST_AHEAD;
    return items <= most / 2 && faults < (uint64_t)done / FEW_FAULTS ? 2 * items : items;
}

/* Where residency is unknown, the pages that were missing are those that the kernel has read. */
static void count_read(bool is_known, uint64_t bytes_before, gz_willneed_counts *counts)
{
    uint64_t page = gz_system_page_bytes(), bytes;
    if (!is_known || !bytes_read(&bytes))
        return;
    uint64_t pages = (bytes - bytes_before + page - 1) / page;
    if (pages < counts->missing)
        counts->missing = pages;
}

gz_code gz_willneed(const gz_mapping *mapping, const gz_run *runs, int64_t count,
                    gz_willneed_mode mode, gz_willneed_counts *counts, gz_error *err)
{
    uint64_t page = gz_system_page_bytes(), before = 0;
    bool counts_reads = mode == GZ_WILLNEED_ALL && bytes_read(&before);
    *counts = (gz_willneed_counts){0, 0, 0};
    for (int64_t i = 0; i < count; i++) {
        uint64_t offset = runs[i].offset, remaining = runs[i].length;
        while (remaining > 0) {
            uint64_t step = remaining < MOST_BYTES_PER_CALL ? remaining : MOST_BYTES_PER_CALL;
            uint64_t pages = (step + page - 1) / page, resident = 0;
            gz_code code = GZ_OK;
            if (mode != GZ_WILLNEED_ALL)
                code = gz_mapping_resident(mapping, offset, step, &resident, err);
            if (code == GZ_OK && resident < pages && mode != GZ_WILLNEED_ONLY_COUNT) {
                code = gz_mapping_advise(mapping, offset, step, GZ_ADVICE_WILLNEED, err);
                counts->calls++;
            }
            if (code != GZ_OK)
                return code;
            counts->pages += pages;
            counts->missing += pages - resident;
            offset += step;
            remaining -= step;
        }
    }
    count_read(counts_reads, before, counts);
    return GZ_OK;
}
