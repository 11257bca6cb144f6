/* Forking after a parallel region: libgomp's thread pool does not survive a fork, and a parallel
 * region in the child would wait for it forever. */
#ifndef GRAPHZERO_FORK_H
#define GRAPHZERO_FORK_H

#include <stdbool.h>

/* Registers, once, a handler that releases the thread pool before each fork. The next parallel
 * region creates a new one. */
void gz_fork_guard(void);

/* False in a forked child whose parent could not release the pool: such a child must stay serial.
 */
bool gz_may_use_threads(void);

#endif
