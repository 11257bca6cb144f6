/* Mini-batches that are prepared together by a team of threads: sampling, one batch to a thread,
 * and filling the arrays of the results, over ranges. */
#ifndef GRAPHZERO_GROUP_H
#define GRAPHZERO_GROUP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "graphzero/batch_state.h"
#include "graphzero/convert.h"
#include "graphzero/csr.h"
#include "graphzero/reads.h"
#include "graphzero/status.h"
#include "graphzero/team.h"

/* Clocks of a thread, in nanoseconds, and its page faults that read. */
typedef struct gz_moment {
    uint64_t wall, cpu, faults;
} gz_moment;

/* What a thread has spent on an item, in nanoseconds. */
typedef struct gz_spent {
    uint64_t wall;
    uint64_t disk; /* of these, blocked while pages were read; 0 if none were */
} gz_spent;

gz_moment gz_now(void);

/* A thread that has read neither computes nor waits for anything but the disk while it is blocked;
 * without has_read, page faults say whether it has. */
gz_spent gz_spent_since(const gz_moment *begin, bool has_read);

/* Ends calls between two items: set by one thread, and looked at by others. */
typedef struct gz_stop {
    atomic_bool is_set;
} gz_stop;

static inline void gz_stop_init(gz_stop *stop) { atomic_init(&stop->is_set, false); }
static inline void gz_stop_set(gz_stop *stop) { atomic_store(&stop->is_set, true); }
static inline bool gz_is_stopped(gz_stop *stop) { return atomic_load(&stop->is_set); }

/* One mini-batch to sample. */
typedef struct gz_group_batch {
    gz_batch *batch;
    gz_plan plan;
    const gz_seeds *seeds;
    gz_code code;    /* of gz_batch_sample */
    bool is_sampled; /* false where the group was stopped first */
    gz_error err;
    gz_spent spent;
} gz_group_batch;

/* Samples each of them in one thread. Once it is stopped, no further one is begun. */
void gz_group_sample(gz_team *team, gz_group_batch *batches, int64_t count, gz_stop *stop);

typedef enum gz_fill_kind {
    GZ_FILL_COPY,      /* bytes [begin, end) of from */
    GZ_FILL_TRANSLATE, /* entries of `table`, by ids; gz_translate */
    GZ_FILL_ROWS,      /* rows of a file, by ids; gz_gather_rows */
    GZ_FILL_PICKS,     /* rows that were read, to their places; gz_picks_copy */
    GZ_FILL_REPEAT,    /* the same row again and again */
} gz_fill_kind;

/* Elements [begin, end) of an array of a mini-batch, and where they come from. */
typedef struct gz_fill {
    gz_fill_kind kind;
    const unsigned char *from; /* row 0, or the bytes */
    const int64_t *ids;
    const gz_pick *picks;
    const uint8_t *chosen; /* NULL, or which rows */
    gz_ids table;
    uint64_t limit; /* of the entries of the table */
    uint64_t row_bytes;
    gz_cast cast;
    int64_t begin, end;
    unsigned char *out;
    uint64_t corrupt; /* entries that were not below the limit */
} gz_fill;

/* One item of work: some fills of one mini-batch. */
typedef struct gz_fill_part {
    int64_t first, end;
    gz_spent spent;
} gz_fill_part;

/* Fills the arrays of all parts; where the group is stopped, some stay as they are. */
void gz_group_fill(gz_team *team, gz_fill *fills, gz_fill_part *parts, int64_t count,
                   gz_stop *stop);

#endif
