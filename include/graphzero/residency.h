/* Which parts of a mapped file are in the page cache, as counts of pages. A map of every page, as
 * in page_map.h, takes a byte a page; this takes a number a part, whatever the size of the file. */
#ifndef GRAPHZERO_RESIDENCY_H
#define GRAPHZERO_RESIDENCY_H

#include <stdint.h>

#include "graphzero/mapping.h"
#include "graphzero/status.h"

typedef enum gz_residency_source {
    GZ_RESIDENCY_FASTEST = 0,   /* cachestat of large parts where it works, else mincore */
    GZ_RESIDENCY_MINCORE = 1,   /* visits every page */
    GZ_RESIDENCY_CACHESTAT = 2, /* visits pages that are in memory; Linux 6.5 */
} gz_residency_source;

/* Pages 0..num_pages of a file in num_parts parts, whose sizes differ by one page at most: the
 * first page of a part, or num_pages for the end of the last. Parts beyond the number of pages are
 * empty.
 */
uint64_t gz_residency_part_begin(uint64_t num_pages, uint64_t num_parts, uint64_t part);

/* Writes how many pages of each part are in the page cache. Of files that the process neither owns
 * nor may write, mincore says "all of them", and cachestat fails. Fails with ENOSYS where the
 * system has no cachestat, and with EOPNOTSUPP on file systems whose answers would be wrong. */
GZ_MUST_CHECK gz_code gz_residency(const gz_mapping *mapping, gz_residency_source source,
                                   uint64_t num_parts, uint64_t *pages, gz_error *err);

#endif
