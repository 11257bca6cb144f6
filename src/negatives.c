#include "graphzero/negatives.h"

#include <stddef.h>

#include "graphzero/rng.h"

/* The nodes that must not be drawn for one source: its neighbours and two more nodes. */
typedef struct excluded {
    const gz_csr *csr;
    uint64_t at, end; /* entries of the list that are not read yet */
    uint64_t more[2];
} excluded;

static excluded excluded_of(const gz_csr *csr, uint64_t source, uint64_t positive,
                            uint64_t *corrupt)
{
    uint64_t first, degree = gz_csr_list(csr, source, &first, corrupt);
    return (excluded){csr, first, first + degree, {source, positive}};
}

/* The smallest excluded node that is at least `least`; num_nodes or more if there is none. Calls
 * with ascending `least` visit each excluded node once, also where edges are parallel. */
static uint64_t next_excluded(excluded *e, uint64_t least)
{
    while (e->at < e->end && gz_id(&e->csr->indices, e->at) < least)
        e->at++;
    uint64_t next = e->at < e->end ? gz_id(&e->csr->indices, e->at) : e->csr->num_nodes;
    for (int i = 0; i < 2; i++)
        if (e->more[i] >= least && e->more[i] < next)
            next = e->more[i];
    return next;
}

static uint64_t count_allowed(excluded e)
{
    uint64_t allowed = e.csr->num_nodes, node, least = 0;
    while ((node = next_excluded(&e, least)) < e.csr->num_nodes) {
        allowed--;
        least = node + 1;
    }
    return allowed;
}

/* The allowed node with this rank; rank must be below the number of allowed nodes. */
static uint64_t allowed_at(excluded e, uint64_t rank)
{
    uint64_t result = rank, node, least = 0;
    while ((node = next_excluded(&e, least)) <= result && node < e.csr->num_nodes) {
        result++;
        least = node + 1;
    }
    return result;
}

uint64_t gz_negative_counts(const gz_csr *csr, const int64_t *sources, const int64_t *positives,
                            int64_t begin, int64_t end, int64_t *out)
{
    uint64_t corrupt = 0;
    for (int64_t i = begin; i < end; i++) {
        excluded e = excluded_of(csr, (uint64_t)sources[i], (uint64_t)positives[i], &corrupt);
        out[i] = (int64_t)count_allowed(e);
    }
    return corrupt;
}

static int64_t draw_destination(const gz_csr *csr, uint64_t stream, uint64_t source,
                                uint64_t positive, uint64_t *corrupt)
{
    for (uint64_t i = 0; i < GZ_NEGATIVE_TRIES; i++) {
        uint64_t node = gz_bounded(gz_draw(stream, i), csr->num_nodes);
        if (node != source && node != positive && !gz_csr_has_edge(csr, source, node, corrupt))
            return (int64_t)node;
    }
    excluded e = excluded_of(csr, source, positive, corrupt);
    uint64_t allowed = count_allowed(e);
    if (allowed == 0)
        return -1;
    return (int64_t)allowed_at(e, gz_bounded(gz_draw(stream, GZ_NEGATIVE_TRIES), allowed));
}

uint64_t gz_negative_destinations(const gz_csr *csr, uint64_t key, const int64_t *sources,
                                  const int64_t *positives, int64_t amount, int64_t begin,
                                  int64_t end, int64_t *out)
{
    uint64_t corrupt = 0;
    for (int64_t i = begin; i < end; i++)
        out[i] = draw_destination(csr, gz_stream(key, (uint64_t)i), (uint64_t)sources[i / amount],
                                  (uint64_t)positives[i / amount], &corrupt);
    return corrupt;
}

/* The source with offsets[source] <= rank < offsets[source + 1]: its negatives include number
 * `rank` of all. */
static uint64_t source_at(const int64_t *offsets, uint64_t num_nodes, int64_t rank)
{
    uint64_t low = 0, high = num_nodes - 1;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (offsets[middle + 1] <= rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void draw_pair(const gz_csr *csr, uint64_t stream, const int64_t *offsets, int64_t *source,
                      int64_t *destination, uint64_t *corrupt)
{
    for (uint64_t i = 0; offsets == NULL || i < GZ_NEGATIVE_TRIES; i++) {
        uint64_t from = gz_bounded(gz_draw(stream, 2 * i), csr->num_nodes);
        uint64_t to = gz_bounded(gz_draw(stream, 2 * i + 1), csr->num_nodes);
        if (from != to && !gz_csr_has_edge(csr, from, to, corrupt)) {
            *source = (int64_t)from;
            *destination = (int64_t)to;
            return;
        }
    }
    uint64_t draw = gz_draw(stream, 2 * GZ_NEGATIVE_TRIES);
    int64_t rank = (int64_t)gz_bounded(draw, (uint64_t)offsets[csr->num_nodes]);
    uint64_t from = source_at(offsets, csr->num_nodes, rank);
    *source = (int64_t)from;
    *destination = (int64_t)allowed_at(excluded_of(csr, from, from, corrupt),
                                       (uint64_t)(rank - offsets[from]));
}

uint64_t gz_negative_pairs(const gz_csr *csr, uint64_t key, const int64_t *offsets, int64_t begin,
                           int64_t end, int64_t *sources, int64_t *destinations)
{
    uint64_t corrupt = 0;
    for (int64_t i = begin; i < end; i++)
        draw_pair(csr, gz_stream(key, (uint64_t)i), offsets, &sources[i], &destinations[i],
                  &corrupt);
    return corrupt;
}
