#include "graphzero/labor.h"

/* With fanout -1, or a list no longer than the fanout, all neighbours are taken without a draw. */
static bool takes_all(uint64_t degree, int64_t fanout)
{
    return fanout < 0 || degree <= (uint64_t)fanout;
}

/* ceil(2^64 * fanout / degree), for fanout < degree: draws below it are taken. */
static uint64_t threshold(uint64_t degree, int64_t fanout)
{
    uint64_t quotient = 0, rest = (uint64_t)fanout;
#if defined(__SIZEOF_INT128__)
    unsigned __int128 dividend = (unsigned __int128)rest << 64;
    quotient = (uint64_t)(dividend / degree);
    rest = (uint64_t)(dividend % degree);
#else
    for (int bit = 0; bit < 64; bit++) { /* degree < 2^63, so that rest never overflows */
        rest <<= 1;
        quotient <<= 1;
        if (rest >= degree) {
            rest -= degree;
            quotient |= 1;
        }
    }
#endif
    return quotient + (rest > 0);
}

static bool takes(const gz_draws *draws, uint64_t neighbor, uint64_t below)
{
    return gz_draw(gz_draws_key(draws, neighbor), neighbor) < below;
}

int64_t gz_labor_count(const gz_csr *csr, const gz_draws *draws, uint64_t first, uint64_t degree,
                       int64_t fanout, uint64_t *corrupt)
{
    int64_t count = 0;
    if (takes_all(degree, fanout))
        return (int64_t)degree;
    uint64_t below = threshold(degree, fanout);
    for (uint64_t i = first; i < first + degree; i++)
        count += takes(draws, gz_csr_neighbor(csr, i, corrupt), below);
    return count;
}

uint64_t gz_labor_positions(const gz_csr *csr, const gz_draws *draws, uint64_t first,
                            uint64_t degree, int64_t fanout, int64_t count, int64_t *out)
{
    uint64_t corrupt = 0;
    int64_t taken = 0;
    bool all = takes_all(degree, fanout);
    uint64_t below = all ? 0 : threshold(degree, fanout);
    for (uint64_t i = first; i < first + degree && taken < count; i++)
        if (all || takes(draws, gz_csr_neighbor(csr, i, &corrupt), below))
            out[taken++] = (int64_t)i;
    for (; taken < count; taken++, corrupt++) /* the file has changed since the list was counted */
        out[taken] = (int64_t)first;
    return corrupt;
}
