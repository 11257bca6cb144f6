/* Forking after a parallel region: libgomp's pool of threads does not survive a fork, and a child
 * that starts a region of its own would wait for it for ever. */
#ifndef GRAPHZERO_FORK_H
#define GRAPHZERO_FORK_H

#include <stdbool.h>

/* Registers, once, a handler that gives the pool back before each fork. It is created anew by the
 * next parallel region. */
void gz_fork_guard(void);

/* False in a forked child whose parent could not give the pool back: stay serial there. */
bool gz_may_use_threads(void);

#endif
