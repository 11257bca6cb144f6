/* Read-ahead: from the rows that a batch will touch to few, long, sorted runs of pages. */
#ifndef GRAPHZERO_WILLNEED_H
#define GRAPHZERO_WILLNEED_H

#include <stdint.h>

#include "graphzero/mapping.h"
#include "graphzero/status.h"

typedef struct gz_run {
    uint64_t offset; /* bytes from the start of the file, on a page */
    uint64_t length; /* bytes, whole pages except where the file ends */
} gz_run;

/* Merges the pages of ascending rows (row_bytes each, the first at byte `origin` of the file) into
 * runs; pages less than or equal to `gap_pages` pages apart fall into one. runs must have room for
 * count entries; returns how many were written. */
int64_t gz_page_runs(const int64_t *rows, int64_t count, uint64_t origin, uint64_t row_bytes,
                     uint64_t gap_pages, uint64_t file_bytes, gz_run *runs);

typedef struct gz_willneed_counts {
    uint64_t pages;   /* that the runs cover */
    uint64_t missing; /* of these, not in the page cache when asked */
    uint64_t calls;   /* of madvise */
} gz_willneed_counts;

/* Whether residency is looked at, and whether what is missing is asked for. */
typedef enum gz_willneed_mode {
    GZ_WILLNEED_ALL,        /* ask for every run: residency cannot be had (see gz_mapping_resident),
                                and counts as missing */
    GZ_WILLNEED_MISSING,    /* ask for what is not resident */
    GZ_WILLNEED_ONLY_COUNT, /* only count it */
} gz_willneed_mode;

/* Asks the kernel to read the runs that are not resident. MADV_WILLNEED is cut silently at the
 * device's read-ahead limit (2 to 16 MiB), so longer runs are split. */
GZ_MUST_CHECK gz_code gz_willneed(const gz_mapping *mapping, const gz_run *runs, int64_t count,
                                  gz_willneed_mode mode, gz_willneed_counts *counts, gz_error *err);

#endif
