/* What can go wrong, and how it is reported: a code, and a gz_error that the caller owns. */
#ifndef GRAPHZERO_STATUS_H
#define GRAPHZERO_STATUS_H

#include <stdint.h>

#if defined(__GNUC__)
#define GZ_MUST_CHECK __attribute__((warn_unused_result))
#define GZ_PRINTF(format_at, args_at) __attribute__((format(printf, format_at, args_at)))
#else
#define GZ_MUST_CHECK
#define GZ_PRINTF(format_at, args_at)
#endif

typedef enum gz_code {
    GZ_OK = 0,
    GZ_E_OS,     /* a system call failed: saved_errno says how */
    GZ_E_FORMAT, /* the bytes of a file are not what docs/format.md allows */
    GZ_E_NOMEM,
} gz_code;

typedef struct gz_error {
    gz_code code;
    int saved_errno;   /* errno as it was right after the failing call, 0 otherwise */
    uint64_t offset;   /* byte position in the file that the message is about, 0 if none */
    char message[224]; /* one line, without the path: the caller knows it */
} gz_error;

/* Fills *err and returns code, for use in a return statement. */
gz_code gz_fail(gz_error *err, gz_code code, int saved_errno, uint64_t offset, const char *format,
                ...) GZ_PRINTF(5, 6);

#endif
