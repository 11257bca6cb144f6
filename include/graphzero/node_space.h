/* The nodes of one type in a batch: numbered from 0 in the order in which they first appear, hop by
 * hop, and with disjoint trees once in each tree. A graph without types has one space. */
#ifndef GRAPHZERO_NODE_SPACE_H
#define GRAPHZERO_NODE_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "graphzero/idmap.h"
#include "graphzero/sampling.h"
#include "graphzero/status.h"

/* With disjoint trees, the ids in the map are tree * num_ids + node. The memory only grows. */
typedef struct gz_node_space {
    gz_idmap map;
    int64_t num_ids; /* nodes of this type in the graph */
    bool disjoint;
    int64_t count;     /* nodes, without those that the map has numbered since gz_nodes_take */
    int64_t first;     /* of the frontier, which ends with the last node */
    int64_t *trees;    /* with disjoint trees: the tree (number of the seed) of each node */
    int64_t *of_trees; /* with disjoint trees: the stored id of each node */
    int64_t tree_capacity;
    int64_t hop_nodes[GZ_MOST_HOPS + 1]; /* seeds, then the new nodes of each hop */
} gz_node_space;

void gz_nodes_init(gz_node_space *space);
void gz_nodes_free(gz_node_space *space);
void gz_nodes_rest(gz_node_space *space); /* see gz_rest_array */

/* Forgets all nodes, and makes the seeds the first ones. With disjoint trees, the seeds are the
 * trees first_tree, first_tree + 1, ... of num_trees. */
GZ_MUST_CHECK gz_code gz_nodes_start(gz_node_space *space, int64_t num_ids, bool disjoint,
                                     const int64_t *seeds, int64_t count, int64_t first_tree,
                                     int64_t num_trees, gz_error *err);

/* Adds the ids that the map has numbered since the last call, which become the frontier. */
GZ_MUST_CHECK gz_code gz_nodes_take(gz_node_space *space, gz_error *err);

/* Makes room for `count` nodes in all, and keeps those that are there. */
GZ_MUST_CHECK gz_code gz_nodes_reserve_trees(gz_node_space *space, int64_t count, gz_error *err);

/* Stored ids of the nodes, seeds first, then hop by hop; valid until the map grows. */
static inline const int64_t *gz_nodes_ids(const gz_node_space *space)
{
    return space->disjoint ? space->of_trees : space->map.nodes;
}

/* The nodes from `first` on; valid until the map grows. */
static inline gz_frontier gz_nodes_from(const gz_node_space *space, int64_t first,
                                        const int64_t *until)
{
    return (gz_frontier){.nodes = gz_nodes_ids(space) + first,
                         .trees = space->disjoint ? space->trees + first : NULL,
                         .until = until};
}

#endif
