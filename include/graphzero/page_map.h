/* Which pages of a range of a mapped file are in memory, one byte a page. The kernel may take pages
 * of a file back at any time; the map says before a row is touched whether it would have to wait
 * for the disk. */
#ifndef GRAPHZERO_PAGE_MAP_H
#define GRAPHZERO_PAGE_MAP_H

#include <stdbool.h>
#include <stdint.h>

#include "graphzero/mapping.h"
#include "graphzero/reads.h"
#include "graphzero/status.h"

/* Writes 1 for each of `count` pages, from page `first` of the file on, that is in memory, else 0.
 * With trust_mincore, these are pages in the page cache; otherwise pages that this process has
 * mapped, as /proc/self/pagemap tells: mincore tells the truth to owners and writers of a file
 * alone. Fails where the system has no such file. */
GZ_MUST_CHECK gz_code gz_page_map_read(const gz_mapping *mapping, uint64_t first, uint64_t count,
                                       bool trust_mincore, uint8_t *pages, gz_error *err);

/* The pages from the one on that holds byte `origin`, where row 0 begins. */
typedef struct gz_page_map {
    const uint8_t *pages;
    uint64_t count;
    uint64_t origin;
    uint64_t row_bytes;
} gz_page_map;

/* Writes one pick for each of count rows that must be read, and 1 to in_memory[i] if row i need not
 * be, else 0. Returns the number of picks. */
int64_t gz_picks_beyond(const int64_t *rows, int64_t count, const gz_page_map *map, gz_pick *picks,
                        uint8_t *in_memory);

#endif
