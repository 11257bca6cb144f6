#define _GNU_SOURCE /* pthread_setname_np */
#include "graphzero/team.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct member {
    gz_team *team;
    pthread_t thread;
    int number;
} member;

struct gz_team {
    pthread_mutex_t lock; /* of everything but `next` */
    pthread_cond_t begins, ends;
    member *members; /* without the caller, who is member 0 */
    int num_members;
    uint64_t round; /* number of the call */
    int wanted;     /* members that are still to join it */
    int working;    /* members that have joined it */
    bool is_closed;
    pid_t owner;
    gz_team_work *work;
    void *context;
    int64_t count;
    _Atomic int64_t next;
};

static void work_until_done(gz_team *team, int number)
{
    int64_t item;
    while ((item = atomic_fetch_add(&team->next, 1)) < team->count)
        team->work(team->context, item, number);
}

static void *serve(void *argument)
{
    member *self = argument;
    gz_team *team = self->team;
    uint64_t seen = 0;
    pthread_mutex_lock(&team->lock);
    while (!team->is_closed) {
        if (team->round == seen || team->wanted == 0) {
            pthread_cond_wait(&team->begins, &team->lock);
            continue;
        }
        seen = team->round;
        team->wanted--;
        team->working++;
        pthread_mutex_unlock(&team->lock);
        work_until_done(team, self->number);
        pthread_mutex_lock(&team->lock);
        if (--team->working == 0)
            pthread_cond_signal(&team->ends);
    }
    pthread_mutex_unlock(&team->lock);
    return NULL;
}

/* Signals are for the threads of the program. */
static bool start(member *self)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool has_started = pthread_create(&self->thread, NULL, serve, self) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
#if defined(__linux__)
    if (has_started)
        pthread_setname_np(self->thread, "gz-team");
#endif
    return has_started;
}

gz_code gz_team_open(int threads, gz_team **out, gz_error *err)
{
    gz_team *team = calloc(1, sizeof *team);
    member *members = calloc((size_t)threads, sizeof *members);
    if (team == NULL || members == NULL) {
        free(team);
        free(members);
        return gz_fail(err, GZ_E_NOMEM, 0, 0, "no memory for %d threads", threads);
    }
    pthread_mutex_init(&team->lock, NULL);
    pthread_cond_init(&team->begins, NULL);
    pthread_cond_init(&team->ends, NULL);
    team->members = members;
    team->owner = getpid();
    /* Where the system allows fewer threads, fewer do the work. */
    while (team->num_members + 1 < threads) {
        member *next = &members[team->num_members];
        *next = (member){.team = team, .number = team->num_members + 1};
        if (!start(next))
            break;
        team->num_members++;
    }
    *out = team;
    return GZ_OK;
}

void gz_team_run(gz_team *team, int64_t count, gz_team_work *work, void *context)
{
    int64_t others = count - 1 < team->num_members ? count - 1 : team->num_members;
    if (others <= 0 || team->owner != getpid()) {
        for (int64_t item = 0; item < count; item++)
            work(context, item, 0);
        return;
    }
    pthread_mutex_lock(&team->lock);
    team->work = work;
    team->context = context;
    team->count = count;
    atomic_store(&team->next, 0);
    team->round++;
    team->wanted = (int)others;
    pthread_mutex_unlock(&team->lock);
    if (others == team->num_members)
        pthread_cond_broadcast(&team->begins);
    else
        for (int64_t i = 0; i < others; i++)
            pthread_cond_signal(&team->begins);
    work_until_done(team, 0);
    pthread_mutex_lock(&team->lock);
    team->wanted = 0; /* who has not come yet finds nothing left */
    while (team->working > 0)
        pthread_cond_wait(&team->ends, &team->lock);
    pthread_mutex_unlock(&team->lock);
}

void gz_team_close(gz_team *team)
{
    if (team == NULL)
        return;
    if (team->owner == getpid()) {
        pthread_mutex_lock(&team->lock);
        team->is_closed = true;
        pthread_cond_broadcast(&team->begins);
        pthread_mutex_unlock(&team->lock);
        for (int i = 0; i < team->num_members; i++)
            pthread_join(team->members[i].thread, NULL);
        pthread_cond_destroy(&team->ends);
        pthread_cond_destroy(&team->begins);
        pthread_mutex_destroy(&team->lock);
    }
    free(team->members);
    free(team);
}
