/* Buffers for reads in flight: aligned to pages, as direct reads must be, and mapped once. A forked
 * child does not inherit them: it would share pages that the kernel is writing for the parent. */
#ifndef GRAPHZERO_BUFFERS_H
#define GRAPHZERO_BUFFERS_H

#include <stdint.h>
#include <sys/types.h>

#include "graphzero/reads.h"
#include "graphzero/status.h"

#define GZ_BUFFER_BYTES 65536u

typedef struct gz_buffer {
    unsigned char *bytes; /* GZ_BUFFER_BYTES */
    gz_read read;
    uint64_t got; /* bytes read so far */
    unsigned tries;
} gz_buffer;

typedef struct gz_buffers {
    unsigned char *memory; /* NULL when closed */
    gz_buffer *each;
    unsigned count;
    pid_t owner; /* the process that mapped them */
} gz_buffers;

/* In huge pages, if the system has any: a read of several pages is one segment for the disk then,
 * and not one for each page. */
GZ_MUST_CHECK gz_code gz_buffers_open(unsigned count, gz_buffers *out, gz_error *err);

/* No read into them may be in flight. In a forked child, forgets the parent's buffers without
 * unmapping. */
void gz_buffers_close(gz_buffers *buffers);

#endif
