/* CPU cache hints: what is at an address will be read soon. */
#ifndef GRAPHZERO_CACHE_HINT_H
#define GRAPHZERO_CACHE_HINT_H

#include <stdbool.h>
#include <stdint.h>

/* always_inline: gcc considers a function that only gives hints free of side effects, and removes
 * calls to it that are not inlined early. */
#if defined(__GNUC__)
#define GZ_INLINE static inline __attribute__((always_inline))
#define GZ_PREFETCH(address, level) __builtin_prefetch(address, 0, level)
#else
#define GZ_INLINE static inline
#define GZ_PREFETCH(address, level) (void)(address)
#endif

GZ_INLINE void gz_cache_hint(const void *address) { GZ_PREFETCH(address, 3); }

/* How many rows ahead of the one that is copied a hint is given. */
GZ_INLINE int64_t gz_row_hint_distance(bool past_cache) { return past_cache ? 32 : 8; }

/* Of rows that are copied past the caches, more are on their way than the first level takes. The
 * hardware prefetcher follows a row once it has seen its first lines. */
GZ_INLINE void gz_row_hint(const unsigned char *row, uint64_t row_bytes, bool past_cache)
{
    enum { BYTES_OF_LINE = 64, MOST_BYTES = 8 * BYTES_OF_LINE };
    for (uint64_t at = 0; at < row_bytes && at < MOST_BYTES; at += BYTES_OF_LINE)
        if (past_cache)
            GZ_PREFETCH(row + at, 2);
        else
            gz_cache_hint(row + at);
}

#endif
