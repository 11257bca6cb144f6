/* From global to local ids: a hash table with open addressing that numbers ids in the order in
 * which they first appear. Slots carry the generation that wrote them, so that a new batch starts
 * with an empty table without clearing it. */
#ifndef GRAPHZERO_IDMAP_H
#define GRAPHZERO_IDMAP_H

#include <stdint.h>

#include "graphzero/status.h"

typedef struct gz_slot {
    int64_t id;
    uint32_t generation; /* 0 is never current */
    uint32_t local;
} gz_slot;

typedef struct gz_idmap {
    gz_slot *slots;
    uint64_t mask; /* number of slots - 1, a power of two - 1; slots == NULL before the first use */
    uint32_t generation;
} gz_idmap;

void gz_idmap_init(gz_idmap *map);
void gz_idmap_free(gz_idmap *map);

/* Forgets all ids. */
void gz_idmap_clear(gz_idmap *map);

/* Makes room for `count` distinct ids in all, keeping those that are there. */
GZ_MUST_CHECK gz_code gz_idmap_reserve(gz_idmap *map, uint64_t count, gz_error *err);

/* local[i] = number of ids[i], for i in [begin, end). An id that is new gets the next number,
 * base + *num_added, and is appended to added[]. Room must have been reserved, here and there. */
void gz_idmap_relabel(gz_idmap *map, const int64_t *ids, int64_t begin, int64_t end, int64_t base,
                      int64_t *local, int64_t *added, int64_t *num_added);

/* Gives nodes[i] the number i, for i in [begin, end), unless the id already has one: a repeated
 * seed keeps the number of its first appearance. */
void gz_idmap_number(gz_idmap *map, const int64_t *nodes, int64_t begin, int64_t end);

#endif
