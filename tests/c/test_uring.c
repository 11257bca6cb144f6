#define _GNU_SOURCE /* fork under -std=c11 */
#define _DARWIN_C_SOURCE

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "fetches.h"
#include "graphzero/uring.h"

static gz_code by_ring(const gz_buffers *buffers, gz_fetch *fetch, gz_error *err)
{
    gz_uring *ring;
    gz_code code = gz_uring_open(buffers, &ring, err);
    if (code == GZ_OK)
        code = gz_uring_fetch(ring, fetch, err);
    if (code != GZ_OK)
        mark(buffers);
    gz_uring_close(ring);
    return code;
}

static void a_ring_brings_rows_or_errors(void)
{
    rows_come_to_their_places(by_ring);
    a_file_that_was_cut_is_an_error(by_ring);
    a_descriptor_that_cannot_be_read_is_an_error(by_ring);
    failed_reads_end_all(by_ring);
}

static bool open_ring(rows_file *rows, gz_buffers *buffers, gz_uring **ring)
{
    gz_error err;
    return open_rows(rows) && CHECK_EQ(gz_buffers_open(16, buffers, &err), GZ_OK) &&
           CHECK_EQ(gz_uring_open(buffers, ring, &err), GZ_OK);
}

static void close_ring(rows_file *rows, gz_buffers *buffers, gz_uring *ring)
{
    gz_uring_close(ring);
    gz_buffers_close(buffers);
    close_rows(rows);
}

static void a_ring_is_used_again(void)
{
    rows_file rows;
    gz_buffers buffers;
    gz_uring *ring;
    gz_error err;
    if (!open_ring(&rows, &buffers, &ring))
        return;
    for (int i = 0; i < 20; i++) {
        batch_of_rows *batch = draw_batch(&rows, 500 + (uint64_t)i, 300, 1);
        CHECK_EQ(gz_uring_fetch(ring, &batch->fetch, &err), GZ_OK);
        has_its_rows(batch);
    }
    close_ring(&rows, &buffers, ring);
}

static void a_child_lets_go_of_its_parents_ring(void)
{
    rows_file rows;
    gz_buffers buffers;
    gz_uring *ring;
    gz_error err;
    int status = -1;
    if (!open_ring(&rows, &buffers, &ring))
        return;
    batch_of_rows *batch = draw_batch(&rows, 512, 300, 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        gz_uring_close(ring);
        gz_buffers_close(&buffers);
        /* and has one of its own */
        bool fine = gz_buffers_open(16, &buffers, &err) == GZ_OK &&
                    by_ring(&buffers, &batch->fetch, &err) == GZ_OK && has_its_rows(batch);
        gz_buffers_close(&buffers);
        _exit(fine ? 0 : 1);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    CHECK_EQ(gz_uring_fetch(ring, &batch->fetch, &err), GZ_OK);
    has_its_rows(batch);
    close_ring(&rows, &buffers, ring);
}

static void a_ring_that_cannot_be_made_is_an_error(void)
{
    struct rlimit before, none = {0, 0};
    rows_file rows;
    gz_buffers buffers;
    gz_uring *ring;
    gz_error err;
    if (!open_rows(&rows) || !CHECK_EQ(gz_buffers_open(2, &buffers, &err), GZ_OK))
        return;
    getrlimit(RLIMIT_NOFILE, &before);
    none.rlim_max = before.rlim_max;
    setrlimit(RLIMIT_NOFILE, &none);
    CHECK_EQ(gz_uring_probe(&err), GZ_E_OS);
    CHECK_EQ(gz_uring_open(&buffers, &ring, &err), GZ_E_OS);
    setrlimit(RLIMIT_NOFILE, &before);
    CHECK_EQ(err.saved_errno, EMFILE);
    CHECK(ring == NULL);
    gz_buffers_close(&buffers);
    close_rows(&rows);
}

static void without_io_uring_there_is_a_reason(void)
{
    gz_error err;
    gz_buffers buffers = {0};
    gz_uring *ring;
    CHECK_EQ(gz_uring_probe(&err), GZ_E_OS);
    CHECK_EQ(gz_uring_open(&buffers, &ring, &err), GZ_E_OS);
    CHECK(ring == NULL);
    gz_uring_close(ring);
    CHECK_EQ(err.saved_errno, ENOSYS);
    CHECK(strstr(err.message, "built without io_uring") != NULL);
}

void test_uring(void)
{
    gz_error err;
    if (!gz_uring_is_built()) {
        RUN(without_io_uring_there_is_a_reason);
        return;
    }
    if (gz_uring_probe(&err) != GZ_OK) {
        printf("skipped the tests of io_uring: %s\n", err.message);
        return;
    }
    RUN(a_ring_brings_rows_or_errors);
    RUN(a_ring_is_used_again);
    RUN(a_child_lets_go_of_its_parents_ring);
    RUN(a_ring_that_cannot_be_made_is_an_error);
}
