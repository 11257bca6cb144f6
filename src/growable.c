#define _GNU_SOURCE /* mremap and MAP_ANONYMOUS under -std=c11 */
#define _DARWIN_C_SOURCE

#include "graphzero/growable.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LEAST_MAPPED = 1 << 18 };

/* Before the elements, which keep the alignment of a cache line. */
typedef struct header {
    size_t bytes; /* of header and elements */
    size_t unused[7];
} header;

static header *header_of(void *array) { return (header *)array - 1; }

static bool is_mapped(size_t bytes) { return bytes >= LEAST_MAPPED; }

static void *mapped(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static void release(header *block)
{
    if (is_mapped(block->bytes))
        munmap(block, block->bytes);
    else
        free(block);
}

/* A mapped block of another size. */
static header *moved(header *block, size_t bytes)
{
#if defined(MREMAP_MAYMOVE)
    void *larger = mremap(block, block->bytes, bytes, MREMAP_MAYMOVE);
    return larger == MAP_FAILED ? NULL : larger;
#else
    header *larger = mapped(bytes);
    if (larger != NULL) {
        memcpy(larger, block, block->bytes);
        release(block);
    }
    return larger;
#endif
}

static header *resized(header *block, size_t bytes)
{
    if (block != NULL && is_mapped(block->bytes))
        return moved(block, bytes);
    if (!is_mapped(bytes))
        return realloc(block, bytes);
    header *larger = mapped(bytes);
    if (larger != NULL && block != NULL) {
        memcpy(larger, block, block->bytes);
        free(block);
    }
    return larger;
}

/* Bytes of a block; 0 where so many elements are more than there are addresses. */
static size_t block_bytes(int64_t capacity, size_t element)
{
    if (capacity < 0 || (uint64_t)capacity >= (SIZE_MAX - sizeof(header)) / element)
        return 0;
    return sizeof(header) + (size_t)capacity * element;
}

void *gz_grown(void *array, int64_t capacity, size_t element, const char *what, gz_error *err)
{
    size_t bytes = block_bytes(capacity, element);
    header *block = array == NULL ? NULL : header_of(array);
    if (block != NULL && bytes > 0 && bytes <= block->bytes)
        return array;
    block = bytes == 0 ? NULL : resized(block, bytes);
    if (block == NULL) {
        gz_fail(err, GZ_E_NOMEM, 0, 0, "no memory for %" PRId64 " %s", capacity, what);
        return NULL;
    }
    block->bytes = bytes;
    return block + 1;
}

void *gz_zeroed(int64_t capacity, size_t element, const char *what, gz_error *err)
{
    void *array = gz_grown(NULL, capacity, element, what, err);
    if (array != NULL && !is_mapped(header_of(array)->bytes)) /* what is mapped is zero */
        memset(array, 0, (size_t)capacity * element);
    return array;
}

void gz_rest_array(void *array)
{
#if defined(MADV_FREE)
    header *block = array == NULL ? NULL : header_of(array);
    size_t page = (size_t)sysconf(_SC_PAGESIZE); /* the first one has the header */
    if (block != NULL && is_mapped(block->bytes))
        madvise((char *)block + page, block->bytes - page, MADV_FREE);
#else
    (void)array;
#endif
}

void gz_free_array(void *array)
{
    if (array != NULL)
        release(header_of(array));
}
