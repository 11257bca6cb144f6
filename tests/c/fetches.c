#define _GNU_SOURCE /* unlink, ftruncate and nanosleep under -std=c11 */
#define _DARWIN_C_SOURCE

#include "fetches.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "graphzero/rng.h"
#include "support.h"

enum { OUT_BYTES = 8 << 20 };

static char path[PATH_BYTES];

void known_bytes(unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        bytes[i] = (unsigned char)(gz_draw(5, i / 8) >> (i % 8 * 8));
}

bool open_rows(rows_file *out)
{
    gz_error err = {0};
    unsigned char *bytes = malloc(FETCH_FILE_BYTES);
    if (!CHECK(bytes != NULL))
        return false;
    known_bytes(bytes, FETCH_FILE_BYTES);
    write_file(path, "fetched", bytes, FETCH_FILE_BYTES);
    free(bytes);
    if (!CHECK_EQ(gz_mapping_open(path, &out->mapping, &err), GZ_OK))
        return false;
    return CHECK_EQ(gz_direct_open(&out->mapping, &out->file, &err), GZ_OK);
}

void close_rows(rows_file *rows)
{
    gz_direct_close(&rows->file);
    gz_mapping_close(&rows->mapping);
    unlink(path);
}

batch_of_rows *draw_batch(const rows_file *file, uint64_t row_bytes, int64_t count,
                          uint64_t gap_pages)
{
    static batch_of_rows batch;
    static gz_pick picks[MOST_FETCHED], scratch[MOST_FETCHED];
    static unsigned char out[OUT_BYTES];
    uint64_t num_rows = (FETCH_FILE_BYTES - FETCH_ORIGIN) / row_bytes;
    batch.row_bytes = row_bytes;
    batch.count = count;
    if ((uint64_t)count > OUT_BYTES / row_bytes)
        batch.count = (int64_t)(OUT_BYTES / row_bytes);
    for (int64_t i = 0; i < batch.count; i++)
        batch.rows[i] =
            (int64_t)gz_bounded(gz_draw(row_bytes, (uint64_t)(i - i % 7 / 6)), num_rows);
    batch.rows[0] = (int64_t)num_rows - 1; /* reaches to the end of the file, or nearly */
    memset(out, 0xEE, sizeof out);
    gz_picks_split(batch.rows, batch.count, 0, picks);
    gz_picks_sort(picks, scratch, batch.count);
    batch.fetch = (gz_fetch){.file = &file->file, .out = out};
    batch.fetch.reads = (gz_reads){.picks = picks,
                                   .count = batch.count,
                                   .origin = FETCH_ORIGIN,
                                   .row_bytes = row_bytes,
                                   .gap_pages = gap_pages,
                                   .most_bytes = GZ_BUFFER_BYTES,
                                   .page_bytes = gz_system_page_bytes()};
    return &batch;
}

bool has_its_rows(const batch_of_rows *batch)
{
    static unsigned char bytes[FETCH_FILE_BYTES];
    known_bytes(bytes, sizeof bytes);
    for (int64_t i = 0; i < batch->count; i++) {
        uint64_t at = FETCH_ORIGIN + (uint64_t)batch->rows[i] * batch->row_bytes;
        const unsigned char *got = batch->fetch.out + (uint64_t)i * batch->row_bytes;
        if (!CHECK(memcmp(got, bytes + at, (size_t)batch->row_bytes) == 0))
            return false;
    }
    return true;
}

void rows_come_to_their_places(fetch_with *with)
{
    const uint64_t widths[] = {1, 4, 500, 512, 4096, 5000, 200000};
    const unsigned depths[] = {1, 2, 64};
    rows_file rows;
    gz_error err = {0};
    if (!open_rows(&rows))
        return;
    for (unsigned w = 0; w < sizeof widths / sizeof *widths; w++)
        for (unsigned d = 0; d < sizeof depths / sizeof *depths; d++)
            for (uint64_t gap_pages = 0; gap_pages < 4; gap_pages += 3) {
                gz_buffers buffers;
                batch_of_rows *batch = draw_batch(&rows, widths[w], 1 + 13 * depths[d], gap_pages);
                if (!CHECK_EQ(gz_buffers_open(depths[d], &buffers, &err), GZ_OK))
                    break;
                CHECK_EQ(with(&buffers, &batch->fetch, &err), GZ_OK);
                has_its_rows(batch);
                gz_buffers_close(&buffers);
            }
    close_rows(&rows);
}

void a_file_that_was_cut_is_an_error(fetch_with *with)
{
    rows_file rows;
    gz_buffers buffers;
    gz_error err = {0};
    if (!open_rows(&rows))
        return;
    batch_of_rows *batch = draw_batch(&rows, 512, MOST_FETCHED, 0);
    CHECK_EQ(truncate(path, 1 << 20), 0);
    if (CHECK_EQ(gz_buffers_open(8, &buffers, &err), GZ_OK)) {
        CHECK_EQ(with(&buffers, &batch->fetch, &err), GZ_E_FORMAT);
        CHECK(err.offset >= 1 << 20);
        CHECK(strstr(err.message, "truncated") != NULL);
        gz_buffers_close(&buffers);
    }
    close_rows(&rows);
}

void a_descriptor_that_cannot_be_read_is_an_error(fetch_with *with)
{
    rows_file rows;
    gz_buffers buffers;
    gz_error err = {0};
    if (!open_rows(&rows))
        return;
    gz_direct_close(&rows.file);
    rows.file.fd = open("/", O_RDONLY);
    batch_of_rows *batch = draw_batch(&rows, 512, 100, 0);
    if (CHECK_EQ(gz_buffers_open(8, &buffers, &err), GZ_OK)) {
        CHECK_EQ(with(&buffers, &batch->fetch, &err), GZ_E_OS);
        CHECK_EQ(err.saved_errno, EISDIR);
        gz_buffers_close(&buffers);
    }
    close_rows(&rows);
}

void mark(const gz_buffers *buffers)
{
    memset(buffers->memory, 0xAA, (size_t)buffers->count * GZ_BUFFER_BYTES);
}

static bool is_marked(const gz_buffers *buffers)
{
    for (size_t i = 0; i < (size_t)buffers->count * GZ_BUFFER_BYTES; i++)
        if (buffers->memory[i] != 0xAA)
            return false;
    return true;
}

void failed_reads_end_all(fetch_with *with)
{
    enum { DEPTH = 64 };
    const struct timespec a_while = {0, 30 * 1000 * 1000};
    rows_file rows;
    gz_buffers buffers;
    gz_error err = {0};
    if (!open_rows(&rows))
        return;
    batch_of_rows *batch = draw_batch(&rows, 512, MOST_FETCHED, 0);
    unsigned char *forbidden =
        mmap(NULL, GZ_BUFFER_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (CHECK(forbidden != MAP_FAILED) && CHECK_EQ(gz_buffers_open(DEPTH, &buffers, &err), GZ_OK)) {
        for (unsigned i = 1; i < DEPTH; i += 2)
            buffers.each[i].bytes = forbidden; /* like a disk that fails */
        CHECK_EQ(with(&buffers, &batch->fetch, &err), GZ_E_OS);
        CHECK_EQ(err.saved_errno, EFAULT);
        /* None of the good reads may still be in flight. */
        nanosleep(&a_while, NULL);
        CHECK(is_marked(&buffers));
        gz_buffers_close(&buffers);
    }
    munmap(forbidden, GZ_BUFFER_BYTES);
    close_rows(&rows);
}
