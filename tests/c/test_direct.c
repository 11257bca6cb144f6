#define _GNU_SOURCE /* truncate under -std=c11 */
#define _DARWIN_C_SOURCE

#include "graphzero/direct.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "fetches.h"
#include "graphzero/buffers.h"

static void it_is_the_mapped_file_whatever_its_name(void)
{
    static unsigned char bytes[GZ_BUFFER_BYTES];
    rows_file rows;
    gz_buffers buffers;
    gz_error err;
    if (!open_rows(&rows) || !CHECK_EQ(gz_buffers_open(1, &buffers, &err), GZ_OK))
        return;
    rows_file other; /* takes its name */
    gz_direct_close(&rows.file);
    if (!open_rows(&other) || !CHECK_EQ(gz_direct_open(&rows.mapping, &rows.file, &err), GZ_OK))
        return;
    close_rows(&other);
    CHECK(rows.file.fd != rows.mapping.fd);
    CHECK_EQ(rows.file.size, FETCH_FILE_BYTES);
    buffers.each[0].read = (gz_read){0, GZ_BUFFER_BYTES, 0, 0};
    CHECK_EQ(gz_direct_read(&rows.file, &buffers.each[0]), GZ_BUFFER_BYTES);
    known_bytes(bytes, sizeof bytes);
    CHECK(memcmp(bytes, buffers.memory, sizeof bytes) == 0);
    gz_buffers_close(&buffers);
    close_rows(&rows);
}

static void a_closed_file_is_an_error(void)
{
    gz_mapping mapping = {NULL, 0, -1};
    gz_direct file;
    gz_error err;
    gz_buffer buffer = {0};
    CHECK_EQ(gz_direct_open(&mapping, &file, &err), GZ_E_OS);
    CHECK_EQ(gz_direct_read(&file, &buffer), -EBADF);
    CHECK_EQ(gz_direct_check(&file, &err), GZ_E_OS);
    CHECK_EQ(err.saved_errno, EBADF);
    gz_direct_close(&file);
}

static void a_shorter_file_is_noticed(void)
{
    rows_file rows;
    gz_error err;
    if (!open_rows(&rows))
        return;
    CHECK_EQ(gz_direct_check(&rows.file, &err), GZ_OK);
    rows.file.size--; /* it has grown */
    CHECK_EQ(gz_direct_check(&rows.file, &err), GZ_OK);
    rows.file.size += 2;
    CHECK_EQ(gz_direct_check(&rows.file, &err), GZ_E_FORMAT);
    CHECK_EQ(err.offset, FETCH_FILE_BYTES);
    close_rows(&rows);
}

/* Reads of a file that does not exist: only their results are made up. It has 100 pages and ten
 * bytes. */
static uint64_t page;

static uint64_t imagined_bytes(void) { return 100 * page + 10; }

static gz_settled settle(gz_buffer *buffer, int64_t result, gz_error *err)
{
    const gz_direct file = {-1, true, imagined_bytes()};
    return gz_direct_settle(&file, buffer, result, err);
}

static void short_reads_go_on_at_a_page(void)
{
    gz_buffer buffer = {.read = {2 * page, 8 * page, 0, 0}};
    gz_error err;
    CHECK_EQ(settle(&buffer, (int64_t)(3 * page), &err), GZ_READ_AGAIN);
    CHECK_EQ(buffer.got, 3 * page);
    CHECK_EQ(settle(&buffer, (int64_t)(2 * page + 100), &err), GZ_READ_AGAIN);
    CHECK_EQ(buffer.got, 5 * page);
    CHECK_EQ(settle(&buffer, (int64_t)(3 * page), &err), GZ_READ_DONE);
}

static void the_end_of_the_file_is_not_a_short_read(void)
{
    gz_buffer buffer = {.read = {99 * page, 2 * page, 0, 0}};
    gz_error err;
    CHECK_EQ(settle(&buffer, (int64_t)(page + 10), &err), GZ_READ_DONE);
    buffer.got = 0;
    CHECK_EQ(settle(&buffer, (int64_t)(page + 9), &err), GZ_READ_AGAIN);
    CHECK_EQ(settle(&buffer, 9, &err), GZ_READ_FAILED);
    CHECK_EQ(err.code, GZ_E_FORMAT);
    CHECK_EQ(err.offset, imagined_bytes() - 1);
}

static void nothing_where_rows_must_be_is_an_error(void)
{
    gz_buffer buffer = {.read = {page, page, 0, 0}};
    gz_error err;
    CHECK_EQ(settle(&buffer, 0, &err), GZ_READ_FAILED);
    CHECK_EQ(err.code, GZ_E_FORMAT);
    CHECK_EQ(settle(&buffer, (int64_t)(page - 1), &err), GZ_READ_FAILED);
    CHECK_EQ(err.offset, 2 * page - 1);
}

static void interruptions_are_tried_again(void)
{
    gz_buffer buffer = {.read = {page, page, 0, 0}};
    gz_error err;
    CHECK_EQ(settle(&buffer, -EINTR, &err), GZ_READ_AGAIN);
    CHECK_EQ(settle(&buffer, -EAGAIN, &err), GZ_READ_AGAIN);
    CHECK_EQ(settle(&buffer, (int64_t)page, &err), GZ_READ_DONE);
    buffer.tries = 0;
    for (int i = 0; i < 100000 && settle(&buffer, -EAGAIN, &err) == GZ_READ_AGAIN; i++)
        CHECK(i < 10000); /* but not for ever */
    CHECK_EQ(err.saved_errno, EAGAIN);
}

static void errors_of_the_disk_are_reported(void)
{
    gz_buffer buffer = {.read = {2 * page, page, 0, 0}};
    gz_error err;
    CHECK_EQ(settle(&buffer, -EIO, &err), GZ_READ_FAILED);
    CHECK_EQ(err.code, GZ_E_OS);
    CHECK_EQ(err.saved_errno, EIO);
    CHECK_EQ(err.offset, 2 * page);
}

void test_direct(void)
{
    page = gz_system_page_bytes();
    RUN(it_is_the_mapped_file_whatever_its_name);
    RUN(a_closed_file_is_an_error);
    RUN(a_shorter_file_is_noticed);
    RUN(short_reads_go_on_at_a_page);
    RUN(the_end_of_the_file_is_not_a_short_read);
    RUN(nothing_where_rows_must_be_is_an_error);
    RUN(interruptions_are_tried_again);
    RUN(errors_of_the_disk_are_reported);
}
