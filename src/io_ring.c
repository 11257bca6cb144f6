#define _GNU_SOURCE /* syscall, MAP_POPULATE and MADV_DONTFORK under -std=c11 */

#include "graphzero/io_ring.h"

#include <errno.h>

#if defined(__linux__) && defined(__has_include) && !defined(GZ_NO_URING)
#if __has_include(<linux/io_uring.h>)
#include <linux/io_uring.h>
#include <sys/syscall.h>
#endif
#endif

#if defined(IORING_OFF_SQES) && defined(__NR_io_uring_setup)

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* The kernel's numbers for what its header may be too old to name. Whether the running kernel has
 * it is asked when a ring is set up. */
enum {
    SINGLE_MAP = 1 << 0,    /* IORING_FEAT_SINGLE_MMAP: one mapping holds both queues; Linux 5.4 */
    HAS_READ = 1 << 3,      /* IORING_FEAT_RW_CUR_POS: came with IORING_OP_READ in Linux 5.6 */
    OP_READ = 22,           /* IORING_OP_READ */
    NO_INTERRUPTS = 1 << 8, /* IORING_SETUP_COOP_TASKRUN; Linux 5.19 */
    MOST_REFUSALS = 1000
};

#if defined(IORING_FEAT_SINGLE_MMAP)
#define FEATURES(params) ((params)->features)
#else
#define FEATURES(params) ((params)->resv[0]) /* its name before Linux 5.4 */
#endif

static const struct timespec A_MILLISECOND = {0, 1000000};

typedef struct part {
    unsigned char *memory; /* NULL if not mapped */
    size_t bytes;
} part;

/* Of each queue, one side moves the head and the other the tail. A side acquires the position that
 * the other moves, and releases its own: an entry is complete before the other side sees it. */
struct gz_io_ring {
    int fd;
    pid_t owner;
    unsigned char opcode; /* of all reads */
    unsigned refusals;    /* by the kernel, one after another */

    /* The submission queue (SQ): the kernel moves its head, we its tail. */
    struct io_uring_sqe *sqes;
    unsigned sq_mask, sq_tail; /* our tail is ahead of the published one while reads are queued */
    _Atomic(unsigned) *shared_sq_head, *shared_sq_tail;

    /* The completion queue (CQ): we move its head, the kernel its tail. */
    const struct io_uring_cqe *cqes;
    unsigned cq_mask, cq_head;
    _Atomic(unsigned) *shared_cq_head, *shared_cq_tail;

    part sq_part, cq_part, sqes_part; /* no cq_part if sq_part holds both queues */
};

bool gz_io_ring_is_built(void) { return true; }

static gz_code refuse(int code, gz_error *err)
{
    const char *why = "io_uring cannot be set up";
    if (code == ENOSYS)
        why = "this kernel has no io_uring (it needs Linux 5.6), or seccomp hides it";
    else if (code == EPERM || code == EACCES)
        why = "io_uring is forbidden by seccomp or by the sysctl kernel.io_uring_disabled";
    else if (code == ENOMEM)
        why = "io_uring cannot lock enough memory (see ulimit -l)";
    return gz_fail(err, GZ_E_OS, code, 0, "%s; the strategy 'pread' works without io_uring", why);
}

/* Starts `unsent` reads and waits for `ended` completions; 0 or an errno. */
static int enter(const gz_io_ring *self, unsigned unsent, unsigned ended)
{
    long sent = syscall(__NR_io_uring_enter, self->fd, unsent, ended, IORING_ENTER_GETEVENTS, NULL,
                        (size_t)0);
    return sent < 0 ? errno : 0;
}

/* A descriptor of a new ring, or -1 with errno. The kernel sets O_CLOEXEC. */
static int set_up(unsigned depth, struct io_uring_params *params)
{
    *params = (struct io_uring_params){.flags = NO_INTERRUPTS};
    long fd = syscall(__NR_io_uring_setup, depth, params);
    if (fd < 0 && errno == EINVAL) {
        *params = (struct io_uring_params){0};
        fd = syscall(__NR_io_uring_setup, depth, params);
    }
    return (int)fd;
}

/* 0 or an errno. A forked child must not see the rings of its parent. */
static int map_part(int fd, size_t bytes, uint64_t offset, part *out)
{
    int flags = MAP_SHARED | MAP_POPULATE;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, (off_t)offset);
    if (memory == MAP_FAILED)
        return errno;
    *out = (part){memory, bytes};
    return madvise(memory, bytes, MADV_DONTFORK) == 0 ? 0 : errno;
}

static int map_parts(gz_io_ring *self, const struct io_uring_params *params)
{
    size_t sq_bytes = params->sq_off.array + params->sq_entries * sizeof(unsigned);
    size_t cq_bytes = params->cq_off.cqes + params->cq_entries * sizeof(struct io_uring_cqe);
    size_t sqes_bytes = params->sq_entries * sizeof(struct io_uring_sqe);
    bool is_single = FEATURES(params) & SINGLE_MAP;
    if (is_single && sq_bytes < cq_bytes)
        sq_bytes = cq_bytes;
    int code = map_part(self->fd, sq_bytes, IORING_OFF_SQ_RING, &self->sq_part);
    if (code == 0 && !is_single)
        code = map_part(self->fd, cq_bytes, IORING_OFF_CQ_RING, &self->cq_part);
    if (code == 0)
        code = map_part(self->fd, sqes_bytes, IORING_OFF_SQES, &self->sqes_part);
    return code;
}

static void find_queues(gz_io_ring *self, const struct io_uring_params *params)
{
    unsigned char *sq = self->sq_part.memory;
    unsigned char *cq = self->cq_part.memory != NULL ? self->cq_part.memory : sq;
    unsigned *order = (void *)(sq + params->sq_off.array);
    self->sqes = (void *)self->sqes_part.memory;
    self->sq_mask = params->sq_entries - 1;
    self->shared_sq_head = (void *)(sq + params->sq_off.head);
    self->shared_sq_tail = (void *)(sq + params->sq_off.tail);
    self->cqes = (void *)(cq + params->cq_off.cqes);
    self->cq_mask = params->cq_entries - 1;
    self->shared_cq_head = (void *)(cq + params->cq_off.head);
    self->shared_cq_tail = (void *)(cq + params->cq_off.tail);
    for (unsigned i = 0; i < params->sq_entries; i++)
        order[i] = i; /* the kernel takes the entries in turn */
}

/* 0 or an errno. */
static int open_parts(gz_io_ring *self, unsigned depth)
{
    struct io_uring_params params;
    self->fd = set_up(depth, &params);
    if (self->fd < 0)
        return errno;
    if ((FEATURES(&params) & HAS_READ) == 0)
        return ENOSYS;
    int code = map_parts(self, &params);
    if (code == 0)
        code = enter(self, 0, 0); /* seccomp may permit one call and forbid the other */
    if (code == 0)
        find_queues(self, &params);
    return code;
}

gz_code gz_io_ring_open(unsigned depth, gz_io_ring **out, gz_error *err)
{
    gz_io_ring *self = calloc(1, sizeof *self);
    *out = NULL;
    if (self == NULL)
        return gz_fail(err, GZ_E_NOMEM, 0, 0, "no memory for a ring of %u reads", depth);
    self->owner = getpid();
    self->opcode = OP_READ;
    int code = open_parts(self, depth);
    if (code != 0) {
        gz_io_ring_close(self);
        return refuse(code, err);
    }
    *out = self;
    return GZ_OK;
}

static void unmap(const part *one)
{
    if (one->memory != NULL)
        munmap(one->memory, one->bytes);
}

void gz_io_ring_close(gz_io_ring *self)
{
    if (self == NULL)
        return;
    if (self->owner == getpid()) { /* in a child, something else may be mapped there */
        /* The kernel destroys a ring in the background and holds its buffers until then. Without
         * this, a new ring could come first, and memory for both would be in use. */
        if (self->opcode == IORING_OP_READ_FIXED)
            syscall(__NR_io_uring_register, self->fd, IORING_UNREGISTER_BUFFERS, NULL, 0);
        unmap(&self->sqes_part);
        unmap(&self->cq_part);
        unmap(&self->sq_part);
    }
    if (self->fd >= 0)
        close(self->fd);
    free(self);
}

bool gz_io_ring_register(gz_io_ring *self, void *memory, size_t bytes)
{
    struct iovec all = {memory, bytes};
    long code = syscall(__NR_io_uring_register, self->fd, IORING_REGISTER_BUFFERS, &all, 1);
    if (code == 0)
        self->opcode = IORING_OP_READ_FIXED;
    return code == 0;
}

void gz_io_ring_read(gz_io_ring *self, int fd, void *to, unsigned length, uint64_t offset,
                     uint64_t tag)
{
    self->sqes[self->sq_tail++ & self->sq_mask] = (struct io_uring_sqe){
        .opcode = self->opcode,
        .fd = fd,
        .off = offset,
        .addr = (uintptr_t)to,
        .len = length,
        .user_data = tag,
    };
}

/* Reads that the kernel has taken and whose completions we have not: every read has one. */
static unsigned under_way(const gz_io_ring *self)
{
    return atomic_load_explicit(self->shared_sq_head, memory_order_acquire) - self->cq_head;
}

/* The kernel accepts no more reads: waits for those under way. If this fails too, it holds their
 * pages until they complete. */
static void drain(gz_io_ring *self)
{
    gz_completion ended;
    for (int refusals = 0; under_way(self) > 0 && refusals < MOST_REFUSALS;) {
        if (gz_io_ring_next(self, &ended) || enter(self, 0, 1) == 0)
            continue;
        refusals++;
        nanosleep(&A_MILLISECOND, NULL);
    }
}

gz_code gz_io_ring_wait(gz_io_ring *self, unsigned ended, gz_error *err)
{
    unsigned head = atomic_load_explicit(self->shared_sq_head, memory_order_acquire);
    atomic_store_explicit(self->shared_sq_tail, self->sq_tail, memory_order_release);
    int code = enter(self, self->sq_tail - head, ended);
    bool is_busy = code == EAGAIN || code == EBUSY;
    self->refusals = is_busy ? self->refusals + 1 : 0;
    if (code != 0 && code != EINTR && (!is_busy || self->refusals > MOST_REFUSALS)) {
        drain(self);
        return gz_fail(err, GZ_E_OS, code, 0, "io_uring does not accept reads");
    }
    if (is_busy)
        nanosleep(&A_MILLISECOND, NULL);
    return GZ_OK;
}

bool gz_io_ring_next(gz_io_ring *self, gz_completion *out)
{
    if (self->cq_head == atomic_load_explicit(self->shared_cq_tail, memory_order_acquire))
        return false;
    const struct io_uring_cqe *entry = &self->cqes[self->cq_head++ & self->cq_mask];
    *out = (gz_completion){entry->user_data, entry->res};
    atomic_store_explicit(self->shared_cq_head, self->cq_head, memory_order_release);
    return true;
}

#else

#if !defined(__linux__)
static const char WHY[] = "io_uring is a part of Linux only; use the strategy 'pread'";
#elif defined(GZ_NO_URING)
static const char WHY[] = "built without io_uring, because GRAPHZERO_NO_URING was set: build "
                          "graphzero again, or use the strategy 'pread'";
#else
static const char WHY[] = "built without io_uring, because <linux/io_uring.h> was missing: install "
                          "the headers of Linux 5.1 or later and build graphzero again, or use the "
                          "strategy 'pread'";
#endif

bool gz_io_ring_is_built(void) { return false; }

gz_code gz_io_ring_open(unsigned depth, gz_io_ring **out, gz_error *err)
{
    (void)depth;
    *out = NULL;
    return gz_fail(err, GZ_E_OS, ENOSYS, 0, "%s", WHY);
}

/* There is no ring that these could be called with. */
void gz_io_ring_close(gz_io_ring *ring) { (void)ring; }

bool gz_io_ring_register(gz_io_ring *ring, void *memory, size_t bytes)
{
    (void)ring, (void)memory, (void)bytes;
    return false;
}

void gz_io_ring_read(gz_io_ring *ring, int fd, void *to, unsigned length, uint64_t offset,
                     uint64_t tag)
{
    (void)ring, (void)fd, (void)to, (void)length, (void)offset, (void)tag;
}

gz_code gz_io_ring_wait(gz_io_ring *ring, unsigned ended, gz_error *err)
{
    return gz_io_ring_open(ended, &ring, err);
}

bool gz_io_ring_next(gz_io_ring *ring, gz_completion *out)
{
    (void)ring, (void)out;
    return false;
}

#endif
