#include "check.h"

#include <string.h>
#include <sys/mman.h>

#include "support.h"

static gz_buffers buffers;

#if defined(MADV_DONTFORK)
/* In the child, the addresses of the parent's buffers belong to the child. */
static bool child_keeps_what_it_maps_there(void)
{
    size_t bytes = (size_t)buffers.count * GZ_BUFFER_BYTES;
    unsigned char resident;
    if (!CHECK(mincore(buffers.memory, 1, &resident) != 0))
        return false;
    unsigned char *own = mmap(buffers.memory, bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    gz_buffers_close(&buffers);
    return CHECK(own != MAP_FAILED) && CHECK_EQ(mincore(own, 1, &resident), 0);
}

TEST(a_child_does_not_inherit_buffers)
{
    if (!CHECK_EQ(gz_buffers_open(4, &buffers, &err), GZ_OK))
        return;
    in_child(child_keeps_what_it_maps_there);
    memset(buffers.memory, 1, GZ_BUFFER_BYTES);
    gz_buffers_close(&buffers);
}
#endif

TEST(too_many_buffers_are_an_error)
{
    unsigned count = 1u << 31; /* 128 TiB, all that a process may have */
    CHECK_EQ(gz_buffers_open(count, &buffers, &err), GZ_E_NOMEM);
    CHECK(buffers.memory == NULL);
}
