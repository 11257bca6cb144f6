/* Negatives for link prediction: pairs of nodes that are not edges, never a node with itself.
 *
 * A kernel draws number i of a batch from the stream of (key, i) alone. Edges are looked up by
 * binary search in the sorted lists. A list that is corrupt is read as empty and counted. */
#ifndef GRAPHZERO_NEGATIVES_H
#define GRAPHZERO_NEGATIVES_H

#include <stdint.h>

#include "graphzero/csr.h"

/* After so many draws that were refused, the next one is exact. */
enum { GZ_NEGATIVE_TRIES = 64 };

/* out[i] = number of nodes that may be drawn as destinations for sources[i], for i in
 * [begin, end): all but the source itself, its neighbours, and positives[i], which may be the
 * source. O(degree). Returns how many lists were corrupt. */
uint64_t gz_negative_counts(const gz_csr *csr, const int64_t *sources, const int64_t *positives,
                            int64_t begin, int64_t end, int64_t *out);

/* out[i] = a destination for sources[i / amount], uniform over those that gz_negative_counts
 * counts, for i in [begin, end); -1 where there is none. By rejection, O(log degree) a try, then
 * by rank in the complement of the list, O(degree). Returns how many lists were corrupt. */
uint64_t gz_negative_destinations(const gz_csr *csr, uint64_t key, const int64_t *sources,
                                  const int64_t *positives, int64_t amount, int64_t begin,
                                  int64_t end, int64_t *out);

/* (sources[i], destinations[i]) = a pair, uniform over all that are negatives, for i in
 * [begin, end). offsets are the running sums of gz_negative_counts over all nodes, each its
 * own positive, and end above 0: they bound the tries of a dense graph. They may be NULL where at
 * least half of all pairs are negatives; then a draw is repeated until it is one. Returns how many
 * lists were corrupt. */
uint64_t gz_negative_pairs(const gz_csr *csr, uint64_t key, const int64_t *offsets, int64_t begin,
                           int64_t end, int64_t *sources, int64_t *destinations);

#endif
