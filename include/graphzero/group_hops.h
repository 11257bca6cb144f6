/* Sampling of a group hop by hop, past the page cache: what a hop of all its mini-batches needs of
 * the topology and is not in memory is read together, sorted, each page once. One after the other
 * the batches would read most pages again, and requests to the kernel for pages that are mapped
 * cost several times as much processor time. */
#ifndef GRAPHZERO_GROUP_HOPS_H
#define GRAPHZERO_GROUP_HOPS_H

#include "graphzero/direct.h"
#include "graphzero/group.h"
#include "graphzero/page_map.h"
#include "graphzero/status.h"
#include "graphzero/team.h"
#include "graphzero/uring.h"

/* How the file of an edge type is read, and what of its sections is in memory. */
typedef struct gz_topology_reader {
    const gz_mapping *mapping;
    const gz_direct *file; /* NULL: the edge type is sampled from the mapping, batch by batch */
    const gz_buffers *buffers;
    gz_uring *ring; /* NULL: threads read */
    uint64_t gap_pages;
    gz_page_map indptr, indices, edge_ids; /* from the page on where the section begins */
    uint64_t id_limit;                     /* of edge_ids, where the file has them */
} gz_topology_reader;

/* gz_group_sample with a reader for each edge type. Those that have a file must draw uniformly and
 * without times, and plans must not be induced. Batches whose own steps fail have a code; if
 * reading fails, the call does, and no batch is sampled, and *edge_type says of which type. */
GZ_MUST_CHECK gz_code gz_group_sample_hops(gz_team *team, gz_group_batch *batches, int64_t count,
                                           gz_stop *stop, const gz_topology_reader *readers,
                                           int *edge_type, gz_error *err);

#endif
