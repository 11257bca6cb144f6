#include "graphzero/texts.h"

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
        found[i] = -1;
        while (low < high) {
            uint64_t middle = low + (high - low) / 2;
            int order = compare(one, text_at(table, middle, &corrupt));
            if (order == 0) {
                found[i] = (int64_t)middle;
                break;
            }
            if (order < 0)
                high = middle;
            else
                low = middle + 1;
        }
    }
    return corrupt;
}
