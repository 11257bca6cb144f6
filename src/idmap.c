#include "graphzero/idmap.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "graphzero/csr.h"
#include "graphzero/rng.h"

enum { AHEAD = 16, FEWEST_SLOTS = 64 };

void gz_idmap_init(gz_idmap *map)
{
    map->slots = NULL;
    map->mask = 0;
    map->generation = 1;
}

void gz_idmap_free(gz_idmap *map)
{
    free(map->slots);
    gz_idmap_init(map);
}

void gz_idmap_clear(gz_idmap *map)
{
    map->generation++;
    if (map->generation == 0) { /* after 2^32 batches old stamps could look current again */
        if (map->slots != NULL)
            memset(map->slots, 0, (map->mask + 1) * sizeof *map->slots);
        map->generation = 1;
    }
}

/* The slot that holds id, or the free one where it belongs. */
static gz_slot *find(const gz_idmap *map, int64_t id)
{
    uint64_t at = gz_mix((uint64_t)id) & map->mask;
    while (map->slots[at].generation == map->generation && map->slots[at].id != id)
        at = (at + 1) & map->mask;
    return &map->slots[at];
}

gz_code gz_idmap_reserve(gz_idmap *map, uint64_t count, gz_error *err)
{
    uint64_t slots = FEWEST_SLOTS;
    if (count > UINT32_MAX)
        return gz_fail(err, GZ_E_NOMEM, 0, 0, "a mini-batch of more than 2^32 nodes");
    while (slots < 2 * count) /* at most half full: probes stay short */
        slots *= 2;
    if (map->slots != NULL && slots <= map->mask + 1)
        return GZ_OK;
    gz_idmap old = *map;
    map->slots = calloc(slots, sizeof *map->slots);
    if (map->slots == NULL) {
        *map = old;
        return gz_fail(err, GZ_E_NOMEM, 0, 0, "no memory to relabel %" PRIu64 " nodes", count);
    }
    map->mask = slots - 1;
    for (uint64_t i = 0; old.slots != NULL && i <= old.mask; i++)
        if (old.slots[i].generation == map->generation)
            *find(map, old.slots[i].id) = old.slots[i];
    free(old.slots);
    return GZ_OK;
}

static bool insert(gz_idmap *map, int64_t id, uint32_t local, uint32_t *found)
{
    gz_slot *slot = find(map, id);
    bool is_new = slot->generation != map->generation;
    if (is_new) {
        slot->id = id;
        slot->local = local;
        slot->generation = map->generation;
    }
    *found = slot->local;
    return is_new;
}

void gz_idmap_relabel(gz_idmap *map, const int64_t *ids, int64_t begin, int64_t end, int64_t base,
                      int64_t *local, int64_t *added, int64_t *num_added)
{
    int64_t count = *num_added;
    for (int64_t i = begin; i < end; i++) {
        uint32_t found;
        if (i + AHEAD < end)
            gz_prefetch(&map->slots[gz_mix((uint64_t)ids[i + AHEAD]) & map->mask]);
        if (insert(map, ids[i], (uint32_t)(base + count), &found))
            added[count++] = ids[i];
        local[i] = found;
    }
    *num_added = count;
}

void gz_idmap_number(gz_idmap *map, const int64_t *nodes, int64_t begin, int64_t end)
{
    uint32_t found;
    for (int64_t i = begin; i < end; i++)
        insert(map, nodes[i], (uint32_t)i, &found);
}
