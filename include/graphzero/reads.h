/* The rows of a batch as reads of a file: rows sorted with their places, merged into runs of whole
 * pages, cut where a run does not fit into a buffer, and copied from there to their places. */
#ifndef GRAPHZERO_READS_H
#define GRAPHZERO_READS_H

#include <stdbool.h>
#include <stdint.h>

#include "graphzero/convert.h"

/* A row that is wanted, and the row of the result that it becomes. */
typedef struct gz_pick {
    uint64_t row;
    uint64_t place;
} gz_pick;

/* Writes one pick for each of count rows: those from first_direct_row on at the front, those below
 * it behind them. Returns how many are at the front. */
int64_t gz_picks_split(const int64_t *rows, int64_t count, int64_t first_direct_row,
                       gz_pick *picks);

/* Sorts by row, then by place if they came so; scratch must hold count picks too. */
void gz_picks_sort(gz_pick *picks, gz_pick *scratch, int64_t count);

/* Gives sorted picks the places 0, 1, 2, ... instead of theirs, so that rows are written in the
 * order in which they come; later[i] says which row of these then belongs to which place. */
void gz_picks_in_turn(gz_pick *picks, int64_t count, gz_pick *later);

/* Brings whole rows of an array in memory to their places. */
void gz_picks_copy(const gz_pick *picks, int64_t count, const unsigned char *rows,
                   uint64_t row_bytes, const gz_cast *cast, unsigned char *out);

/* Reads that are still to be made, handed out one by one. */
typedef struct gz_reads {
    const gz_pick *picks; /* sorted */
    int64_t count;
    uint64_t origin; /* first byte of row 0 in the file */
    uint64_t row_bytes;
    uint64_t gap_pages;  /* unwanted pages that a read may run over to merge two runs */
    uint64_t most_bytes; /* of one read; whole pages */
    uint64_t page_bytes;

    /* Start at 0. A row that is cut by most_bytes belongs to two reads or more. */
    int64_t next;        /* first pick that is not read to its end */
    uint64_t read_up_to; /* byte of the file up to which it is */
    uint64_t wanted_up_to;
    uint64_t pages_wanted; /* distinct pages that hold wanted bytes */
    uint64_t pages_read;   /* these, and the gaps between them */
    uint64_t reads;
} gz_reads;

/* Whole pages of the file, which may reach beyond its end, and the picks that they hold bytes of.
 */
typedef struct gz_read {
    uint64_t offset;
    uint64_t length;
    int64_t first;
    int64_t end;
} gz_read;

/* The next read, in the order of the file; false after the last. No page is in two of them. */
bool gz_reads_next(gz_reads *reads, gz_read *out);

/* Brings what a read has brought to the places of its rows; of a row that was cut, its piece. */
void gz_reads_scatter(const gz_reads *reads, const gz_read *read, const unsigned char *bytes,
                      unsigned char *out);

#endif
