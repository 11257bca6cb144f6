/* Counter-based random numbers: draw number i of a stream is a pure function of (stream, i), so
 * that output does not depend on which thread draws, or when.
 *
 * The generator is SplitMix64 (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number
 * Generators", OOPSLA 2014): mix(stream + (i + 1) * golden). The start of a
 * stream is a hash of what it is used for. */
#ifndef GRAPHZERO_RNG_H
#define GRAPHZERO_RNG_H

#include <stdint.h>

#define GZ_GOLDEN UINT64_C(0x9E3779B97F4A7C15) /* 2^64 / golden ratio, odd */

/* The 64-bit finaliser of SplitMix64 ("variant 13" of D. Stafford): a bijection. */
static inline uint64_t gz_mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* The stream below `key` that belongs to `item` (a node, a walker, a hop). The multiplication
 * keeps streams of neighbouring items from being shifts of each other. */
static inline uint64_t gz_stream(uint64_t key, uint64_t item)
{
    return gz_mix(key ^ gz_mix(item * UINT64_C(0xD1342543DE82EF95) + GZ_GOLDEN));
}

static inline uint64_t gz_draw(uint64_t stream, uint64_t i)
{
    return gz_mix(stream + (i + 1) * GZ_GOLDEN);
}

/* Uniform on [0, bound), bound > 0, by multiply-shift (Lemire, "Fast Random Integer Generation in
 * an Interval", 2019). Without the rejection step one value can be favoured by at most
 * bound / 2^64: less than 2^-24 even for a node with 2^40 neighbours. */
static inline uint64_t gz_bounded(uint64_t draw, uint64_t bound)
{
#if defined(__SIZEOF_INT128__)
    return (uint64_t)(((unsigned __int128)draw * bound) >> 64);
#else
    uint64_t low = (draw & 0xFFFFFFFFu) * (bound & 0xFFFFFFFFu);
    uint64_t mid1 = (draw >> 32) * (bound & 0xFFFFFFFFu) + (low >> 32);
    uint64_t mid2 = (draw & 0xFFFFFFFFu) * (bound >> 32) + (mid1 & 0xFFFFFFFFu);
    return (draw >> 32) * (bound >> 32) + (mid1 >> 32) + (mid2 >> 32);
#endif
}

/* Uniform on [0, 1) with 53 random bits. */
static inline double gz_unit(uint64_t draw) { return (double)(draw >> 11) * 0x1.0p-53; }

/* What a key is for. Keys of two purposes never share draws. */
typedef enum gz_purpose {
    GZ_PURPOSE_SAMPLE = 1,
    GZ_PURPOSE_WALK = 2,
    GZ_PURPOSE_SHUFFLE = 3,
    GZ_PURPOSE_NEGATIVE = 4,
    GZ_PURPOSE_PHASE = 5,
    GZ_PURPOSE_PROBE = 6,
} gz_purpose;

/* The key of all draws for one purpose in one batch. */
uint64_t gz_key(gz_purpose purpose, uint64_t seed, uint64_t epoch, uint64_t batch);

/* Fills out[0 .. count) with draws of a stream, uniform on [0, bound), bound > 0. */
void gz_draw_bounded(uint64_t stream, uint64_t bound, int64_t *out, int64_t count);

/* Permutes ids[0 .. count) uniformly (Fisher, Yates; Durstenfeld's form). */
void gz_shuffle(uint64_t key, int64_t *ids, int64_t count);

#endif
