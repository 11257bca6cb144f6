/* A file that is read past the page cache, and what becomes of each read. How reads are made, many
 * at a time, is the business of uring.h and preads.h. */
#ifndef GRAPHZERO_DIRECT_H
#define GRAPHZERO_DIRECT_H

#include <stdbool.h>
#include <stdint.h>

#include "graphzero/buffers.h"
#include "graphzero/mapping.h"
#include "graphzero/reads.h"
#include "graphzero/status.h"

typedef struct gz_direct {
    int fd;         /* -1 when closed */
    bool is_direct; /* false where the file system cannot: the page cache is used then */
    uint64_t size;  /* bytes, as the mapping has it */
} gz_direct;

/* The file of a mapping, whatever its path leads to by now, through a descriptor of its own. */
GZ_MUST_CHECK gz_code gz_direct_open(const gz_mapping *mapping, gz_direct *out, gz_error *err);

void gz_direct_close(gz_direct *file);

/* Fails if the file has become shorter than its mapping. */
GZ_MUST_CHECK gz_code gz_direct_check(const gz_direct *file, gz_error *err);

/* Reads the rest of buffer->read; bytes, or a negative errno. */
int64_t gz_direct_read(const gz_direct *file, const gz_buffer *buffer);

typedef enum gz_settled {
    GZ_READ_DONE,
    GZ_READ_AGAIN, /* interrupted or short: its rest must be read */
    GZ_READ_FAILED,
} gz_settled;

/* What the result of a read, bytes or a negative errno, means; err is filled if it failed. */
gz_settled gz_direct_settle(const gz_direct *file, gz_buffer *buffer, int64_t result,
                            gz_error *err);

/* Rows of one batch that are to be read, and where their places are. */
typedef struct gz_fetch {
    const gz_direct *file;
    gz_reads reads;
    unsigned char *out;
} gz_fetch;

#endif
