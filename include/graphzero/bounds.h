/* Counts that come from options: their sums and products may overflow, or exceed all memory. */
#ifndef GRAPHZERO_BOUNDS_H
#define GRAPHZERO_BOUNDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Turns counts into running sums: sums[i] += sums[i - 1] for i in (begin, end]; sums[begin] is
 * given. False, with the rest unchanged, where a sum does not fit 63 bits. All must be positive
 * or 0. */
bool gz_running_sums(int64_t *sums, int64_t begin, int64_t end);

/* Whether so many elements fit the address space and the memory of the machine. Allocating them may
 * fail all the same. */
bool gz_fits_memory(int64_t count, uint64_t bytes_each);

uint64_t gz_machine_bytes(void);

#endif
