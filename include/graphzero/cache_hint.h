/* CPU cache hints: what is at an address will be read soon. */
#ifndef GRAPHZERO_CACHE_HINT_H
#define GRAPHZERO_CACHE_HINT_H

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
enum { GZ_ROW_HINT_DISTANCE = 8 };

/* The hardware prefetcher follows a row once it has seen its first lines. */
GZ_INLINE void gz_row_hint(const unsigned char *row, uint64_t row_bytes)
{
    enum { BYTES_OF_LINE = 64, MOST_BYTES = 8 * BYTES_OF_LINE };
    for (uint64_t at = 0; at < row_bytes && at < MOST_BYTES; at += BYTES_OF_LINE)
        gz_cache_hint(row + at);
}

#endif
