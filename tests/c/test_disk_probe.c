#include "check.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "graphzero/disk_probe.h"
#include "graphzero/io_ring.h"
#include "support.h"

static const double A_MOMENT = 0.02;

static rows_file rows;
static gz_probe_plan plan;
static gz_disk_probe *probe;
static gz_probe_counts counts;

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

/* Calls a test with each engine that there is; it leaves nothing open. The tests are of counts and
 * errors, so a file that is read through the page cache does as well: it is only claimed to be
 * direct. */
static void with_each_engine(void (*test)(void))
{
    for (int i = 0; i < 1 + has_ring(); i++) {
        plan = (gz_probe_plan){.block_bytes = 4096, .depth = 8, .by_threads = i == 0, .seed = 7};
        if (!open_rows(&rows))
            return;
        rows.file.is_direct = true;
        int before = open_descriptors();
        test();
        CHECK_EQ(open_descriptors(), before);
        close_rows(&rows);
    }
}

static bool open_probe(void)
{
    return CHECK_EQ(gz_disk_probe_open(&rows.file, &plan, &probe, &err), GZ_OK);
}

/* Counts of one probe; all 0 after a failed check. */
static void count_reads(int runs)
{
    memset(&counts, 0, sizeof counts);
    if (!open_probe())
        return;
    for (int i = 0; i < runs; i++)
        CHECK_EQ(gz_disk_probe_run(probe, A_MOMENT, &err), GZ_OK);
    gz_disk_probe_stop(probe, &counts);
    CHECK(counts.seconds >= runs * A_MOMENT);
    gz_disk_probe_close(probe);
}

/* With so many runs that something was read: where others want the processors, none of 128 large
 * reads that share them may end in a moment. */
static void count_some_reads(void)
{
    counts.reads = 0;
    for (int runs = 3; runs < 2000 && counts.reads == 0; runs *= 4)
        count_reads(runs);
    CHECK(counts.reads > 0);
}

static void it_may_end_before_it_runs(void)
{
    count_reads(0);
    CHECK_EQ(counts.reads, 0);
    CHECK(counts.seconds == 0 && counts.p99_ns == 0);
    if (open_probe())
        gz_disk_probe_close(probe);
    gz_disk_probe_close(NULL);
}

static void odd_times_come_to_an_end(void)
{
    static const double times[] = {0.0, -5.0, -1e300, 1e-12};
    if (!open_probe())
        return;
    for (unsigned i = 0; i < COUNT(times); i++)
        CHECK_EQ(gz_disk_probe_run(probe, times[i], &err), GZ_OK);
    gz_disk_probe_close(probe);
}

TEST(a_probe_may_end_at_any_time)
{
    with_each_engine(it_may_end_before_it_runs);
    with_each_engine(odd_times_come_to_an_end);
}

static void the_file_may_be_cut(void)
{
    if (!open_probe() || !CHECK_EQ(truncate(rows.path, 5000), 0))
        return;
    CHECK_EQ(gz_disk_probe_run(probe, 0, &err), GZ_E_FORMAT);
    check_message("truncated");
    gz_disk_probe_close(probe);
}

static void reads_may_fail(void)
{
    gz_direct_close(&rows.file);
    rows.file.fd = open(rows.path, O_WRONLY | O_CLOEXEC);
    if (!CHECK(rows.file.fd >= 0) || !open_probe())
        return;
    CHECK_EQ(gz_disk_probe_run(probe, 10, &err), GZ_E_OS);
    CHECK_EQ(err.saved_errno, EBADF);
    gz_disk_probe_stop(probe, &counts);
    CHECK_EQ(counts.reads, 0);
    gz_disk_probe_close(probe);
}

static void set_alarms(void (*handler)(int), suseconds_t every)
{
    struct sigaction action = {.sa_handler = handler}; /* without SA_RESTART */
    struct itimerval times = {{0, every}, {0, every}};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &times, NULL);
}

static void on_alarm(int number) { (void)number; }

static void signals_change_nothing(void)
{
    set_alarms(on_alarm, 500);
    count_some_reads();
    set_alarms(SIG_IGN, 0);
    usleep(5000); /* for a signal that is under way */
    set_alarms(SIG_DFL, 0);
}

TEST(failed_reads_end_a_probe_and_signals_do_not)
{
    with_each_engine(the_file_may_be_cut);
    with_each_engine(reads_may_fail);
    with_each_engine(signals_change_nothing);
}

static void refuses(uint64_t block_bytes, unsigned depth, const char *why)
{
    plan.block_bytes = block_bytes;
    plan.depth = depth;
    CHECK_EQ(gz_disk_probe_open(&rows.file, &plan, &probe, &err), GZ_E_OS);
    CHECK(probe == NULL);
    check_message(why);
}

static void refusals_say_why(void)
{
    unsigned most = plan.by_threads ? GZ_PROBE_MOST_THREADS : GZ_PROBE_MOST_DEPTH;
    refuses(0, 1, "blocks of 0 bytes");
    refuses(512, 1, "blocks of 512 bytes");
    refuses(6000, 1, "blocks of 6000 bytes");
    refuses(UINT64_MAX - 4095, 1, "blocks of");
    refuses(UINT64_MAX, 2, "blocks of");
    refuses(4096, 0, "0 blocks of 4096");
    refuses(4096, most + 1, "cannot be read at a time");
    refuses(4096, UINT32_MAX, "cannot be read at a time");
    refuses(1 << 26, 5, "5 blocks of 67108864 bytes cannot be read at a time");
    refuses(1 << 22, 1, "less than one block of 4194304");
    rows.file.is_direct = false;
    refuses(4096, 1, "past the page cache");
}

TEST(a_probe_that_cannot_be_made_is_refused)
{
    with_each_engine(refusals_say_why);
    if (gz_io_ring_is_built() || !open_rows(&rows))
        return;
    rows.file.is_direct = true;
    plan.by_threads = false;
    refuses(4096, 1, "built without io_uring");
    close_rows(&rows);
}
