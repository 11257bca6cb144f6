/* Stable radix sort of 64-bit keys in two steps that threads share: keys are dealt into buckets by
 * their upper bits, range by range, and then each bucket is sorted.
 *
 * `order` arrays go with the keys: entry i of the order moves with key i. NULL if there is none. */
#ifndef GRAPHZERO_SORT_KEYS_H
#define GRAPHZERO_SORT_KEYS_H

#include <stdint.h>

enum { GZ_MOST_BUCKET_BITS = 10 };

typedef struct gz_digit {
    unsigned shift;
    unsigned bits; /* 0: all keys are in bucket 0 */
} gz_digit;

/* The bits in which keys [begin, end) differ from `first`. */
uint64_t gz_differing_bits(const uint64_t *keys, int64_t begin, int64_t end, uint64_t first);

/* The upper bits, of those that differ, that make buckets of a size that fits a cache. */
gz_digit gz_bucket_digit(uint64_t differing, int64_t count);

/* Adds the keys [begin, end) to the counts of their buckets. */
void gz_count_buckets(const uint64_t *keys, int64_t begin, int64_t end, gz_digit digit,
                      int64_t *counts);

/* Turns the counts of `ranges` ranges, one after the other, into the places of their first keys. */
void gz_bucket_places(int64_t *counts, int64_t ranges, gz_digit digit);

/* Copies the keys [begin, end) to the places of their buckets, which move on. */
void gz_deal_keys(const uint64_t *keys, const uint32_t *order, int64_t begin, int64_t end,
                  gz_digit digit, int64_t *places, uint64_t *keys_out, uint32_t *order_out);

/* Copies keys [begin, end), and their order, to the same places of other arrays. */
void gz_copy_keys(const uint64_t *keys, const uint32_t *order, int64_t begin, int64_t end,
                  uint64_t *keys_out, uint32_t *order_out);

/* Sorts keys [begin, end), and their order; the other two arrays have room for as many. */
void gz_sort_keys(uint64_t *keys, uint32_t *order, int64_t begin, int64_t end, uint64_t *spare_keys,
                  uint32_t *spare_order);

#endif
