#include "graphzero/parse_records.h"

#include <stddef.h>

#include "graphzero/parse_number.h"

typedef const unsigned char *text_at;

int64_t gz_count_lines(const unsigned char *text, int64_t begin, int64_t end)
{
    int64_t count = 0;
    for (int64_t i = begin; i < end; i++)
        count += text[i] == '\n';
    return count;
}

static inline bool is_blank(unsigned char byte) { return byte == ' ' || byte == '\t'; }

/* Blanks around a number are no part of a cell, unless they are the delimiter. */
static inline text_at skip_blanks(const gz_record_format *format, text_at at)
{
    while (is_blank(*at) && (format->blanks || *at != format->delimiter))
        at++;
    return at;
}

/* The end of a cell that is not wanted; NULL if it is not plain. */
static text_at skip_cell(const gz_record_format *format, text_at at)
{
    for (;; at++) {
        if (*at == '\n' || (*at == '\r' && at[1] == '\n'))
            return at;
        if (format->blanks ? is_blank(*at) : *at == format->delimiter)
            return at;
        if (*at == '"' || *at == '\r' || *at == '\0')
            return NULL;
    }
}

/* The end of a number that has become entry i of its column; NULL if it is not plain. */
static inline text_at read_number(const gz_cell_column *column, text_at at, int64_t i)
{
    uint64_t number;
    int64_t integer;
    switch (column->kind) {
    case GZ_CELL_UINT32:
        at = gz_parse_uint64(at, UINT32_MAX, &number);
        ((uint32_t *)column->out)[i] = (uint32_t)number;
        return at;
    case GZ_CELL_INT32:
        at = gz_parse_int64(at, INT32_MAX, &integer);
        ((int32_t *)column->out)[i] = (int32_t)integer;
        return at;
    case GZ_CELL_INT64: return gz_parse_int64(at, INT64_MAX, (int64_t *)column->out + i);
    case GZ_CELL_FLOAT32: return gz_parse_float32(at, (float *)column->out + i);
    case GZ_CELL_FLOAT64: return gz_parse_float64(at, (double *)column->out + i);
    default: return NULL;
    }
}

/* The begin of the next line if a record is here that has become entry i; NULL if it is not plain.
 */
static text_at read_record(const gz_record_format *format, text_at at, int64_t i)
{
    for (int32_t cell = 0;; cell++) {
        const gz_cell_column *column = &format->columns[cell];
        if (column->kind == GZ_CELL_SKIP) {
            at = skip_cell(format, at);
        } else {
            if (is_blank(*at))
                at = skip_blanks(format, at);
            at = read_number(column, at, i);
        }
        if (at == NULL)
            return NULL;
        bool was_blank = is_blank(*at);
        if (was_blank)
            at = skip_blanks(format, at);
        if (cell + 1 == format->width)
            break;
        if (format->blanks ? !was_blank : *at++ != format->delimiter)
            return NULL;
    }
    at += *at == '\r';
    return *at == '\n' ? at + 1 : NULL;
}

/* Behind an empty line if one is here, else where it was. */
static inline text_at skip_empty_line(const gz_record_format *format, text_at at)
{
    text_at end = format->blanks ? skip_blanks(format, at) : at;
    end += *end == '\r';
    return *end == '\n' ? end + 1 : at;
}

gz_parsed gz_parse_records(const gz_record_format *format, const unsigned char *text, int64_t begin,
                           int64_t end, int64_t first)
{
    text_at at = text + begin, stop = text + end;
    int64_t i = first;
    while (at < stop) {
        text_at next = skip_empty_line(format, at);
        if (next == at) {
            next = read_record(format, at, i);
            if (next == NULL)
                break;
            i++;
        }
        at = next;
    }
    return (gz_parsed){i - first, at - text};
}
