#include "check.h"

#include "graphzero/reads.h"

#include <stdlib.h>
#include <string.h>

#include "graphzero/format.h"
#include "graphzero/rng.h"
#include "graphzero/willneed.h"

enum { PAGE = 4096, PAGES = 600, MOST_ROWS = 400, WIDEST = 40000 };

TEST(picks_keep_their_places)
{
    const int64_t rows[] = {9, 2, 5, 9, 0};
    gz_pick picks[5];
    CHECK_EQ(gz_picks_split(rows, 5, 5, picks), 3);
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(picks[i].row, rows[picks[i].place]);
        CHECK_EQ(picks[i].row >= 5, i < 3);
    }
}

static unsigned char file[PAGES * PAGE];
static gz_pick picks[MOST_ROWS];
static int64_t rows[MOST_ROWS];

static void fill_file(void)
{
    for (size_t i = 0; i < sizeof file; i++)
        file[i] = (unsigned char)gz_draw(1, i);
}

/* Ascending rows with repeats; returns how many. */
static int64_t draw_rows(uint64_t trial, uint64_t origin, uint64_t width)
{
    uint64_t row = 0, spread = 1 + gz_bounded(gz_draw(width, trial), 2 + 12 * PAGE / width);
    int64_t count = 0;
    while (count < MOST_ROWS && origin + (row + 1) * width <= sizeof file) {
        rows[count] = (int64_t)row;
        picks[count] = (gz_pick){row, (uint64_t)(count * 7 % MOST_ROWS)}; /* 7: not in order */
        count++;
        row += gz_bounded(gz_draw(trial, row + (uint64_t)count), 2 * spread);
    }
    return count;
}

static int naive_pages(int64_t count, uint64_t origin, uint64_t width)
{
    static bool wanted[PAGES];
    int sum = 0;
    memset(wanted, 0, sizeof wanted);
    for (int64_t i = 0; i < count; i++)
        for (uint64_t b = 0; b < width; b++)
            wanted[(origin + (uint64_t)rows[i] * width + b) / PAGE] = true;
    for (int i = 0; i < PAGES; i++)
        sum += wanted[i];
    return sum;
}

/* Makes all reads from memory, and checks that they ascend and respect the limit. */
static void read_all(gz_reads *reads, unsigned char *out)
{
    gz_read read;
    uint64_t end = 0, pages = 0;
    while (gz_reads_next(reads, &read)) {
        CHECK(read.offset % PAGE == 0 && read.length % PAGE == 0);
        CHECK(read.length > 0 && read.length <= reads->most_bytes);
        CHECK(read.offset >= end); /* no page twice */
        end = read.offset + read.length;
        pages += read.length / PAGE;
        /* A separate allocation, so that sanitizers see any access beyond the read. */
        unsigned char *bytes = malloc(read.length);
        if (!CHECK(bytes != NULL && end <= sizeof file))
            return;
        memcpy(bytes, file + read.offset, read.length);
        gz_reads_scatter(reads, &read, bytes, out);
        free(bytes);
    }
    CHECK_EQ(reads->pages_read, pages);
}

static void check_rows(const gz_reads *reads, const unsigned char *out)
{
    for (int64_t i = 0; i < reads->count; i++)
        if (!CHECK(memcmp(out + picks[i].place * reads->row_bytes,
                          file + reads->origin + picks[i].row * reads->row_bytes,
                          reads->row_bytes) == 0))
            return;
}

TEST(every_row_is_read_and_no_page_twice)
{
    const uint64_t widths[] = {1, 100, 512, 4096, 5000, WIDEST};
    const uint64_t limits[] = {PAGE, 3 * PAGE, 16 * PAGE, 2 * PAGES * PAGE};
    static gz_run runs[MOST_ROWS];
    unsigned char *out = malloc((size_t)MOST_ROWS * WIDEST);
    if (!CHECK(out != NULL))
        return;
    fill_file();
    for (uint64_t trial = 0; trial < 6 * 4 * 10; trial++) {
        uint64_t width = widths[trial % 6], limit = limits[trial / 6 % 4], gap_pages = trial % 5;
        uint64_t origin = trial % 2 ? 128 : PAGE;
        int64_t count = draw_rows(trial, origin, width);
        gz_reads reads = {.picks = picks,
                          .count = count,
                          .origin = origin,
                          .row_bytes = width,
                          .gap_pages = gap_pages,
                          .most_bytes = limit,
                          .page_bytes = PAGE};
        memset(out, 0xEE, (size_t)MOST_ROWS * WIDEST);
        read_all(&reads, out);
        check_rows(&reads, out);
        CHECK_EQ(reads.pages_wanted, naive_pages(count, origin, width));
        if (gap_pages == 0)
            CHECK_EQ(reads.pages_read, reads.pages_wanted);
        if (limit > sizeof file && gz_system_page_bytes() == PAGE)
            CHECK_EQ(reads.reads,
                     gz_page_runs(rows, count, origin, width, gap_pages, sizeof file, runs));
    }
    free(out);
}

TEST(picks_in_turn_keep_their_places_for_later)
{
    gz_pick sorted[] = {{4, 2}, {4, 0}, {9, 1}}, later[3];
    gz_picks_in_turn(sorted, 3, later);
    const uint64_t rows_wanted[] = {4, 4, 9}, places[] = {2, 0, 1};
    for (uint64_t i = 0; i < 3; i++) {
        CHECK(sorted[i].row == rows_wanted[i] && sorted[i].place == i);
        CHECK(later[i].row == i && later[i].place == places[i]);
    }
}
