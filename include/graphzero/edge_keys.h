/* Edges as 64-bit keys, owner << 32 | neighbour, and neighbour lists out of sorted keys. */
#ifndef GRAPHZERO_EDGE_KEYS_H
#define GRAPHZERO_EDGE_KEYS_H

#include <stdbool.h>
#include <stdint.h>

#include "graphzero/csr.h"

/* Stored ids by the user's ids; no ranks where they are the same. */
typedef struct gz_ranks {
    const uint32_t *ranks;
    uint64_t count;
} gz_ranks;

/* Keys of the edges [begin, end), in stored ids. Returns the number of ids that are not in their
 * table, which become 0. */
int64_t gz_edge_keys(const uint32_t *owners, const uint32_t *neighbors, gz_ranks owner_ranks,
                     gz_ranks neighbor_ranks, int64_t begin, int64_t end, uint64_t *keys);

/* Counts how often ids occur in [begin, end). Returns how many are not below `num_counts`. */
int64_t gz_count_ids(const uint32_t *ids, int64_t begin, int64_t end, uint64_t *counts,
                     uint64_t num_counts);

/* The lower halves of keys [begin, end). Returns how many of them are edges between two nodes that
 * the key before names as well; `before` is that of the first. With `is_mirrored`, where lists have
 * both directions of an edge, one is counted. */
int64_t gz_key_neighbors(const uint64_t *keys, int64_t begin, int64_t end, uint64_t before,
                         bool is_mirrored, uint32_t *neighbors);

/* How many pairs of nodes have each other in their lists, of which `begin` to `end` - 1 are the
 * smaller ids. places[v] is where the search in the list of v goes on: at first indptr[v]; ranges
 * that follow each other go on with it. Entries from `num_nodes` on are not followed. */
int64_t gz_count_mutual(const int64_t *indptr, const uint32_t *indices, int64_t num_nodes,
                        int64_t begin, int64_t end, int64_t *places);

/* Where the lists of nodes [first, last) begin among `count` sorted keys; the first key has number
 * `base`. */
void gz_list_starts(const uint64_t *keys, int64_t count, int64_t base, int64_t first, int64_t last,
                    int64_t *starts);

/* places[i] = how many entries of the lists stand before a new one with these ends: those of owners
 * before, and those of its list that are not larger; for i in [begin, end). Returns how many lists
 * are not within the `width` entries; those have place 0. */
int64_t gz_entry_places(const gz_ids *indptr, uint64_t num_nodes, const gz_ids *indices,
                        uint64_t width, const uint32_t *owners, const uint32_t *neighbors,
                        int64_t begin, int64_t end, int64_t *places);

#endif
