/* Decimal numbers in text: each function reads one, as far as the number goes, and returns the end,
 * or NULL for what it cannot read exactly. Texts end with a byte that is no part of a number, and
 * have GZ_PARSE_PADDING readable bytes behind it. */
#ifndef GRAPHZERO_PARSE_NUMBER_H
#define GRAPHZERO_PARSE_NUMBER_H

#include <stdint.h>

const unsigned char *gz_parse_uint64(const unsigned char *at, uint64_t most, uint64_t *out);
const unsigned char *gz_parse_int64(const unsigned char *at, int64_t most, int64_t *out);
const unsigned char *gz_parse_float64(const unsigned char *at, double *out);
const unsigned char *gz_parse_float32(const unsigned char *at, float *out);

#endif
