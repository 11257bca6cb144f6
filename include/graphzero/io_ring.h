/* io_uring through the kernel's own interface: two queues in memory that is shared with the
 * kernel, and three system calls. It needs the kernel's header to build, and no library. */
#ifndef GRAPHZERO_IO_RING_H
#define GRAPHZERO_IO_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "graphzero/status.h"

/* Whether this was built with io_uring; without it, gz_io_ring_open fails. */
bool gz_io_ring_is_built(void);

typedef struct gz_io_ring gz_io_ring;

/* A ring for at most `depth` reads at a time. Fails, with the reason, where this process cannot use
 * io_uring now. A forked child inherits the descriptor, but not the memory. */
GZ_MUST_CHECK gz_code gz_io_ring_open(unsigned depth, gz_io_ring **out, gz_error *err);

/* ring may be NULL. In a forked child, releases what was inherited without touching the parent's
 * ring. */
void gz_io_ring_close(gz_io_ring *ring);

/* Registers the memory that all reads of this ring go to, which makes a read a sixth cheaper. Where
 * the limit of locked memory does not permit it, false: reads work without. */
bool gz_io_ring_register(gz_io_ring *ring, void *memory, size_t bytes);

/* Queues a read, which gz_io_ring_wait starts. Reads that are queued, under way, or completed and
 * not yet taken may not exceed depth: then neither queue can overflow. */
void gz_io_ring_read(gz_io_ring *ring, int fd, void *to, unsigned length, uint64_t offset,
                     uint64_t tag);

/* Starts the queued reads, and waits until `ended` reads have completed; fewer if it is interrupted
 * or the kernel is short of resources: call it again. After an error no read is under way, and the
 * ring must be closed. */
GZ_MUST_CHECK gz_code gz_io_ring_wait(gz_io_ring *ring, unsigned ended, gz_error *err);

typedef struct gz_completion {
    uint64_t tag;
    int result; /* bytes or a negative errno */
} gz_completion;

/* Takes the next completed read; false if there is none. */
bool gz_io_ring_next(gz_io_ring *ring, gz_completion *out);

#endif
