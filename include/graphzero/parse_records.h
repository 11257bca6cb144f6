/* Plain text records, such as those of CSV files, to columns of numbers. Only what is read beyond
 * doubt is read: at the first record with anything else (a quote, a decimal number that needs more
 * than double precision, a missing cell) the kernel stops, and the caller looks at that record. */
#ifndef GRAPHZERO_PARSE_RECORDS_H
#define GRAPHZERO_PARSE_RECORDS_H

#include <stdbool.h>
#include <stdint.h>

enum { GZ_PARSE_PADDING = 8 }; /* readable bytes that must follow a text */

typedef enum gz_cell_kind {
    GZ_CELL_SKIP, /* a column that is not wanted */
    GZ_CELL_UINT32,
    GZ_CELL_INT32,
    GZ_CELL_INT64,
    GZ_CELL_FLOAT32,
    GZ_CELL_FLOAT64,
} gz_cell_kind;

typedef struct gz_cell_column {
    gz_cell_kind kind;
    void *out; /* an array of that type with room for as many records as there are lines */
} gz_cell_column;

typedef struct gz_record_format {
    unsigned char delimiter;       /* neither a line end, a quote, nor part of a number */
    bool blanks;                   /* instead: any run of blanks and tabs, also around a record */
    int32_t width;                 /* cells of a record, at least 1 */
    const gz_cell_column *columns; /* one for each cell */
} gz_record_format;

typedef struct gz_parsed {
    int64_t records;
    int64_t stop; /* where the first record begins that was not read; the end if all were */
} gz_parsed;

/* Line ends in text[begin, end). */
int64_t gz_count_lines(const unsigned char *text, int64_t begin, int64_t end);

/* Reads the records of text[begin, end), whole lines of which each ends with "\n", into the columns
 * from index `first` on. Empty lines are no records. */
gz_parsed gz_parse_records(const gz_record_format *format, const unsigned char *text, int64_t begin,
                           int64_t end, int64_t first);

#endif
