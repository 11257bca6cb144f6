#define _GNU_SOURCE /* O_DIRECT and fstatfs under -std=c11 */
#define _DARWIN_C_SOURCE

#include "graphzero/direct.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__linux__)
#include <sys/vfs.h>
#endif

enum { MOST_TRIES = 1000 }; /* of one read without progress */

#if defined(__linux__)
static int open_again(const gz_mapping *mapping, int flags)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", mapping->fd);
    return open(path, O_RDONLY | O_CLOEXEC | flags);
}

/* tmpfs accepts O_DIRECT since Linux 6.6, but has nothing but memory. */
static bool is_in_memory(int fd)
{
    enum { TMPFS = 0x01021994, RAMFS = 0x858458f6 };
    struct statfs info;
    if (fstatfs(fd, &info) != 0)
        return false;
    return (uint32_t)info.f_type == (uint32_t)TMPFS || (uint32_t)info.f_type == (uint32_t)RAMFS;
}

/* Some file systems reject O_DIRECT only at the first read, or require blocks larger than a page.
 */
static bool reads_a_page(int fd, uint64_t page_bytes)
{
    void *page = NULL;
    if (posix_memalign(&page, (size_t)page_bytes, (size_t)page_bytes) != 0)
        return false;
    ssize_t got = pread(fd, page, (size_t)page_bytes, 0);
    free(page);
    return got >= 0;
}
#endif

/* A descriptor for reads past the page cache, or -1. */
static int open_direct(const gz_mapping *mapping)
{
#if defined(__linux__) && defined(O_DIRECT)
    int fd = open_again(mapping, O_DIRECT);
    if (fd >= 0 && !is_in_memory(fd) && reads_a_page(fd, gz_system_page_bytes()))
        return fd;
    if (fd >= 0)
        close(fd);
#endif
    (void)mapping;
    return -1;
}

static int open_buffered(const gz_mapping *mapping)
{
#if defined(__linux__)
    /* Opened again: fadvise applies to the open file description, which a duplicate would share. */
    int fd = open_again(mapping, 0);
    if (fd >= 0) {
        posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
        return fd;
    }
#endif
    return fcntl(mapping->fd, F_DUPFD_CLOEXEC, 0);
}

gz_code gz_direct_open(const gz_mapping *mapping, gz_direct *out, gz_error *err)
{
    int fd = open_direct(mapping);
    *out = (gz_direct){fd, fd >= 0, mapping->size};
    if (!out->is_direct)
        out->fd = open_buffered(mapping);
    if (out->fd < 0)
        return gz_fail(err, GZ_E_OS, errno, 0, "cannot be opened a second time");
    return GZ_OK;
}

void gz_direct_close(gz_direct *file)
{
    if (file->fd >= 0)
        close(file->fd);
    file->fd = -1;
}

static gz_code truncated(uint64_t end, gz_error *err)
{
    return gz_fail(err, GZ_E_FORMAT, 0, end,
                   "is truncated: it ends at byte %" PRIu64 ", where rows must follow; it was "
                   "truncated while it was open: build or copy it again, and open it again",
                   end);
}

gz_code gz_direct_check(const gz_direct *file, gz_error *err)
{
    struct stat info;
    if (fstat(file->fd, &info) != 0)
        return gz_fail(err, GZ_E_OS, errno, 0, "cannot read its size");
    return (uint64_t)info.st_size < file->size ? truncated((uint64_t)info.st_size, err) : GZ_OK;
}

int64_t gz_direct_read(const gz_direct *file, const gz_buffer *buffer)
{
    ssize_t got =
        pread(file->fd, buffer->bytes + buffer->got, (size_t)(buffer->read.length - buffer->got),
              (off_t)(buffer->read.offset + buffer->got));
    return got < 0 ? -errno : got;
}

gz_settled gz_direct_settle(const gz_direct *file, gz_buffer *buffer, int64_t result, gz_error *err)
{
    uint64_t at = buffer->read.offset + buffer->got, page = gz_system_page_bytes();
    if ((result == -EINTR || result == -EAGAIN) && buffer->tries++ < MOST_TRIES)
        return GZ_READ_AGAIN;
    if (result < 0) {
        gz_fail(err, GZ_E_OS, (int)-result, at, "cannot be read at byte %" PRIu64, at);
        return GZ_READ_FAILED;
    }
    /* The last page may reach beyond the end of the file. */
    uint64_t come = at + (uint64_t)result, end = buffer->read.offset + buffer->read.length;
    if (come >= end || come >= file->size)
        return GZ_READ_DONE;
    /* Direct reads must start on a page; less than one page read means the end of the file. */
    buffer->got += (uint64_t)result / page * page;
    if ((uint64_t)result >= page)
        return GZ_READ_AGAIN;
    (void)!truncated(come, err);
    return GZ_READ_FAILED;
}
