/* The sampled edges of one type in a batch, hop by hop. A graph without types has one list. */
#ifndef GRAPHZERO_EDGE_LIST_H
#define GRAPHZERO_EDGE_LIST_H

#include <stdbool.h>
#include <stdint.h>

#include "graphzero/sampling.h"
#include "graphzero/status.h"

/* The memory only grows. */
typedef struct gz_edge_list {
    int64_t *sources;   /* local id of each sampled neighbour, among the nodes of its type */
    int64_t *targets;   /* local id of the node that it was sampled for, among those of its type */
    int64_t *positions; /* stored position of the edge */
    int64_t *ids;       /* its position in the user's edge list, with has_ids */
    bool has_ids;
    int64_t count;
    int64_t capacity;
    int64_t ids_capacity;
    uint64_t corrupt; /* entries of the file that were out of range */
    int64_t hop_edges[GZ_MOST_HOPS];
} gz_edge_list;

void gz_edges_init(gz_edge_list *edges);
void gz_edges_free(gz_edge_list *edges);
void gz_edges_rest(gz_edge_list *edges); /* see gz_rest_array */

/* Makes room for `count` edges in all, and keeps those that are there. */
GZ_MUST_CHECK gz_code gz_edges_reserve(gz_edge_list *edges, int64_t count, gz_error *err);

/* Makes room for as many ids as there is for edges. */
GZ_MUST_CHECK gz_code gz_edges_reserve_ids(gz_edge_list *edges, gz_error *err);

#endif
