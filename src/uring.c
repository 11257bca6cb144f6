#include "graphzero/uring.h"

#include <stddef.h>
#include <stdlib.h>

#include "graphzero/io_ring.h"

enum { READS_PER_TURN = 32, PROBE_DEPTH = 2 };

struct gz_uring {
    gz_io_ring *ring;
    const gz_buffers *buffers;
    unsigned *idle; /* indexes of the buffers without a read; the first num_idle are valid */
    unsigned num_idle;
};

bool gz_uring_is_built(void) { return gz_io_ring_is_built(); }

gz_code gz_uring_probe(gz_error *err)
{
    gz_io_ring *ring;
    gz_code code = gz_io_ring_open(PROBE_DEPTH, &ring, err);
    gz_io_ring_close(ring);
    return code;
}

gz_code gz_uring_open(const gz_buffers *buffers, gz_uring **out, gz_error *err)
{
    *out = NULL;
    gz_io_ring *ring;
    gz_code code = gz_io_ring_open(buffers->count, &ring, err);
    if (code != GZ_OK)
        return code;
    gz_uring *self = calloc(1, sizeof *self);
    unsigned *idle = calloc(buffers->count, sizeof *idle);
    if (self == NULL || idle == NULL) {
        gz_io_ring_close(ring);
        free(self);
        free(idle);
        return gz_fail(err, GZ_E_NOMEM, 0, 0, "no memory for %u reads", buffers->count);
    }
    (void)gz_io_ring_register(ring, buffers->memory, (size_t)buffers->count * GZ_BUFFER_BYTES);
    *self = (gz_uring){ring, buffers, idle, 0};
    for (; self->num_idle < buffers->count; self->num_idle++)
        idle[self->num_idle] = self->num_idle;
    *out = self;
    return GZ_OK;
}

void gz_uring_close(gz_uring *self)
{
    if (self == NULL)
        return;
    gz_io_ring_close(self->ring);
    free(self->idle);
    free(self);
}

/* Queues the read of the rest of a buffer. The ring has room for a read of every buffer, and each
 * buffer has at most one. */
static void prepare(gz_uring *self, const gz_direct *file, unsigned number)
{
    const gz_buffer *buffer = &self->buffers->each[number];
    unsigned length = (unsigned)(buffer->read.length - buffer->got);
    gz_io_ring_read(self->ring, file->fd, buffer->bytes + buffer->got, length,
                    buffer->read.offset + buffer->got, number);
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
    gz_completion ended;
    while (gz_io_ring_next(self->ring, &ended)) {
        unsigned number = (unsigned)ended.tag;
        gz_buffer *buffer = &self->buffers->each[number];
        gz_error own;
        gz_settled settled = gz_direct_settle(fetch->file, buffer, ended.result, &own);
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
    return code;
}

gz_code gz_uring_fetch(gz_uring *self, gz_fetch *fetch, gz_error *err)
{
    gz_code code = GZ_OK;
    for (;;) {
        if (code == GZ_OK)
            fill(self, fetch);
        unsigned busy = self->buffers->count - self->num_idle;
        if (busy == 0)
            return code;
        /* Few turns with many reads each: every turn costs a context switch and a request to the
         * disk. */
        unsigned ended = busy < READS_PER_TURN ? busy : READS_PER_TURN;
        gz_code waited = gz_io_ring_wait(self->ring, ended, err);
        if (waited != GZ_OK)
            return waited;
        code = reap(self, fetch, code, err);
    }
}
