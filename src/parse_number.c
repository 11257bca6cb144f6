#include "graphzero/parse_number.h"

#include <float.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

enum {
    MOST_DIGITS = 19, /* any number of so many digits fits 64 bits */
    MOST_POWER = 22,  /* 10^22 is the last power of ten that is exact as a double */
    MOST_EXPONENT = 9999,
};

static const double powers[MOST_POWER + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                              1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                              1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

static bool is_digit(unsigned char byte) { return (unsigned)byte - '0' <= 9; }

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__

/* Up to eight digits at once: their number, and their value. The bytes are digits if they are at
 * most 9 after the subtraction; a carry from a greater byte reaches only bytes behind it. */
static int leading_digits(const unsigned char *at, uint64_t *value)
{
    uint64_t bytes;
    memcpy(&bytes, at, sizeof bytes);
    bytes ^= UINT64_C(0x3030303030303030);
    uint64_t others =
        ((bytes + UINT64_C(0x7676767676767676)) | bytes) & UINT64_C(0x8080808080808080);
    int count = others == 0 ? 8 : __builtin_ctzll(others) / 8;
    if (count == 0)
        return 0;
    bytes <<= 64 - 8 * count;
    bytes = bytes * 10 + (bytes >> 8);
    *value = (((bytes & UINT64_C(0x000000FF000000FF)) * UINT64_C(0x000F424000000064)) +
              (((bytes >> 16) & UINT64_C(0x000000FF000000FF)) * UINT64_C(0x0000271000000001))) >>
             32;
    *value &= UINT32_MAX;
    return count;
}

#else

static int leading_digits(const unsigned char *at, uint64_t *value)
{
    int count = 0;
    *value = 0;
    for (; count < 8 && is_digit(at[count]); count++)
        *value = 10 * *value + (at[count] - '0');
    return count;
}

#endif

/* All digits that follow, appended to a number; the sum of digits is limited. */
static const unsigned char *digits(const unsigned char *at, int *count, uint64_t *value)
{
    uint64_t part = 0;
    if (*count == 0) {
        *count = leading_digits(at, value);
        at += *count;
        if (*count < 8)
            return at;
    }
    for (; is_digit(*at); at++) {
        part = (uint64_t)(*at - '0');
        if (++*count > MOST_DIGITS)
            return NULL;
        *value = 10 * *value + part;
    }
    return at;
}

const unsigned char *gz_parse_uint64(const unsigned char *at, uint64_t most, uint64_t *out)
{
    int count = 0;
    *out = 0;
    at = digits(at, &count, out);
    return count == 0 || at == NULL || *out > most ? NULL : at;
}

const unsigned char *gz_parse_int64(const unsigned char *at, int64_t most, int64_t *out)
{
    bool negative = *at == '-';
    uint64_t magnitude;
    at = gz_parse_uint64(at + negative, (uint64_t)most + negative, &magnitude);
    *out = (int64_t)(negative ? -magnitude : magnitude);
    return at;
}

/* A decimal number as sign, integer and power of ten. */
typedef struct decimal {
    bool negative;
    uint64_t integer;
    int power;
} decimal;

static const unsigned char *exponent(const unsigned char *at, int *power)
{
    bool negative = *at == '-';
    uint64_t value;
    at = gz_parse_uint64(at + (negative || *at == '+'), MOST_EXPONENT, &value);
    if (at != NULL)
        *power += negative ? -(int)value : (int)value;
    return at;
}

static const unsigned char *parse_decimal(const unsigned char *at, decimal *out)
{
    int count = 0;
    *out = (decimal){*at == '-', 0, 0};
    at = digits(at + out->negative, &count, &out->integer);
    if (at == NULL || count == 0)
        return NULL;
    if (*at == '.') {
        int whole = count;
        at = digits(at + 1, &count, &out->integer);
        if (at == NULL || count == whole)
            return NULL;
        out->power = whole - count;
    }
    return *at == 'e' || *at == 'E' ? exponent(at + 1, &out->power) : at;
}

/* One rounding for the integer and one for the power: exact or the nearest double if the integer is
 * exact. W. D. Clinger, "How to read floating point numbers accurately", PLDI 1990. */
static bool to_double(const decimal *number, double *out)
{
    if (number->power < -MOST_POWER || number->power > MOST_POWER)
        return false;
    double value = (double)number->integer;
    value = number->power < 0 ? value / powers[-number->power] : value * powers[number->power];
    *out = number->negative ? -value : value;
    return true;
}

const unsigned char *gz_parse_float64(const unsigned char *at, double *out)
{
    decimal number;
    at = parse_decimal(at, &number);
    bool exact = at != NULL && number.integer <= UINT64_C(1) << DBL_MANT_DIG;
    return exact && to_double(&number, out) ? at : NULL;
}

/* The double is at most two units in its last place away from the number. So its nearest float32
 * is the number's too, unless it is next to the middle between two of them. */
const unsigned char *gz_parse_float32(const unsigned char *at, float *out)
{
    enum { DROPPED = DBL_MANT_DIG - FLT_MANT_DIG, AWAY = 3 };
    const uint64_t middle = UINT64_C(1) << (DROPPED - 1), mask = (UINT64_C(1) << DROPPED) - 1;
    decimal number;
    double value;
    uint64_t bits;
    at = parse_decimal(at, &number);
    if (at == NULL || !to_double(&number, &value))
        return NULL;
    memcpy(&bits, &value, sizeof bits);
    double magnitude = number.negative ? -value : value;
    bool is_normal =
        magnitude == 0 || (magnitude >= (double)FLT_MIN && magnitude < (double)FLT_MAX);
    bool is_exact = number.integer <= UINT64_C(1) << FLT_MANT_DIG && number.power == 0;
    if (!is_normal || (!is_exact && (bits & mask) - (middle - AWAY) <= 2 * AWAY))
        return NULL;
    *out = (float)value;
    return at;
}
