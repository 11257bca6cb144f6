/* The threads of a probe of the disk, for ThreadSanitizer: they share the numbers of the reads,
 * the counts and an error. A separate program; run.py --threads builds it. */
#define _GNU_SOURCE /* truncate under -std=c11 */

#include <stdio.h>
#include <unistd.h>

#include "graphzero/disk_probe.h"
#include "graphzero/mapping.h"

enum { THREADS = 8, ROUNDS = 5, FILE_BYTES = 1 << 20 };

static unsigned char file_bytes[FILE_BYTES];

static bool counts_reads(const gz_direct *file, gz_probe_plan plan)
{
    gz_disk_probe *probe;
    gz_probe_counts counts;
    gz_error err;
    if (gz_disk_probe_open(file, &plan, &probe, &err) != GZ_OK)
        return false;
    bool fine = true;
    for (int i = 0; fine && i < ROUNDS; i++)
        fine = gz_disk_probe_run(probe, 0.1, &err) == GZ_OK;
    gz_disk_probe_stop(probe, &counts);
    gz_disk_probe_close(probe);
    return fine && counts.reads > 0 && counts.depth == plan.depth;
}

/* All threads fail at about the same time. */
static bool tells_an_error(const char *path, const gz_direct *file, gz_probe_plan plan)
{
    gz_disk_probe *probe;
    gz_error err;
    if (gz_disk_probe_open(file, &plan, &probe, &err) != GZ_OK)
        return false;
    bool fine = gz_disk_probe_run(probe, 0.02, &err) == GZ_OK && truncate(path, 100) == 0;
    usleep(20000);
    fine = fine && gz_disk_probe_run(probe, 10, &err) == GZ_E_FORMAT;
    gz_disk_probe_close(probe);
    return fine;
}

int main(int count, char **arguments)
{
    gz_mapping mapping;
    gz_direct direct;
    gz_error err;
    const char *path = count == 2 ? arguments[1] : "/nowhere";
    const gz_probe_plan plan = {.block_bytes = 4096, .depth = THREADS, .by_threads = true};
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(file_bytes, 1, sizeof file_bytes, file) != sizeof file_bytes ||
        fclose(file) != 0 || gz_mapping_open(path, &mapping, &err) != GZ_OK ||
        gz_direct_open(&mapping, &direct, &err) != GZ_OK)
        return 2;
    direct.is_direct = true; /* what the counts mean is not asked here */
    bool fine = counts_reads(&direct, plan) && tells_an_error(path, &direct, plan);
    printf(fine ? "a probe by %d threads\n" : "FAILED a probe by %d threads\n", THREADS);
    gz_direct_close(&direct);
    gz_mapping_close(&mapping);
    return fine ? 0 : 1;
}
