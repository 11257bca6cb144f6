#include "graphzero/check_lists.h"

#include <float.h>
#include <string.h>

#include "graphzero/rng.h"

/* The list of an entry: the last that begins at or before it, which is never empty. */
static uint64_t list_of(const gz_edge_lists *lists, uint64_t entry)
{
    uint64_t low = 0, high = lists->num_lists;
    while (low + 1 < high) {
        uint64_t middle = low + (high - low) / 2;
        if (gz_id(&lists->indptr, middle) <= entry)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* A run of entries of one list, cut to the range of a check. */
typedef struct run {
    uint64_t list, first, last; /* the list, its first entry, and the end of its entries */
    int64_t begin, end;
} run;

/* Before the run of the entry `begin`. */
static run run_before(const gz_edge_lists *lists, int64_t begin, int64_t end)
{
    run r = {0, 0, 0, begin, begin};
    if (begin < end) {
        r.list = list_of(lists, (uint64_t)begin);
        r.first = gz_id(&lists->indptr, r.list);
        r.last = gz_id(&lists->indptr, r.list + 1);
    }
    return r;
}

/* Goes to the next run that is not empty; false if there is none before `end`. */
GZ_INLINE bool next_run(const gz_edge_lists *lists, int64_t end, run *r)
{
    if (r->end >= end)
        return false;
    r->begin = r->end;
    while (r->last <= (uint64_t)r->begin) {
        r->list++;
        r->first = r->last;
        r->last = gz_id(&lists->indptr, r->list + 1);
    }
    r->end = r->last < (uint64_t)end ? (int64_t)r->last : end;
    return true;
}

GZ_INLINE uint64_t id_at(const void *data, bool wide, int64_t i)
{
    return wide ? ((const uint64_t *)data)[i] : ((const uint32_t *)data)[i];
}

int64_t gz_first_descent(const gz_ids *ids, uint64_t most, int64_t begin, int64_t end)
{
    uint64_t previous = begin > 0 ? gz_id(ids, (uint64_t)begin - 1) : 0;
    for (int64_t i = begin; i < end; i++) {
        uint64_t id = gz_id(ids, (uint64_t)i);
        if (id < previous || id > most)
            return i;
        previous = id;
    }
    return end;
}

int64_t gz_first_beyond(const gz_ids *ids, uint64_t limit, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++)
        if (gz_id(ids, (uint64_t)i) >= limit)
            return i;
    return end;
}

int64_t gz_first_not_inverse(const gz_ids *ids, const gz_ids *ranks, uint64_t count, int64_t begin,
                             int64_t end)
{
    for (int64_t i = begin; i < end; i++) {
        uint64_t id = gz_id(ids, (uint64_t)i);
        if (id >= count || gz_id(ranks, id) != (uint64_t)i)
            return i;
    }
    return end;
}

int64_t gz_first_bad_weight(const float *weights, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++)
        if (!(weights[i] >= 0 && weights[i] <= FLT_MAX)) /* NaN fails every comparison */
            return i;
    return end;
}

GZ_INLINE int64_t first_unsorted(const gz_edge_lists *lists, bool wide, int64_t begin, int64_t end)
{
    const void *ids = lists->indices.data;
    uint64_t limit = lists->num_neighbors;
    for (run r = run_before(lists, begin, end); next_run(lists, end, &r);) {
        uint64_t previous = (uint64_t)r.begin == r.first ? 0 : id_at(ids, wide, r.begin - 1);
        for (int64_t i = r.begin; i < r.end; i++) {
            uint64_t id = id_at(ids, wide, i);
            if (id < previous || id >= limit)
                return i;
            previous = id;
        }
    }
    return end;
}

int64_t gz_first_unsorted(const gz_edge_lists *lists, int64_t begin, int64_t end)
{
    return lists->indices.wide ? first_unsorted(lists, true, begin, end)
                               : first_unsorted(lists, false, begin, end);
}

int64_t gz_first_bad_sum(const gz_edge_lists *lists, int64_t begin, int64_t end)
{
    const float *weights = lists->weights;
    const double *sums = lists->cum_weights;
    for (run r = run_before(lists, begin, end); next_run(lists, end, &r);) {
        double previous = (uint64_t)r.begin == r.first ? 0.0 : sums[r.begin - 1];
        for (int64_t i = r.begin; i < r.end; i++) {
            if (sums[i] != previous + (double)weights[i])
                return i;
            previous = sums[i];
        }
    }
    return end;
}

int64_t gz_first_untimely(const gz_edge_lists *lists, int64_t begin, int64_t end)
{
    for (run r = run_before(lists, begin, end); next_run(lists, end, &r);) {
        const int64_t *times = lists->times + r.first;
        uint64_t length = r.last - r.first;
        bool known = (uint64_t)r.begin != r.first;
        uint64_t previous = known ? gz_id(&lists->time_order, (uint64_t)r.begin - 1) : 0;
        known = known && previous < length; /* else a fault of the entry before this range */
        for (int64_t i = r.begin; i < r.end; i++) {
            uint64_t offset = gz_id(&lists->time_order, (uint64_t)i);
            if (offset >= length)
                return i;
            if (known && (times[offset] < times[previous] ||
                          (times[offset] == times[previous] && offset <= previous)))
                return i;
            previous = offset;
            known = true;
        }
    }
    return end;
}

/* How often a node is in a list. */
static uint64_t times_in(const gz_edge_lists *lists, uint64_t list, uint64_t node)
{
    uint64_t found[2];
    for (int side = 0; side < 2; side++) {
        uint64_t low = gz_id(&lists->indptr, list), high = gz_id(&lists->indptr, list + 1);
        while (low < high) {
            uint64_t middle = low + (high - low) / 2, id = gz_id(&lists->indices, middle);
            if (id < node || (side == 1 && id == node))
                low = middle + 1;
            else
                high = middle;
        }
        found[side] = low;
    }
    return found[1] - found[0];
}

int64_t gz_first_unmirrored(const gz_edge_lists *lists, int64_t begin, int64_t end)
{
    for (run r = run_before(lists, begin, end); next_run(lists, end, &r);) {
        for (int64_t i = r.begin; i < r.end; i++) {
            uint64_t neighbor = gz_id(&lists->indices, (uint64_t)i);
            if (times_in(lists, r.list, neighbor) != times_in(lists, neighbor, r.list))
                return i;
        }
    }
    return end;
}

/* Odd multipliers make every bit of an edge count; one mix of their sum is enough, because it is
 * chance that two edges of a graph have equal sums. */
static const uint64_t OWNER = UINT64_C(0x9E3779B97F4A7C15), NEIGHBOR = UINT64_C(0xD1342543DE82EF95),
                      EDGE_ID = UINT64_C(0xC2B2AE3D27D4EB4F), WEIGHT = UINT64_C(0x165667B19E3779F9),
                      TIME = UINT64_C(0xAF251AF3B0F025B5);

GZ_INLINE uint64_t hash_of_id(uint64_t id) { return gz_mix(id + GZ_GOLDEN); }

/* What an edge has besides its ends. */
GZ_INLINE uint64_t payload(const gz_edge_lists *lists, int64_t i)
{
    uint64_t sum = GZ_GOLDEN;
    if (lists->edge_ids.data != NULL)
        sum += gz_id(&lists->edge_ids, (uint64_t)i) * EDGE_ID;
    if (lists->weights != NULL) {
        uint32_t bits;
        memcpy(&bits, &lists->weights[i], sizeof bits);
        sum += bits * WEIGHT;
    }
    if (lists->times != NULL)
        sum += (uint64_t)lists->times[i] * TIME;
    return sum;
}

/* Inlined with constants, so that the loop has no branch that always goes the same way. */
GZ_INLINE void sum_edges(const gz_edge_lists *lists, int per_loop, bool wide, int sides,
                         int64_t begin, int64_t end, gz_edge_sums *sums)
{
    const void *indices = lists->indices.data, *ids = lists->edge_ids.data;
    uint64_t forward = 0, backward = 0, id_sum = 0, loops = 0;
    uint64_t repeats = (uint64_t)per_loop - 1;
    for (run r = run_before(lists, begin, end); next_run(lists, end, &r);) {
        for (int64_t i = r.begin; i < r.end; i++) {
            uint64_t neighbor = id_at(indices, wide, i), is_loop = neighbor == r.list;
            uint64_t rest = sides != 0 ? payload(lists, i) : 0;
            if (sides & GZ_FORWARD)
                forward += gz_mix(rest + r.list * OWNER + neighbor * NEIGHBOR);
            if (sides & GZ_BACKWARD)
                backward += gz_mix(rest + neighbor * OWNER + r.list * NEIGHBOR);
            loops += is_loop;
            if (ids != NULL)
                id_sum += hash_of_id(id_at(ids, lists->edge_ids.wide, i)) * (1 + is_loop * repeats);
        }
    }
    sums->forward += forward;
    sums->backward += backward;
    sums->edge_ids += id_sum;
    sums->loops += loops;
}

void gz_sum_edges(const gz_edge_lists *lists, int per_loop, int sides, int64_t begin, int64_t end,
                  gz_edge_sums *sums)
{
    if (lists->indices.wide)
        sum_edges(lists, per_loop, true, sides, begin, end, sums);
    else if (sides == 0)
        sum_edges(lists, per_loop, false, 0, begin, end, sums);
    else if (sides == GZ_FORWARD)
        sum_edges(lists, per_loop, false, GZ_FORWARD, begin, end, sums);
    else if (sides == GZ_BACKWARD)
        sum_edges(lists, per_loop, false, GZ_BACKWARD, begin, end, sums);
    else
        sum_edges(lists, per_loop, false, GZ_FORWARD | GZ_BACKWARD, begin, end, sums);
}

uint64_t gz_sum_ids(const gz_ids *ids, int64_t begin, int64_t end)
{
    uint64_t sum = 0;
    for (int64_t i = begin; i < end; i++)
        sum += hash_of_id(gz_id(ids, (uint64_t)i));
    return sum;
}

uint64_t gz_sum_numbers(int64_t begin, int64_t end)
{
    uint64_t sum = 0;
    for (int64_t i = begin; i < end; i++)
        sum += hash_of_id((uint64_t)i);
    return sum;
}

void gz_count_edge_ids(const gz_edge_lists *lists, int per_loop, uint64_t low, uint64_t high,
                       int64_t begin, int64_t end, uint8_t *counts)
{
    for (run r = run_before(lists, begin, end); next_run(lists, end, &r);) {
        for (int64_t i = r.begin; i < r.end; i++) {
            uint64_t id = gz_id(&lists->edge_ids, (uint64_t)i);
            if (id < low || id >= high)
                continue;
            bool is_loop = gz_id(&lists->indices, (uint64_t)i) == r.list;
            int count = counts[id - low] + (is_loop ? per_loop : 1);
            counts[id - low] = (uint8_t)(count < UINT8_MAX ? count : UINT8_MAX);
        }
    }
}

int64_t gz_first_repeated(const gz_ids *edge_ids, uint64_t low, uint64_t high,
                          const uint8_t *counts, int most, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++) {
        uint64_t id = gz_id(edge_ids, (uint64_t)i);
        if (id >= low && id < high && counts[id - low] > most)
            return i;
    }
    return end;
}
