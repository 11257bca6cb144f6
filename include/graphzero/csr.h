/* Adjacency in compressed sparse rows, as views of a mapped file. The neighbours of node v are
 * indices[indptr[v] .. indptr[v + 1]), ascending: the targets of its edges, or the sources where
 * the lists are of incoming edges. In the file of an edge type, they are ids of another set of
 * nodes. */
#ifndef GRAPHZERO_CSR_H
#define GRAPHZERO_CSR_H

#include <stdbool.h>
#include <stdint.h>

#include "graphzero/cache_hint.h"
#include "graphzero/format.h"
#include "graphzero/mapping.h"
#include "graphzero/status.h"

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "graphzero maps little-endian files: a big-endian machine cannot use them"
#endif

/* An array of ids or positions, 32 or 64 bits wide as in the file. The branch in gz_id always goes
 * the same way, so it is cheap next to the cache miss of the access. */
typedef struct gz_ids {
    const void *data; /* NULL if the file has no such section */
    bool wide;
} gz_ids;

typedef struct gz_csr {
    uint64_t num_nodes;     /* lists */
    uint64_t num_neighbors; /* nodes that a list may have: num_nodes, but for an edge type */
    uint64_t num_edges;
    gz_ids indptr;
    gz_ids indices;
    gz_ids edge_ids;           /* stored position -> position in the user's edge list */
    gz_ids node_ids;           /* stored id -> user's id; NULL when they are the same */
    gz_ids node_rank;          /* user's id -> stored id */
    const double *cum_weights; /* running sums of the weights of each list; NULL if unweighted */
    const int64_t *times;      /* NULL if without timestamps */
    gz_ids time_order;         /* offsets within each list, oldest edge first; or NULL */
    bool incoming;             /* each list has the sources of the node's incoming edges */
    bool bipartite;            /* neighbours are of another node type: equal ids, other nodes */
    bool typed;                /* an edge type: neighbours are ids of another set of nodes, and must
                                  not be used as nodes */
} gz_csr;

static inline uint64_t gz_id(const gz_ids *ids, uint64_t i)
{
    return ids->wide ? ((const uint64_t *)ids->data)[i] : ((const uint32_t *)ids->data)[i];
}

static inline const void *gz_id_address(const gz_ids *ids, uint64_t i)
{
    return (const char *)ids->data + (i << (ids->wide ? 3 : 2));
}

/* Hints at the two entries that gz_csr_list will read; they may be in two cache lines. */
GZ_INLINE void gz_csr_hint_list(const gz_csr *csr, int64_t v)
{
    gz_cache_hint(gz_id_address(&csr->indptr, (uint64_t)v));
    gz_cache_hint(gz_id_address(&csr->indptr, (uint64_t)v + 1));
}

/* The length of a list from its two entries of indptr. A list that exceeds the number of edges is
 * read as empty and counted in *corrupt: checksums of whole sections are not verified at open, and
 * no kernel may follow a wild pointer. */
static inline uint64_t gz_csr_list_length(const gz_csr *csr, uint64_t first, uint64_t end,
                                          uint64_t *corrupt)
{
    if (first > end || end > csr->num_edges) {
        *corrupt += 1;
        return 0;
    }
    return end - first;
}

/* The neighbour list of node v, which must be below num_nodes: writes the position of its first
 * entry to *begin and returns its length. */
static inline uint64_t gz_csr_list(const gz_csr *csr, uint64_t v, uint64_t *begin,
                                   uint64_t *corrupt)
{
    *begin = gz_id(&csr->indptr, v);
    return gz_csr_list_length(csr, *begin, gz_id(&csr->indptr, v + 1), corrupt);
}

/* The id of a neighbour; one out of range becomes 0 and is counted. */
static inline uint64_t gz_csr_checked(const gz_csr *csr, uint64_t id, uint64_t *corrupt)
{
    if (id >= csr->num_neighbors) {
        *corrupt += 1;
        return 0;
    }
    return id;
}

/* The neighbour at one stored position. */
static inline uint64_t gz_csr_neighbor(const gz_csr *csr, uint64_t position, uint64_t *corrupt)
{
    return gz_csr_checked(csr, gz_id(&csr->indices, position), corrupt);
}

/* Whether `node` has `neighbor`, by binary search in its sorted list. */
static inline bool gz_csr_has_edge(const gz_csr *csr, uint64_t node, uint64_t neighbor,
                                   uint64_t *corrupt)
{
    uint64_t low, degree = gz_csr_list(csr, node, &low, corrupt);
    uint64_t end = low + degree, high = end;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (gz_id(&csr->indices, middle) < neighbor)
            low = middle + 1;
        else
            high = middle;
    }
    return low < end && gz_id(&csr->indices, low) == neighbor;
}

/* Views of the required and optional sections of a graph, with their counts and dtypes checked. */
GZ_MUST_CHECK gz_code gz_csr_from_header(const gz_header *header, const gz_mapping *mapping,
                                         gz_csr *out, gz_error *err);

/* out[i] = neighbour at positions[i], for i in [begin, end); returns how many were corrupt. Gives
 * no cache hints: the code that draws the positions has given them. */
uint64_t gz_csr_read_neighbors(const gz_csr *csr, const int64_t *positions, int64_t begin,
                               int64_t end, int64_t *out);

/* out[i] = degree of nodes[i], for i in [begin, end); returns how many lists were corrupt. */
uint64_t gz_csr_degrees(const gz_csr *csr, const int64_t *nodes, int64_t begin, int64_t end,
                        int64_t *out);

#endif
