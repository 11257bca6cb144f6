#define _GNU_SOURCE /* MAP_ANONYMOUS and madvise's advice under -std=c11 */
#define _DARWIN_C_SOURCE

#include "graphzero/buffers.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t bytes_of(unsigned count) { return (size_t)count * GZ_BUFFER_BYTES; }

gz_code gz_buffers_open(unsigned count, gz_buffers *out, gz_error *err)
{
    *out = (gz_buffers){NULL, calloc(count, sizeof *out->each), count, getpid()};
    if (out->each == NULL)
        return gz_fail(err, GZ_E_NOMEM, 0, 0, "no memory for the buffers of %u reads", count);
    void *memory =
        mmap(NULL, bytes_of(count), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        free(out->each);
        return gz_fail(err, GZ_E_NOMEM, errno, 0, "no memory for the buffers of %u reads", count);
    }
#if defined(MADV_DONTFORK)
    madvise(memory, bytes_of(count), MADV_DONTFORK);
#endif
#if defined(MADV_HUGEPAGE)
    madvise(memory, bytes_of(count), MADV_HUGEPAGE); /* only advice, see gz_buffers_open */
#endif
    out->memory = memory;
    for (unsigned i = 0; i < count; i++)
        out->each[i].bytes = out->memory + bytes_of(i);
    return GZ_OK;
}

void gz_buffers_close(gz_buffers *buffers)
{
#if defined(MADV_DONTFORK)
    bool is_mapped =
        buffers->owner == getpid(); /* in a child, something else may be mapped there */
#else
    bool is_mapped = true;
#endif
    if (buffers->memory == NULL)
        return;
    if (is_mapped)
        munmap(buffers->memory, bytes_of(buffers->count));
    free(buffers->each);
    buffers->memory = NULL;
}
