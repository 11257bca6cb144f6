/* Conversion of numbers of any stored dtype to float32 while they are copied. */
#ifndef GRAPHZERO_CONVERT_H
#define GRAPHZERO_CONVERT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Converts count numbers to float32. Neither side needs alignment; they must not overlap. */
typedef void gz_convert(const unsigned char *restrict from, uint64_t count,
                        unsigned char *restrict to);

/* How the numbers of a row are copied. All zeros: without conversion. */
typedef struct gz_cast {
    gz_convert *convert;
    unsigned shift;  /* a stored number has 1 << shift bytes */
    bool past_cache; /* gathered as stored, by gz_gather_past_cache */
} gz_cast;

/* A constant, so that the compiler specialises loops for plain copies. */
static const gz_cast GZ_AS_STORED = {NULL, 0, false};

/* The conversion of a dtype to float32. All zeros for float32 itself and for an unknown code. */
gz_cast gz_cast_of(uint32_t dtype);

/* Size in bytes after conversion; `bytes` must hold whole numbers. */
static inline uint64_t gz_cast_bytes(const gz_cast *cast, uint64_t bytes)
{
    return cast->convert == NULL ? bytes : (bytes >> cast->shift) * sizeof(float);
}

/* Copies and converts stored bytes, which must hold whole numbers. */
static inline void gz_cast_copy(const gz_cast *cast, const unsigned char *from, uint64_t bytes,
                                unsigned char *to)
{
    if (cast->convert == NULL)
        memcpy(to, from, (size_t)bytes);
    else
        cast->convert(from, bytes >> cast->shift, to);
}

#endif
