#include "graphzero/texts.h"

#include <stdbool.h>
#include <string.h>

typedef struct text {
    const uint8_t *bytes;
    uint64_t length;
} text;

/* Text i; an empty one, which is counted, where the file says nonsense. */
static text text_at(const gz_texts *texts, uint64_t i, uint64_t *corrupt)
{
    uint64_t begin = i == 0 ? 0 : texts->ends[i - 1], end = texts->ends[i];
    if (begin > end || end > texts->size) {
        (*corrupt)++;
        return (text){texts->bytes, 0};
    }
    return (text){texts->bytes + begin, end - begin};
}

/* Position of the n-th text in ascending order. */
static uint64_t nth(const gz_texts *table, uint64_t n, uint64_t *corrupt)
{
    uint64_t at = table->by_id == NULL ? n : (uint64_t)table->by_id[n];
    if (at < table->count)
        return at;
    (*corrupt)++;
    return n;
}

/* As memcmp; a text comes before those that it begins. */
static int compare(text a, text b)
{
    uint64_t shorter = a.length < b.length ? a.length : b.length;
    int order = shorter == 0 ? 0 : memcmp(a.bytes, b.bytes, shorter);
    return order != 0 ? order : (a.length > b.length) - (a.length < b.length);
}

uint64_t gz_find_texts(const gz_texts *table, const gz_texts *wanted, int64_t begin, int64_t end,
                       int64_t *found)
{
    uint64_t corrupt = 0;
    for (int64_t i = begin; i < end; i++) {
        text one = text_at(wanted, (uint64_t)i, &corrupt);
        uint64_t low = 0, high = table->count;
        bool is_found = false;
        while (low < high && !is_found) {
            uint64_t middle = low + (high - low) / 2;
            uint64_t at = nth(table, middle, &corrupt);
            int order = compare(one, text_at(table, at, &corrupt));
            is_found = order == 0;
            if (is_found)
                found[i] = (int64_t)at;
            else if (order < 0)
                high = middle;
            else
                low = middle + 1;
        }
        if (!is_found)
            found[i] = -1 - (int64_t)low;
    }
    return corrupt;
}
