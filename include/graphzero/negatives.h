/* Negatives for link prediction: pairs of distinct nodes that are not edges, in the user's
 * direction, whichever end's lists the file has. With csr->bipartite, nodes of equal ids are
 * distinct: sources and destinations are of two node types.
 *
 * Draw number i of a batch depends on (key, i) alone. Edges are looked up by binary search in the
 * sorted lists. A corrupt list is read as empty and counted. */
#ifndef GRAPHZERO_NEGATIVES_H
#define GRAPHZERO_NEGATIVES_H

#include <stdint.h>

#include "graphzero/csr.h"

/* Rejections before a draw falls back to an exact method. */
enum { GZ_NEGATIVE_TRIES = 64 };

/* out[i] = number of neighbours' nodes that are not nodes[i], not in its list, and not others[i],
 * which may be nodes[i], for i in [begin, end). If bipartite, neither of the two is excluded.
 * O(degree). Where lists are of outgoing edges, these are the destinations that may be drawn for
 * nodes[i]. Returns how many lists were corrupt. */
uint64_t gz_negative_counts(const gz_csr *csr, const int64_t *nodes, const int64_t *others,
                            int64_t begin, int64_t end, int64_t *out);

/* out[i] = a destination for sources[i / amount], uniform over all nodes but the source itself, the
 * targets of its edges, and positives[i / amount], for i in [begin, end); -1 where there is none.
 * By rejection, O(log degree) a try, then by rank in the complement of the list, O(degree), or,
 * where lists are of incoming edges, among all nodes, O(num_nodes log degree). Returns how many
 * lists were corrupt. */
uint64_t gz_negative_destinations(const gz_csr *csr, uint64_t key, const int64_t *sources,
                                  const int64_t *positives, int64_t amount, int64_t begin,
                                  int64_t end, int64_t *out);

/* (sources[i], destinations[i]) = a pair, uniform over all negative pairs, for i in [begin, end).
 * offsets are the running sums of gz_negative_counts over all nodes, each its own positive; the
 * last one must be above 0. They allow an exact draw after GZ_NEGATIVE_TRIES rejections. They may
 * be NULL if at least half of all pairs are negative; then rejection goes on until it succeeds.
 * Returns how many lists were corrupt. */
uint64_t gz_negative_pairs(const gz_csr *csr, uint64_t key, const int64_t *offsets, int64_t begin,
                           int64_t end, int64_t *sources, int64_t *destinations);

#endif
