/* Threads that share the items of one call. They are plain threads, which sleep between calls: a
 * second OpenMP pool in the process makes the regions of torch slower (steps of a model on two
 * threads took 18 ms beside one, 12 beside plain threads). */
#ifndef GRAPHZERO_TEAM_H
#define GRAPHZERO_TEAM_H

#include <stdint.h>

#include "graphzero/status.h"

/* The work on one item. `member`, from 0 to the number of threads - 1, says who does it. */
typedef void gz_team_work(void *context, int64_t item, int member);

typedef struct gz_team gz_team;

/* `threads` includes the thread that calls gz_team_run. */
GZ_MUST_CHECK gz_code gz_team_open(int threads, gz_team **out, gz_error *err);

/* Does items 0 to count - 1, each once, and returns after the last; the caller works as well. Items
 * are handed out one by one. One call at a time; in a forked child the caller works alone. */
void gz_team_run(gz_team *team, int64_t count, gz_team_work *work, void *context);

/* Ends the threads. NULL is allowed. */
void gz_team_close(gz_team *team);

#endif
