/* Rows and ids picked from mapped arrays by position. */
#ifndef GRAPHZERO_GATHER_H
#define GRAPHZERO_GATHER_H

#include <stdint.h>

#include "graphzero/convert.h"
#include "graphzero/csr.h"

/* Copies row ids[i] of rows (row_bytes each) to row i of out, for i in [begin, end); with `chosen`,
 * only where chosen[i] is not 0. */
void gz_gather_rows(const unsigned char *rows, uint64_t row_bytes, const gz_cast *cast,
                    const int64_t *ids, int64_t begin, int64_t end, const uint8_t *chosen,
                    unsigned char *out);

/* out[i] = table[ids[i]] for i in [begin, end), leaving negative ids as they are (the -1 of a
 * walk that ended). Returns how many entries of the table were not below limit: these become 0. */
uint64_t gz_translate(const gz_ids *table, uint64_t limit, const int64_t *ids, int64_t begin,
                      int64_t end, int64_t *out);

/* First i in [begin, end) with ids[i] outside [0, limit), or end. */
int64_t gz_first_outside(const int64_t *ids, int64_t begin, int64_t end, int64_t limit);

#endif
