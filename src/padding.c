#include "graphzero/padding.h"

#include <stddef.h>
#include <string.h>

bool gz_fits_sizes(const int64_t *counts, const int64_t *sizes, int hops, int64_t spare)
{
    for (int h = 0; h < hops; h++)
        if (counts[h] + (sizes[h] > 0 ? spare : 0) > sizes[h])
            return false;
    return true;
}

void gz_gaps_set(gz_gaps *gaps, const int64_t *counts, const int64_t *sizes, int hops)
{
    int64_t real = 0, all = 0;
    gaps->hops = hops;
    for (int h = 0; h < hops; h++) {
        gaps->firsts[h] = all + counts[h];
        gaps->added[h] = sizes[h] - counts[h];
        real += counts[h];
        all += sizes[h];
        gaps->ends[h] = real;
    }
}

void gz_gaps_move(const gz_gaps *gaps, const int64_t *ids, int64_t begin, int64_t end, int64_t *out)
{
    for (int64_t i = begin; i < end; i++) {
        int64_t before = 0;
        for (int h = 0; h < gaps->hops; h++)
            before += ids[i] >= gaps->ends[h] ? gaps->added[h] : 0;
        out[i] = ids[i] + before;
    }
}

/* Quotients without products, which may overflow: so many edges for each node, and one more for the
 * first ones. */
void gz_spread_ends(int64_t first, int64_t nodes, int64_t count, int64_t begin, int64_t end,
                    int64_t *out)
{
    int64_t each = count / nodes, longer = count % nodes;
    for (int64_t i = begin; i < end; i++) {
        bool is_longer = i < longer * (each + 1);
        int64_t node = is_longer ? i / (each + 1) : longer + (i - longer * (each + 1)) / each;
        out[i] = first + node;
    }
}

void gz_repeat_row(const unsigned char *row, uint64_t row_bytes, int64_t begin, int64_t end,
                   unsigned char *out)
{
    if (row == NULL) {
        memset(out + (uint64_t)begin * row_bytes, 0, (uint64_t)(end - begin) * row_bytes);
        return;
    }
    for (int64_t i = begin; i < end; i++)
        memcpy(out + (uint64_t)i * row_bytes, row, row_bytes);
}
