#include "graphzero/page_ahead.h"

#include "graphzero/page_map.h"

enum {
    RUNS_PER_CALL = 128,
    SMALL_BYTES = 8 << 20,
};

static void flush(const gz_page_ahead *ahead, gz_run *runs, int64_t *count)
{
    gz_willneed_counts counts;
    gz_error err;
    gz_code refused = gz_willneed(ahead->mapping, runs, *count, ahead->mode, &counts, &err);
    (void)refused;
    *count = 0;
}

void gz_request_wanted(gz_page_ahead *ahead)
{
    gz_run runs[RUNS_PER_CALL];
    int64_t count = 0;
    uint64_t system_page = gz_system_page_bytes(), size = ahead->mapping->size;
    gz_picks_sort(ahead->pages, ahead->scratch, ahead->count);
    for (int64_t i = 0; i < ahead->count; i++) {
        uint64_t begin = ahead->pages[i].row * GZ_PAGE_BYTES / system_page * system_page;
        uint64_t end = begin + system_page < size ? begin + system_page : size;
        gz_run *last = count > 0 ? &runs[count - 1] : NULL;
        if (last != NULL && begin <= last->offset + last->length) {
            if (end > last->offset + last->length)
                last->length = end - last->offset;
            continue;
        }
        if (count == RUNS_PER_CALL)
            flush(ahead, runs, &count);
        runs[count++] = (gz_run){begin, end - begin};
    }
    flush(ahead, runs, &count);
    ahead->count = 0;
}

int gz_missing_looks(const gz_mapping *mapping, const void *array, uint64_t bytes,
                     bool trust_mincore)
{
    uint64_t page = gz_system_page_bytes();
    uint64_t begin = (uint64_t)((const unsigned char *)array - mapping->base);
    int missing = 0;
    for (uint64_t i = 0; i < GZ_LOOKS && bytes >= SMALL_BYTES; i++) {
        uint8_t is_there = 0;
        gz_error err;
        uint64_t looked_at = (begin + bytes / GZ_LOOKS * i) / page;
        if (gz_page_map_read(mapping, looked_at, 1, trust_mincore, &is_there, &err) != GZ_OK)
            return 0; /* unknown: page faults read what is missing */
        missing += !is_there;
    }
    return missing;
}

uint64_t gz_translate_ahead(gz_page_ahead *ahead, const gz_ids *table, uint64_t limit,
                            const gz_pick *picks, int64_t count, int64_t *out, int64_t stride)
{
    uint64_t corrupt = 0;
    for (int64_t done = 0, requested = 0; done < count;) {
        int64_t next = requested + ahead->block < count ? requested + ahead->block : count;
        for (int64_t i = requested; i < next; i++)
            gz_want(ahead, gz_id_address(table, picks[i].row));
        gz_request_wanted(ahead);
        /* The pages of the block before have come meanwhile. */
        for (; done < requested; done++) {
            uint64_t id = gz_id(table, picks[done].row);
            corrupt += id >= limit;
            out[(int64_t)picks[done].place * stride] = id < limit ? (int64_t)id : 0;
        }
        requested = next;
    }
    return corrupt;
}
