/* Threads that share one graph and one file, as the loader's do: without an interpreter whose lock
 * would hide races from ThreadSanitizer. */
#include "check.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "graphzero/batch.h"
#include "graphzero/gather.h"
#include "graphzero/rng.h"
#include "graphzero/willneed.h"
#include "support.h"

enum { THREADS = 4, ROUNDS = 50, NODES = 60, DEGREE = 20, SEEDS = 16, ROW_BYTES = 5000, HOPS = 2 };

/* Shared by all threads, read-only. */
static graph g;
static rows_file rows;

typedef struct worker {
    int64_t nodes[ROUNDS][NODES]; /* of each batch */
    int64_t sources[ROUNDS][NODES * DEGREE * HOPS];
    unsigned char rows[NODES][ROW_BYTES]; /* of the last one */
    bool is_fine;
} worker;

static int ascending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static bool make_batch(worker *self, gz_batch *batch, int round)
{
    static const int64_t fanouts[HOPS] = {2, -1};
    int64_t ids[SEEDS], sorted[NODES];
    gz_run runs[NODES];
    gz_willneed_counts counts;
    gz_error problem;
    const gz_seeds seeds = {ids, SEEDS};
    one_type one;
    for (int i = 0; i < SEEDS; i++)
        ids[i] = (round * SEEDS + i) * 7 % NODES;
    plan_of(&one, &g, fanouts, HOPS);
    one.plan.draws = gz_draws_of(GZ_PURPOSE_SAMPLE, 1, 0, (uint64_t)round, 1);
    if (gz_batch_sample(batch, &one.plan, &seeds, &problem) != GZ_OK ||
        batch->edges[0].corrupt != 0)
        return false;
    int64_t count = batch->spaces[0].count;
    const int64_t *nodes = gz_nodes_ids(&batch->spaces[0]);
    memcpy(self->nodes[round], nodes, (size_t)count * sizeof *nodes);
    memcpy(self->sources[round], batch->edges[0].sources,
           (size_t)batch->edges[0].count * sizeof *nodes);
    memcpy(sorted, nodes, (size_t)count * sizeof *nodes);
    qsort(sorted, (size_t)count, sizeof *sorted, ascending);
    int64_t num_runs = gz_page_runs(sorted, count, 0, ROW_BYTES, 0, rows.mapping.size, runs);
    gz_gather_rows(rows.mapping.base, ROW_BYTES, &GZ_AS_STORED, nodes, 0, count, NULL,
                   self->rows[0]);
    return gz_willneed(&rows.mapping, runs, num_runs, GZ_WILLNEED_MISSING, &counts, &problem) ==
           GZ_OK;
}

static void *work(void *argument)
{
    worker *self = argument;
    gz_batch batch;
    gz_batch_init(&batch);
    self->is_fine = true;
    for (int round = 0; round < ROUNDS && self->is_fine; round++)
        self->is_fine = make_batch(self, &batch, round);
    gz_batch_free(&batch);
    return NULL;
}

TEST(threads_over_one_graph_make_the_same_batches)
{
    static worker workers[THREADS];
    pthread_t threads[THREADS];
    int degrees[NODES];
    for (int v = 0; v < NODES; v++)
        degrees[v] = DEGREE;
    graph_with_degrees(&g, degrees, NODES);
    if (!open_rows(&rows))
        return;
    for (int t = 0; t < THREADS; t++)
        if (!CHECK_EQ(pthread_create(&threads[t], NULL, work, &workers[t]), 0))
            return;
    for (int t = 0; t < THREADS; t++) {
        CHECK_EQ(pthread_join(threads[t], NULL), 0);
        CHECK(workers[t].is_fine);
        CHECK(memcmp(&workers[t], &workers[0], sizeof *workers) == 0);
    }
    close_rows(&rows);
}
