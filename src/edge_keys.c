#include "graphzero/edge_keys.h"

#include <stddef.h>

#include "graphzero/cache_hint.h"

enum { AHEAD = 32 }; /* table entries that are on their way from memory */

GZ_INLINE void hint(gz_ranks table, const uint32_t *ids, int64_t i, int64_t end)
{
    if (table.ranks != NULL && i + AHEAD < end && ids[i + AHEAD] < table.count)
        gz_cache_hint(&table.ranks[ids[i + AHEAD]]);
}

static inline uint64_t rank_of(gz_ranks table, uint32_t id, int64_t *outside)
{
    if (table.ranks == NULL)
        return id;
    if (id < table.count)
        return table.ranks[id];
    *outside += 1;
    return 0;
}

int64_t gz_edge_keys(const uint32_t *owners, const uint32_t *neighbors, gz_ranks owner_ranks,
                     gz_ranks neighbor_ranks, int64_t begin, int64_t end, uint64_t *keys)
{
    int64_t outside = 0;
    for (int64_t i = begin; i < end; i++) {
        hint(owner_ranks, owners, i, end);
        hint(neighbor_ranks, neighbors, i, end);
        uint64_t owner = rank_of(owner_ranks, owners[i], &outside);
        keys[i] = owner << 32 | rank_of(neighbor_ranks, neighbors[i], &outside);
    }
    return outside;
}

int64_t gz_count_ids(const uint32_t *ids, int64_t begin, int64_t end, uint64_t *counts,
                     uint64_t num_counts)
{
    int64_t outside = 0;
    for (int64_t i = begin; i < end; i++) {
        if (i + AHEAD < end && ids[i + AHEAD] < num_counts)
            gz_cache_hint(&counts[ids[i + AHEAD]]);
        if (ids[i] < num_counts)
            counts[ids[i]]++;
        else
            outside++;
    }
    return outside;
}

int64_t gz_key_neighbors(const uint64_t *keys, int64_t begin, int64_t end, uint64_t before,
                         bool is_mirrored, uint32_t *neighbors)
{
    int64_t repeats = 0;
    for (int64_t i = begin; i < end; i++) {
        uint64_t key = keys[i], owner = key >> 32;
        neighbors[i] = (uint32_t)key;
        if (key == before && (is_mirrored ? owner < neighbors[i] : owner != neighbors[i]))
            repeats++;
        before = key;
    }
    return repeats;
}

int64_t gz_count_mutual(const int64_t *indptr, const uint32_t *indices, int64_t num_nodes,
                        int64_t begin, int64_t end, int64_t *places)
{
    int64_t mutual = 0, hinted = indptr[num_nodes] - AHEAD / 2;
    for (int64_t node = begin; node < end; node++) {
        for (int64_t i = places[node]; i < indptr[node + 1] && indices[i] < num_nodes; i++) {
            uint32_t other = indices[i];
            if (other <= node || (i > indptr[node] && other == indices[i - 1]))
                continue;
            if (i < hinted && indices[i + AHEAD / 2] < num_nodes)
                gz_cache_hint(&indices[places[indices[i + AHEAD / 2]]]);
            int64_t at = places[other], stop = indptr[(int64_t)other + 1];
            while (at < stop && indices[at] < node)
                at++;
            mutual += at < stop && indices[at] == node;
            places[other] = at;
        }
    }
    return mutual;
}

void gz_list_starts(const uint64_t *keys, int64_t count, int64_t base, int64_t first, int64_t last,
                    int64_t *starts)
{
    int64_t at = 0, high = count;
    while (at < high) { /* the first key of these nodes */
        int64_t middle = at + (high - at) / 2;
        if ((int64_t)(keys[middle] >> 32) < first)
            at = middle + 1;
        else
            high = middle;
    }
    for (int64_t node = first; node < last; node++) {
        while (at < count && (int64_t)(keys[at] >> 32) < node)
            at++;
        starts[node - first] = base + at;
    }
}

int64_t gz_entry_places(const gz_ids *indptr, uint64_t num_nodes, const gz_ids *indices,
                        uint64_t width, const uint32_t *owners, const uint32_t *neighbors,
                        int64_t begin, int64_t end, int64_t *places)
{
    int64_t corrupt = 0;
    for (int64_t i = begin; i < end; i++) {
        uint64_t owner = owners[i] < num_nodes ? owners[i] : num_nodes;
        uint64_t low = gz_id(indptr, owner);
        uint64_t high = owner < num_nodes ? gz_id(indptr, owner + 1) : low;
        if (low > high || high > width) {
            corrupt++;
            low = high = 0;
        }
        while (low < high) {
            uint64_t middle = low + (high - low) / 2;
            if (gz_id(indices, middle) <= neighbors[i])
                low = middle + 1;
            else
                high = middle;
        }
        places[i] = (int64_t)low;
    }
    return corrupt;
}
