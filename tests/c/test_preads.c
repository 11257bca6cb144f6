#include <string.h>

#include "check.h"
#include "fetches.h"
#include "graphzero/preads.h"

static gz_code by_threads(const gz_buffers *buffers, gz_fetch *fetch, gz_error *err)
{
    gz_code code = gz_preads_fetch(buffers, fetch, err);
    if (code != GZ_OK)
        mark(buffers);
    return code;
}

static void threads_bring_rows_or_errors(void)
{
    rows_come_to_their_places(by_threads);
    a_file_that_was_cut_is_an_error(by_threads);
    a_descriptor_that_cannot_be_read_is_an_error(by_threads);
    failed_reads_end_all(by_threads);
}

static void no_rows_need_no_reads(void)
{
    rows_file rows;
    gz_buffers buffers;
    gz_error err;
    if (!open_rows(&rows))
        return;
    batch_of_rows *batch = draw_batch(&rows, 512, 1, 0);
    batch->fetch.reads.count = 0;
    if (CHECK_EQ(gz_buffers_open(2, &buffers, &err), GZ_OK)) {
        CHECK_EQ(gz_preads_fetch(&buffers, &batch->fetch, &err), GZ_OK);
        CHECK_EQ(batch->fetch.reads.reads, 0);
        gz_buffers_close(&buffers);
    }
    close_rows(&rows);
}

void test_preads(void)
{
    RUN(threads_bring_rows_or_errors);
    RUN(no_rows_need_no_reads);
}
