/* What reads of a file the disk gives: blocks at random places, or one after the other, so many at
 * a time, past the page cache. Which blocks is a function of the seed. What is read is not used.
 *
 * A probe is run in short calls, between which its reads go on: the caller can look for Ctrl-C. */
#ifndef GRAPHZERO_DISK_PROBE_H
#define GRAPHZERO_DISK_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include "graphzero/direct.h"
#include "graphzero/status.h"

enum {
    GZ_PROBE_ALIGNMENT = 4096, /* block_bytes is a multiple of it */
    GZ_PROBE_MOST_DEPTH = 4096,
    GZ_PROBE_MOST_THREADS = 512,   /* the greatest depth with threads */
    GZ_PROBE_MOST_MEMORY = 1 << 28 /* bytes of depth blocks */
};

typedef struct gz_probe_plan {
    uint64_t block_bytes;
    unsigned depth; /* reads under way at a time */
    bool is_sequential;
    bool by_threads; /* pread in one thread a read, instead of io_uring */
    uint64_t seed;
} gz_probe_plan;

typedef struct gz_probe_counts {
    uint64_t reads;
    uint64_t bytes;
    double seconds;          /* from the first call of gz_disk_probe_run to gz_disk_probe_stop */
    unsigned depth;          /* less than asked for where threads could not be started */
    uint64_t p50_ns, p99_ns; /* of a read, from its start until its end is noticed */
} gz_probe_counts;

typedef struct gz_disk_probe gz_disk_probe;

/* Fails where the plan or the file permits no probe, or this process cannot use io_uring now. The
 * file must outlive the probe, be direct and hold at least one block. All calls must come from the
 * process that opened it. */
GZ_MUST_CHECK gz_code gz_disk_probe_open(const gz_direct *file, const gz_probe_plan *plan,
                                         gz_disk_probe **out, gz_error *err);

/* Reads for so long; shorter if it is interrupted: call it again. It does not wait for the reads
 * that are under way then. After an error, or after gz_disk_probe_stop, it may not be called. */
GZ_MUST_CHECK gz_code gz_disk_probe_run(gz_disk_probe *probe, double seconds, gz_error *err);

/* Takes the counts, then waits for the reads under way, which are not counted. */
void gz_disk_probe_stop(gz_disk_probe *probe, gz_probe_counts *out);

/* probe may be NULL. Waits for the reads under way. */
void gz_disk_probe_close(gz_disk_probe *probe);

#endif
