/* Threads that share one graph and one file, for ThreadSanitizer. They do what the loader's threads
 * do, without an interpreter whose lock would hide races, and without OpenMP, whose runtime the
 * sanitizer cannot instrument. A separate program; run.py --threads builds it. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graphzero/batch.h"
#include "graphzero/gather.h"
#include "graphzero/mapping.h"
#include "graphzero/rng.h"
#include "graphzero/willneed.h"

enum { THREADS = 4, ROUNDS = 50, NODES = 2000, DEGREE = 20, SEEDS = 64, ROW_BYTES = 64, HOPS = 2 };

/* Shared by all threads, read-only. */
typedef struct shared {
    gz_csr csr;
    gz_mapping mapping; /* rows */
    const int64_t *fanouts;
} shared;

typedef struct worker {
    const shared *with;
    uint64_t digest[ROUNDS]; /* of each batch's nodes, edges and rows */
    int failed;
} worker;

static uint64_t mix(uint64_t digest, const void *bytes, size_t count)
{
    const unsigned char *byte = bytes;
    for (size_t i = 0; i < count; i++)
        digest = (digest ^ byte[i]) * UINT64_C(0x100000001b3);
    return digest;
}

static int ascending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int advise_pages(const shared *with, const gz_batch *batch)
{
    const gz_node_space *space = &batch->spaces[0];
    size_t count = (size_t)space->count;
    int64_t *rows = malloc(count * sizeof *rows);
    gz_run *runs = malloc(count * sizeof *runs);
    gz_willneed_counts counts;
    gz_error err;
    int failed = rows == NULL || runs == NULL;
    if (!failed) {
        memcpy(rows, gz_nodes_ids(space), count * sizeof *rows);
        qsort(rows, count, sizeof *rows, ascending);
        int64_t num_runs =
            gz_page_runs(rows, (int64_t)count, 0, ROW_BYTES, 0, with->mapping.size, runs);
        failed = gz_willneed(&with->mapping, runs, num_runs, GZ_WILLNEED_MISSING, &counts, &err) !=
                 GZ_OK;
    }
    free(runs);
    free(rows);
    return failed;
}

static int one_batch(worker *self, gz_batch *batch, int round)
{
    const shared *with = self->with;
    int64_t seeds[SEEDS];
    const int64_t num_nodes = NODES;
    const gz_edge_type edge_type = {.csr = &with->csr, .fanouts = with->fanouts};
    const gz_plan plan = {.edge_types = &edge_type,
                          .num_edge_types = 1,
                          .num_nodes = &num_nodes,
                          .num_node_types = 1,
                          .num_hops = HOPS,
                          .draws = gz_draws_of(GZ_PURPOSE_SAMPLE, 1, 0, (uint64_t)round, 1)};
    const gz_seeds of = {seeds, SEEDS};
    uint64_t digest = 0;
    gz_error err;
    for (int i = 0; i < SEEDS; i++)
        seeds[i] = (round * SEEDS + i) * 7 % NODES;
    if (gz_batch_sample(batch, &plan, &of, &err) != GZ_OK || batch->edges[0].corrupt != 0 ||
        advise_pages(with, batch))
        return 1;
    const int64_t *nodes = gz_nodes_ids(&batch->spaces[0]);
    const gz_edge_list *edges = &batch->edges[0];
    size_t count = (size_t)batch->spaces[0].count;
    unsigned char *rows = malloc(count * ROW_BYTES);
    if (rows == NULL)
        return 1;
    gz_gather_rows(with->mapping.base, ROW_BYTES, &GZ_AS_STORED, nodes, 0, (int64_t)count, NULL,
                   rows);
    digest = mix(digest, nodes, count * sizeof *nodes);
    digest = mix(digest, edges->sources, (size_t)edges->count * sizeof *edges->sources);
    digest = mix(digest, rows, count * ROW_BYTES);
    free(rows);
    self->digest[round] = digest;
    return 0;
}

static void *work(void *argument)
{
    worker *self = argument;
    gz_batch batch;
    gz_batch_init(&batch);
    for (int round = 0; round < ROUNDS && !self->failed; round++)
        self->failed = one_batch(self, &batch, round);
    gz_batch_free(&batch);
    return NULL;
}

/* Node v has the neighbours v + 1, v + 4, v + 9, ..., in ascending order after wrapping. */
static void make_graph(gz_csr *csr)
{
    static uint64_t indptr[NODES + 1];
    static uint32_t indices[NODES * DEGREE];
    for (int v = 0; v < NODES; v++) {
        int64_t row[DEGREE];
        for (int i = 0; i < DEGREE; i++)
            row[i] = (v + (i + 1) * (i + 1)) % NODES;
        qsort(row, DEGREE, sizeof *row, ascending);
        for (int i = 0; i < DEGREE; i++)
            indices[v * DEGREE + i] = (uint32_t)row[i];
        indptr[v + 1] = (uint64_t)(v + 1) * DEGREE;
    }
    memset(csr, 0, sizeof *csr);
    csr->num_nodes = csr->num_neighbors = NODES;
    csr->num_edges = NODES * DEGREE;
    csr->indptr = (gz_ids){indptr, true};
    csr->indices.data = indices;
}

static int run_side_by_side(const shared *with)
{
    static worker workers[THREADS];
    pthread_t threads[THREADS];
    for (int t = 0; t < THREADS; t++) {
        workers[t].with = with;
        if (pthread_create(&threads[t], NULL, work, &workers[t]) != 0)
            return 1;
    }
    int failed = 0;
    for (int t = 0; t < THREADS; t++)
        failed |= pthread_join(threads[t], NULL) != 0 || workers[t].failed;
    for (int t = 1; t < THREADS; t++)
        failed |= memcmp(workers[t].digest, workers[0].digest, sizeof workers[0].digest) != 0;
    return failed;
}

int main(int count, char **arguments)
{
    static const int64_t fanouts[HOPS] = {10, -1};
    shared with = {.fanouts = fanouts};
    gz_error err;
    if (count != 2) {
        fprintf(stderr, "usage: %s FILE-TO-WRITE\n", arguments[0]);
        return 2;
    }
    FILE *file = fopen(arguments[1], "wb");
    for (int i = 0; file != NULL && i < NODES * ROW_BYTES; i++)
        fputc(i * 31 & 0xff, file);
    if (file == NULL || fclose(file) != 0) {
        perror(arguments[1]);
        return 2;
    }
    make_graph(&with.csr);
    if (gz_mapping_open(arguments[1], &with.mapping, &err) != GZ_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 2;
    }
    int failed = run_side_by_side(&with);
    gz_mapping_close(&with.mapping);
    printf("%d threads over one graph: %s\n", THREADS, failed ? "FAILED" : "passed");
    return failed;
}
