/* CPU cache hints: the cache line at an address will be read soon. */
#ifndef GRAPHZERO_CACHE_HINT_H
#define GRAPHZERO_CACHE_HINT_H

/* always_inline: gcc considers a function that only gives hints free of side effects, and removes
 * calls to it that are not inlined early. */
#if defined(__GNUC__)
#define GZ_INLINE static inline __attribute__((always_inline))
#else
#define GZ_INLINE static inline
#endif

GZ_INLINE void gz_cache_hint(const void *address)
{
#if defined(__GNUC__)
    __builtin_prefetch(address);
#else
    (void)address;
#endif
}

#endif
