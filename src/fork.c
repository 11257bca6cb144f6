#include "graphzero/fork.h"

#include <pthread.h>

#if defined(_OPENMP)
#include <omp.h>
#endif

/* The only global state of the library: whether this process is a forked child without a thread
 * pool. */
static bool pool_is_lost = false;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void before_fork(void)
{
#if defined(_OPENMP) && defined(GZ_HAVE_OMP_PAUSE)
    omp_pause_resource_all(omp_pause_hard);
#endif
}

static void in_child(void)
{
#if defined(_OPENMP) && !defined(GZ_HAVE_OMP_PAUSE)
    pool_is_lost = true;
#endif
}

static void install(void) { pthread_atfork(before_fork, NULL, in_child); }

void gz_fork_guard(void) { pthread_once(&once, install); }

bool gz_may_use_threads(void) { return !pool_is_lost; }
