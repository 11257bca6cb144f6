/* Rows that are read past the page cache by either engine: threads, or io_uring where there is one.
 */
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "graphzero/preads.h"
#include "graphzero/rng.h"
#include "graphzero/uring.h"
#include "support.h"

enum { MOST_ROWS = 2000, ROW_BYTES = 512, NUM_ROWS = ROWS_FILE_BYTES / ROW_BYTES };

static rows_file rows;
static gz_buffers buffers;
static gz_fetch fetch;

static void draw_batch(int64_t count)
{
    static gz_pick picks[MOST_ROWS], scratch[MOST_ROWS];
    static unsigned char out[MOST_ROWS * ROW_BYTES];
    int64_t wanted[MOST_ROWS];
    for (int64_t i = 0; i < count; i++)
        wanted[i] = (int64_t)gz_bounded(gz_draw(1, (uint64_t)i), NUM_ROWS);
    gz_picks_split(wanted, count, 0, picks);
    gz_picks_sort(picks, scratch, count);
    fetch = (gz_fetch){.file = &rows.file, .out = out};
    fetch.reads = (gz_reads){.picks = picks,
                             .count = count,
                             .row_bytes = ROW_BYTES,
                             .most_bytes = GZ_BUFFER_BYTES,
                             .page_bytes = gz_system_page_bytes()};
}

/* Marks the buffers after a failure, before anything is closed that might still read into them. */
static gz_code marked_if_failed(gz_code code)
{
    if (code != GZ_OK)
        memset(buffers.memory, 0xAA, (size_t)buffers.count * GZ_BUFFER_BYTES);
    return code;
}

static gz_code by_threads(void)
{
    return marked_if_failed(gz_preads_fetch(&buffers, &fetch, &err));
}

static gz_code by_ring(void)
{
    gz_uring *own;
    gz_code code = gz_uring_open(&buffers, &own, &err);
    if (code == GZ_OK)
        code = gz_uring_fetch(own, &fetch, &err);
    marked_if_failed(code);
    gz_uring_close(own);
    return code;
}

/* Calls a test with each engine that there is, over a file and so many buffers. */
static void with_each_engine(unsigned depth, void (*test)(gz_code (*fetch_all)(void)))
{
    for (int i = 0; i < 1 + has_ring(); i++) {
        if (!open_rows(&rows) || !CHECK_EQ(gz_buffers_open(depth, &buffers, &err), GZ_OK))
            return;
        test(i == 0 ? by_threads : by_ring);
        gz_buffers_close(&buffers);
        close_rows(&rows);
    }
}

static void fails_where_the_file_was_cut(gz_code (*fetch_all)(void))
{
    draw_batch(MOST_ROWS);
    CHECK_EQ(truncate(rows.path, 1 << 20), 0);
    CHECK_EQ(fetch_all(), GZ_E_FORMAT);
    CHECK(err.offset >= 1 << 20);
    check_message("truncated");
}

static void fails_without_a_file(gz_code (*fetch_all)(void))
{
    gz_direct_close(&rows.file);
    rows.file.fd = open("/", O_RDONLY);
    draw_batch(100);
    CHECK_EQ(fetch_all(), GZ_E_OS);
    CHECK_EQ(err.saved_errno, EISDIR);
}

/* Most reads fail, as from a broken disk: none of the others may still be in flight. */
static void ends_all_reads(gz_code (*fetch_all)(void))
{
    const struct timespec a_while = {0, 30 * 1000 * 1000};
    unsigned char *forbidden =
        mmap(NULL, GZ_BUFFER_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!CHECK(forbidden != MAP_FAILED))
        return;
    draw_batch(MOST_ROWS);
    for (unsigned i = 0; i < buffers.count / 4 * 3; i++) /* whose threads begin first */
        buffers.each[i].bytes = forbidden;
    CHECK_EQ(fetch_all(), GZ_E_OS);
    CHECK_EQ(err.saved_errno, EFAULT);
    nanosleep(&a_while, NULL);
    bool is_unchanged = true;
    for (size_t i = 0; i < (size_t)buffers.count * GZ_BUFFER_BYTES; i++)
        is_unchanged &= buffers.memory[i] == 0xAA;
    CHECK(is_unchanged);
    munmap(forbidden, GZ_BUFFER_BYTES);
}

TEST(failed_reads_are_errors)
{
    with_each_engine(8, fails_where_the_file_was_cut);
    with_each_engine(8, fails_without_a_file);
    with_each_engine(64, ends_all_reads);
}

TEST(a_ring_that_cannot_be_made_is_an_error)
{
    struct rlimit before, none = {0, 0};
    gz_uring *ring;
    const gz_buffers two = {.count = 2};
    getrlimit(RLIMIT_NOFILE, &before);
    none.rlim_max = before.rlim_max;
    bool is_there = has_ring();
    setrlimit(RLIMIT_NOFILE, &none);
    CHECK_EQ(gz_uring_open(&two, &ring, &err), GZ_E_OS);
    CHECK(ring == NULL);
    gz_uring_close(ring);
    CHECK_EQ(gz_uring_probe(&err), GZ_E_OS);
    setrlimit(RLIMIT_NOFILE, &before);
    if (is_there)
        CHECK_EQ(err.saved_errno, EMFILE);
    if (!gz_uring_is_built()) {
        CHECK_EQ(err.saved_errno, ENOSYS);
        check_message("use the strategy 'pread'");
    }
}
