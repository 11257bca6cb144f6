/* Page read-ahead with MADV_WILLNEED: the rows that a batch will touch become few, long, sorted
 * runs of pages. */
#ifndef GRAPHZERO_WILLNEED_H
#define GRAPHZERO_WILLNEED_H

#include <stdint.h>

#include "graphzero/mapping.h"
#include "graphzero/status.h"

typedef struct gz_run {
    uint64_t offset; /* bytes from the start of the file, a multiple of the page size */
    uint64_t length; /* bytes, whole pages except where the file ends */
} gz_run;

/* Merges the pages of ascending rows (row_bytes each, row 0 at byte `origin` of the file) into
 * runs. A run skips gaps of up to `gap_pages` pages. runs must have room for count entries; returns
 * how many were written. */
int64_t gz_page_runs(const int64_t *rows, int64_t count, uint64_t origin, uint64_t row_bytes,
                     uint64_t gap_pages, uint64_t file_bytes, gz_run *runs);

/* Page faults of this thread so far that waited for the disk; 0 where the system does not say. */
uint64_t gz_major_faults(void);

/* For how many items pages are to be requested next, at most `most`: fewer after many page faults
 * in the last `done` of them. Where memory is shorter than what is requested, the kernel drops
 * pages before they are used. */
int64_t gz_ahead_adapted(int64_t items, int64_t most, int64_t done, uint64_t faults);

typedef struct gz_willneed_counts {
    uint64_t pages;   /* in all runs */
    uint64_t missing; /* of these, not in the page cache before the call */
    uint64_t calls;   /* calls of madvise */
} gz_willneed_counts;

/* Whether residency is checked, and whether missing pages are requested. */
typedef enum gz_willneed_mode {
    GZ_WILLNEED_ALL, /* request every run without a check (see gz_mapping_resident); the pages that
                        the kernel reads then count as missing, or all where it does not say */
    GZ_WILLNEED_MISSING,    /* request runs that are not resident */
    GZ_WILLNEED_ONLY_COUNT, /* only count missing pages */
} gz_willneed_mode;

/* Requests runs from the kernel, as the mode says. The kernel silently truncates one MADV_WILLNEED
 * to the device's read-ahead limit (2 to 16 MiB), so longer runs are split. */
GZ_MUST_CHECK gz_code gz_willneed(const gz_mapping *mapping, const gz_run *runs, int64_t count,
                                  gz_willneed_mode mode, gz_willneed_counts *counts, gz_error *err);

#endif
