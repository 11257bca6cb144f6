/* Reads of a batch by threads that wait for one each: the way without io_uring. The threads live
 * for one call, so that a fork between calls finds none. */
#ifndef GRAPHZERO_PREADS_H
#define GRAPHZERO_PREADS_H

#include "graphzero/direct.h"

/* Brings all rows of a fetch to their places, with one thread a buffer at most; those that cannot
 * be started are done without. After an error nothing is under way any more. */
GZ_MUST_CHECK gz_code gz_preads_fetch(const gz_buffers *buffers, gz_fetch *fetch, gz_error *err);

#endif
