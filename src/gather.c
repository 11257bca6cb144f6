#include "graphzero/gather.h"

#include <stddef.h>

#include "graphzero/past_cache.h"

enum { ID_HINT_DISTANCE = 32 };

GZ_INLINE void gather(const unsigned char *rows, uint64_t row_bytes, const gz_cast *cast,
                      const int64_t *ids, int64_t begin, int64_t end, const uint8_t *chosen,
                      unsigned char *out)
{
    uint64_t out_bytes = gz_cast_bytes(cast, row_bytes);
    for (int64_t i = begin; i < end; i++) {
        if (i + GZ_ROW_HINT_DISTANCE < end)
            gz_row_hint(rows + (uint64_t)ids[i + GZ_ROW_HINT_DISTANCE] * row_bytes, row_bytes);
        if (chosen == NULL || chosen[i])
            gz_cast_copy(cast, rows + (uint64_t)ids[i] * row_bytes, row_bytes,
                         out + (uint64_t)i * out_bytes);
    }
}

void gz_gather_rows(const unsigned char *rows, uint64_t row_bytes, const gz_cast *cast,
                    const int64_t *ids, int64_t begin, int64_t end, const uint8_t *chosen,
                    unsigned char *out)
{
    if (cast->past_cache)
        gz_gather_past_cache(rows, row_bytes, ids, begin, end, chosen, out);
    else if (cast->convert != NULL)
        gather(rows, row_bytes, cast, ids, begin, end, chosen, out);
    else if (row_bytes == 1) /* of a known size, numbers such as labels need no call of memcpy */
        gather(rows, 1, &GZ_AS_STORED, ids, begin, end, chosen, out);
    else if (row_bytes == 8)
        gather(rows, 8, &GZ_AS_STORED, ids, begin, end, chosen, out);
    else
        gather(rows, row_bytes, &GZ_AS_STORED, ids, begin, end, chosen, out);
}

uint64_t gz_translate(const gz_ids *table, uint64_t limit, const int64_t *ids, int64_t begin,
                      int64_t end, int64_t *out)
{
    uint64_t corrupt = 0;
    for (int64_t i = begin; i < end; i++) {
        if (i + ID_HINT_DISTANCE < end && ids[i + ID_HINT_DISTANCE] >= 0)
            gz_cache_hint(gz_id_address(table, (uint64_t)ids[i + ID_HINT_DISTANCE]));
        if (ids[i] < 0) {
            out[i] = ids[i];
            continue;
        }
        uint64_t id = gz_id(table, (uint64_t)ids[i]);
        if (id >= limit) {
            corrupt++;
            id = 0;
        }
        out[i] = (int64_t)id;
    }
    return corrupt;
}

int64_t gz_first_outside(const int64_t *ids, int64_t begin, int64_t end, int64_t limit)
{
    uint64_t outside = 0; /* no early exit, so that the compiler vectorises the loop */
    for (int64_t i = begin; i < end; i++)
        outside |= (uint64_t)((uint64_t)ids[i] >= (uint64_t)limit);
    if (!outside)
        return end;
    for (int64_t i = begin; i < end; i++)
        if ((uint64_t)ids[i] >= (uint64_t)limit)
            return i;
    return end;
}
