#include "graphzero/temporal.h"

uint64_t gz_edges_until(const gz_csr *csr, uint64_t first, uint64_t degree, int64_t until,
                        bool strictly, uint64_t *corrupt)
{
    uint64_t low = 0, high = degree;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        uint64_t position = gz_edge_of_rank(csr, first, degree, middle, corrupt);
        if (gz_edge_is_until(csr, position, until, strictly))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}
