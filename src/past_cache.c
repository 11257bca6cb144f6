#include "graphzero/past_cache.h"

#include <string.h>

#include "graphzero/cache_hint.h"

/* Of batches whose values are then summed by the thread that takes them, those of 13 MiB were
 * slower so by a twentieth, those of 18 MiB faster; rows of 256 bytes slower, of 400 faster. */
enum { LINE_BYTES = 64, LEAST_ROW_BYTES = 384, LEAST_RESULT_BYTES = 1 << 24 };
/* More rows are on their way than the first level takes. The hardware prefetcher follows a row once
 * it has seen its first lines. */
enum { HINT_DISTANCE = 32, MOST_HINT_BYTES = 8 * LINE_BYTES, SECOND_LEVEL = 2 };

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

#define AVX __attribute__((target("avx")))

/* Inline: a call for each row makes the whole a quarter slower. */
AVX GZ_INLINE void copy(unsigned char *restrict to, const unsigned char *restrict from,
                        uint64_t bytes)
{
    uint64_t first = -(uint64_t)(uintptr_t)to % LINE_BYTES; /* the next line begins there */
    uint64_t last = first + (bytes - first) / LINE_BYTES * LINE_BYTES;
    if (first > 0)
        memcpy(to, from, first);
    for (uint64_t at = first; at < last; at += LINE_BYTES) {
        __m256i low = _mm256_loadu_si256((const void *)(from + at));
        __m256i high = _mm256_loadu_si256((const void *)(from + at + LINE_BYTES / 2));
        _mm256_stream_si256((void *)(to + at), low);
        _mm256_stream_si256((void *)(to + at + LINE_BYTES / 2), high);
    }
    if (last < bytes)
        memcpy(to + last, from + last, bytes - last);
}

bool gz_goes_past_cache(uint64_t row_bytes, uint64_t result_bytes)
{
    return row_bytes >= LEAST_ROW_BYTES && result_bytes >= LEAST_RESULT_BYTES &&
           __builtin_cpu_supports("avx");
}

AVX void gz_gather_past_cache(const unsigned char *rows, uint64_t row_bytes, const int64_t *ids,
                              int64_t begin, int64_t end, const uint8_t *chosen, unsigned char *out)
{
    for (int64_t i = begin; i < end; i++) {
        if (i + HINT_DISTANCE < end) {
            const unsigned char *row = rows + (uint64_t)ids[i + HINT_DISTANCE] * row_bytes;
            for (uint64_t at = 0; at < row_bytes && at < MOST_HINT_BYTES; at += LINE_BYTES)
                GZ_PREFETCH(row + at, SECOND_LEVEL);
        }
        if (chosen == NULL || chosen[i])
            copy(out + (uint64_t)i * row_bytes, rows + (uint64_t)ids[i] * row_bytes, row_bytes);
    }
    _mm_sfence(); /* what was written so is ordered as other copies are */
}

#else

bool gz_goes_past_cache(uint64_t row_bytes, uint64_t result_bytes) { return false; }

void gz_gather_past_cache(const unsigned char *rows, uint64_t row_bytes, const int64_t *ids,
                          int64_t begin, int64_t end, const uint8_t *chosen, unsigned char *out)
{
    for (int64_t i = begin; i < end; i++)
        if (chosen == NULL || chosen[i])
            memcpy(out + (uint64_t)i * row_bytes, rows + (uint64_t)ids[i] * row_bytes, row_bytes);
}

#endif
