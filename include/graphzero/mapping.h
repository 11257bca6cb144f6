/* A whole file, mapped read-only and shared. The descriptor stays open for reads that must not
 * fault: after a truncation, touching a mapped page raises SIGBUS, while pread returns an error. */
#ifndef GRAPHZERO_MAPPING_H
#define GRAPHZERO_MAPPING_H

#include <stdint.h>

#include "graphzero/status.h"

typedef struct gz_mapping {
    unsigned char *base; /* NULL for an empty file */
    uint64_t size;       /* bytes, from fstat at open */
    int fd;
} gz_mapping;

typedef enum gz_advice {
    GZ_ADVICE_NORMAL = 0,
    GZ_ADVICE_RANDOM = 1,
    GZ_ADVICE_SEQUENTIAL = 2,
    GZ_ADVICE_WILLNEED = 3,
    GZ_ADVICE_POPULATE = 4, /* read the pages and map them; an error where touching would kill */
    GZ_ADVICE_RELEASE = 5,  /* unmap the pages, and drop them from the page cache if it may */
    GZ_ADVICE_HUGE = 6,     /* page faults read and map pages of 2 MiB, where the kernel has them */
} gz_advice;

/* Accepts only regular files. */
GZ_MUST_CHECK gz_code gz_mapping_open(const char *path, gz_mapping *out, gz_error *err);

void gz_mapping_close(gz_mapping *mapping);

/* Fails if the file is shorter now than when it was opened: touching its pages may raise SIGBUS. */
GZ_MUST_CHECK gz_code gz_mapping_check_size(const gz_mapping *mapping, gz_error *err);

/* Reads exactly length bytes at offset without touching the mapped pages. */
GZ_MUST_CHECK gz_code gz_mapping_read(const gz_mapping *mapping, uint64_t offset, uint64_t length,
                                      unsigned char *out, gz_error *err);

/* madvise over the pages that hold [offset, offset + length), which must lie in the file. Kernels
 * without MADV_POPULATE_READ (before Linux 5.14) ignore GZ_ADVICE_POPULATE, and those without huge
 * pages GZ_ADVICE_HUGE. */
GZ_MUST_CHECK gz_code gz_mapping_advise(const gz_mapping *mapping, uint64_t offset, uint64_t length,
                                        gz_advice advice, gz_error *err);

/* How many pages of [offset, offset + length) are in the page cache (mincore). The kernel answers
 * "all of them" for files that the process neither owns nor may write. */
GZ_MUST_CHECK gz_code gz_mapping_resident(const gz_mapping *mapping, uint64_t offset,
                                          uint64_t length, uint64_t *pages, gz_error *err);

uint64_t gz_system_page_bytes(void);

#endif
