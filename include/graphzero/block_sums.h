/* Rows of sources, streamed in the order of their file, added to the destinations of their edges.
 */
#ifndef GRAPHZERO_BLOCK_SUMS_H
#define GRAPHZERO_BLOCK_SUMS_H

#include "graphzero/csr.h"

typedef enum gz_reduce {
    GZ_SUM = 0,
    GZ_MAX,
    GZ_MIN,
    GZ_ATTENTION, /* a softmax over the edges of a destination, for each head */
} gz_reduce;

/* The destinations of a block, numbered from 0, and what was added to them. A row of sums has
 * `width` numbers; for attention, then the sum of the weights and the largest score of each head.
 */
typedef struct gz_block_sums {
    const gz_csr *csr;     /* lists of incoming edges, ascending */
    uint64_t first_node;   /* the list of destination 0 */
    uint64_t *cursors;     /* of destinations: position of the next edge */
    const int64_t *places; /* of destinations: row of sums; from -1 downwards, of wide_sums */
    float *sums;
    double *wide_sums;     /* of destinations with many edges */
    const float *weights;  /* of edges, from the first one of the block; or NULL */
    uint64_t first_weight; /* its position */
    gz_reduce reduce;
    bool skips_loops;
    uint64_t width;       /* numbers of a source that are added */
    uint64_t heads;       /* for attention: a row of a source has its scores after them */
    float negative_slope; /* of scores below 0 */
    const float *scores;  /* of destinations, (block, heads) */
} gz_block_sums;

/* Adds the rows of sources [first, last) to destinations [begin, end), whose cursors it moves. The
 * order of additions is that of the lists, whatever the calls are. Returns how many entries were
 * corrupt. */
uint64_t gz_block_add(const gz_block_sums *block, const float *rows, uint64_t first, uint64_t last,
                      int64_t begin, int64_t end);

/* marks[s / group] = 1 for the sources s of the lists of nodes [begin, end); returns how many
 * entries were corrupt. */
uint64_t gz_mark_sources(const gz_csr *csr, uint64_t begin, uint64_t end, uint64_t group,
                         uint8_t *marks);

#endif
