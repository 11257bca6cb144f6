/* The threads that read one batch, for ThreadSanitizer. They share a list of reads, an error, and
 * rows that two reads cover. A separate program; run.py --threads builds it. */
#define _GNU_SOURCE /* truncate under -std=c11 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "graphzero/mapping.h"
#include "graphzero/preads.h"

enum { THREADS = 8, ROUNDS = 20, ROWS = 300, PICKS = 500, ROW_BYTES = 5000 };

static unsigned char file_bytes[ROWS * ROW_BYTES], out[PICKS * ROW_BYTES];
static gz_pick picks[PICKS];

static gz_fetch make_fetch(const gz_direct *file, int round)
{
    for (int i = 0; i < PICKS; i++) /* ascending, some of them twice */
        picks[i] = (gz_pick){(uint64_t)(i * ROWS / PICKS), (uint64_t)((i + round) % PICKS)};
    memset(out, 0, sizeof out);
    return (gz_fetch){.file = file,
                      .reads = {.picks = picks,
                                .count = PICKS,
                                .row_bytes = ROW_BYTES,
                                .most_bytes = GZ_BUFFER_BYTES,
                                .page_bytes = gz_system_page_bytes()},
                      .out = out};
}

static bool has_its_rows(void)
{
    for (int i = 0; i < PICKS; i++)
        if (memcmp(out + picks[i].place * ROW_BYTES, file_bytes + picks[i].row * ROW_BYTES,
                   ROW_BYTES) != 0)
            return false;
    return true;
}

static bool fetch_all(const char *path, const gz_direct *file)
{
    gz_buffers buffers;
    gz_error err;
    bool fine = gz_buffers_open(THREADS, &buffers, &err) == GZ_OK;
    for (int round = 0; fine && round < ROUNDS; round++) {
        gz_fetch fetch = make_fetch(file, round);
        fine = gz_preads_fetch(&buffers, &fetch, &err) == GZ_OK && has_its_rows();
    }
    if (fine && truncate(path, 100) == 0) { /* now all of them fail */
        gz_fetch fetch = make_fetch(file, 0);
        fine = gz_preads_fetch(&buffers, &fetch, &err) == GZ_E_FORMAT;
    }
    gz_buffers_close(&buffers);
    return fine;
}

int main(int count, char **arguments)
{
    gz_mapping mapping;
    gz_direct direct;
    gz_error err;
    const char *path = count == 2 ? arguments[1] : "/nowhere";
    for (size_t i = 0; i < sizeof file_bytes; i++)
        file_bytes[i] = (unsigned char)(i * 2654435761u >> 13);
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(file_bytes, 1, sizeof file_bytes, file) != sizeof file_bytes ||
        fclose(file) != 0 || gz_mapping_open(path, &mapping, &err) != GZ_OK)
        return 2;
    bool fine = gz_direct_open(&mapping, &direct, &err) == GZ_OK && fetch_all(path, &direct);
    printf(fine ? "rows by %d threads\n" : "FAILED rows by %d threads\n", THREADS);
    gz_direct_close(&direct);
    gz_mapping_close(&mapping);
    return fine ? 0 : 1;
}
