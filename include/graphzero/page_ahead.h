/* Page read-ahead for accesses that are known before they are made: their pages are collected, and
 * requested together, sorted and merged. */
#ifndef GRAPHZERO_PAGE_AHEAD_H
#define GRAPHZERO_PAGE_AHEAD_H

#include <stdbool.h>
#include <stdint.h>

#include "graphzero/csr.h"
#include "graphzero/mapping.h"
#include "graphzero/reads.h"
#include "graphzero/willneed.h"

enum {
    GZ_AHEAD_BLOCK = 4096, /* most items whose pages are requested together */
    GZ_AHEAD_FIRST = 256,  /* of the first block; later ones adapt */
    GZ_AHEAD_PAGES = 6,    /* most pages of an item */
    GZ_LOOKS = 32,
};

typedef struct gz_page_ahead {
    const gz_mapping *mapping;
    gz_willneed_mode mode;
    gz_pick *pages, *scratch; /* in units of GZ_PAGE_BYTES; GZ_AHEAD_BLOCK * GZ_AHEAD_PAGES each */
    int64_t count;
    int64_t block; /* items whose pages are requested together: at most GZ_AHEAD_BLOCK */
} gz_page_ahead;

/* The page of an element of an array in the file will be read. */
GZ_INLINE void gz_want(gz_page_ahead *ahead, const void *element)
{
    uint64_t byte = (uint64_t)((const unsigned char *)element - ahead->mapping->base);
    ahead->pages[ahead->count++].row = byte / GZ_PAGE_BYTES;
}

/* Requests the wanted pages, and forgets them. This is advice: what the kernel refuses will be a
 * page fault. */
void gz_request_wanted(gz_page_ahead *ahead);

/* How many of GZ_LOOKS pages of an array of the file are not in memory; without trust_mincore,
 * which this process has not mapped. 0 for small arrays, and where the system does not tell. */
int gz_missing_looks(const gz_mapping *mapping, const void *array, uint64_t bytes,
                     bool trust_mincore);

/* out[place] = table[row] for each pick; an id of limit or above becomes 0 and is counted. picks
 * are sorted; scratch has room for as many. */
uint64_t gz_translate_ahead(gz_page_ahead *ahead, const gz_ids *table, uint64_t limit,
                            const gz_pick *picks, int64_t count, int64_t *out, int64_t stride);

#endif
