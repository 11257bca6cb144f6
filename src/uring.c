#define _GNU_SOURCE /* what liburing.h needs under -std=c11 */

#include "graphzero/uring.h"

#include <errno.h>
#include <stddef.h>

#if defined(GZ_HAVE_URING)

#include <liburing.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { CQES_A_TURN = 128, READS_A_TURN = 32, MOST_REFUSALS = 1000, PROBE_DEPTH = 2 };

static const struct timespec A_MILLISECOND = {0, 1000000};

struct gz_uring {
    struct io_uring ring;
    const gz_buffers *buffers;
    unsigned *idle; /* numbers of the buffers without a read, the first num_idle */
    unsigned num_idle;
    bool has_buffers; /* registered with the kernel, which saves a sixth of the work of a read */
    pid_t owner;
};

bool gz_uring_is_built(void) { return true; }

static gz_code refuse(int code, gz_error *err)
{
    const char *why = "io_uring cannot be set up";
    if (code == ENOSYS)
        why = "io_uring is not known to this kernel (it needs Linux 5.6), or hidden by seccomp";
    else if (code == EPERM || code == EACCES)
        why = "io_uring is forbidden by seccomp or by the sysctl kernel.io_uring_disabled";
    else if (code == ENOMEM)
        why = "io_uring gets no memory (see ulimit -l)";
    return gz_fail(err, GZ_E_OS, code, 0, "%s; strategy 'pread' does without", why);
}

/* A ring, or a negative errno. */
static int set_up(unsigned depth, struct io_uring *ring)
{
    int code = -EINVAL;
#if defined(IORING_SETUP_COOP_TASKRUN)
    /* No interrupts of the thread that will look anyway; since Linux 5.19. */
    code = io_uring_queue_init(depth, ring, IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG);
#endif
    if (code == -EINVAL)
        code = io_uring_queue_init(depth, ring, 0);
    if (code < 0)
        return code;
    struct io_uring_probe *probe = io_uring_get_probe_ring(ring);
    bool can_read = probe != NULL && io_uring_opcode_supported(probe, IORING_OP_READ);
    if (probe != NULL)
        io_uring_free_probe(probe);
    /* A child must not see the queues of its parent. */
    code = can_read ? io_uring_ring_dontfork(ring) : -ENOSYS;
    if (code < 0)
        io_uring_queue_exit(ring);
    return code;
}

gz_code gz_uring_probe(gz_error *err)
{
    struct io_uring ring;
    int code = set_up(PROBE_DEPTH, &ring);
    if (code < 0)
        return refuse(-code, err);
    io_uring_queue_exit(&ring);
    return GZ_OK;
}

gz_code gz_uring_open(const gz_buffers *buffers, gz_uring **out, gz_error *err)
{
    gz_uring *self = calloc(1, sizeof *self);
    unsigned *idle = calloc(buffers->count, sizeof *idle);
    *out = NULL;
    int code = self != NULL && idle != NULL ? set_up(buffers->count, &self->ring) : -ENOMEM;
    if (code < 0) {
        free(self);
        free(idle);
        return refuse(-code, err);
    }
    self->buffers = buffers;
    self->idle = idle;
    self->owner = getpid();
    for (; self->num_idle < buffers->count; self->num_idle++)
        idle[self->num_idle] = self->num_idle;
    struct iovec memory = {buffers->memory, (size_t)buffers->count * GZ_BUFFER_BYTES};
    self->has_buffers = io_uring_register_buffers(&self->ring, &memory, 1) == 0;
    *out = self;
    return GZ_OK;
}

void gz_uring_close(gz_uring *self)
{
    if (self == NULL)
        return;
    if (self->owner == getpid()) {
        /* The kernel ends a ring later, in the background, and would hold the buffers until then:
         * twice as many, where the next ring comes first. */
        if (self->has_buffers)
            (void)io_uring_unregister_buffers(&self->ring);
        io_uring_queue_exit(&self->ring);
    } else
        close(self->ring.ring_fd); /* its queues are not in this process */
    free(self->idle);
    free(self);
}

/* Prepares the read of what a buffer still lacks. There is room: the queue is as long as there are
 * buffers, and each has one read at most. */
static void prepare(gz_uring *self, const gz_direct *file, unsigned number)
{
    const gz_buffer *buffer = &self->buffers->each[number];
    struct io_uring_sqe *sqe = io_uring_get_sqe(&self->ring);
    unsigned length = (unsigned)(buffer->read.length - buffer->got);
    uint64_t offset = buffer->read.offset + buffer->got;
    if (self->has_buffers)
        io_uring_prep_read_fixed(sqe, file->fd, buffer->bytes + buffer->got, length, offset, 0);
    else
        io_uring_prep_read(sqe, file->fd, buffer->bytes + buffer->got, length, offset);
    sqe->user_data = number;
}

static void fill(gz_uring *self, gz_fetch *fetch)
{
    gz_read read;
    while (self->num_idle > 0 && gz_reads_next(&fetch->reads, &read)) {
        unsigned number = self->idle[--self->num_idle];
        gz_buffer *buffer = &self->buffers->each[number];
        buffer->read = read;
        buffer->got = buffer->tries = 0;
        prepare(self, fetch->file, number);
    }
}

/* Deals with all reads that have ended. After a first error, given or met, no more are begun. */
static gz_code reap(gz_uring *self, gz_fetch *fetch, gz_code code, gz_error *err)
{
    struct io_uring_cqe *cqes[CQES_A_TURN];
    unsigned count = io_uring_peek_batch_cqe(&self->ring, cqes, CQES_A_TURN);
    for (unsigned i = 0; i < count; i++) {
        unsigned number = (unsigned)cqes[i]->user_data;
        gz_buffer *buffer = &self->buffers->each[number];
        gz_error own;
        gz_settled settled = gz_direct_settle(fetch->file, buffer, cqes[i]->res, &own);
        if (code == GZ_OK && settled == GZ_READ_AGAIN) {
            prepare(self, fetch->file, number);
            continue;
        }
        if (code == GZ_OK && settled == GZ_READ_DONE)
            gz_reads_scatter(&fetch->reads, &buffer->read, buffer->bytes, fetch->out);
        if (code == GZ_OK && settled == GZ_READ_FAILED) {
            code = own.code;
            *err = own;
        }
        self->idle[self->num_idle++] = number;
    }
    io_uring_cq_advance(&self->ring, count);
    return code;
}

/* The ring itself fails: waits for the reads that the kernel has, so that none is left. */
static gz_code give_up(gz_uring *self, int code, gz_error *err)
{
    unsigned unsent = io_uring_sq_ready(&self->ring);
    unsigned under_way = self->buffers->count - self->num_idle - unsent;
    while (under_way > 0) {
        struct io_uring_cqe *cqe;
        int waited = io_uring_wait_cqe(&self->ring, &cqe);
        if (waited == 0) {
            io_uring_cqe_seen(&self->ring, cqe);
            under_way--;
        } else if (waited != -EINTR && waited != -EAGAIN) {
            break; /* the kernel holds the pages of a read until it has ended */
        }
    }
    return gz_fail(err, GZ_E_OS, code, 0, "io_uring takes no reads");
}

gz_code gz_uring_fetch(gz_uring *self, gz_fetch *fetch, gz_error *err)
{
    gz_code code = GZ_OK;
    unsigned refusals = 0;
    for (;;) {
        if (code == GZ_OK)
            fill(self, fetch);
        if (self->num_idle == self->buffers->count)
            break;
        /* Few turns with many reads each: every turn is a context switch and a call of the disk. */
        unsigned busy = self->buffers->count - self->num_idle;
        unsigned ended = busy < READS_A_TURN ? busy : READS_A_TURN;
        int sent = io_uring_submit_and_wait(&self->ring, ended);
        bool is_busy = sent == -EAGAIN || sent == -EBUSY;
        refusals = is_busy ? refusals + 1 : 0;
        if (sent < 0 && sent != -EINTR && (!is_busy || refusals > MOST_REFUSALS))
            return give_up(self, -sent, err);
        if (is_busy)
            nanosleep(&A_MILLISECOND, NULL);
        code = reap(self, fetch, code, err);
    }
    return code;
}

#else

bool gz_uring_is_built(void) { return false; }

gz_code gz_uring_probe(gz_error *err)
{
    return gz_fail(err, GZ_E_OS, ENOSYS, 0,
                   "built without io_uring: install liburing's headers and build graphzero again, "
                   "or use the strategy 'pread'");
}

gz_code gz_uring_open(const gz_buffers *buffers, gz_uring **out, gz_error *err)
{
    (void)buffers;
    *out = NULL;
    return gz_uring_probe(err);
}

void gz_uring_close(gz_uring *ring) { (void)ring; }

gz_code gz_uring_fetch(gz_uring *ring, gz_fetch *fetch, gz_error *err)
{
    (void)ring, (void)fetch;
    return gz_uring_probe(err);
}

#endif
