#define _GNU_SOURCE /* RTLD_DEFAULT */
#include "graphzero/fork.h"

#include <dlfcn.h>
#include <pthread.h>

/* The only global state of the library: whether this process is a forked child without a thread
 * pool. */
static bool pool_is_lost = false;
static pthread_once_t once = PTHREAD_ONCE_INIT;

#if defined(_OPENMP)
static int (*pause_all)(int);

static void before_fork(void)
{
    if (pause_all != NULL)
        pause_all(2); /* omp_pause_hard */
}

static void in_child(void) { pool_is_lost = pause_all == NULL; }
#endif

static void install(void)
{
#if defined(_OPENMP)
    /* Of OpenMP 5.0, which the runtimes of older torches lack; theirs may be the one here. */
    *(void **)&pause_all = dlsym(RTLD_DEFAULT, "omp_pause_resource_all");
    pthread_atfork(before_fork, NULL, in_child);
#endif
}

void gz_fork_guard(void) { pthread_once(&once, install); }

bool gz_may_use_threads(void) { return !pool_is_lost; }
