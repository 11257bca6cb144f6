#include "check.h"

#include <string.h>

#include "graphzero/batch.h"
#include "graphzero/group.h"
#include "support.h"

enum { BATCHES = 6, NODES = 60, DEGREE = 20, SEEDS = 8, THREADS = 3, HOPS = 2 };

static graph g;
static gz_group_batch group[BATCHES];
static gz_batch batches[BATCHES];
static one_type plans[BATCHES];
static int64_t ids[BATCHES][SEEDS];
static gz_seeds seeds[BATCHES];

static void prepare(void)
{
    static const int64_t fanouts[HOPS] = {3, 2};
    int degrees[NODES];
    for (int i = 0; i < NODES; i++)
        degrees[i] = DEGREE;
    graph_with_degrees(&g, degrees, NODES);
    for (int b = 0; b < BATCHES; b++) {
        for (int i = 0; i < SEEDS; i++)
            ids[b][i] = (b * SEEDS + i) % NODES;
        seeds[b] = (gz_seeds){ids[b], SEEDS};
        plan_of(&plans[b], &g, fanouts, HOPS);
        plans[b].plan.draws = gz_draws_of(GZ_PURPOSE_SAMPLE, 1, 0, (uint64_t)b, 1);
        gz_batch_init(&batches[b]);
        group[b] =
            (gz_group_batch){.batch = &batches[b], .plan = plans[b].plan, .seeds = &seeds[b]};
    }
}

TEST(a_group_has_the_batches_that_one_by_one_has)
{
    gz_team *team;
    gz_stop stop;
    gz_batch alone;
    prepare();
    gz_stop_init(&stop);
    CHECK_EQ(gz_team_open(THREADS, &team, &err), GZ_OK);
    gz_group_sample(team, group, BATCHES, &stop);
    gz_batch_init(&alone);
    for (int b = 0; b < BATCHES; b++) {
        CHECK(group[b].is_sampled);
        CHECK_EQ(group[b].code, GZ_OK);
        CHECK_EQ(gz_batch_sample(&alone, &plans[b].plan, &seeds[b], &err), GZ_OK);
        CHECK_EQ(alone.spaces[0].count, batches[b].spaces[0].count);
        CHECK_EQ(alone.edges[0].count, batches[b].edges[0].count);
        CHECK(memcmp(alone.edges[0].sources, batches[b].edges[0].sources,
                     (size_t)alone.edges[0].count * sizeof(int64_t)) == 0);
    }
    gz_stop_set(&stop);
    gz_group_sample(team, group, BATCHES, &stop);
    for (int b = 0; b < BATCHES; b++)
        CHECK(!group[b].is_sampled);
    gz_batch_free(&alone);
    for (int b = 0; b < BATCHES; b++)
        gz_batch_free(&batches[b]);
    gz_team_close(team);
}

TEST(parts_are_filled_unless_they_are_stopped)
{
    enum { BYTES = 1000, PART = 100 };
    unsigned char from[BYTES], out[BYTES];
    gz_fill fills[BYTES / PART];
    gz_fill_part parts[BYTES / PART];
    gz_team *team;
    gz_stop stop;
    for (int i = 0; i < BYTES; i++)
        from[i] = (unsigned char)(i * 7);
    for (int i = 0; i < BYTES / PART; i++) {
        memset(&fills[i], 0, sizeof fills[i]);
        fills[i].kind = GZ_FILL_COPY;
        fills[i].from = from;
        fills[i].begin = i * PART;
        fills[i].end = (i + 1) * PART;
        fills[i].out = out;
        parts[i] = (gz_fill_part){.first = i, .end = i + 1};
    }
    memset(out, 0, sizeof out);
    gz_stop_init(&stop);
    CHECK_EQ(gz_team_open(THREADS, &team, &err), GZ_OK);
    gz_group_fill(team, fills, parts, BYTES / PART, &stop);
    CHECK(memcmp(from, out, sizeof out) == 0);
    memset(out, 0, sizeof out);
    gz_stop_set(&stop);
    gz_group_fill(team, fills, parts, BYTES / PART, &stop);
    for (int i = 0; i < BYTES; i++)
        CHECK_EQ(out[i], 0);
    gz_team_close(team);
}
