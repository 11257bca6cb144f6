/* Reads of a batch by io_uring: one thread keeps one read per buffer in flight. */
#ifndef GRAPHZERO_URING_H
#define GRAPHZERO_URING_H

#include <stdbool.h>

#include "graphzero/direct.h"

/* Whether this was built with io_uring; without it, gz_uring_open fails. */
bool gz_uring_is_built(void);

/* Fails, with the reason, where this process cannot use io_uring now. */
GZ_MUST_CHECK gz_code gz_uring_probe(gz_error *err);

typedef struct gz_uring gz_uring;

/* A ring for reads into these buffers, which must outlive it. */
GZ_MUST_CHECK gz_code gz_uring_open(const gz_buffers *buffers, gz_uring **out, gz_error *err);

/* ring may be NULL. In a forked child, releases what was inherited without touching the parent's
 * ring. */
void gz_uring_close(gz_uring *ring);

/* Reads all rows of a fetch to their places. After an error no read is in flight, but ring and
 * buffers must be closed. One thread at a time. */
GZ_MUST_CHECK gz_code gz_uring_fetch(gz_uring *ring, gz_fetch *fetch, gz_error *err);

#endif
