/* Arrays that grow. Large ones are mapped, and unmapped as soon as they are freed: the C library
 * would keep them, in a heap for each thread that has ever sampled. */
#ifndef GRAPHZERO_GROWABLE_H
#define GRAPHZERO_GROWABLE_H

#include <stddef.h>
#include <stdint.h>

#include "graphzero/status.h"

/* The array, reallocated for at least `capacity` elements; NULL is an array without any. NULL, with
 * the array unchanged and the error set, if that fails; `what` is what the elements are, in the
 * plural. */
void *gz_grown(void *array, int64_t capacity, size_t element, const char *what, gz_error *err);

/* A new array of zeros; NULL, with the error set, if that fails. */
void *gz_zeroed(int64_t capacity, size_t element, const char *what, gz_error *err);

/* Until it is written again the kernel may take the memory of an array, or NULL, back: elements are
 * what they were, or zero. */
void gz_rest_array(void *array);

/* Frees an array of these functions, or NULL. */
void gz_free_array(void *array);

#endif
