/* The topology that one hop will read, asked for before it is read: page faults of a frontier, one
 * after the other, would each wait for the disk. */
#ifndef GRAPHZERO_AHEAD_H
#define GRAPHZERO_AHEAD_H

#include <stdint.h>

#include "graphzero/csr.h"
#include "graphzero/mapping.h"
#include "graphzero/prefetch.h"
#include "graphzero/reads.h"
#include "graphzero/sampling.h"

typedef struct gz_ahead {
    const gz_mapping *mapping; /* that the adjacency is a view of */
    gz_readahead_mode mode;
    int64_t kept_nodes; /* rows and lists of the stored ids below are in memory, and stay there */
} gz_ahead;

/* Asks for the rows of the frontier's first `count` nodes, waits for them, and asks for what the
 * hop will read of their lists: all of it, but of long lists, where draws can be made without the
 * list, only the edges that will be drawn. Pages asked for are added to *done. picks and room have
 * space for count picks each. Advice only: what the kernel refuses is left to page faults. */
void gz_ahead_of_hop(const gz_ahead *ahead, const gz_csr *csr, const gz_hop *hop,
                     const gz_frontier *frontier, int64_t count, gz_pick *picks, gz_pick *room,
                     gz_readahead *done);

#endif
