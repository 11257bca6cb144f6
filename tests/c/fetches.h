/* For the tests of both ways to read: a file of known rows, and batches of it. */
#ifndef GRAPHZERO_TESTS_FETCHES_H
#define GRAPHZERO_TESTS_FETCHES_H

#include "graphzero/buffers.h"
#include "graphzero/direct.h"

enum { FETCH_ORIGIN = 128, FETCH_FILE_BYTES = (3 << 20) + 77, MOST_FETCHED = 2000 };

typedef struct rows_file {
    gz_mapping mapping;
    gz_direct file;
} rows_file;

/* Bytes that depend on their position in a file. */
void known_bytes(unsigned char *bytes, size_t count);

/* Opens a file of known bytes; on failure, false and a failed check. */
bool open_rows(rows_file *out);
void close_rows(rows_file *rows);

/* A batch of count rows of row_bytes each, some of them twice. */
typedef struct batch_of_rows {
    int64_t rows[MOST_FETCHED];
    int64_t count;
    uint64_t row_bytes;
    gz_fetch fetch;
} batch_of_rows;

/* Draws a batch of up to `count` rows, fewer if they exceed the output buffer. There is only one
 * batch at a time. */
batch_of_rows *draw_batch(const rows_file *file, uint64_t row_bytes, int64_t count,
                          uint64_t gap_pages);

/* Checks every byte of the result. */
bool has_its_rows(const batch_of_rows *batch);

/* One way to fetch, for tests that must pass with each. On failure it marks the buffers before it
 * closes anything that might still read into them. */
typedef gz_code fetch_with(const gz_buffers *buffers, gz_fetch *fetch, gz_error *err);

void mark(const gz_buffers *buffers);

void rows_come_to_their_places(fetch_with *with);
void a_file_that_was_cut_is_an_error(fetch_with *with);
void a_descriptor_that_cannot_be_read_is_an_error(fetch_with *with);
void failed_reads_end_all(fetch_with *with);

#endif
