#define _GNU_SOURCE /* syscall under -std=c11 */
#define _DARWIN_C_SOURCE

#include "graphzero/residency.h"

#include <errno.h>
#include <stdbool.h>
#include <unistd.h>

#if defined(__linux__)
#include <sys/syscall.h>
#include <sys/vfs.h>
#endif

#if defined(SYS_cachestat)
enum { CACHESTAT = SYS_cachestat };
#elif defined(__linux__) && !defined(__alpha__)
enum { CACHESTAT = 451 }; /* newer than the C library's headers */
#else
enum { CACHESTAT = -1 };
#endif

/* Of smaller parts mincore takes less time, because each costs cachestat a call of up to a folio.
 */
static const uint64_t FEW_BYTES = 1 << 20;

uint64_t gz_residency_part_begin(uint64_t num_pages, uint64_t num_parts, uint64_t part)
{
    uint64_t longer = num_pages % num_parts;
    return num_pages / num_parts * part + (part < longer ? part : longer);
}

/* Bytes of the mapping where a part begins; of the last page, only those in the file. */
static uint64_t byte_of_part(const gz_mapping *mapping, uint64_t num_parts, uint64_t part)
{
    uint64_t page = gz_system_page_bytes(), num_pages = mapping->size / page;
    num_pages += mapping->size % page != 0;
    uint64_t first = gz_residency_part_begin(num_pages, num_parts, part);
    return first < num_pages ? first * page : mapping->size;
}

static gz_code by_mincore(const gz_mapping *mapping, uint64_t num_parts, uint64_t *pages,
                          gz_error *err)
{
    for (uint64_t i = 0; i < num_parts; i++) {
        uint64_t begin = byte_of_part(mapping, num_parts, i);
        uint64_t bytes = byte_of_part(mapping, num_parts, i + 1) - begin;
        pages[i] = 0;
        gz_code code = GZ_OK;
        if (bytes > 0)
            code = gz_mapping_resident(mapping, begin, bytes, &pages[i], err);
        if (code != GZ_OK)
            return code;
    }
    return GZ_OK;
}

#if defined(__linux__)
/* File systems that keep the pages of a file under the file that is opened. Stacked ones keep them
 * under another: cachestat finds none on overlayfs, while the mapped file is wholly in memory. */
static bool keeps_own_pages(int fd)
{
    static const uint32_t EXT = 0xEF53, XFS = 0x58465342, BTRFS = 0x9123683E, F2FS = 0xF2F52010,
                          TMPFS = 0x01021994;
    struct statfs info;
    if (fstatfs(fd, &info) != 0)
        return false;
    uint32_t type = (uint32_t)info.f_type; /* of a type with a sign on some systems */
    return type == EXT || type == XFS || type == BTRFS || type == F2FS || type == TMPFS;
}

static int count_cached(int fd, uint64_t begin, uint64_t bytes, uint64_t *pages)
{
    struct {
        uint64_t offset, length;
    } range = {begin, bytes};
    struct {
        uint64_t cached, dirty, writeback, evicted, recently_evicted;
    } counts = {0, 0, 0, 0, 0};
    if (syscall(CACHESTAT, fd, &range, &counts, 0) != 0)
        return errno;
    *pages = counts.cached;
    return 0;
}

/* Where the largest folio that may hold a byte begins: of 2 MiB on systems with pages of 4 KiB, and
 * nowhere larger than an entry of the kernel's xarray. */
static uint64_t begin_of_folio(uint64_t byte)
{
    uint64_t page = gz_system_page_bytes();
    return byte - byte % (page * (page == 4096 ? 512 : 2048));
}

/* Linux (6.18 at least) loses pages of a range that begins within a large folio, if it lets others
 * run meanwhile: it goes on as if the folio had begun there. So all ranges begin with a folio, and
 * those that were not asked for are subtracted. */
static int try_cachestat(const gz_mapping *mapping, uint64_t num_parts, uint64_t *pages)
{
    if (CACHESTAT < 0)
        return ENOSYS;
    if (!keeps_own_pages(mapping->fd))
        return EOPNOTSUPP;
    uint64_t folio = 0, before = 0; /* pages from its begin to that of the part */
    for (uint64_t i = 0; i < num_parts; i++) {
        uint64_t begin = byte_of_part(mapping, num_parts, i), upto = 0;
        uint64_t end = byte_of_part(mapping, num_parts, i + 1);
        uint64_t own_folio = begin_of_folio(begin);
        int failed = 0;
        pages[i] = 0;
        if (begin == end) /* a length of 0 would mean the rest of the file */
            continue;
        if (own_folio != folio) {
            folio = own_folio;
            before = 0;
            if (folio < begin)
                failed = count_cached(mapping->fd, folio, begin - folio, &before);
        }
        if (failed == 0)
            failed = count_cached(mapping->fd, folio, end - folio, &upto);
        if (failed != 0)
            return failed;
        pages[i] = upto > before ? upto - before : 0;
        before = upto;
    }
    return 0;
}
#else
static int try_cachestat(const gz_mapping *mapping, uint64_t num_parts, uint64_t *pages)
{
    (void)mapping, (void)num_parts, (void)pages;
    return ENOSYS;
}
#endif

gz_code gz_residency(const gz_mapping *mapping, gz_residency_source source, uint64_t num_parts,
                     uint64_t *pages, gz_error *err)
{
    if (num_parts == 0)
        return gz_fail(err, GZ_E_OS, EINVAL, 0, "residency of no parts");
    bool is_small = mapping->size / num_parts < FEW_BYTES;
    if (source == GZ_RESIDENCY_CACHESTAT || (source == GZ_RESIDENCY_FASTEST && !is_small)) {
        int failed = try_cachestat(mapping, num_parts, pages);
        if (failed == 0)
            return GZ_OK;
        if (source == GZ_RESIDENCY_CACHESTAT)
            return gz_fail(err, GZ_E_OS, failed, 0, "cachestat failed");
    }
    return by_mincore(mapping, num_parts, pages, err);
}
