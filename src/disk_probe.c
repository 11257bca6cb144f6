#define _GNU_SOURCE /* clock_gettime and nanosleep under -std=c11 */
#define _DARWIN_C_SOURCE

#include "graphzero/disk_probe.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "graphzero/io_ring.h"
#include "graphzero/latencies.h"
#include "graphzero/rng.h"

static const uint64_t SECOND = 1000000000, LONGEST_SLEEP = 10000000;

/* The place of one read at a time. */
typedef struct lane {
    gz_disk_probe *probe;
    gz_buffer buffer;
    uint64_t begun;
    pthread_t thread; /* with threads */
} lane;

struct gz_disk_probe {
    const gz_direct *file;
    gz_probe_plan plan;
    gz_buffers buffers; /* memory of all lanes, cut into blocks */
    lane *lanes;
    unsigned count; /* of lanes in use */
    gz_io_ring *ring;
    unsigned busy; /* reads of the ring that are queued, under way, or not yet taken */
    uint64_t blocks, stream, first_run;
    uint64_t origin; /* the first block, if they are read in sequence */

    pthread_mutex_t lock; /* with threads, of all that follows */
    uint64_t next;        /* number of the next read */
    bool is_stopped;
    gz_latencies latencies;
    double seconds;
    gz_code code;
    gz_error err;
};

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

static gz_code refuse(const gz_direct *file, const gz_probe_plan *plan, gz_error *err)
{
    uint64_t block = plan->block_bytes;
    unsigned most = plan->by_threads ? GZ_PROBE_MOST_THREADS : GZ_PROBE_MOST_DEPTH;
    if (block == 0 || block % GZ_PROBE_ALIGNMENT != 0 || block > GZ_PROBE_MOST_MEMORY)
        return gz_fail(err, GZ_E_OS, EINVAL, 0, "no blocks of %" PRIu64 " bytes can be read",
                       block);
    if (plan->depth == 0 || plan->depth > most || plan->depth > GZ_PROBE_MOST_MEMORY / block)
        return gz_fail(err, GZ_E_OS, EINVAL, 0,
                       "%u blocks of %" PRIu64 " bytes cannot be read at a time", plan->depth,
                       block);
    if (!file->is_direct)
        return gz_fail(err, GZ_E_OS, EOPNOTSUPP, 0, "cannot be read past the page cache");
    if (file->size < block)
        return gz_fail(err, GZ_E_OS, EINVAL, 0,
                       "has %" PRIu64 " bytes, less than one block of %" PRIu64, file->size, block);
    return GZ_OK;
}

static gz_code open_parts(gz_disk_probe *self, gz_error *err)
{
    uint64_t block = self->plan.block_bytes, bytes = block * self->plan.depth;
    gz_code code = gz_buffers_open((unsigned)((bytes + GZ_BUFFER_BYTES - 1) / GZ_BUFFER_BYTES),
                                   &self->buffers, err);
    if (code != GZ_OK)
        return code;
    for (unsigned i = 0; i < self->plan.depth; i++)
        self->lanes[i] = (lane){.probe = self, .buffer.bytes = self->buffers.memory + i * block};
    if (self->plan.by_threads)
        return GZ_OK;
    code = gz_io_ring_open(self->plan.depth, &self->ring, err);
    if (code == GZ_OK)
        (void)gz_io_ring_register(self->ring, self->buffers.memory, (size_t)bytes);
    return code;
}

gz_code gz_disk_probe_open(const gz_direct *file, const gz_probe_plan *plan, gz_disk_probe **out,
                           gz_error *err)
{
    *out = NULL;
    gz_code code = refuse(file, plan, err);
    if (code != GZ_OK)
        return code;
    gz_disk_probe *self = calloc(1, sizeof *self);
    lane *lanes = calloc(plan->depth, sizeof *lanes);
    if (self == NULL || lanes == NULL) {
        free(self);
        free(lanes);
        return gz_fail(err, GZ_E_NOMEM, 0, 0, "no memory for %u reads", plan->depth);
    }
    self->file = file;
    self->plan = *plan;
    self->lanes = lanes;
    self->blocks = file->size / plan->block_bytes;
    self->stream = gz_key(GZ_PURPOSE_PROBE, plan->seed, 0, 0);
    self->origin = gz_bounded(gz_draw(self->stream, UINT64_MAX - 1), self->blocks);
    pthread_mutex_init(&self->lock, NULL);
    code = open_parts(self, err);
    if (code != GZ_OK)
        gz_disk_probe_close(self);
    else
        *out = self;
    return code;
}

/* Decides what a lane reads next. */
static void begin(gz_disk_probe *self, lane *one, uint64_t now)
{
    uint64_t number = self->next++;
    uint64_t block = self->plan.is_sequential
                         ? (self->origin + number) % self->blocks
                         : gz_bounded(gz_draw(self->stream, number), self->blocks);
    one->buffer.read.offset = block * self->plan.block_bytes;
    one->buffer.read.length = self->plan.block_bytes;
    one->buffer.got = one->buffer.tries = 0;
    one->begun = now;
}

/* ---- one thread and a ring */

/* After an error, no read is under way. */
static gz_code wait_for(gz_disk_probe *self, unsigned ended, gz_error *err)
{
    gz_code code = gz_io_ring_wait(self->ring, ended, err);
    self->busy = code == GZ_OK ? self->busy : 0;
    return code;
}

/* Starts the read of a lane at once: while others are prepared, the disk is not idle. Many reads
 * that start together cost a fifth of the rate at a depth of 32. */
static gz_code start(gz_disk_probe *self, const lane *one, gz_error *err)
{
    const gz_buffer *buffer = &one->buffer;
    gz_io_ring_read(self->ring, self->file->fd, buffer->bytes + buffer->got,
                    (unsigned)(buffer->read.length - buffer->got),
                    buffer->read.offset + buffer->got, (uint64_t)(one - self->lanes));
    self->busy++;
    return wait_for(self, 0, err);
}

static gz_code fill_ring(gz_disk_probe *self, gz_error *err)
{
    gz_code code = GZ_OK;
    for (; self->count < self->plan.depth && code == GZ_OK; self->count++) {
        begin(self, &self->lanes[self->count], now_ns());
        code = start(self, &self->lanes[self->count], err);
    }
    return code;
}

/* Takes completed reads, at most one of each lane, and starts others in their place. */
static gz_code reap(gz_disk_probe *self, gz_error *err)
{
    gz_completion ended;
    gz_code code = GZ_OK;
    for (unsigned i = 0; i < self->count && code == GZ_OK; i++) {
        if (!gz_io_ring_next(self->ring, &ended))
            break;
        lane *one = &self->lanes[ended.tag];
        uint64_t now = now_ns();
        self->busy--;
        gz_settled settled = gz_direct_settle(self->file, &one->buffer, ended.result, err);
        if (settled == GZ_READ_FAILED)
            return err->code;
        if (settled == GZ_READ_DONE) {
            gz_latencies_add(&self->latencies, now - one->begun);
            begin(self, one, now);
        }
        code = start(self, one, err);
    }
    return code;
}

static gz_code run_ring(gz_disk_probe *self, uint64_t until, gz_error *err)
{
    gz_code code = fill_ring(self, err);
    while (code == GZ_OK && now_ns() < until) {
        code = wait_for(self, 1, err);
        if (code == GZ_OK)
            code = reap(self, err);
    }
    return code;
}

static void drain_ring(gz_disk_probe *self)
{
    gz_completion ended;
    gz_error ignored;
    while (self->busy > 0 && wait_for(self, self->busy, &ignored) == GZ_OK)
        while (gz_io_ring_next(self->ring, &ended))
            self->busy--;
}

/* ---- threads, one for each lane */

/* Counts what a lane has read, and gives it another read; false where there is none. */
static bool turn(gz_disk_probe *self, lane *one, gz_settled settled, const gz_error *err)
{
    uint64_t now = now_ns();
    pthread_mutex_lock(&self->lock);
    if (settled == GZ_READ_DONE && !self->is_stopped)
        gz_latencies_add(&self->latencies, now - one->begun);
    if (settled == GZ_READ_FAILED && self->code == GZ_OK) {
        self->code = err->code;
        self->err = *err;
    }
    bool goes_on = !self->is_stopped && self->code == GZ_OK;
    if (goes_on && settled != GZ_READ_AGAIN)
        begin(self, one, now);
    pthread_mutex_unlock(&self->lock);
    return goes_on;
}

static void *read_until_stopped(void *argument)
{
    lane *one = argument;
    const gz_direct *file = one->probe->file;
    gz_error err;
    gz_settled settled;
    do
        settled = gz_direct_settle(file, &one->buffer, gz_direct_read(file, &one->buffer), &err);
    while (turn(one->probe, one, settled, &err));
    return NULL;
}

static gz_code start_threads(gz_disk_probe *self, gz_error *err)
{
    int code = 0;
    for (; self->count < self->plan.depth && code == 0; self->count += code == 0) {
        lane *one = &self->lanes[self->count];
        pthread_mutex_lock(&self->lock);
        begin(self, one, now_ns());
        pthread_mutex_unlock(&self->lock);
        code = pthread_create(&one->thread, NULL, read_until_stopped, one);
    }
    if (self->count == 0)
        return gz_fail(err, GZ_E_OS, code, 0, "no thread can be started");
    return GZ_OK;
}

static gz_code run_threads(gz_disk_probe *self, uint64_t until, gz_error *err)
{
    if (self->count == 0) {
        gz_code code = start_threads(self, err);
        if (code != GZ_OK)
            return code;
    }
    for (uint64_t now = now_ns();; now = now_ns()) {
        pthread_mutex_lock(&self->lock);
        gz_code code = self->code;
        if (code != GZ_OK)
            *err = self->err;
        pthread_mutex_unlock(&self->lock);
        if (code != GZ_OK || now >= until)
            return code;
        uint64_t rest = until - now < LONGEST_SLEEP ? until - now : LONGEST_SLEEP;
        struct timespec sleep = {(time_t)(rest / SECOND), (long)(rest % SECOND)};
        nanosleep(&sleep, NULL);
    }
}

/* ---- with both */

gz_code gz_disk_probe_run(gz_disk_probe *self, double seconds, gz_error *err)
{
    gz_code code = gz_direct_check(self->file, err);
    if (code != GZ_OK)
        return code;
    uint64_t now = now_ns();
    if (self->first_run == 0)
        self->first_run = now;
    double most = 1e9; /* seconds that fit into the clock */
    seconds = seconds > 0 ? seconds : 0;
    uint64_t until = now + (uint64_t)((seconds < most ? seconds : most) * (double)SECOND);
    return self->plan.by_threads ? run_threads(self, until, err) : run_ring(self, until, err);
}

/* From here on, nothing is counted. */
static void stop_counting(gz_disk_probe *self)
{
    pthread_mutex_lock(&self->lock);
    if (!self->is_stopped && self->first_run != 0)
        self->seconds = (double)(now_ns() - self->first_run) / (double)SECOND;
    self->is_stopped = true;
    pthread_mutex_unlock(&self->lock);
}

static void stop(gz_disk_probe *self)
{
    stop_counting(self);
    if (self->ring != NULL)
        drain_ring(self);
    for (unsigned i = 0; self->plan.by_threads && i < self->count; i++)
        pthread_join(self->lanes[i].thread, NULL);
    self->count = self->plan.by_threads ? 0 : self->count;
}

void gz_disk_probe_stop(gz_disk_probe *self, gz_probe_counts *out)
{
    unsigned depth = self->count;
    stop(self);
    *out = (gz_probe_counts){
        .reads = self->latencies.total,
        .bytes = self->latencies.total * self->plan.block_bytes,
        .seconds = self->seconds,
        .depth = depth,
        .p50_ns = gz_latencies_quantile(&self->latencies, 0.50),
        .p99_ns = gz_latencies_quantile(&self->latencies, 0.99),
    };
}

void gz_disk_probe_close(gz_disk_probe *self)
{
    if (self == NULL)
        return;
    stop(self);
    gz_io_ring_close(self->ring);
    gz_buffers_close(&self->buffers);
    pthread_mutex_destroy(&self->lock);
    free(self->lanes);
    free(self);
}
