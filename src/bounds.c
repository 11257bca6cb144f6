#define _DEFAULT_SOURCE /* _SC_PHYS_PAGES under -std=c11 */
#define _DARWIN_C_SOURCE

#include "graphzero/bounds.h"

#include <unistd.h>

/* What is smaller is left to the allocator, without a system call. */
#define ALWAYS_FITS (UINT64_C(1) << 28)

bool gz_running_sums(int64_t *sums, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++) {
        if (sums[i + 1] > INT64_MAX - sums[i])
            return false;
        sums[i + 1] += sums[i];
    }
    return true;
}

uint64_t gz_machine_bytes(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : UINT64_MAX;
}

bool gz_fits_memory(int64_t count, uint64_t bytes_each)
{
    if (count <= 0 || bytes_each == 0)
        return true;
    if ((uint64_t)count <= ALWAYS_FITS / bytes_each)
        return true;
    return (uint64_t)count <= SIZE_MAX / bytes_each &&
           (uint64_t)count <= gz_machine_bytes() / bytes_each;
}
