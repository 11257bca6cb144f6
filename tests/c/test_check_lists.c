#include "check.h"

#include <string.h>

#include "graphzero/check_lists.h"

/* Lists of 4 nodes: {1, 1, 3}, {}, {0, 2, 3}, {2}. */
enum { EDGES = 7 };
static const uint64_t indptr[] = {0, 3, 3, 6, 7};
static uint32_t indices[EDGES];
static const gz_edge_lists lists = {
    .indptr = {indptr, true}, .num_lists = 4, .num_neighbors = 4, .indices = {indices, false}};

static void start(void)
{
    static const uint32_t good[] = {1, 1, 3, 0, 2, 3, 2};
    memcpy(indices, good, sizeof indices);
}

/* Over ranges of each size this entry must be found, or none for -1; then all is good again. */
static void expect(int64_t entry)
{
    for (int64_t step = 1; step <= EDGES; step++) {
        int64_t found = -1;
        for (int64_t begin = 0; begin < EDGES && found < 0; begin += step) {
            int64_t end = begin + step < EDGES ? begin + step : EDGES;
            int64_t at = gz_first_unsorted(&lists, begin, end);
            found = at < end ? at : -1;
        }
        CHECK_EQ(found, entry);
    }
    CHECK_EQ(gz_first_unsorted(&lists, 3, 3), 3);
    start();
}

TEST(neighbors_are_sorted_and_in_range)
{
    start();
    expect(-1);
    indices[4] = 4;
    expect(4);
    indices[2] = 0;
    expect(2);
    indices[3] = 3; /* the first of a list may be anything; the next is below it */
    expect(4);
}
