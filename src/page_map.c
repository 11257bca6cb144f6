#define _GNU_SOURCE /* mincore under -std=c11 */
#define _DARWIN_C_SOURCE

#include "graphzero/page_map.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/mman.h>
#include <unistd.h>

#include "graphzero/cache_hint.h"

enum { PAGES_PER_CALL = 4096, ENTRIES_PER_CALL = 512 };

static gz_code read_mincore(const gz_mapping *mapping, uint64_t first, uint64_t count,
                            uint8_t *pages, gz_error *err)
{
    uint64_t page = gz_system_page_bytes();
    for (uint64_t done = 0; done < count; done += PAGES_PER_CALL) {
        uint64_t step = count - done < PAGES_PER_CALL ? count - done : PAGES_PER_CALL;
        uint64_t begin = (first + done) * page, bytes = step * page;
        if (bytes > mapping->size - begin)
            bytes = mapping->size - begin;
        if (mincore(mapping->base + begin, (size_t)bytes, (void *)(pages + done)) != 0)
            return gz_fail(err, GZ_E_OS, errno, begin, "mincore failed at byte %" PRIu64, begin);
    }
    for (uint64_t i = 0; i < count; i++)
        pages[i] &= 1; /* the other bits are reserved */
    return GZ_OK;
}

/* Bit 63 of an entry: the page is mapped, and touching it costs no fault. */
static gz_code read_pagemap(int fd, uint64_t first_entry, uint64_t count, uint8_t *pages,
                            gz_error *err)
{
    uint64_t entries[ENTRIES_PER_CALL];
    for (uint64_t done = 0; done < count;) {
        uint64_t step = count - done < ENTRIES_PER_CALL ? count - done : ENTRIES_PER_CALL;
        ssize_t got = pread(fd, entries, (size_t)step * sizeof *entries,
                            (off_t)((first_entry + done) * sizeof *entries));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return gz_fail(err, GZ_E_OS, got < 0 ? errno : EIO, 0, "cannot read its page map");
        uint64_t read = (uint64_t)got / sizeof *entries;
        for (uint64_t i = 0; i < read; i++)
            pages[done + i] = (uint8_t)(entries[i] >> 63);
        done += read;
    }
    return GZ_OK;
}

gz_code gz_page_map_read(const gz_mapping *mapping, uint64_t first, uint64_t count,
                         bool trust_mincore, uint8_t *pages, gz_error *err)
{
    uint64_t page = gz_system_page_bytes(), all = (mapping->size + page - 1) / page;
    if (first > all || count > all - first)
        return gz_fail(err, GZ_E_OS, EINVAL, 0, "residency beyond the end of the file");
    if (count == 0)
        return GZ_OK;
    if (trust_mincore)
        return read_mincore(mapping, first, count, pages, err);
    int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return gz_fail(err, GZ_E_OS, errno, 0, "cannot open its page map");
    gz_code code =
        read_pagemap(fd, (uint64_t)(uintptr_t)mapping->base / page + first, count, pages, err);
    close(fd);
    return code;
}

/* Whether all pages of a row are in memory; false for rows beyond the map. */
GZ_INLINE bool has_row(const gz_page_map *map, uint64_t row, uint64_t before, unsigned shift)
{
    uint64_t begin = before + row * map->row_bytes;
    uint64_t page = begin >> shift, last = (begin + map->row_bytes - 1) >> shift;
    if (last >= map->count)
        return false;
    while (page < last && map->pages[page])
        page++;
    return map->pages[page] != 0;
}

/* Bytes from the beginning of the map to row 0. */
static uint64_t before_rows(const gz_page_map *map, unsigned *shift)
{
    uint64_t page = gz_system_page_bytes();
    for (*shift = 0; UINT64_C(1) << *shift < page;)
        ++*shift;
    return map->origin % page;
}

int64_t gz_picks_beyond(const int64_t *rows, int64_t count, const gz_page_map *map, gz_pick *picks,
                        uint8_t *in_memory)
{
    unsigned shift;
    uint64_t before = before_rows(map, &shift);
    int64_t missing = 0;
    for (int64_t i = 0; i < count; i++) {
        in_memory[i] = has_row(map, (uint64_t)rows[i], before, shift);
        picks[missing] = (gz_pick){(uint64_t)rows[i], (uint64_t)i};
        missing += !in_memory[i];
    }
    return missing;
}
