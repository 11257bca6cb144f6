#include "check.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include "graphzero/io_ring.h"
#include "support.h"

#if defined(__linux__)
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

enum { MOST_DEPTH = 4096, READ_BYTES = 64 };

static unsigned char memory[MOST_DEPTH][READ_BYTES];
static gz_io_ring *ring;

/* False where there is no io_uring. */
static bool open_ring(unsigned depth)
{
    return has_ring() && CHECK_EQ(gz_io_ring_open(depth, &ring, &err), GZ_OK);
}

static void note_alarm(int number) { (void)number; }

TEST(an_interrupted_wait_is_not_an_error)
{
    struct sigaction noted = {.sa_handler = note_alarm}, before;
    struct itimerval soon = {{0, 0}, {0, 20000}};
    gz_completion ended;
    int ends[2];
    if (!open_ring(1) || !CHECK_EQ(pipe(ends), 0))
        return;
    gz_io_ring_read(ring, ends[0], memory, READ_BYTES, 0, 3);
    CHECK_EQ(gz_io_ring_wait(ring, 0, &err), GZ_OK);
    sigaction(SIGALRM, &noted, &before);
    setitimer(ITIMER_REAL, &soon, NULL);
    CHECK_EQ(gz_io_ring_wait(ring, 1, &err), GZ_OK);
    CHECK(!gz_io_ring_next(ring, &ended));
    CHECK_EQ(write(ends[1], "bytes", 5), 5);
    CHECK_EQ(gz_io_ring_wait(ring, 1, &err), GZ_OK);
    CHECK(gz_io_ring_next(ring, &ended));
    CHECK(ended.tag == 3 && ended.result == 5);
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

/* Descriptors of rings in this process, none of which a program may inherit. */
static int count_descriptors(void)
{
    char path[300], name[64];
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    for (struct dirent *one; folder != NULL && (one = readdir(folder)) != NULL;) {
        snprintf(path, sizeof path, "/proc/self/fd/%s", one->d_name);
        ssize_t length = readlink(path, name, sizeof name - 1);
        name[length < 0 ? 0 : length] = 0;
        if (strstr(name, "[io_uring]") == NULL)
            continue;
        count++;
        CHECK((fcntl(atoi(one->d_name), F_GETFD) & FD_CLOEXEC) != 0);
    }
    if (folder != NULL)
        closedir(folder);
    return count;
}

static bool nothing_is_left(void)
{
    return CHECK_EQ(count_mapped(), 0) && CHECK_EQ(count_descriptors(), 0);
}

TEST(a_ring_without_address_space_leaves_nothing)
{
    struct rlimit before, none = {1 << 20, 0};
    if (!has_ring())
        return;
    getrlimit(RLIMIT_AS, &before);
    none.rlim_max = before.rlim_max;
    setrlimit(RLIMIT_AS, &none);
    gz_code code = gz_io_ring_open(MOST_DEPTH, &ring, &err);
    setrlimit(RLIMIT_AS, &before);
    CHECK_EQ(code, GZ_E_OS);
    CHECK_EQ(err.saved_errno, ENOMEM);
    CHECK(ring == NULL);
    nothing_is_left();
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

/* A kernel that is short of memory says EAGAIN: for some time this is no error. */
static bool a_kernel_that_stays_busy_is_an_error_in_the_end(void)
{
    int tries = 0;
    if (!open_ring(4))
        return false;
    if (!forbid_enter(EAGAIN, false))
        return true;
    gz_io_ring_read(ring, -1, memory, READ_BYTES, 0, 0);
    while (tries < 5000 && gz_io_ring_wait(ring, 1, &err) == GZ_OK)
        tries++;
    gz_io_ring_close(ring);
    return CHECK(tries > 100) && CHECK_EQ(err.saved_errno, EAGAIN) &&
           check_message("io_uring does not accept reads");
}

/* A read of a pipe is under way when the kernel refuses another one. */
static bool an_error_waits_for_the_reads_under_way(void)
{
    int ends[2];
    memset(memory, 0, sizeof memory);
    if (!CHECK_EQ(pipe(ends), 0) || !open_ring(4))
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

TEST(a_kernel_that_refuses_is_an_error)
{
    if (!has_ring())
        return;
    in_child(a_kernel_that_stays_busy_is_an_error_in_the_end);
    in_child(an_error_waits_for_the_reads_under_way);
}

#endif
