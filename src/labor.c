#include "graphzero/labor.h"

/* Neighbours a node is asked for beyond its list, or all of them, are taken without a draw. */
static bool takes_all(uint64_t degree, int64_t fanout)
{
    return fanout < 0 || degree <= (uint64_t)fanout;
}

/* r(t) < fanout / d, in integers. */
static bool takes(const gz_draws *draws, uint64_t neighbor, uint64_t degree, int64_t fanout)
{
    uint64_t draw = gz_draw(gz_draws_key(draws, neighbor), neighbor);
    return gz_bounded(draw, degree) < (uint64_t)fanout;
}

int64_t gz_labor_count(const gz_csr *csr, const gz_draws *draws, uint64_t first, uint64_t degree,
                       int64_t fanout, uint64_t *corrupt)
{
    int64_t count = 0;
    if (takes_all(degree, fanout))
        return (int64_t)degree;
    for (uint64_t i = first; i < first + degree; i++)
        count += takes(draws, gz_csr_neighbor(csr, i, corrupt), degree, fanout);
    return count;
}

uint64_t gz_labor_positions(const gz_csr *csr, const gz_draws *draws, uint64_t first,
                            uint64_t degree, int64_t fanout, int64_t count, int64_t *out)
{
    uint64_t corrupt = 0;
    int64_t taken = 0;
    bool all = takes_all(degree, fanout);
    for (uint64_t i = first; i < first + degree && taken < count; i++)
        if (all || takes(draws, gz_csr_neighbor(csr, i, &corrupt), degree, fanout))
            out[taken++] = (int64_t)i;
    for (; taken < count; taken++, corrupt++) /* the list has changed since it was counted */
        out[taken] = (int64_t)first;
    return corrupt;
}
