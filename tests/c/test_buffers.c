#define _GNU_SOURCE /* fork and mincore under -std=c11 */
#define _DARWIN_C_SOURCE

#include "graphzero/buffers.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "graphzero/mapping.h"

static void buffers_are_aligned_and_apart(void)
{
    gz_buffers buffers;
    gz_error err;
    if (!CHECK_EQ(gz_buffers_open(5, &buffers, &err), GZ_OK))
        return;
    for (unsigned i = 0; i < 5; i++) {
        CHECK_EQ((uintptr_t)buffers.each[i].bytes % gz_system_page_bytes(), 0);
        memset(buffers.each[i].bytes, (int)i, GZ_BUFFER_BYTES);
    }
    for (unsigned i = 0; i < 5; i++) {
        CHECK_EQ(buffers.each[i].bytes[0], i);
        CHECK_EQ(buffers.each[i].bytes[GZ_BUFFER_BYTES - 1], i);
    }
    gz_buffers_close(&buffers);
    CHECK(buffers.memory == NULL);
    gz_buffers_close(&buffers);
}

#if defined(MADV_DONTFORK)
/* In the child, the addresses of the parent's buffers belong to the child. */
static int child_keeps_what_it_maps_there(gz_buffers *buffers)
{
    size_t bytes = (size_t)buffers->count * GZ_BUFFER_BYTES;
    unsigned char resident;
    if (mincore(buffers->memory, 1, &resident) == 0)
        return 1;
    unsigned char *own = mmap(buffers->memory, bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    gz_buffers_close(buffers);
    return own != MAP_FAILED && mincore(own, 1, &resident) == 0 ? 0 : 2;
}
#endif

static void a_child_does_not_inherit_them(void)
{
    int status = 0;
#if defined(MADV_DONTFORK)
    gz_buffers buffers;
    gz_error err;
    if (!CHECK_EQ(gz_buffers_open(4, &buffers, &err), GZ_OK))
        return;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(child_keeps_what_it_maps_there(&buffers));
    CHECK_EQ(waitpid(child, &status, 0), child);
    memset(buffers.memory, 1, GZ_BUFFER_BYTES);
    gz_buffers_close(&buffers);
#endif
    CHECK_EQ(status, 0);
}

static void too_many_are_an_error(void)
{
    gz_buffers buffers;
    gz_error err;
    unsigned count = 1u << 31; /* 128 TiB, all that a process may have */
    CHECK_EQ(gz_buffers_open(count, &buffers, &err), GZ_E_NOMEM);
    CHECK(buffers.memory == NULL);
}

void test_buffers(void)
{
    RUN(buffers_are_aligned_and_apart);
    RUN(a_child_does_not_inherit_them);
    RUN(too_many_are_an_error);
}
