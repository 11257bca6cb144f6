/* Hop read-ahead: the kernel is asked for the topology that one hop will read, before the hop reads
 * it. Page faults, one after the other, would each wait for the disk. */
#ifndef GRAPHZERO_HOP_READAHEAD_H
#define GRAPHZERO_HOP_READAHEAD_H

#include <stdint.h>

#include "graphzero/csr.h"
#include "graphzero/mapping.h"
#include "graphzero/reads.h"
#include "graphzero/sampling.h"
#include "graphzero/willneed.h"

typedef struct gz_hop_readahead {
    const gz_mapping *mapping; /* of the file that the adjacency is a view of */
    gz_willneed_mode mode;
    int64_t resident_nodes; /* the topology of stored ids below this one stays in memory */
} gz_hop_readahead;

/* Requests the indptr entries of the frontier's first `count` nodes, reads them, and requests what
 * the hop will read of their lists: whole lists, but only the edges that will be drawn where a list
 * is long and the draws do not depend on its content. The requested pages are added to *counts.
 * picks and scratch have room for count picks each. This is advice: what the kernel refuses will be
 * a page fault. */
void gz_read_hop_ahead(const gz_hop_readahead *readahead, const gz_csr *csr, const gz_hop *hop,
                       const gz_frontier *frontier, int64_t count, gz_pick *picks, gz_pick *scratch,
                       gz_willneed_counts *counts);

#endif
