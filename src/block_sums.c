#include "graphzero/block_sums.h"

#include <math.h>
#include <stddef.h>

enum { ROWS_AHEAD = 8, LISTS_AHEAD = 16, LINE_FLOATS = 16, HINTED_FLOATS = 128 };

/* What a row does to a row of sums, in float32, and in float64 where many are added. */
#define ADDITIONS(number, name, power)                                                             \
    static void sum_##name(number *restrict sums, const float *restrict row, float weight,         \
                           uint64_t width)                                                         \
    {                                                                                              \
        for (uint64_t i = 0; i < width; i++)                                                       \
            sums[i] += (number)weight * (number)row[i];                                            \
    }                                                                                              \
                                                                                                   \
    /* A number that is not one stays, as in torch. */                                             \
    static void max_##name(number *restrict sums, const float *restrict row, float weight,         \
                           uint64_t width)                                                         \
    {                                                                                              \
        for (uint64_t i = 0; i < width; i++) {                                                     \
            number value = (number)weight * (number)row[i];                                        \
            sums[i] = sums[i] >= value || sums[i] != sums[i] ? sums[i] : value;                    \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static void min_##name(number *restrict sums, const float *restrict row, float weight,         \
                           uint64_t width)                                                         \
    {                                                                                              \
        for (uint64_t i = 0; i < width; i++) {                                                     \
            number value = (number)weight * (number)row[i];                                        \
            sums[i] = sums[i] <= value || sums[i] != sums[i] ? sums[i] : value;                    \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    /* Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018: one pass. */     \
    static void attend_##name(const gz_block_sums *block, number *restrict sums,                   \
                              const float *restrict row, const float *own)                         \
    {                                                                                              \
        uint64_t heads = block->heads, channels = block->width / heads;                            \
        number *total = sums + block->width, *largest = total + heads;                             \
        for (uint64_t head = 0; head < heads; head++) {                                            \
            number score = (number)(row[block->width + head] + own[head]);                         \
            number *of_head = sums + head * channels;                                              \
            score = score < 0 ? score * (number)block->negative_slope : score;                     \
            if (score > largest[head]) {                                                           \
                number scale = power(largest[head] - score);                                       \
                for (uint64_t i = 0; i < channels; i++)                                            \
                    of_head[i] *= scale;                                                           \
                total[head] *= scale;                                                              \
                largest[head] = score;                                                             \
            }                                                                                      \
            number weight = power(score - largest[head]);                                          \
            total[head] += weight;                                                                 \
            for (uint64_t i = 0; i < channels; i++)                                                \
                of_head[i] += weight * (number)row[head * channels + i];                           \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static void add_##name(const gz_block_sums *block, number *sums, const float *row,             \
                           float weight, const float *own)                                         \
    {                                                                                              \
        switch (block->reduce) {                                                                   \
        case GZ_SUM: sum_##name(sums, row, weight, block->width); break;                           \
        case GZ_MAX: max_##name(sums, row, weight, block->width); break;                           \
        case GZ_MIN: min_##name(sums, row, weight, block->width); break;                           \
        case GZ_ATTENTION: attend_##name(block, sums, row, own); break;                            \
        }                                                                                          \
    }

ADDITIONS(float, narrow, expf)
ADDITIONS(double, wide, exp)

/* The numbers of a row of a source; two more for each head make a row of sums. */
static uint64_t row_floats(const gz_block_sums *block) { return block->width + block->heads; }

GZ_INLINE void hint_row(const gz_block_sums *block, const float *rows, uint64_t first,
                        uint64_t last, uint64_t position)
{
    uint64_t id = position < block->csr->num_edges ? gz_id(&block->csr->indices, position) : last;
    if (id < first || id >= last)
        return;
    const float *row = rows + (id - first) * row_floats(block);
    uint64_t count = row_floats(block) < HINTED_FLOATS ? row_floats(block) : HINTED_FLOATS;
    for (uint64_t i = 0; i < count; i += LINE_FLOATS)
        gz_cache_hint(row + i);
}

uint64_t gz_block_add(const gz_block_sums *block, const float *rows, uint64_t first, uint64_t last,
                      int64_t begin, int64_t end)
{
    const gz_csr *csr = block->csr;
    uint64_t row_width = row_floats(block), sum_width = row_width + block->heads, corrupt = 0;
    for (int64_t i = begin; i < end; i++) {
        uint64_t node = block->first_node + (uint64_t)i, at = block->cursors[i], list;
        uint64_t stop = gz_csr_list(csr, node, &list, &corrupt);
        stop += list;
        if (i + LISTS_AHEAD < end)
            hint_row(block, rows, first, last, block->cursors[i + LISTS_AHEAD]);
        if (at < list || at >= stop)
            continue;
        int64_t place = block->places[i];
        float *sums = place < 0 ? NULL : block->sums + (uint64_t)place * sum_width;
        double *wide = place < 0 ? block->wide_sums + (uint64_t)~place * sum_width : NULL;
        const float *own = block->scores + (uint64_t)i * block->heads;
        for (; at < stop; at++) {
            uint64_t id = gz_id(&csr->indices, at);
            if (id >= last)
                break;
            hint_row(block, rows, first, last, at + ROWS_AHEAD);
            if (id < first) {
                corrupt++;
                continue;
            }
            if (block->skips_loops && id == node)
                continue;
            const float *row = rows + (id - first) * row_width;
            float weight = block->weights ? block->weights[at - block->first_weight] : 1.0f;
            if (place < 0)
                add_wide(block, wide, row, weight, own);
            else
                add_narrow(block, sums, row, weight, own);
        }
        block->cursors[i] = at;
    }
    return corrupt;
}

uint64_t gz_mark_sources(const gz_csr *csr, uint64_t begin, uint64_t end, uint64_t group,
                         uint8_t *marks)
{
    uint64_t corrupt = 0;
    for (uint64_t node = begin; node < end; node++) {
        uint64_t at, degree = gz_csr_list(csr, node, &at, &corrupt);
        for (uint64_t stop = at + degree; at < stop; at++)
            marks[gz_csr_neighbor(csr, at, &corrupt) / group] = 1;
    }
    return corrupt;
}
