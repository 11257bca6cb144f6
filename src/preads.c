#include "graphzero/preads.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>

/* What the threads of one call share. */
typedef struct crew {
    gz_fetch *fetch;
    pthread_mutex_t lock; /* of fetch->reads, code and err */
    gz_code code;
    gz_error *err;
} crew;

typedef struct reader {
    crew *with;
    gz_buffer *buffer;
    pthread_t thread;
} reader;

static bool take(crew *with, gz_read *out)
{
    pthread_mutex_lock(&with->lock);
    bool taken = with->code == GZ_OK && gz_reads_next(&with->fetch->reads, out);
    pthread_mutex_unlock(&with->lock);
    return taken;
}

static void report(crew *with, const gz_error *err)
{
    pthread_mutex_lock(&with->lock);
    if (with->code == GZ_OK) {
        with->code = err->code;
        *with->err = *err;
    }
    pthread_mutex_unlock(&with->lock);
}

static void *read_until_done(void *argument)
{
    reader *self = argument;
    gz_fetch *fetch = self->with->fetch;
    gz_buffer *buffer = self->buffer;
    gz_error err;
    while (take(self->with, &buffer->read)) {
        gz_settled settled;
        buffer->got = buffer->tries = 0;
        do
            settled =
                gz_direct_settle(fetch->file, buffer, gz_direct_read(fetch->file, buffer), &err);
        while (settled == GZ_READ_AGAIN);
        if (settled == GZ_READ_FAILED) {
            report(self->with, &err);
            break;
        }
        gz_reads_scatter(&fetch->reads, &buffer->read, buffer->bytes, fetch->out);
    }
    return NULL;
}

gz_code gz_preads_fetch(const gz_buffers *buffers, gz_fetch *fetch, gz_error *err)
{
    int64_t rows = fetch->reads.count;
    unsigned most = rows < buffers->count ? (unsigned)rows : buffers->count, started = 1;
    crew with = {fetch, PTHREAD_MUTEX_INITIALIZER, GZ_OK, err};
    reader *readers = calloc(buffers->count, sizeof *readers);
    if (readers == NULL)
        return gz_fail(err, GZ_E_NOMEM, 0, 0, "no memory for %u threads", buffers->count);
    for (unsigned i = 0; i < buffers->count; i++)
        readers[i] = (reader){&with, &buffers->each[i], pthread_self()};
    while (started < most &&
           pthread_create(&readers[started].thread, NULL, read_until_done, &readers[started]) == 0)
        started++;
    read_until_done(&readers[0]);
    for (unsigned i = 1; i < started; i++)
        pthread_join(readers[i].thread, NULL);
    pthread_mutex_destroy(&with.lock);
    free(readers);
    return with.code;
}
