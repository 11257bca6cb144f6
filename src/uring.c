#define _GNU_SOURCE /* what liburing.h needs under -std=c11 */

#include "graphzero/uring.h"

#include <errno.h>
#include <stddef.h>

#if defined(GZ_HAVE_URING)

#include <liburing.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { CQES_PER_TURN = 128, READS_PER_TURN = 32, MOST_REFUSALS = 1000, PROBE_DEPTH = 2 };

static const struct timespec A_MILLISECOND = {0, 1000000};

struct gz_uring {
    struct io_uring ring;
    const gz_buffers *buffers;
    unsigned *idle; /* indexes of the buffers without a read; the first num_idle are valid */
    unsigned num_idle;
    bool has_buffers; /* registered with the kernel, which makes a read a sixth cheaper */
    pid_t owner;
};

bool gz_uring_is_built(void) { return true; }

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

/* Sets up a ring; returns 0 or a negative errno. */
static int set_up(unsigned depth, struct io_uring *ring)
{
    int code = -EINVAL;
#if defined(IORING_SETUP_COOP_TASKRUN)
    /* Completions need not interrupt a thread that polls for them; since Linux 5.19. */
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
    /* A forked child must not see the queues of its parent. */
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
        /* The kernel destroys a ring in the background and holds its buffers until then. Without
         * this, a new ring could come first, and memory for both would be in use. */
        if (self->has_buffers)
            (void)io_uring_unregister_buffers(&self->ring);
        io_uring_queue_exit(&self->ring);
    } else
        close(self->ring.ring_fd); /* the queues are not mapped in this process */
    free(self->idle);
    free(self);
}

/* Queues the read of the rest of a buffer. The queue has an entry for every buffer, and each buffer
 * has at most one read. */
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

/* Handles all completed reads. After a first error, earlier or now, no more reads start. */
static gz_code reap(gz_uring *self, gz_fetch *fetch, gz_code code, gz_error *err)
{
    struct io_uring_cqe *cqes[CQES_PER_TURN];
    unsigned count = io_uring_peek_batch_cqe(&self->ring, cqes, CQES_PER_TURN);
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

/* The ring itself has failed: waits for the reads in flight. */
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
            break; /* the kernel holds the pages of a read until it completes */
        }
    }
    return gz_fail(err, GZ_E_OS, code, 0, "io_uring does not accept reads");
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
        /* Few turns with many reads each: every turn costs a context switch and a request to the
         * disk. */
        unsigned busy = self->buffers->count - self->num_idle;
        unsigned ended = busy < READS_PER_TURN ? busy : READS_PER_TURN;
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
