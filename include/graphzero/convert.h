/* Numbers of any stored dtype as float32, on the way to their place. */
#ifndef GRAPHZERO_CONVERT_H
#define GRAPHZERO_CONVERT_H

#include <stdint.h>
#include <string.h>

/* Makes float32 of count numbers. Neither side need be aligned; they must not overlap. */
typedef void gz_convert(const unsigned char *restrict from, uint64_t count,
                        unsigned char *restrict to);

/* How the numbers of a row get to their place. All zeros: as they are stored. */
typedef struct gz_cast {
    gz_convert *convert;
    unsigned shift; /* a stored number has 1 << shift bytes */
} gz_cast;

/* For loops of which the compiler is to make one that does nothing but copy. */
static const gz_cast GZ_AS_STORED = {NULL, 0};

/* What makes float32 of a dtype. All zeros for float32 itself, and for a code that is not known. */
gz_cast gz_cast_of(uint32_t dtype);

/* Bytes of what becomes of stored bytes, which are whole numbers. */
static inline uint64_t gz_cast_bytes(const gz_cast *cast, uint64_t bytes)
{
    return cast->convert == NULL ? bytes : (bytes >> cast->shift) * sizeof(float);
}

/* Brings stored bytes, whole numbers, to their place. */
static inline void gz_cast_copy(const gz_cast *cast, const unsigned char *from, uint64_t bytes,
                                unsigned char *to)
{
    if (cast->convert == NULL)
        memcpy(to, from, (size_t)bytes);
    else
        cast->convert(from, bytes >> cast->shift, to);
}

#endif
