#include "graphzero/sort_keys.h"

#include <stddef.h>
#include <string.h>

enum {
    BUCKET_KEYS = 1 << 13, /* two arrays of so many keys fit the second cache of a core */
    CACHED_KEYS = 1 << 15, /* more keys are dealt into buckets again */
    INSERTED_KEYS = 32,    /* fewer keys are sorted by insertion */
    DIGIT_BITS = 8,        /* of a pass within a bucket */
    DIGITS = 1 << DIGIT_BITS,
};

static inline int64_t bucket_of(uint64_t key, gz_digit digit)
{
    return (int64_t)(key >> digit.shift & ((UINT64_C(1) << digit.bits) - 1));
}

uint64_t gz_differing_bits(const uint64_t *keys, int64_t begin, int64_t end, uint64_t first)
{
    uint64_t bits = 0;
    for (int64_t i = begin; i < end; i++)
        bits |= keys[i] ^ first;
    return bits;
}

/* The upper `bits` bits below the highest that differs. */
static gz_digit upper_digit(uint64_t differing, unsigned bits)
{
    unsigned highest = differing == 0 ? 0 : 64 - (unsigned)__builtin_clzll(differing);
    bits = bits < highest ? bits : highest;
    return (gz_digit){highest - bits, bits};
}

gz_digit gz_bucket_digit(uint64_t differing, int64_t count)
{
    unsigned bits = 0;
    while (bits < GZ_MOST_BUCKET_BITS && count >> bits > BUCKET_KEYS)
        bits++;
    return upper_digit(differing, bits);
}

void gz_count_buckets(const uint64_t *keys, int64_t begin, int64_t end, gz_digit digit,
                      int64_t *counts)
{
    for (int64_t i = begin; i < end; i++)
        counts[bucket_of(keys[i], digit)]++;
}

void gz_bucket_places(int64_t *counts, int64_t ranges, gz_digit digit)
{
    int64_t buckets = INT64_C(1) << digit.bits, place = 0;
    for (int64_t bucket = 0; bucket < buckets; bucket++) {
        for (int64_t range = 0; range < ranges; range++) {
            int64_t *at = &counts[range * buckets + bucket], count = *at;
            *at = place;
            place += count;
        }
    }
}

void gz_deal_keys(const uint64_t *keys, const uint32_t *order, int64_t begin, int64_t end,
                  gz_digit digit, int64_t *places, uint64_t *keys_out, uint32_t *order_out)
{
    for (int64_t i = begin; i < end; i++) {
        int64_t place = places[bucket_of(keys[i], digit)]++;
        keys_out[place] = keys[i];
        if (order != NULL)
            order_out[place] = order[i];
    }
}

static void sort_by_insertion(uint64_t *keys, uint32_t *order, int64_t count)
{
    for (int64_t i = 1; i < count; i++) {
        uint64_t key = keys[i];
        uint32_t with = order == NULL ? 0 : order[i];
        int64_t at = i;
        for (; at > 0 && keys[at - 1] > key; at--) {
            keys[at] = keys[at - 1];
            if (order != NULL)
                order[at] = order[at - 1];
        }
        keys[at] = key;
        if (order != NULL)
            order[at] = with;
    }
}

static void deal(const uint64_t *keys, const uint32_t *order, int64_t count, gz_digit digit,
                 int64_t *places, uint64_t *keys_out, uint32_t *order_out)
{
    memset(places, 0, sizeof *places << digit.bits);
    gz_count_buckets(keys, 0, count, digit, places);
    gz_bucket_places(places, 1, digit);
    gz_deal_keys(keys, order, 0, count, digit, places, keys_out, order_out);
}

void gz_copy_keys(const uint64_t *keys, const uint32_t *order, int64_t begin, int64_t end,
                  uint64_t *keys_out, uint32_t *order_out)
{
    size_t count = (size_t)(end - begin);
    memcpy(keys_out + begin, keys + begin, count * sizeof *keys);
    if (order != NULL)
        memcpy(order_out + begin, order + begin, count * sizeof *order);
}

/* One pass for each digit in which keys differ, from the lowest to the highest. */
static void sort_by_digits(uint64_t *keys, uint32_t *order, int64_t count, uint64_t differing,
                           uint64_t *spare_keys, uint32_t *spare_order)
{
    int64_t places[DIGITS];
    uint64_t *from = keys, *to = spare_keys;
    uint32_t *from_order = order, *to_order = spare_order;
    while (differing != 0) {
        gz_digit digit = {(unsigned)__builtin_ctzll(differing), DIGIT_BITS};
        deal(from, from_order, count, digit, places, to, to_order);
        uint64_t *keys_now = to;
        uint32_t *order_now = to_order;
        to = from, to_order = from_order;
        from = keys_now, from_order = order_now;
        differing &= ~((uint64_t)(DIGITS - 1) << digit.shift);
    }
    if (from != keys)
        gz_copy_keys(from, from_order, 0, count, keys, order);
}

static void sort(uint64_t *keys, uint32_t *order, int64_t count, uint64_t *spare_keys,
                 uint32_t *spare_order)
{
    if (count <= INSERTED_KEYS) {
        sort_by_insertion(keys, order, count);
        return;
    }
    uint64_t differing = gz_differing_bits(keys, 0, count, keys[0]);
    if (count <= CACHED_KEYS || differing < DIGITS) {
        sort_by_digits(keys, order, count, differing, spare_keys, spare_order);
        return;
    }
    int64_t places[DIGITS], begin = 0;
    gz_digit digit = upper_digit(differing, DIGIT_BITS);
    deal(keys, order, count, digit, places, spare_keys, spare_order);
    gz_copy_keys(spare_keys, spare_order, 0, count, keys, order);
    for (int64_t bucket = 0; bucket < DIGITS; begin = places[bucket++]) {
        int64_t size = places[bucket] - begin;
        sort(keys + begin, order == NULL ? NULL : order + begin, size, spare_keys + begin,
             order == NULL ? NULL : spare_order + begin);
    }
}

void gz_sort_keys(uint64_t *keys, uint32_t *order, int64_t begin, int64_t end, uint64_t *spare_keys,
                  uint32_t *spare_order)
{
    sort(keys + begin, order == NULL ? NULL : order + begin, end - begin, spare_keys + begin,
         order == NULL ? NULL : spare_order + begin);
}
