#define _GNU_SOURCE /* fork, pipe and setitimer under -std=c11 */
#define _DARWIN_C_SOURCE

#include "graphzero/io_ring.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "fetches.h"

#if defined(__linux__)
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

enum { MOST_DEPTH = 4096, READ_BYTES = 64 };

static unsigned char memory[MOST_DEPTH][READ_BYTES], known[FETCH_FILE_BYTES];

static uint64_t offset_of(unsigned number) { return (uint64_t)number * 37; }

/* Queues, starts and takes `count` reads; each must come once, with its bytes. */
static void reads_come(gz_io_ring *ring, int fd, unsigned count)
{
    static bool seen[MOST_DEPTH];
    gz_completion ended;
    gz_error err;
    unsigned taken = 0;
    memset(seen, 0, sizeof seen);
    memset(memory, 0, sizeof memory);
    for (unsigned i = 0; i < count; i++)
        gz_io_ring_read(ring, fd, memory[i], READ_BYTES, offset_of(i), i);
    while (taken < count && CHECK_EQ(gz_io_ring_wait(ring, count - taken, &err), GZ_OK)) {
        for (; gz_io_ring_next(ring, &ended); taken++) {
            if (!CHECK(ended.tag < count) || !CHECK(!seen[ended.tag]))
                return;
            seen[ended.tag] = true;
            const unsigned char *bytes = known + offset_of((unsigned)ended.tag);
            if (!CHECK_EQ(ended.result, READ_BYTES) ||
                !CHECK(memcmp(memory[ended.tag], bytes, READ_BYTES) == 0))
                return;
        }
    }
    CHECK_EQ(taken, count);
    CHECK(!gz_io_ring_next(ring, &ended));
}

static void every_read_comes_once(void)
{
    static const unsigned depths[] = {1, 2, 3, 128, MOST_DEPTH};
    rows_file rows;
    gz_io_ring *ring;
    gz_error err;
    if (!open_rows(&rows))
        return;
    known_bytes(known, sizeof known);
    for (size_t i = 0; i < sizeof depths / sizeof *depths; i++) {
        for (int is_registered = 0; is_registered < 2; is_registered++) {
            if (!CHECK_EQ(gz_io_ring_open(depths[i], &ring, &err), GZ_OK))
                continue;
            if (is_registered && !gz_io_ring_register(ring, memory, sizeof memory))
                printf("no limit of locked memory permits registered memory\n");
            for (unsigned round = 0; round < 20; round++) { /* both queues wrap */
                reads_come(ring, rows.mapping.fd, depths[i]);
                reads_come(ring, rows.mapping.fd, depths[i] / 2 + 1);
            }
            gz_io_ring_close(ring);
        }
    }
    close_rows(&rows);
}

static void take_one(gz_io_ring *ring, uint64_t tag, int result)
{
    gz_completion ended = {0};
    gz_error err;
    CHECK_EQ(gz_io_ring_wait(ring, 1, &err), GZ_OK);
    CHECK(gz_io_ring_next(ring, &ended));
    CHECK_EQ(ended.tag, tag);
    CHECK_EQ(ended.result, result);
}

static void a_read_reports_its_bytes_or_its_error(void)
{
    rows_file rows;
    gz_io_ring *ring;
    gz_error err;
    if (!open_rows(&rows) || !CHECK_EQ(gz_io_ring_open(2, &ring, &err), GZ_OK))
        return;
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    off_t end = lseek(fd, 0, SEEK_END);
    gz_io_ring_read(ring, fd, memory, READ_BYTES, (uint64_t)end - 5, UINT64_MAX);
    take_one(ring, UINT64_MAX, 5);
    gz_io_ring_read(ring, fd, memory, READ_BYTES, (uint64_t)end + 5, 7);
    take_one(ring, 7, 0);
    close(fd);
    gz_io_ring_read(ring, fd, memory, READ_BYTES, 0, 8);
    take_one(ring, 8, -EBADF);
    gz_io_ring_close(ring);
    close_rows(&rows);
}

static void note_alarm(int number) { (void)number; }

static void an_interrupted_wait_is_not_an_error(void)
{
    struct sigaction noted = {.sa_handler = note_alarm}, before;
    struct itimerval soon = {{0, 0}, {0, 20000}};
    gz_completion ended;
    gz_io_ring *ring;
    gz_error err;
    int ends[2];
    if (!CHECK_EQ(pipe(ends), 0) || !CHECK_EQ(gz_io_ring_open(1, &ring, &err), GZ_OK))
        return;
    gz_io_ring_read(ring, ends[0], memory, READ_BYTES, 0, 3);
    CHECK_EQ(gz_io_ring_wait(ring, 0, &err), GZ_OK);
    sigaction(SIGALRM, &noted, &before);
    setitimer(ITIMER_REAL, &soon, NULL);
    CHECK_EQ(gz_io_ring_wait(ring, 1, &err), GZ_OK);
    CHECK(!gz_io_ring_next(ring, &ended));
    CHECK_EQ(write(ends[1], "bytes", 5), 5);
    take_one(ring, 3, 5);
    sigaction(SIGALRM, &before, NULL);
    gz_io_ring_close(ring);
    close(ends[0]);
    close(ends[1]);
}

#if defined(__linux__)

/* Mappings of rings in this process. */
static int count_mapped(void)
{
    char line[512];
    int count = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL)
        count += strstr(line, "[io_uring]") != NULL;
    if (maps != NULL)
        fclose(maps);
    return count;
}

/* Descriptors of rings in this process, of which those that a program would inherit. */
static int count_descriptors(int *inherited)
{
    char path[300], name[64];
    int count = *inherited = 0;
    DIR *folder = opendir("/proc/self/fd");
    for (struct dirent *one; folder != NULL && (one = readdir(folder)) != NULL;) {
        snprintf(path, sizeof path, "/proc/self/fd/%s", one->d_name);
        ssize_t length = readlink(path, name, sizeof name - 1);
        name[length < 0 ? 0 : length] = 0;
        if (strstr(name, "[io_uring]") == NULL)
            continue;
        count++;
        *inherited += (fcntl(atoi(one->d_name), F_GETFD) & FD_CLOEXEC) == 0;
    }
    if (folder != NULL)
        closedir(folder);
    return count;
}

static void a_closed_ring_leaves_nothing(void)
{
    gz_io_ring *ring;
    gz_error err;
    int inherited;
    for (int i = 0; i < 20; i++) {
        if (!CHECK_EQ(gz_io_ring_open(8, &ring, &err), GZ_OK))
            return;
        gz_io_ring_register(ring, memory, sizeof memory);
        CHECK(count_mapped() >= 2);
        CHECK_EQ(count_descriptors(&inherited), 1);
        CHECK_EQ(inherited, 0);
        gz_io_ring_close(ring);
        CHECK_EQ(count_mapped(), 0);
        CHECK_EQ(count_descriptors(&inherited), 0);
    }
}

static void a_ring_without_address_space_leaves_nothing(void)
{
    struct rlimit before, none = {1 << 20, 0};
    gz_io_ring *ring;
    gz_error err;
    int inherited;
    getrlimit(RLIMIT_AS, &before);
    none.rlim_max = before.rlim_max;
    setrlimit(RLIMIT_AS, &none);
    gz_code code = gz_io_ring_open(MOST_DEPTH, &ring, &err);
    setrlimit(RLIMIT_AS, &before);
    CHECK_EQ(code, GZ_E_OS);
    CHECK_EQ(err.saved_errno, ENOMEM);
    CHECK(ring == NULL);
    CHECK_EQ(count_mapped(), 0);
    CHECK_EQ(count_descriptors(&inherited), 0);
}

/* Runs in a child, and passes its failed checks on: they are counted in the parent. */
static void in_child(bool (*work)(void))
{
    int status = -1;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        bool fine = work();
        fflush(stdout);
        _exit(fine ? 0 : 1);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
}

static gz_io_ring *of_parent;

static bool the_child_has_a_descriptor_only(void)
{
    int inherited;
    bool fine = CHECK_EQ(count_mapped(), 0) && CHECK_EQ(count_descriptors(&inherited), 1);
    gz_io_ring_close(of_parent);
    return fine && CHECK_EQ(count_descriptors(&inherited), 0);
}

static void a_child_lets_go_of_the_ring(void)
{
    rows_file rows;
    gz_error err;
    if (!open_rows(&rows) || !CHECK_EQ(gz_io_ring_open(4, &of_parent, &err), GZ_OK))
        return;
    known_bytes(known, sizeof known);
    in_child(the_child_has_a_descriptor_only);
    reads_come(of_parent, rows.mapping.fd, 4);
    gz_io_ring_close(of_parent);
    close_rows(&rows);
}

/* From here on io_uring_enter fails with this errno, in this process; if `only_starts`, where it
 * should start reads. False where seccomp is unavailable. */
static bool forbid_enter(unsigned code, bool only_starts)
{
    uint32_t second = offsetof(struct seccomp_data, args) + sizeof(uint64_t);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    second += 4;
#endif
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_io_uring_enter, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, second),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, only_starts ? 1 : 0, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | code),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof steps / sizeof *steps, steps};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static bool a_forbidden_enter_is_told_at_once(void)
{
    gz_io_ring *ring;
    gz_error err;
    int inherited;
    if (!forbid_enter(EPERM, false))
        return true;
    return CHECK_EQ(gz_io_ring_open(4, &ring, &err), GZ_E_OS) && CHECK(ring == NULL) &&
           CHECK_EQ(err.saved_errno, EPERM) &&
           CHECK(strstr(err.message, "forbidden by seccomp") != NULL) &&
           CHECK_EQ(count_mapped(), 0) && CHECK_EQ(count_descriptors(&inherited), 0);
}

/* A kernel that is short of memory says EAGAIN: for some time this is no error. */
static bool a_kernel_that_stays_busy_is_an_error_in_the_end(void)
{
    gz_io_ring *ring;
    gz_error err = {0};
    int tries = 0;
    if (!CHECK_EQ(gz_io_ring_open(4, &ring, &err), GZ_OK))
        return false;
    if (!forbid_enter(EAGAIN, false))
        return true;
    gz_io_ring_read(ring, -1, memory, READ_BYTES, 0, 0);
    while (tries < 5000 && gz_io_ring_wait(ring, 1, &err) == GZ_OK)
        tries++;
    gz_io_ring_close(ring);
    return CHECK(tries > 100) && CHECK_EQ(err.saved_errno, EAGAIN) &&
           CHECK(strstr(err.message, "io_uring does not accept reads") != NULL);
}

/* A read of a pipe is under way when the kernel refuses another one. */
static bool an_error_waits_for_the_reads_under_way(void)
{
    gz_io_ring *ring;
    gz_error err;
    int ends[2];
    memset(memory, 0, sizeof memory);
    if (!CHECK_EQ(pipe(ends), 0) || !CHECK_EQ(gz_io_ring_open(4, &ring, &err), GZ_OK))
        return false;
    gz_io_ring_read(ring, ends[0], memory[0], READ_BYTES, 0, 0);
    if (!CHECK_EQ(gz_io_ring_wait(ring, 0, &err), GZ_OK) || !forbid_enter(EIO, true))
        return true;
    if (fork() == 0) {
        usleep(50000);
        _exit(write(ends[1], "bytes", 5) != 5);
    }
    gz_io_ring_read(ring, ends[0], memory[1], READ_BYTES, 0, 1);
    bool fine = CHECK_EQ(gz_io_ring_wait(ring, 1, &err), GZ_E_OS) &&
                CHECK_EQ(err.saved_errno, EIO) && CHECK(memcmp(memory[0], "bytes", 6) == 0);
    gz_io_ring_close(ring);
    return fine;
}

static void a_kernel_that_refuses_is_an_error(void)
{
    in_child(a_forbidden_enter_is_told_at_once);
    in_child(a_kernel_that_stays_busy_is_an_error_in_the_end);
    in_child(an_error_waits_for_the_reads_under_way);
}

#endif

static void without_io_uring_there_is_a_reason(void)
{
    gz_error err;
    gz_io_ring *ring;
    CHECK_EQ(gz_io_ring_open(2, &ring, &err), GZ_E_OS);
    CHECK(ring == NULL);
    gz_io_ring_close(ring);
    CHECK_EQ(err.saved_errno, ENOSYS);
    CHECK(strstr(err.message, "io_uring") != NULL && strstr(err.message, "'pread'") != NULL);
}

void test_io_ring(void)
{
    gz_error err;
    gz_io_ring *ring;
    if (!gz_io_ring_is_built()) {
        RUN(without_io_uring_there_is_a_reason);
        return;
    }
    if (gz_io_ring_open(2, &ring, &err) != GZ_OK) {
        printf("skipped the tests of the ring: %s\n", err.message);
        return;
    }
    gz_io_ring_close(ring);
    RUN(every_read_comes_once);
    RUN(a_read_reports_its_bytes_or_its_error);
    RUN(an_interrupted_wait_is_not_an_error);
#if defined(__linux__)
    RUN(a_closed_ring_leaves_nothing);
    RUN(a_ring_without_address_space_leaves_nothing);
    RUN(a_child_lets_go_of_the_ring);
    RUN(a_kernel_that_refuses_is_an_error);
#endif
}
