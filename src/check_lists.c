#include "graphzero/check_lists.h"

#include <float.h>

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
