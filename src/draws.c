#include "graphzero/draws.h"

gz_draws gz_draws_of(gz_purpose purpose, uint64_t seed, uint64_t epoch, uint64_t batch,
                     uint64_t dependency)
{
    uint64_t group = batch / dependency;
    return (gz_draws){.key = gz_key(purpose, seed, epoch, group),
                      .next = gz_key(purpose, seed, epoch, group + 1),
                      .phase = gz_key(GZ_PURPOSE_PHASE, seed, epoch, 0),
                      .dependency = dependency,
                      .place = batch % dependency};
}

gz_draws gz_draws_below(const gz_draws *draws, uint64_t part)
{
    gz_draws below = *draws;
    below.key = gz_stream(draws->key, part);
    below.next = gz_stream(draws->next, part);
    below.phase = gz_stream(draws->phase, part);
    return below;
}
