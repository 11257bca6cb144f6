#include "graphzero/convert.h"

#include <stdbool.h>

#include "graphzero/format.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#include <immintrin.h>
#define MAY_HAVE_F16C
#endif

/* C conversions: round to nearest, ties to even. memcpy avoids any assumption about alignment and
 * costs nothing: compilers turn it into loads and stores and vectorise the loop. */
#define FROM(type)                                                                                 \
    static void from_##type(const unsigned char *restrict from, uint64_t count,                    \
                            unsigned char *restrict to)                                            \
    {                                                                                              \
        for (uint64_t i = 0; i < count; i++) {                                                     \
            type stored;                                                                           \
            memcpy(&stored, from + i * sizeof stored, sizeof stored);                              \
            float number = (float)stored;                                                          \
            memcpy(to + i * sizeof number, &number, sizeof number);                                \
        }                                                                                          \
    }

FROM(int8_t)
FROM(uint8_t)
FROM(int16_t)
FROM(uint16_t)
FROM(int32_t)
FROM(uint32_t)
FROM(int64_t)
FROM(uint64_t)
FROM(double)

/* Any other byte than 0 is true. */
static void from_bool(const unsigned char *restrict from, uint64_t count,
                      unsigned char *restrict to)
{
    for (uint64_t i = 0; i < count; i++) {
        float number = from[i] != 0 ? 1.0f : 0.0f;
        memcpy(to + i * sizeof number, &number, sizeof number);
    }
}

/* The upper half of a float32. */
static void from_bfloat16(const unsigned char *restrict from, uint64_t count,
                          unsigned char *restrict to)
{
    for (uint64_t i = 0; i < count; i++) {
        uint16_t stored;
        memcpy(&stored, from + i * sizeof stored, sizeof stored);
        uint32_t bits = (uint32_t)stored << 16;
        memcpy(to + i * sizeof bits, &bits, sizeof bits);
    }
}

enum {
    HALF_SIGN = 0x8000,
    HALF_FRACTION = 0x03ff,
    FRACTION_SHIFT = 23 - 10, /* from the fraction of a float16 to that of a float32 */
    HALF_FIRST_NORMAL = 1 << 23,
    HALF_INFINITY = 31 << 23,
    REBIAS = (127 - 15) << 23, /* of the exponent; twice for infinities and NaNs */
    QUIET = 1 << 22,           /* NaNs become quiet NaNs, as with F16C instructions */
};

/* Masks instead of branches let compilers vectorise the loop. Subnormal numbers are normal as
 * float32: they are converted by a multiplication, in which no subnormal float32 occurs that a
 * processor in flush-to-zero mode would lose. */
static void from_float16(const unsigned char *restrict from, uint64_t count,
                         unsigned char *restrict to)
{
    for (uint64_t i = 0; i < count; i++) {
        uint16_t stored;
        memcpy(&stored, from + i * sizeof stored, sizeof stored);
        int32_t bits = (stored & (HALF_SIGN - 1)) << FRACTION_SHIFT, subnormal;
        float number = (float)(stored & HALF_FRACTION) * 0x1p-24f;
        memcpy(&subnormal, &number, sizeof number);
        int32_t is_subnormal = -(bits < HALF_FIRST_NORMAL), is_special = -(bits >= HALF_INFINITY);
        int32_t normal = bits + REBIAS + (REBIAS & is_special);
        normal |= QUIET & -(bits > HALF_INFINITY);
        uint32_t magnitude = (uint32_t)((subnormal & is_subnormal) | (normal & ~is_subnormal));
        uint32_t out = magnitude | (uint32_t)(stored & HALF_SIGN) << 16;
        memcpy(to + i * sizeof out, &out, sizeof out);
    }
}

#if defined(MAY_HAVE_F16C)

/* The same result with F16C instructions: a gather takes a third of the time. */
__attribute__((target("avx,f16c"))) static void
from_float16_f16c(const unsigned char *restrict from, uint64_t count, unsigned char *restrict to)
{
    uint64_t i = 0;
    for (; i + 8 <= count; i += 8) {
        __m128i stored = _mm_loadu_si128((const __m128i *)(const void *)(from + i * 2));
        _mm256_storeu_ps((float *)(void *)(to + i * sizeof(float)), _mm256_cvtph_ps(stored));
    }
    from_float16(from + i * 2, count - i, to + i * sizeof(float));
}

static gz_convert *float16_converter(void)
{
    unsigned a, b, c, d;
    bool has = __builtin_cpu_supports("avx") && __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
    return has ? from_float16_f16c : from_float16;
}

#else

static gz_convert *float16_converter(void) { return from_float16; }

#endif

gz_cast gz_cast_of(uint32_t dtype)
{
    switch (dtype) {
    case GZ_INT8: return (gz_cast){from_int8_t, 0, false};
    case GZ_UINT8: return (gz_cast){from_uint8_t, 0, false};
    case GZ_INT16: return (gz_cast){from_int16_t, 1, false};
    case GZ_UINT16: return (gz_cast){from_uint16_t, 1, false};
    case GZ_INT32: return (gz_cast){from_int32_t, 2, false};
    case GZ_UINT32: return (gz_cast){from_uint32_t, 2, false};
    case GZ_INT64: return (gz_cast){from_int64_t, 3, false};
    case GZ_UINT64: return (gz_cast){from_uint64_t, 3, false};
    case GZ_FLOAT16: return (gz_cast){float16_converter(), 1, false};
    case GZ_BFLOAT16: return (gz_cast){from_bfloat16, 1, false};
    case GZ_FLOAT64: return (gz_cast){from_double, 3, false};
    case GZ_BOOL: return (gz_cast){from_bool, 0, false};
    default: return (gz_cast){NULL, 0, false};
    }
}
