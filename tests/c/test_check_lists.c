#include "check.h"

#include <math.h>
#include <string.h>

#include "graphzero/check_lists.h"

/* Lists of 4 nodes: {1, 1, 3}, {}, {0, 2, 3}, {2}. */
enum { EDGES = 7 };
static uint64_t indptr[5];
static uint32_t indices[EDGES];
static float weights[EDGES];
static double sums[EDGES];
static int64_t times[EDGES];
static uint64_t order[EDGES];
static uint32_t edge_ids[EDGES];
static gz_edge_lists lists;

static void start(void)
{
    static const uint64_t good_indptr[] = {0, 3, 3, 6, 7};
    static const uint32_t good_indices[] = {1, 1, 3, 0, 2, 3, 2};
    static const float good_weights[] = {1, 0, 2, 0.5F, 0.25F, 0, 3};
    static const double good_sums[] = {1, 1, 3, 0.5, 0.75, 0.75, 3};
    static const int64_t good_times[] = {5, 5, INT64_MIN, 9, 8, 8, 0};
    static const uint64_t good_order[] = {2, 0, 1, 1, 2, 0, 0};
    static const uint32_t good_ids[] = {6, 5, 4, 3, 2, 1, 0};
    memcpy(indptr, good_indptr, sizeof indptr);
    memcpy(indices, good_indices, sizeof indices);
    memcpy(weights, good_weights, sizeof weights);
    memcpy(sums, good_sums, sizeof sums);
    memcpy(times, good_times, sizeof times);
    memcpy(order, good_order, sizeof order);
    memcpy(edge_ids, good_ids, sizeof edge_ids);
    lists = (gz_edge_lists){
        .indptr = {indptr, true},
        .num_lists = 4,
        .num_neighbors = 4,
        .indices = {indices, false},
        .weights = weights,
        .cum_weights = sums,
        .times = times,
        .time_order = {order, true},
        .edge_ids = {edge_ids, false},
    };
}

/* A check over ranges of each size must find this entry, or none for -1; then all is good again. */
static void expect(int64_t (*check)(const gz_edge_lists *, int64_t, int64_t), int64_t entry)
{
    for (int64_t step = 1; step <= EDGES; step++) {
        int64_t found = -1;
        for (int64_t begin = 0; begin < EDGES && found < 0; begin += step) {
            int64_t end = begin + step < EDGES ? begin + step : EDGES;
            int64_t at = check(&lists, begin, end);
            found = at < end ? at : -1;
        }
        CHECK_EQ(found, entry);
    }
    CHECK_EQ(check(&lists, 3, 3), 3);
    start();
}

TEST(neighbors_are_sorted_and_in_range)
{
    start();
    expect(gz_first_unsorted, -1);
    indices[4] = 4;
    expect(gz_first_unsorted, 4);
    indices[2] = 0;
    expect(gz_first_unsorted, 2);
    indices[3] = 3; /* the first of a list may be anything; the next is below it */
    expect(gz_first_unsorted, 4);
}

TEST(sums_follow_from_weights)
{
    start();
    expect(gz_first_bad_sum, -1);
    sums[5] = nextafter(sums[5], 1);
    expect(gz_first_bad_sum, 5);
    sums[3] = 3.5; /* not from the list before */
    expect(gz_first_bad_sum, 3);
    weights[2] = NAN;
    expect(gz_first_bad_sum, 2);
}

TEST(weights_are_finite)
{
    const float bad[] = {-1, -INFINITY, INFINITY, NAN};
    start();
    CHECK_EQ(gz_first_bad_weight(weights, 0, EDGES), EDGES);
    for (int i = 0; i < 4; i++) {
        weights[4] = bad[i];
        CHECK_EQ(gz_first_bad_weight(weights, 1, EDGES), 4);
        CHECK_EQ(gz_first_bad_weight(weights, 5, EDGES), EDGES);
    }
}

TEST(times_are_in_order)
{
    start();
    expect(gz_first_untimely, -1);
    order[6] = 1;
    expect(gz_first_untimely, 6);
    order[6] = UINT64_MAX;
    expect(gz_first_untimely, 6);
    order[1] = 1, order[2] = 0; /* a tie out of order */
    expect(gz_first_untimely, 2);
    order[2] = 0; /* twice the same */
    expect(gz_first_untimely, 2);
    order[0] = 7; /* out of range, and not followed by the next */
    expect(gz_first_untimely, 0);
}

TEST(tables_and_bounds)
{
    const uint32_t ids[] = {2, 0, 1}, ranks[] = {1, 2, 0}, wrong[] = {1, 0, 2}, far[] = {1, 2, 3};
    gz_ids narrow = {ids, false}, inverse = {ranks, false}, other = {wrong, false};
    gz_ids beyond = {far, false};
    CHECK_EQ(gz_first_not_inverse(&narrow, &inverse, 3, 0, 3), 3);
    CHECK_EQ(gz_first_not_inverse(&narrow, &other, 3, 0, 3), 0);
    CHECK_EQ(gz_first_not_inverse(&beyond, &inverse, 3, 2, 3), 2);
    CHECK_EQ(gz_first_beyond(&beyond, 3, 0, 3), 2);
    CHECK_EQ(gz_first_beyond(&beyond, 4, 0, 3), 3);
    start();
    CHECK_EQ(gz_first_descent(&lists.indptr, EDGES, 0, 5), 5);
    indptr[2] = 2;
    CHECK_EQ(gz_first_descent(&lists.indptr, EDGES, 2, 5), 2);
    indptr[2] = EDGES + 1;
    CHECK_EQ(gz_first_descent(&lists.indptr, EDGES, 0, 5), 2);
}
