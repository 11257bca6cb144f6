#define _GNU_SOURCE /* ftruncate, nanosleep, setitimer and dup2 under -std=c11 */
#define _DARWIN_C_SOURCE

#include "graphzero/disk_probe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "fetches.h"
#include "graphzero/io_ring.h"

static const double A_MOMENT = 0.02;
static gz_error err;

static void set_alarms(void (*handler)(int), suseconds_t first, suseconds_t later)
{
    struct sigaction action = {.sa_handler = handler}; /* without SA_RESTART */
    struct itimerval times = {{0, later}, {0, first}};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &times, NULL);
}

/* A signal that is under way must not end the process, nor do other tests without the default. */
static void end_alarms(void)
{
    const struct timespec moment = {0, 5000000};
    struct sigaction by_default = {.sa_handler = SIG_DFL};
    set_alarms(SIG_IGN, 0, 0);
    nanosleep(&moment, NULL);
    sigaction(SIGALRM, &by_default, NULL);
}

/* Calls a test with each engine that there is. The tests are of counts and errors, so a file that
 * is read through the page cache does as well: it is only claimed to be direct. */
static void with_each_engine(void (*test)(rows_file *rows, gz_probe_plan plan))
{
    for (int by_threads = gz_io_ring_is_built() ? 0 : 1; by_threads < 2; by_threads++) {
        rows_file rows;
        gz_probe_plan plan = {.block_bytes = 4096, .depth = 8, .by_threads = by_threads, .seed = 7};
        if (!open_rows(&rows))
            return;
        rows.file.is_direct = true;
        test(&rows, plan);
        close_rows(&rows);
    }
}

/* Counts of one probe; all 0 after a failed check. */
static gz_probe_counts counts_of(const rows_file *rows, const gz_probe_plan *plan, int runs)
{
    gz_disk_probe *probe;
    gz_probe_counts counts = {0};
    if (!CHECK_EQ(gz_disk_probe_open(&rows->file, plan, &probe, &err), GZ_OK))
        return counts;
    for (int i = 0; i < runs; i++)
        if (!CHECK_EQ(gz_disk_probe_run(probe, A_MOMENT, &err), GZ_OK))
            puts(err.message);
    gz_disk_probe_stop(probe, &counts);
    CHECK(counts.seconds >= runs * A_MOMENT);
    gz_disk_probe_close(probe);
    return counts;
}

/* The same, with so many runs that something was read: where others want the processors, none of
 * 128 large reads that share them may end in a moment. */
static gz_probe_counts counts_of_reads(const rows_file *rows, const gz_probe_plan *plan)
{
    gz_probe_counts counts = {0};
    for (int runs = 3; runs < 2000 && counts.reads == 0; runs *= 4)
        counts = counts_of(rows, plan, runs);
    return counts;
}

static void reads_of_all_calls_are_counted(rows_file *rows, gz_probe_plan plan)
{
    static const unsigned depths[] = {1, 2, 128};
    static const uint64_t blocks[] = {4096, 65536, 1 << 20};
    for (int i = 0; i < 9; i++) {
        plan.depth = depths[i % 3];
        plan.block_bytes = blocks[i / 3];
        plan.is_sequential = i % 2;
        gz_probe_counts counts = counts_of_reads(rows, &plan);
        CHECK(counts.reads > 0);
        CHECK_EQ(counts.bytes, counts.reads * plan.block_bytes);
        CHECK_EQ(counts.depth, plan.depth);
        CHECK(0 < counts.p50_ns && counts.p50_ns <= counts.p99_ns);
        CHECK((double)counts.p50_ns <= counts.seconds * 1e9);
    }
}

static void a_probe_may_end_before_it_runs(rows_file *rows, gz_probe_plan plan)
{
    gz_disk_probe *probe;
    gz_probe_counts counts = counts_of(rows, &plan, 0);
    CHECK_EQ(counts.reads, 0);
    CHECK(counts.seconds == 0 && counts.p99_ns == 0);
    if (CHECK_EQ(gz_disk_probe_open(&rows->file, &plan, &probe, &err), GZ_OK))
        gz_disk_probe_close(probe);
    if (CHECK_EQ(gz_disk_probe_open(&rows->file, &plan, &probe, &err), GZ_OK)) {
        CHECK_EQ(gz_disk_probe_run(probe, A_MOMENT, &err), GZ_OK);
        gz_disk_probe_close(probe);
    }
    gz_disk_probe_close(NULL);
}

static void nothing_is_counted_after_the_end(rows_file *rows, gz_probe_plan plan)
{
    gz_disk_probe *probe;
    gz_probe_counts first, later;
    const struct timespec moment = {0, 20000000};
    if (!CHECK_EQ(gz_disk_probe_open(&rows->file, &plan, &probe, &err), GZ_OK))
        return;
    CHECK_EQ(gz_disk_probe_run(probe, A_MOMENT, &err), GZ_OK);
    gz_disk_probe_stop(probe, &first);
    nanosleep(&moment, NULL);
    gz_disk_probe_stop(probe, &later);
    CHECK_EQ(first.reads, later.reads);
    CHECK(first.seconds == later.seconds);
    gz_disk_probe_close(probe);
}

static void odd_times_come_to_an_end(rows_file *rows, gz_probe_plan plan)
{
    static const double times[] = {0.0, -5.0, -1e300, 1e-12};
    gz_disk_probe *probe;
    if (!CHECK_EQ(gz_disk_probe_open(&rows->file, &plan, &probe, &err), GZ_OK))
        return;
    for (int i = 0; i < 4; i++)
        CHECK_EQ(gz_disk_probe_run(probe, times[i], &err), GZ_OK);
    gz_disk_probe_close(probe);
}

/* A descriptor that cannot be read; -1 on macOS. */
static int open_for_writing(const rows_file *rows)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", rows->mapping.fd);
    return open(path, O_WRONLY | O_CLOEXEC);
}

static void a_file_that_is_shorter_at_a_call_is_an_error(rows_file *rows, gz_probe_plan plan)
{
    gz_disk_probe *probe;
    if (!CHECK_EQ(gz_disk_probe_open(&rows->file, &plan, &probe, &err), GZ_OK))
        return;
    CHECK_EQ(gz_disk_probe_run(probe, A_MOMENT, &err), GZ_OK);
    int fd = open_for_writing(rows);
    if (fd >= 0 && CHECK_EQ(ftruncate(fd, 5000), 0)) {
        CHECK_EQ(gz_disk_probe_run(probe, 0, &err), GZ_E_FORMAT);
        CHECK(strstr(err.message, "truncated") != NULL);
        close(fd);
    }
    gz_disk_probe_close(probe);
}

static volatile int cut_fd;

static void cut(int number)
{
    (void)number;
    (void)!ftruncate(cut_fd, 5000);
}

static void a_file_that_is_cut_during_a_call_is_an_error(rows_file *rows, gz_probe_plan plan)
{
    gz_disk_probe *probe;
    cut_fd = open_for_writing(rows);
    if (cut_fd < 0)
        return;
    if (CHECK_EQ(gz_disk_probe_open(&rows->file, &plan, &probe, &err), GZ_OK)) {
        set_alarms(cut, 20000, 0);
        CHECK_EQ(gz_disk_probe_run(probe, 60, &err), GZ_E_FORMAT);
        CHECK(strstr(err.message, "truncated") != NULL);
        end_alarms();
        gz_disk_probe_close(probe);
    }
    close(cut_fd);
}

static void reads_that_fail_end_the_probe(rows_file *rows, gz_probe_plan plan)
{
    gz_disk_probe *probe;
    gz_direct file = rows->file;
    file.fd = open_for_writing(rows);
    if (file.fd < 0)
        return;
    if (CHECK_EQ(gz_disk_probe_open(&file, &plan, &probe, &err), GZ_OK)) {
        CHECK_EQ(gz_disk_probe_run(probe, 10, &err), GZ_E_OS);
        CHECK_EQ(err.saved_errno, EBADF);
        gz_probe_counts counts;
        gz_disk_probe_stop(probe, &counts);
        CHECK_EQ(counts.reads, 0);
        gz_disk_probe_close(probe);
    }
    close(file.fd);
}

static void on_alarm(int number) { (void)number; }

static void signals_change_nothing(rows_file *rows, gz_probe_plan plan)
{
    set_alarms(on_alarm, 500, 500);
    gz_probe_counts counts = counts_of_reads(rows, &plan);
    end_alarms();
    CHECK(counts.reads > 0);
}

static int open_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;
    for (; folder != NULL && readdir(folder) != NULL; count++)
        ;
    if (folder != NULL)
        closedir(folder);
    return count;
}

static void nothing_is_left(rows_file *rows, gz_probe_plan plan)
{
    int before = open_descriptors();
    for (int i = 0; i < 5; i++)
        counts_of(rows, &plan, 1);
    CHECK_EQ(open_descriptors(), before);
}

static void refusals_say_why(rows_file *rows, gz_probe_plan plan)
{
    gz_disk_probe *probe;
    unsigned most = plan.by_threads ? GZ_PROBE_MOST_THREADS : GZ_PROBE_MOST_DEPTH;
    const struct {
        uint64_t block_bytes;
        unsigned depth;
        const char *why;
    } bad[] = {
        {0, 1, "blocks of 0 bytes"},
        {512, 1, "blocks of 512 bytes"},
        {6000, 1, "blocks of 6000 bytes"},
        {UINT64_MAX - 4095, 1, "blocks of"},
        {UINT64_MAX, 2, "blocks of"},
        {4096, 0, "0 blocks of 4096"},
        {4096, most + 1, "cannot be read at a time"},
        {4096, UINT32_MAX, "cannot be read at a time"},
        {1 << 26, 5, "5 blocks of 67108864 bytes cannot be read at a time"},
        {1 << 22, 1, "less than one block of 4194304"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        plan.block_bytes = bad[i].block_bytes;
        plan.depth = bad[i].depth;
        CHECK_EQ(gz_disk_probe_open(&rows->file, &plan, &probe, &err), GZ_E_OS);
        CHECK_EQ(err.saved_errno, EINVAL);
        if (!CHECK(probe == NULL) || !CHECK(strstr(err.message, bad[i].why) != NULL))
            puts(err.message);
    }
    rows->file.is_direct = false;
    plan.block_bytes = 4096, plan.depth = 1;
    CHECK_EQ(gz_disk_probe_open(&rows->file, &plan, &probe, &err), GZ_E_OS);
    CHECK(strstr(err.message, "past the page cache") != NULL);
}

static void without_io_uring_a_ring_is_refused(void)
{
    rows_file rows;
    gz_disk_probe *probe;
    const gz_probe_plan plan = {.block_bytes = 4096, .depth = 2};
    if (gz_io_ring_is_built() || !open_rows(&rows))
        return;
    rows.file.is_direct = true;
    CHECK_EQ(gz_disk_probe_open(&rows.file, &plan, &probe, &err), GZ_E_OS);
    CHECK(probe == NULL);
    close_rows(&rows);
}

static void probes_count_or_fail(void)
{
    with_each_engine(reads_of_all_calls_are_counted);
    with_each_engine(a_probe_may_end_before_it_runs);
    with_each_engine(nothing_is_counted_after_the_end);
    with_each_engine(odd_times_come_to_an_end);
    with_each_engine(a_file_that_is_shorter_at_a_call_is_an_error);
    with_each_engine(a_file_that_is_cut_during_a_call_is_an_error);
    with_each_engine(reads_that_fail_end_the_probe);
    with_each_engine(signals_change_nothing);
    with_each_engine(nothing_is_left);
    with_each_engine(refusals_say_why);
}

void test_disk_probe(void)
{
    RUN(probes_count_or_fail);
    RUN(without_io_uring_a_ring_is_refused);
}
