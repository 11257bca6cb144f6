/* Tables of texts: one after the other in one array of bytes. */
#ifndef GRAPHZERO_TEXTS_H
#define GRAPHZERO_TEXTS_H

#include <stdint.h>

typedef struct gz_texts {
    const uint8_t *bytes;
    const uint64_t *ends; /* text i has the bytes [ends[i - 1], ends[i]), where ends[-1] is 0 */
    uint64_t count;       /* texts */
    uint64_t size;        /* bytes of all texts */
    const int64_t *by_id; /* the texts ascending by bytes; NULL if they stand so */
} gz_texts;

/* found[i] = position of text i of `wanted` in the table, or -1 - the number of texts before it;
 * for i in [begin, end). Returns how many spans of bytes and positions were met that do not lie in
 * their array; nothing beyond it is read. */
uint64_t gz_find_texts(const gz_texts *table, const gz_texts *wanted, int64_t begin, int64_t end,
                       int64_t *found);

#endif
