/* A file that is read past the page cache (O_DIRECT), and how the result of a read is handled.
 * uring.h and preads.h make many reads at a time. */
#ifndef GRAPHZERO_DIRECT_H
#define GRAPHZERO_DIRECT_H

#include <stdbool.h>
#include <stdint.h>

#include "graphzero/buffers.h"
#include "graphzero/mapping.h"
#include "graphzero/reads.h"
#include "graphzero/status.h"

typedef struct gz_direct {
    int fd; /* -1 when closed */
    bool
        is_direct; /* false if the file system does not support it; reads then use the page cache */
    uint64_t size; /* bytes, as in the mapping */
} gz_direct;

/* Opens the file of a mapping again, with its own descriptor, even if another file has its path by
 * now. */
GZ_MUST_CHECK gz_code gz_direct_open(const gz_mapping *mapping, gz_direct *out, gz_error *err);

void gz_direct_close(gz_direct *file);

/* Fails if the file has become shorter than its mapping. */
GZ_MUST_CHECK gz_code gz_direct_check(const gz_direct *file, gz_error *err);

/* Reads the rest of buffer->read; returns bytes or a negative errno. */
int64_t gz_direct_read(const gz_direct *file, const gz_buffer *buffer);

typedef enum gz_settled {
    GZ_READ_DONE,
    GZ_READ_AGAIN, /* interrupted or short: its rest must be read */
    GZ_READ_FAILED,
} gz_settled;

/* Interprets the result of a read: bytes or a negative errno. Fills err on failure. */
gz_settled gz_direct_settle(const gz_direct *file, gz_buffer *buffer, int64_t result,
                            gz_error *err);

/* The rows of one batch to read, and the array that they are copied to. */
typedef struct gz_fetch {
    const gz_direct *file;
    gz_reads reads;
    unsigned char *out;
} gz_fetch;

#endif
