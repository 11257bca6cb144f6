/* Hints to the processor's cache: the line of an address will be read soon. */
#ifndef GRAPHZERO_CACHE_HINT_H
#define GRAPHZERO_CACHE_HINT_H

/* gcc takes a function that only gives hints for one without effects, and drops those of its calls
 * that it has not inlined by then. */
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
