#include "graphzero/negatives.h"

#include <stdbool.h>
#include <stddef.h>

#include "graphzero/rng.h"

#define NOBODY UINT64_MAX

/* The nodes that must not be drawn for one node: those in its list and two more nodes. */
typedef struct excluded {
    const gz_csr *csr;
    uint64_t at, end; /* entries of the list that are not read yet */
    uint64_t more[2];
} excluded;

static excluded excluded_of(const gz_csr *csr, uint64_t source, uint64_t positive,
                            uint64_t *corrupt)
{
    uint64_t first, degree = gz_csr_list(csr, source, &first, corrupt);
    return (excluded){csr, first, first + degree, {csr->bipartite ? NOBODY : source, positive}};
}

/* The smallest excluded node that is at least `least`; num_neighbors or more if there is none.
 * Calls with ascending `least` visit each excluded node once, also where edges are parallel. */
static uint64_t next_excluded(excluded *e, uint64_t least)
{
    while (e->at < e->end && gz_id(&e->csr->indices, e->at) < least)
        e->at++;
    uint64_t next = e->at < e->end ? gz_id(&e->csr->indices, e->at) : e->csr->num_neighbors;
    for (int i = 0; i < 2; i++)
        if (e->more[i] >= least && e->more[i] < next)
            next = e->more[i];
    return next;
}

static uint64_t count_allowed(excluded e)
{
    uint64_t allowed = e.csr->num_neighbors, node, least = 0;
    while ((node = next_excluded(&e, least)) < e.csr->num_neighbors) {
        allowed--;
        least = node + 1;
    }
    return allowed;
}

/* The allowed node with this rank; rank must be below the number of allowed nodes. */
static uint64_t allowed_at(excluded e, uint64_t rank)
{
    uint64_t result = rank, node, least = 0;
    while ((node = next_excluded(&e, least)) <= result && node < e.csr->num_neighbors) {
        result++;
        least = node + 1;
    }
    return result;
}

uint64_t gz_negative_counts(const gz_csr *csr, const int64_t *nodes, const int64_t *others,
                            int64_t begin, int64_t end, int64_t *out)
{
    uint64_t corrupt = 0;
    for (int64_t i = begin; i < end; i++) {
        uint64_t other = csr->bipartite ? NOBODY : (uint64_t)others[i];
        excluded e = excluded_of(csr, (uint64_t)nodes[i], other, &corrupt);
        out[i] = (int64_t)count_allowed(e);
    }
    return corrupt;
}

/* Whether a node is the source itself, which is no destination of its own. */
static bool is_itself(const gz_csr *csr, uint64_t source, uint64_t node)
{
    return node == source && !csr->bipartite;
}

/* Whether the user's edge (source, node) exists. */
static bool is_edge(const gz_csr *csr, uint64_t source, uint64_t node, uint64_t *corrupt)
{
    return csr->incoming ? gz_csr_has_edge(csr, node, source, corrupt)
                         : gz_csr_has_edge(csr, source, node, corrupt);
}

/* As count_allowed and allowed_at, where the source's edges are in the lists of their targets: the
 * number of allowed nodes below *last, which ends at the one with this rank if there is one. */
static uint64_t search_targets(const gz_csr *csr, uint64_t source, uint64_t positive, uint64_t rank,
                               uint64_t *last, uint64_t *corrupt)
{
    uint64_t allowed = 0;
    for (*last = 0; *last < csr->num_nodes; *last += 1) {
        if (is_itself(csr, source, *last) || *last == positive ||
            is_edge(csr, source, *last, corrupt))
            continue;
        if (allowed == rank)
            break;
        allowed++;
    }
    return allowed;
}

static int64_t draw_exactly(const gz_csr *csr, uint64_t draw, uint64_t source, uint64_t positive,
                            uint64_t *corrupt)
{
    uint64_t allowed, node;
    if (csr->incoming) {
        allowed = search_targets(csr, source, positive, UINT64_MAX, &node, corrupt);
        if (allowed == 0)
            return -1;
        search_targets(csr, source, positive, gz_bounded(draw, allowed), &node, corrupt);
        return (int64_t)node;
    }
    excluded e = excluded_of(csr, source, positive, corrupt);
    allowed = count_allowed(e);
    return allowed == 0 ? -1 : (int64_t)allowed_at(e, gz_bounded(draw, allowed));
}

static int64_t draw_destination(const gz_csr *csr, uint64_t stream, uint64_t source,
                                uint64_t positive, uint64_t *corrupt)
{
    uint64_t num_nodes = csr->incoming ? csr->num_nodes : csr->num_neighbors;
    for (uint64_t i = 0; i < GZ_NEGATIVE_TRIES; i++) {
        uint64_t node = gz_bounded(gz_draw(stream, i), num_nodes);
        if (!is_itself(csr, source, node) && node != positive &&
            !is_edge(csr, source, node, corrupt))
            return (int64_t)node;
    }
    return draw_exactly(csr, gz_draw(stream, GZ_NEGATIVE_TRIES), source, positive, corrupt);
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

/* The node with offsets[node] <= rank < offsets[node + 1]: its negatives include number `rank` of
 * all. */
static uint64_t node_at(const int64_t *offsets, uint64_t num_nodes, int64_t rank)
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

/* A node whose list is read, and one that is not in it. */
static void draw_pair(const gz_csr *csr, uint64_t stream, const int64_t *offsets, int64_t *node,
                      int64_t *other, uint64_t *corrupt)
{
    for (uint64_t i = 0; offsets == NULL || i < GZ_NEGATIVE_TRIES; i++) {
        uint64_t from = gz_bounded(gz_draw(stream, 2 * i), csr->num_nodes);
        uint64_t to = gz_bounded(gz_draw(stream, 2 * i + 1), csr->num_neighbors);
        if (!is_itself(csr, from, to) && !gz_csr_has_edge(csr, from, to, corrupt)) {
            *node = (int64_t)from;
            *other = (int64_t)to;
            return;
        }
    }
    uint64_t draw = gz_draw(stream, 2 * GZ_NEGATIVE_TRIES);
    int64_t rank = (int64_t)gz_bounded(draw, (uint64_t)offsets[csr->num_nodes]);
    uint64_t from = node_at(offsets, csr->num_nodes, rank);
    *node = (int64_t)from;
    *other = (int64_t)allowed_at(excluded_of(csr, from, csr->bipartite ? NOBODY : from, corrupt),
                                 (uint64_t)(rank - offsets[from]));
}

uint64_t gz_negative_pairs(const gz_csr *csr, uint64_t key, const int64_t *offsets, int64_t begin,
                           int64_t end, int64_t *sources, int64_t *destinations)
{
    uint64_t corrupt = 0;
    int64_t *nodes = csr->incoming ? destinations : sources;
    int64_t *others = csr->incoming ? sources : destinations;
    for (int64_t i = begin; i < end; i++)
        draw_pair(csr, gz_stream(key, (uint64_t)i), offsets, &nodes[i], &others[i], &corrupt);
    return corrupt;
}
