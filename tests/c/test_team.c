#include "check.h"

#include <string.h>
#include <unistd.h>

#include "graphzero/team.h"
#include "support.h"

enum { THREADS = 4, MOST_ITEMS = 100, ROUNDS = 200 };

typedef struct tally {
    int times[MOST_ITEMS]; /* that each item was worked on */
    int members[MOST_ITEMS];
} tally;

static gz_team *team;

static void count_item(void *context, int64_t item, int member)
{
    tally *counts = context;
    counts->times[item]++;
    counts->members[item] = member;
}

static bool each_once(int64_t count)
{
    tally counts;
    memset(&counts, 0, sizeof counts);
    gz_team_run(team, count, count_item, &counts);
    for (int64_t i = 0; i < MOST_ITEMS; i++)
        if (counts.times[i] != (i < count) || counts.members[i] < 0 || counts.members[i] >= THREADS)
            return false;
    return true;
}

TEST(each_item_is_worked_on_once)
{
    CHECK_EQ(gz_team_open(THREADS, &team, &err), GZ_OK);
    for (int round = 0; round < ROUNDS; round++)
        CHECK(each_once(round % MOST_ITEMS));
    gz_team_close(team);
    gz_team_close(NULL);
}

TEST(a_team_of_one_is_the_caller)
{
    CHECK_EQ(gz_team_open(1, &team, &err), GZ_OK);
    CHECK(each_once(MOST_ITEMS));
    gz_team_close(team);
}

static bool works_alone(void)
{
    bool is_fine = each_once(MOST_ITEMS);
    gz_team_close(team);
    return is_fine;
}

TEST(a_forked_child_works_alone)
{
    CHECK_EQ(gz_team_open(THREADS, &team, &err), GZ_OK);
    CHECK(each_once(MOST_ITEMS));
    in_child(works_alone);
    CHECK(each_once(MOST_ITEMS));
    gz_team_close(team);
}
