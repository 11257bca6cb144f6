#define _GNU_SOURCE /* fork and alarm under -std=c11 */
#define _DARWIN_C_SOURCE

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "graphzero/fork.h"

enum { SECONDS = 20 };

/* As Cython calls kernels: in parallel if allowed. */
static int sum_in_parallel(void)
{
    int threads = gz_may_use_threads() ? 2 : 1, sum = 0;
    (void)threads; /* not used by the serial build */
#if defined(_OPENMP)
#pragma omp parallel for num_threads(threads) reduction(+ : sum)
#endif
    for (int i = 0; i < 1000; i++)
        sum += i;
    return sum;
}

static void a_child_of_a_parallel_parent_does_not_hang(void)
{
    int status = -1;
    gz_fork_guard();
    gz_fork_guard();
    for (int round = 0; round < 2; round++) { /* the second after the pool was made anew */
        CHECK_EQ(sum_in_parallel(), 499500);
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            alarm(SECONDS); /* kills a child that waits for threads that do not exist */
            _exit(sum_in_parallel() == 499500 ? 0 : 1);
        }
        if (!CHECK(child > 0))
            return;
        CHECK_EQ(waitpid(child, &status, 0), child);
        CHECK_EQ(status, 0);
    }
    CHECK(gz_may_use_threads());
}

void test_fork(void) { RUN(a_child_of_a_parallel_parent_does_not_hang); }
