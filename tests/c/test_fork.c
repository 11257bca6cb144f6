#include "check.h"

#include <unistd.h>

#include "graphzero/fork.h"
#include "support.h"

enum { SECONDS = 20 };

/* As Cython calls kernels: in parallel if allowed. */
static bool sums_in_parallel(void)
{
    int threads = gz_may_use_threads() ? 2 : 1, sum = 0;
    (void)threads; /* not used by the serial build */
#if defined(_OPENMP)
#pragma omp parallel for num_threads(threads) reduction(+ : sum)
#endif
    for (int i = 0; i < 1000; i++)
        sum += i;
    return sum == 499500;
}

static bool sums_in_time(void)
{
    alarm(SECONDS); /* kills a child that waits for threads that do not exist */
    return sums_in_parallel();
}

TEST(a_child_of_a_parallel_parent_does_not_hang)
{
    gz_fork_guard();
    gz_fork_guard();
    for (int round = 0; round < 2; round++) { /* the second after the pool was made anew */
        CHECK(sums_in_parallel());
        in_child(sums_in_time);
    }
    CHECK(gz_may_use_threads());
}
