/* The edges of a list up to a time, found through the section time_order. */
#ifndef GRAPHZERO_TEMPORAL_H
#define GRAPHZERO_TEMPORAL_H

#include <stdbool.h>
#include <stdint.h>

#include "graphzero/csr.h"

/* How many edges of a list have a time <= until (< until if strictly). They have the ranks 0 to
 * this number - 1, the oldest first. */
uint64_t gz_edges_until(const gz_csr *csr, uint64_t first, uint64_t degree, int64_t until,
                        bool strictly, uint64_t *corrupt);

/* Stored position of the edge with this rank in time. */
static inline uint64_t gz_edge_of_rank(const gz_csr *csr, uint64_t first, uint64_t degree,
                                       uint64_t rank, uint64_t *corrupt)
{
    uint64_t offset = gz_id(&csr->time_order, first + rank);
    if (offset >= degree) {
        *corrupt += 1;
        return first;
    }
    return first + offset;
}

/* Whether the time of the edge at a position is <= until (< until if strictly). */
static inline bool gz_edge_is_until(const gz_csr *csr, uint64_t position, int64_t until,
                                    bool strictly)
{
    int64_t time = csr->times[position];
    return strictly ? time < until : time <= until;
}

#endif
