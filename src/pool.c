#define _GNU_SOURCE /* MAP_ANONYMOUS and MADV_HUGEPAGE under -std=c11 */
#define _DARWIN_C_SOURCE

#include "graphzero/pool.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

static const uint64_t HUGE_PAGE = UINT64_C(2) << 20;
static const uint64_t MOST_UNMARKED = UINT64_C(64) << 20; /* idle: a loop waits for the marking */

void gz_pool_init(gz_pool *pool, uint64_t most_idle_bytes)
{
    memset(pool, 0, sizeof *pool);
    pool->most_idle_bytes = most_idle_bytes;
}

uint64_t gz_pool_block_bytes(uint64_t bytes)
{
    uint64_t step = HUGE_PAGE / 8;
    while (step * 16 <= bytes)
        step *= 2;
    return (bytes + step - 1) / step * step;
}

/* Fresh memory that starts on a huge page. */
static void *map_aligned(uint64_t bytes)
{
    char *start = mmap(NULL, (size_t)(bytes + HUGE_PAGE), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED)
        return NULL;
    uint64_t before = (HUGE_PAGE - (uintptr_t)start % HUGE_PAGE) % HUGE_PAGE;
    if (before > 0)
        munmap(start, (size_t)before);
    munmap(start + before + bytes, (size_t)(HUGE_PAGE - before));
#if defined(MADV_HUGEPAGE)
    madvise(start + before, (size_t)bytes,
            MADV_HUGEPAGE); /* only advice: without it, memory is slower */
#endif
    return start + before;
}

static gz_block remove_idle(gz_pool *pool, int at)
{
    gz_block block = pool->idle[at];
    pool->num_idle--;
    pool->idle_bytes -= block.bytes;
    memmove(&pool->idle[at], &pool->idle[at + 1],
            (size_t)(pool->num_idle - at) * sizeof *pool->idle);
    return block;
}

static void release(gz_pool *pool, int at)
{
    gz_block block = remove_idle(pool, at);
    munmap(block.memory, (size_t)block.bytes);
}

/* The smallest idle block in [least, most], the most recent if several have this size, because it
 * may still be in the cache. -1 if there is none. */
static int find_idle(const gz_pool *pool, uint64_t least, uint64_t most)
{
    int best = -1;
    for (int i = pool->num_idle - 1; i >= 0; i--) {
        uint64_t size = pool->idle[i].bytes;
        if (size >= least && size <= most && (best < 0 || size < pool->idle[best].bytes))
            best = i;
    }
    return best;
}

gz_code gz_pool_take(gz_pool *pool, uint64_t bytes, gz_block *out, gz_error *err)
{
    if (bytes > UINT64_MAX / 4 || bytes > SIZE_MAX / 4)
        return gz_fail(err, GZ_E_NOMEM, 0, 0, "no memory for %" PRIu64 " bytes", bytes);
    uint64_t size = gz_pool_block_bytes(bytes);
    int found = find_idle(pool, bytes, size + bytes / 2);
    if (found >= 0) {
        *out = remove_idle(pool, found);
    } else {
        /* Release one idle block of similar size: batches of varying size must not pile up blocks.
         */
        int misfit = find_idle(pool, size / 2, 2 * size);
        if (misfit >= 0)
            release(pool, misfit);
        out->bytes = size;
        out->memory = map_aligned(size);
        if (out->memory == NULL)
            return gz_fail(err, GZ_E_NOMEM, errno, 0, "no memory for %" PRIu64 " bytes", bytes);
    }
    pool->blocks_out++;
    return GZ_OK;
}

void gz_pool_give(gz_pool *pool, gz_block block)
{
    pool->blocks_out--;
    if (pool->num_idle == GZ_POOL_SLOTS)
        release(pool, 0);
#if defined(MADV_FREE)
    /* Where memory is short, the kernel takes idle blocks back instead of killing the process. */
    if (pool->idle_bytes + block.bytes > MOST_UNMARKED)
        madvise(block.memory, (size_t)block.bytes, MADV_FREE);
#endif
    pool->idle[pool->num_idle++] = block;
    pool->idle_bytes += block.bytes;
    while (pool->idle_bytes > pool->most_idle_bytes)
        release(pool, 0);
}

void gz_pool_trim(gz_pool *pool)
{
    while (pool->num_idle > 0)
        release(pool, 0);
}
