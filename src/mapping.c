#define _GNU_SOURCE /* madvise and mincore under -std=c11 */
#define _DARWIN_C_SOURCE

#include "graphzero/mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__APPLE__)
typedef char mincore_byte;
#else
typedef unsigned char mincore_byte;
#endif

#if defined(MADV_POPULATE_READ)
enum { POPULATE_BY_KERNEL = MADV_POPULATE_READ };
#elif defined(__linux__)
enum { POPULATE_BY_KERNEL = 22 }; /* newer than the C library's headers */
#else
enum { POPULATE_BY_KERNEL = -1 };
#endif

#if defined(MADV_HUGEPAGE)
enum { HUGE_PAGES = MADV_HUGEPAGE };
#else
enum { HUGE_PAGES = -1 };
#endif

uint64_t gz_system_page_bytes(void) { return (uint64_t)sysconf(_SC_PAGESIZE); }

static gz_code map_descriptor(int fd, gz_mapping *out, gz_error *err)
{
    struct stat info;
    if (fstat(fd, &info) != 0)
        return gz_fail(err, GZ_E_OS, errno, 0, "cannot read its size");
    if (S_ISDIR(info.st_mode))
        return gz_fail(err, GZ_E_OS, EISDIR, 0, "is a folder, not a file");
    if (!S_ISREG(info.st_mode))
        return gz_fail(err, GZ_E_OS, ENODEV, 0, "is not a regular file and cannot be mapped");
    out->fd = fd;
    out->base = NULL;
    out->size = (uint64_t)info.st_size;
    if (out->size == 0)
        return GZ_OK;
    if (out->size > SIZE_MAX)
        return gz_fail(err, GZ_E_OS, EFBIG, 0, "is larger than the address space");
    void *base = mmap(NULL, (size_t)out->size, PROT_READ, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED)
        return gz_fail(err, GZ_E_OS, errno, 0, "cannot be mapped into memory");
    out->base = base;
    return GZ_OK;
}

gz_code gz_mapping_open(const char *path, gz_mapping *out, gz_error *err)
{
    /* O_NONBLOCK: opening a pipe must fail at once instead of waiting for its writer. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return gz_fail(err, GZ_E_OS, errno, 0, "cannot be opened");
    gz_code code = map_descriptor(fd, out, err);
    if (code != GZ_OK)
        close(fd);
    return code;
}

void gz_mapping_close(gz_mapping *mapping)
{
    if (mapping->base != NULL)
        munmap(mapping->base, (size_t)mapping->size);
    if (mapping->fd >= 0)
        close(mapping->fd);
    mapping->base = NULL;
    mapping->size = 0;
    mapping->fd = -1;
}

gz_code gz_mapping_check_size(const gz_mapping *mapping, gz_error *err)
{
    struct stat info;
    if (fstat(mapping->fd, &info) != 0)
        return gz_fail(err, GZ_E_OS, errno, 0, "cannot read its size");
    if ((uint64_t)info.st_size < mapping->size)
        return gz_fail(err, GZ_E_FORMAT, 0, (uint64_t)info.st_size,
                       "was %" PRIu64 " bytes when it was opened and is %" PRIu64
                       " now: restore or rebuild it, and open it again",
                       mapping->size, (uint64_t)info.st_size);
    return GZ_OK;
}

gz_code gz_mapping_read(const gz_mapping *mapping, uint64_t offset, uint64_t length,
                        unsigned char *out, gz_error *err)
{
    while (length > 0) {
        ssize_t got = pread(mapping->fd, out, (size_t)length, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return gz_fail(err, GZ_E_OS, errno, offset, "cannot be read at byte %" PRIu64, offset);
        if (got == 0)
            return gz_fail(err, GZ_E_FORMAT, 0, offset,
                           "is truncated: it ends at byte %" PRIu64 ", where more must follow",
                           offset);
        out += got;
        offset += (uint64_t)got;
        length -= (uint64_t)got;
    }
    return GZ_OK;
}

/* Widens [offset, offset + length) to whole system pages; false if it does not lie in the file. */
static bool to_pages(const gz_mapping *mapping, uint64_t offset, uint64_t length, uint64_t *begin,
                     uint64_t *bytes)
{
    uint64_t page = gz_system_page_bytes();
    if (offset > mapping->size || length > mapping->size - offset)
        return false;
    *begin = offset - offset % page;
    *bytes = offset + length - *begin;
    return true;
}

/* Returns 0 or an errno. */
static int advise(const gz_mapping *mapping, uint64_t begin, uint64_t bytes, gz_advice advice)
{
    static const int MADVICE[] = {
        MADV_NORMAL,        MADV_RANDOM,   MADV_SEQUENTIAL, MADV_WILLNEED,
        POPULATE_BY_KERNEL, MADV_DONTNEED, HUGE_PAGES,
    };
    bool is_optional = advice == GZ_ADVICE_POPULATE || advice == GZ_ADVICE_HUGE;
    if (MADVICE[advice] < 0)
        return 0;
    int failed = madvise(mapping->base + begin, (size_t)bytes, MADVICE[advice]) == 0 ? 0 : errno;
    if (is_optional && failed == EINVAL)
        return 0;
#if defined(POSIX_FADV_DONTNEED)
    /* Pages that another process has mapped stay in the page cache. */
    if (advice == GZ_ADVICE_RELEASE && failed == 0)
        failed = posix_fadvise(mapping->fd, (off_t)begin, (off_t)bytes, POSIX_FADV_DONTNEED);
#endif
    return failed;
}

gz_code gz_mapping_advise(const gz_mapping *mapping, uint64_t offset, uint64_t length,
                          gz_advice advice, gz_error *err)
{
    uint64_t begin, bytes;
    if (!to_pages(mapping, offset, length, &begin, &bytes))
        return gz_fail(err, GZ_E_OS, EINVAL, offset, "advice beyond the end of the file");
    int failed = bytes > 0 ? advise(mapping, begin, bytes, advice) : 0;
    if (failed != 0)
        return gz_fail(err, GZ_E_OS, failed, offset, "madvise failed at byte %" PRIu64, offset);
    return GZ_OK;
}

gz_code gz_mapping_resident(const gz_mapping *mapping, uint64_t offset, uint64_t length,
                            uint64_t *pages, gz_error *err)
{
    enum { PAGES_PER_CALL = 4096 };
    mincore_byte flags[PAGES_PER_CALL];
    uint64_t page = gz_system_page_bytes(), begin, bytes;
    *pages = 0;
    if (!to_pages(mapping, offset, length, &begin, &bytes))
        return gz_fail(err, GZ_E_OS, EINVAL, offset, "residency beyond the end of the file");
    while (bytes > 0) {
        uint64_t step = PAGES_PER_CALL * page < bytes ? PAGES_PER_CALL * page : bytes;
        if (mincore(mapping->base + begin, (size_t)step, flags) != 0)
            return gz_fail(err, GZ_E_OS, errno, begin, "mincore failed at byte %" PRIu64, begin);
        for (uint64_t i = 0; i < (step + page - 1) / page; i++)
            *pages += flags[i] & 1;
        begin += step;
        bytes -= step;
    }
    return GZ_OK;
}
