/* A histogram of durations: of any length, in fixed memory, each known to one part in 32. */
#ifndef GRAPHZERO_LATENCIES_H
#define GRAPHZERO_LATENCIES_H

#include <stdint.h>

enum {
    GZ_LATENCY_STEPS = 32, /* from a power of two to the next */
    GZ_LATENCY_BUCKETS = 60 * GZ_LATENCY_STEPS
};

/* Initially all 0. */
typedef struct gz_latencies {
    uint64_t counts[GZ_LATENCY_BUCKETS];
    uint64_t total;
} gz_latencies;

void gz_latencies_add(gz_latencies *latencies, uint64_t nanoseconds);

/* The duration that this share of the others, 0 to 1, does not exceed; 0 if there is none. */
uint64_t gz_latencies_quantile(const gz_latencies *latencies, double share);

#endif
