/* Preloaded beside AddressSanitizer by sanitized.py: fork waits until all other threads sleep.
 *
 * GCC's AddressSanitizer (before 14) does not hold the locks of its allocator across fork, as the
 * C library does with its own. A thread that is in the allocator while another forks, most often
 * because it is just ending, leaves the child a lock that nobody will open: it stands still at
 * __sanitizer::SizeClassAllocator64::GetFromAllocator. A thread that sleeps is not in there. */

#include <ctype.h>
#include <dirent.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PATIENCE_MS = 5000, PASSES = 3 };

static bool sleeps(const char *task)
{
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/self/task/%.20s/stat", task);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return true; /* it has ended */
    size_t size = fread(line, 1, sizeof line - 1, file);
    fclose(file);
    line[size] = '\0';
    const char *name_end = strrchr(line, ')');
    return name_end == NULL || strchr("SZX", name_end[2]) != NULL;
}

static bool others_sleep(void)
{
    char self[24];
    snprintf(self, sizeof self, "%d", (int)gettid());
    DIR *tasks = opendir("/proc/self/task");
    bool all = tasks != NULL;
    for (struct dirent *task; all && (task = readdir(tasks)) != NULL;)
        if (isdigit((unsigned char)task->d_name[0]) && strcmp(task->d_name, self) != 0)
            all = sleeps(task->d_name);
    if (tasks != NULL)
        closedir(tasks);
    return all;
}

static void before_fork(void)
{
    int quiet = 0;
    for (int ms = 0; ms < PATIENCE_MS && quiet < PASSES; ms++) {
        quiet = others_sleep() ? quiet + 1 : 0;
        usleep(1000);
    }
}

/* Handlers run in reverse order: the first to be installed comes last, after OpenMP's pause. */
__attribute__((constructor)) static void install(void) { pthread_atfork(before_fork, NULL, NULL); }
