/* Rows that are written to memory without taking a place in the processor's caches: a cache line
 * that is written whole need not be read first, and nothing that is still needed is evicted. */
#ifndef GRAPHZERO_PAST_CACHE_H
#define GRAPHZERO_PAST_CACHE_H

#include <stdbool.h>
#include <stdint.h>

/* Whether rows are to be copied so: their lines are mostly whole, the result is larger than what a
 * cache would still hold when it is read, and the processor has the instructions. */
bool gz_goes_past_cache(uint64_t row_bytes, uint64_t result_bytes);

/* Like memcpy, of a line or more; only where gz_goes_past_cache. */
void gz_copy_past_cache(unsigned char *restrict to, const unsigned char *restrict from,
                        uint64_t bytes);

/* Orders what this thread has copied so before all that it writes later, as other copies are. */
void gz_end_past_cache(void);

#endif
