#define _POSIX_C_SOURCE 200809L
#include "graphzero/group.h"

#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "graphzero/batch.h"
#include "graphzero/gather.h"
#include "graphzero/willneed.h"

static uint64_t nanoseconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

gz_moment gz_now(void)
{
    return (gz_moment){nanoseconds(CLOCK_MONOTONIC), nanoseconds(CLOCK_THREAD_CPUTIME_ID),
                       gz_major_faults()};
}

gz_spent gz_spent_since(const gz_moment *begin, bool has_read)
{
    gz_moment end = gz_now();
    gz_spent spent = {end.wall - begin->wall, 0};
    uint64_t cpu = end.cpu - begin->cpu;
    if ((has_read || end.faults > begin->faults) && spent.wall > cpu)
        spent.disk = spent.wall - cpu;
    return spent;
}

typedef struct sampling {
    gz_group_batch *batches;
    gz_stop *stop;
} sampling;

static void sample(void *context, int64_t item, int thread)
{
    const sampling *of = context;
    gz_group_batch *batch = &of->batches[item];
    (void)thread;
    batch->is_sampled = !gz_is_stopped(of->stop);
    if (!batch->is_sampled)
        return;
    gz_moment begin = gz_now();
    batch->code = gz_batch_sample(batch->batch, &batch->plan, batch->seeds, &batch->err);
    batch->spent = gz_spent_since(&begin, batch->batch->willneed.missing > 0);
}

void gz_group_sample(gz_team *team, gz_group_batch *batches, int64_t count, gz_stop *stop)
{
    sampling of = {batches, stop};
    gz_team_run(team, count, sample, &of);
}

typedef struct filling {
    gz_fill *fills;
    gz_fill_part *parts;
    gz_stop *stop;
} filling;

static void fill(gz_fill *of)
{
    int64_t count = of->end - of->begin;
    switch (of->kind) {
    case GZ_FILL_COPY: memcpy(of->out + of->begin, of->from + of->begin, (size_t)count); break;
    case GZ_FILL_TRANSLATE:
        of->corrupt =
            gz_translate(&of->table, of->limit, of->ids, of->begin, of->end, (int64_t *)of->out);
        break;
    case GZ_FILL_ROWS:
        gz_gather_rows(of->from, of->row_bytes, &of->cast, of->ids, of->begin, of->end, of->chosen,
                       of->out);
        break;
    case GZ_FILL_PICKS:
        gz_picks_copy(of->picks + of->begin, count, of->from, of->row_bytes, &of->cast, of->out);
        break;
    case GZ_FILL_REPEAT:
        for (int64_t i = of->begin; i < of->end; i++)
            memcpy(of->out + (uint64_t)i * of->row_bytes, of->from, of->row_bytes);
        break;
    }
}

static void fill_part(void *context, int64_t item, int thread)
{
    const filling *of = context;
    gz_fill_part *part = &of->parts[item];
    (void)thread;
    part->spent = (gz_spent){0, 0};
    if (gz_is_stopped(of->stop))
        return;
    gz_moment begin = gz_now();
    for (int64_t i = part->first; i < part->end; i++)
        fill(&of->fills[i]);
    part->spent = gz_spent_since(&begin, false);
}

void gz_group_fill(gz_team *team, gz_fill *fills, gz_fill_part *parts, int64_t count, gz_stop *stop)
{
    filling of = {fills, parts, stop};
    gz_team_run(team, count, fill_part, &of);
}
