/* From global to local ids: numbers ids in the order in which they first appear.
 *
 * A hash table with open addressing. A slot holds the low 32 bits of an id, and base + its number.
 * Each batch starts with a higher base, so that all slots of earlier batches look empty without
 * being cleared. A slot has eight bytes: the table of a mini-batch fits the L2 cache. */
#ifndef GRAPHZERO_IDMAP_H
#define GRAPHZERO_IDMAP_H

#include <stdbool.h>
#include <stdint.h>

#include "graphzero/status.h"

#define GZ_MOST_LOCAL_IDS (UINT64_C(1) << 31)

typedef struct gz_slot {
    uint32_t tag;   /* low bits of the id */
    uint32_t stamp; /* base + local id; anything outside [base, base + count) means empty */
} gz_slot;

typedef struct gz_idmap {
    gz_slot *slots;
    uint64_t mask;    /* number of slots - 1, a power of two - 1 */
    unsigned shift;   /* 64 - log2 of the number of slots */
    uint32_t base;    /* never 0: fresh slots are zero */
    bool wide;        /* ids may exceed 32 bits: a tag that matches must be confirmed */
    int64_t *nodes;   /* local -> global id */
    int64_t count;    /* local ids given out */
    int64_t capacity; /* of nodes[] */
} gz_idmap;

void gz_idmap_init(gz_idmap *map);
void gz_idmap_free(gz_idmap *map);
void gz_idmap_rest(gz_idmap *map); /* see gz_rest_array; only `clear` may follow */

/* Forgets all ids. `wide` says whether the next ones may be 2^32 or more. */
void gz_idmap_clear(gz_idmap *map, bool wide);

/* Makes room for `count` local ids in all, keeping those that are there. */
GZ_MUST_CHECK gz_code gz_idmap_reserve(gz_idmap *map, uint64_t count, gz_error *err);

/* Gives each seed the next number. A repeated seed gets a local id of its own, but looking the id
 * up gives its first number. Room must have been reserved; the same holds for gz_idmap_relabel. */
void gz_idmap_seed(gz_idmap *map, const int64_t *seeds, int64_t count);

/* local[i] = number of ids[i], for i in [begin, end), new ids getting the next numbers. */
void gz_idmap_relabel(gz_idmap *map, const int64_t *ids, int64_t begin, int64_t end,
                      int64_t *local);

/* Number of an id, or -1. */
int64_t gz_idmap_find(const gz_idmap *map, int64_t id);

/* Hints at the cache line where the search for an id starts. */
void gz_idmap_hint(const gz_idmap *map, int64_t id);

#endif
