/* From the rows of a batch to reads of a file: rows are sorted, merged into runs of whole pages,
 * and split where a run exceeds a buffer; after a read, rows are copied to their places. */
#ifndef GRAPHZERO_READS_H
#define GRAPHZERO_READS_H

#include <stdbool.h>
#include <stdint.h>

#include "graphzero/convert.h"

/* A requested row of the file, and its place: the row of the result that it is copied to. */
typedef struct gz_pick {
    uint64_t row;
    uint64_t place;
} gz_pick;

/* Writes one pick for each of count rows: first those of first_direct_row and above, then those
 * below it. Returns how many come first. */
int64_t gz_picks_split(const int64_t *rows, int64_t count, int64_t first_direct_row,
                       gz_pick *picks);

/* Sorts by row; stable. scratch must hold count picks too. */
void gz_picks_sort(gz_pick *picks, gz_pick *scratch, int64_t count);

/* Gives sorted picks the places 0, 1, 2, ..., so that rows are written in the order in which they
 * are read. later[i] maps row i of that result to its original place. */
void gz_picks_in_turn(gz_pick *picks, int64_t count, gz_pick *later);

/* Divides picks among parts of the result: part i has the places from ends[i - 1] (0 for the first)
 * to ends[i] - 1, which become 0, 1, 2, ... in it. In out, those of part i are at begins[i] to
 * begins[i + 1] - 1. */
void gz_picks_divide(const gz_pick *picks, int64_t count, const int64_t *ends, int64_t parts,
                     gz_pick *out, int64_t *begins);

/* Copies whole rows of an array in memory to their places. */
void gz_picks_copy(const gz_pick *picks, int64_t count, const unsigned char *rows,
                   uint64_t row_bytes, const gz_cast *cast, unsigned char *out);

/* The reads of one batch, produced one by one. */
typedef struct gz_reads {
    const gz_pick *picks; /* sorted */
    int64_t count;
    uint64_t origin; /* first byte of row 0 in the file */
    uint64_t row_bytes;
    uint64_t gap_pages;  /* unwanted pages that a read may run over to merge two runs */
    uint64_t most_bytes; /* of one read; whole pages */
    uint64_t page_bytes;

    /* State, initially 0. A row that crosses the end of a read belongs to several reads. */
    int64_t next;        /* first pick that is not completely read */
    uint64_t read_up_to; /* byte of the file up to which pages are read */
    uint64_t wanted_up_to;
    uint64_t pages_wanted; /* distinct pages that hold requested bytes */
    uint64_t pages_read;   /* these, and the gaps between them */
    uint64_t reads;
} gz_reads;

/* One read: whole pages, possibly beyond the end of the file, and the picks with bytes in them. */
typedef struct gz_read {
    uint64_t offset;
    uint64_t length;
    int64_t first;
    int64_t end;
} gz_read;

/* The next read, in file order; false after the last. No page is read twice. */
bool gz_reads_next(gz_reads *reads, gz_read *out);

/* Copies the bytes of a read to the places of its rows; for a row in several reads, its part. */
void gz_reads_scatter(const gz_reads *reads, const gz_read *read, const unsigned char *bytes,
                      unsigned char *out);

#endif
