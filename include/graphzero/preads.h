/* Reads of a batch by threads, each of which waits for one read at a time: for systems without
 * io_uring. The threads live for one call, so that a fork between calls finds none. */
#ifndef GRAPHZERO_PREADS_H
#define GRAPHZERO_PREADS_H

#include "graphzero/direct.h"

/* Reads all rows of a fetch to their places, with at most one thread per buffer, or fewer if
 * threads cannot be started. After an error no read is in flight. */
GZ_MUST_CHECK gz_code gz_preads_fetch(const gz_buffers *buffers, gz_fetch *fetch, gz_error *err);

#endif
