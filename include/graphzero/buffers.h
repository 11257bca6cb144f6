/* Buffers of reads that are under way: aligned to pages, as direct reads must be, and mapped once.
 * A forked child does not inherit them: a read that is under way in the parent would otherwise
 * share its pages. */
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
    uint64_t got; /* bytes of it that have come */
    unsigned tries;
} gz_buffer;

typedef struct gz_buffers {
    unsigned char *memory; /* NULL when closed */
    gz_buffer *each;
    unsigned count;
    pid_t owner; /* the process that has mapped them */
} gz_buffers;

GZ_MUST_CHECK gz_code gz_buffers_open(unsigned count, gz_buffers *out, gz_error *err);

/* Nothing may be reading into them any more. In a forked child, forgets the parent's. */
void gz_buffers_close(gz_buffers *buffers);

#endif
