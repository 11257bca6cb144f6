#include "graphzero/idmap.h"

#include <string.h>

#include "graphzero/cache_hint.h"
#include "graphzero/growable.h"
#include "graphzero/rng.h"

enum { HINT_DISTANCE = 16, FEWEST_SLOTS = 64 };

void gz_idmap_init(gz_idmap *map)
{
    memset(map, 0, sizeof *map);
    map->base = 1;
}

void gz_idmap_free(gz_idmap *map)
{
    gz_free_array(map->slots);
    gz_free_array(map->nodes);
    gz_idmap_init(map);
}

/* What is zero is a stamp of before. */
void gz_idmap_rest(gz_idmap *map)
{
    gz_rest_array(map->slots);
    gz_rest_array(map->nodes);
}

void gz_idmap_clear(gz_idmap *map, bool wide)
{
    map->base += (uint32_t)map->count;
    map->count = 0;
    map->wide = wide;
    if (map->base > GZ_MOST_LOCAL_IDS) { /* base + count must not wrap around to old stamps */
        if (map->slots != NULL)
            memset(map->slots, 0, (map->mask + 1) * sizeof *map->slots);
        map->base = 1;
    }
}

/* Fibonacci hashing (Knuth, "Sorting and Searching", 6.4): the highest bits of the product depend
 * on all bits of the id. Bits from its middle gave three times the collisions. */
static uint64_t place_of(const gz_idmap *map, int64_t id)
{
    return (uint64_t)id * GZ_GOLDEN >> map->shift;
}

/* The slot that holds id, or the empty one where it belongs. */
static gz_slot *find(const gz_idmap *map, int64_t id, bool *is_empty)
{
    for (uint64_t at = place_of(map, id);; at = (at + 1) & map->mask) {
        gz_slot *slot = &map->slots[at];
        uint32_t local = slot->stamp - map->base;
        *is_empty = local >= (uint64_t)map->count;
        if (*is_empty || (slot->tag == (uint32_t)id && (!map->wide || map->nodes[local] == id)))
            return slot;
    }
}

static gz_code grow_slots(gz_idmap *map, uint64_t num_slots, gz_error *err)
{
    gz_slot *slots = gz_zeroed((int64_t)num_slots, sizeof *slots, "local ids of nodes", err);
    if (slots == NULL)
        return err->code;
    gz_free_array(map->slots);
    map->slots = slots;
    map->mask = num_slots - 1;
    map->shift = 64;
    for (uint64_t slots_left = num_slots; slots_left > 1; slots_left /= 2)
        map->shift--;
    map->base = 1;
    int64_t count = map->count;
    map->count = 0;
    gz_idmap_seed(map, map->nodes,
                  count); /* in place: each entry is read, then written back unchanged */
    return GZ_OK;
}

gz_code gz_idmap_reserve(gz_idmap *map, uint64_t count, gz_error *err)
{
    uint64_t num_slots = map->slots == NULL ? FEWEST_SLOTS : map->mask + 1;
    if (count > GZ_MOST_LOCAL_IDS)
        return gz_fail(err, GZ_E_NOMEM, 0, 0, "a mini-batch of more than 2^31 nodes");
    if (count > (uint64_t)map->capacity) {
        uint64_t capacity =
            count < 2 * (uint64_t)map->capacity ? 2 * (uint64_t)map->capacity : count;
        int64_t *nodes = gz_grown(map->nodes, (int64_t)capacity, sizeof *nodes, "nodes", err);
        if (nodes == NULL)
            return err->code;
        map->nodes = nodes;
        map->capacity = (int64_t)capacity;
    }
    while (num_slots < 2 * count) /* at most half full: probes stay short */
        num_slots *= 2;
    if (map->slots != NULL && num_slots == map->mask + 1)
        return GZ_OK;
    return grow_slots(map, num_slots, err);
}

void gz_idmap_seed(gz_idmap *map, const int64_t *seeds, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        bool is_empty;
        int64_t id = seeds[i];
        gz_slot *slot = find(map, id, &is_empty);
        if (is_empty)
            *slot = (gz_slot){(uint32_t)id, map->base + (uint32_t)map->count};
        map->nodes[map->count++] = id;
    }
}

/* Half of the ids of a mini-batch are new, in no order that a processor could guess: the slot and
 * the next node are written in either case, and the only branch is on collisions. */
GZ_INLINE void relabel(gz_idmap *map, const int64_t *ids, int64_t begin, int64_t end,
                       int64_t *local, bool wide)
{
    gz_slot *const slots = map->slots;
    int64_t *const nodes = map->nodes;
    const uint32_t base = map->base;
    uint32_t count = (uint32_t)map->count;
    for (int64_t i = begin; i < end && i < begin + HINT_DISTANCE; i++)
        gz_cache_hint(&slots[place_of(map, ids[i])]);
    for (int64_t i = begin; i < end; i++) {
        int64_t id = ids[i];
        uint64_t at = place_of(map, id);
        uint32_t number, is_new;
        if (i + HINT_DISTANCE < end)
            gz_cache_hint(&slots[place_of(map, ids[i + HINT_DISTANCE])]);
        for (;; at = (at + 1) & map->mask) {
            number = slots[at].stamp - base;
            is_new = number >= count;
            uint32_t differs = slots[at].tag ^ (uint32_t)id;
            if (wide && !is_new)
                differs |= nodes[number] != id;
            if ((differs & (is_new - 1)) == 0)
                break;
        }
        number += (count - number) & (0 - is_new);
        slots[at] = (gz_slot){(uint32_t)id, base + number};
        nodes[count] = id;
        count += is_new;
        local[i] = number;
    }
    map->count = count;
}

void gz_idmap_relabel(gz_idmap *map, const int64_t *ids, int64_t begin, int64_t end, int64_t *local)
{
    if (map->wide)
        relabel(map, ids, begin, end, local, true);
    else
        relabel(map, ids, begin, end, local, false);
}

int64_t gz_idmap_find(const gz_idmap *map, int64_t id)
{
    bool is_empty;
    const gz_slot *slot = find(map, id, &is_empty);
    return is_empty ? -1 : (int64_t)(slot->stamp - map->base);
}

void gz_idmap_hint(const gz_idmap *map, int64_t id)
{
    gz_cache_hint(&map->slots[place_of(map, id)]);
}
