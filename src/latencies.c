#include "graphzero/latencies.h"

enum { STEP_BITS = 5 }; /* 2^5 steps */

/* Below two times 32, a bucket is one nanosecond wide; from there on, each power of two has 32
 * buckets, twice as wide as those before. */
static unsigned bucket_of(uint64_t nanoseconds)
{
    if (nanoseconds < GZ_LATENCY_STEPS)
        return (unsigned)nanoseconds;
    unsigned shift = 63 - STEP_BITS - (unsigned)__builtin_clzll(nanoseconds);
    return shift * GZ_LATENCY_STEPS + (unsigned)(nanoseconds >> shift);
}

static uint64_t middle_of(unsigned bucket)
{
    if (bucket < GZ_LATENCY_STEPS)
        return bucket;
    unsigned shift = bucket / GZ_LATENCY_STEPS - 1;
    uint64_t step = bucket % GZ_LATENCY_STEPS + GZ_LATENCY_STEPS;
    return (step << shift) + ((UINT64_C(1) << shift) >> 1);
}

void gz_latencies_add(gz_latencies *self, uint64_t nanoseconds)
{
    self->counts[bucket_of(nanoseconds)]++;
    self->total++;
}

uint64_t gz_latencies_quantile(const gz_latencies *self, double share)
{
    uint64_t up_to = 0, rank = (uint64_t)(share * (double)self->total);
    for (unsigned i = 0; i < GZ_LATENCY_BUCKETS; i++) {
        up_to += self->counts[i];
        if (up_to > 0 && up_to >= rank)
            return middle_of(i);
    }
    return 0;
}
