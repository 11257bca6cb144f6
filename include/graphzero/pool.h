/* A pool of large buffers. A fresh 48 MB tensor costs 12,000 page faults, which take longer than
 * filling it; a buffer that an earlier mini-batch has returned costs none. New memory uses huge
 * pages. Idle buffers beyond 64 MiB are marked MADV_FREE: they count as memory of the process, but
 * the kernel takes them back where it has no other. No device may write into a buffer (before
 * Linux 5.18, what it has written could be lost): direct reads have memory of their own, see
 * buffers.h. Not thread-safe: callers hold the interpreter's lock. */
#ifndef GRAPHZERO_POOL_H
#define GRAPHZERO_POOL_H

#include <stdint.h>

#include "graphzero/status.h"

#define GZ_POOL_SLOTS 64

typedef struct gz_block {
    void *memory;
    uint64_t bytes;
} gz_block;

typedef struct gz_pool {
    gz_block idle[GZ_POOL_SLOTS]; /* oldest first */
    int num_idle;
    uint64_t idle_bytes;
    uint64_t most_idle_bytes; /* beyond this, the oldest idle blocks go back to the system */
    uint64_t blocks_out;      /* taken and not yet returned */
} gz_pool;

void gz_pool_init(gz_pool *pool, uint64_t most_idle_bytes);

/* Size of the block for so many bytes: rounded up by at most an eighth (or to 256 KiB), so that
 * batches of similar size share blocks. */
uint64_t gz_pool_block_bytes(uint64_t bytes);

/* Takes a block of at least `bytes`, and not much more; its content is arbitrary. */
GZ_MUST_CHECK gz_code gz_pool_take(gz_pool *pool, uint64_t bytes, gz_block *out, gz_error *err);

/* Returns a block, which must not be used any more. */
void gz_pool_give(gz_pool *pool, gz_block block);

/* Returns all idle blocks to the system. */
void gz_pool_trim(gz_pool *pool);

#endif
