#include "graphzero/convert.h"

#include <math.h>

#include "check.h"
#include "graphzero/format.h"
#include "graphzero/rng.h"

enum { PATTERNS = 1 << 16, ODD = 3, MOST = 67 };

static float converted(uint32_t dtype, const void *stored, uint64_t size)
{
    unsigned char from[ODD + 8], to[ODD + sizeof(float)]; /* aligned to nothing */
    float number;
    gz_cast cast = gz_cast_of(dtype);
    memcpy(from + ODD, stored, (size_t)size);
    gz_cast_copy(&cast, from + ODD, size, to + ODD);
    memcpy(&number, to + ODD, sizeof number);
    return number;
}

/* By its definition, from its three parts. */
static float naive_float(unsigned bits, int fraction_bits, int bias)
{
    int fraction = (int)(bits & ((1u << fraction_bits) - 1)), sign = bits & 0x8000 ? -1 : 1;
    int most = (1 << (15 - fraction_bits)) - 1, exponent = (int)(bits >> fraction_bits) & most;
    if (exponent == most)
        return fraction != 0 ? (float)NAN : (float)sign * (float)INFINITY;
    int whole = exponent == 0 ? 0 : 1 << fraction_bits, scale = exponent == 0 ? 1 : exponent;
    return copysignf((float)ldexp(whole + fraction, scale - bias - fraction_bits), (float)sign);
}

/* One by one, and all in one call, which may use other instructions. */
static void every_pattern_is_exact(uint32_t dtype, int fraction_bits, int bias)
{
    static unsigned char from[ODD + PATTERNS * 2], to[ODD + PATTERNS * sizeof(float)];
    gz_cast cast = gz_cast_of(dtype);
    for (unsigned pattern = 0; pattern < PATTERNS; pattern++)
        memcpy(from + ODD + 2 * pattern, &(uint16_t){(uint16_t)pattern}, 2);
    gz_cast_copy(&cast, from + ODD, PATTERNS * 2, to + ODD);
    for (unsigned pattern = 0; pattern < PATTERNS; pattern++) {
        float got = converted(dtype, from + ODD + 2 * pattern, 2);
        float wanted = naive_float(pattern, fraction_bits, bias);
        bool holds = isnan(wanted) ? isnan(got) && !signbit(got) == !(pattern & 0x8000)
                                   : memcmp(&got, &wanted, sizeof got) == 0;
        if (!CHECK(holds) || !CHECK(memcmp(to + ODD + 4 * pattern, &got, sizeof got) == 0))
            return;
    }
}

static void all_numbers_of_16_bits_are_exact(void)
{
    every_pattern_is_exact(GZ_FLOAT16, 10, 15);
    every_pattern_is_exact(GZ_BFLOAT16, 7, 127);
}

#define CONVERTS(dtype, type, value, wanted)                                                       \
    do {                                                                                           \
        type stored_ = (type)(value);                                                              \
        CHECK(converted(dtype, &stored_, sizeof stored_) == (wanted));                             \
    } while (0)

static void other_dtypes_are_rounded_to_nearest(void)
{
    CONVERTS(GZ_INT8, int8_t, -128, -128.0f);
    CONVERTS(GZ_UINT8, uint8_t, 255, 255.0f);
    CONVERTS(GZ_INT16, int16_t, -32768, -32768.0f);
    CONVERTS(GZ_UINT16, uint16_t, 65535, 65535.0f);
    CONVERTS(GZ_INT32, int32_t, -16777217, -16777216.0f); /* ties to even */
    CONVERTS(GZ_INT32, int32_t, 16777219, 16777220.0f);
    CONVERTS(GZ_UINT32, uint32_t, UINT32_MAX, 4294967296.0f);
    CONVERTS(GZ_INT64, int64_t, INT64_MIN, -0x1p63f);
    CONVERTS(GZ_INT64, int64_t, (INT64_C(1) << 53) + (INT64_C(3) << 29), 0x1.000004p53f);
    CONVERTS(GZ_UINT64, uint64_t, UINT64_MAX, 0x1p64f);
    CONVERTS(GZ_FLOAT64, double, 0.1, 0.1f);
    CONVERTS(GZ_FLOAT64, double, 1e300, (float)INFINITY);
    CONVERTS(GZ_FLOAT64, double, -1e-300, 0.0f);
}

static void any_number_of_numbers_stays_in_its_place(void)
{
    unsigned char from[ODD + MOST * 2], to[ODD + (MOST + 1) * sizeof(float)];
    gz_cast cast = gz_cast_of(GZ_FLOAT16);
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (unsigned char)(gz_draw(1, i) & 0x3b); /* numbers below 1 */
    for (uint64_t count = 0; count <= MOST; count++) {
        memset(to, 0xEE, sizeof to);
        CHECK_EQ(gz_cast_bytes(&cast, 2 * count), 4 * count);
        gz_cast_copy(&cast, from + ODD, 2 * count, to + ODD);
        for (uint64_t i = 0; i < count; i++) {
            float one = converted(GZ_FLOAT16, from + ODD + 2 * i, 2);
            CHECK(memcmp(to + ODD + 4 * i, &one, sizeof one) == 0);
        }
        for (uint64_t at = 0; at < sizeof to; at++)
            if (at < ODD || at >= ODD + 4 * count)
                CHECK_EQ(to[at], 0xEE);
    }
}

static void without_a_cast_bytes_are_copied(void)
{
    const uint32_t none[] = {0, GZ_FLOAT32, 13, UINT32_MAX};
    for (unsigned i = 0; i < sizeof none / sizeof *none; i++) {
        gz_cast cast = gz_cast_of(none[i]);
        char to[4] = "...";
        CHECK_EQ(gz_cast_bytes(&cast, 7), 7);
        gz_cast_copy(&cast, (const unsigned char *)"abc", 2, (unsigned char *)to);
        CHECK(strcmp(to, "ab.") == 0);
    }
}

static void sizes_are_those_of_the_format(void)
{
    for (uint32_t dtype = 1; dtype <= GZ_FLOAT64; dtype++) {
        gz_cast cast = gz_cast_of(dtype);
        CHECK_EQ(cast.convert == NULL, dtype == GZ_FLOAT32);
        if (cast.convert != NULL)
            CHECK_EQ(1u << cast.shift, gz_dtype_size(dtype));
    }
}

void test_convert(void)
{
    RUN(all_numbers_of_16_bits_are_exact);
    RUN(other_dtypes_are_rounded_to_nearest);
    RUN(any_number_of_numbers_stays_in_its_place);
    RUN(without_a_cast_bytes_are_copied);
    RUN(sizes_are_those_of_the_format);
}
