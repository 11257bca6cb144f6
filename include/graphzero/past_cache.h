/* Rows that are written to memory without taking a place in the processor's caches: a cache line
 * that is written whole need not be read first, and nothing that is still needed is evicted. */
#ifndef GRAPHZERO_PAST_CACHE_H
#define GRAPHZERO_PAST_CACHE_H

#include <stdbool.h>
#include <stdint.h>

/* Whether rows are to be gathered so: their lines are mostly whole, the result is larger than what
 * a cache would still hold when it is read, and the processor has the instructions. */
bool gz_goes_past_cache(uint64_t row_bytes, uint64_t result_bytes);

/* gz_gather_rows of rows as they are stored; only where gz_goes_past_cache. */
void gz_gather_past_cache(const unsigned char *rows, uint64_t row_bytes, const int64_t *ids,
                          int64_t begin, int64_t end, const uint8_t *chosen, unsigned char *out);

#endif
