#include "graphzero/reads.h"

#include <string.h>

#include "graphzero/cache_hint.h"

enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS };

int64_t gz_picks_split(const int64_t *rows, int64_t count, int64_t first_direct_row, gz_pick *picks)
{
    int64_t front = 0, back = count;
    for (int64_t i = 0; i < count; i++) {
        gz_pick pick = {(uint64_t)rows[i], (uint64_t)i};
        if (rows[i] >= first_direct_row)
            picks[front++] = pick;
        else
            picks[--back] = pick;
    }
    return front;
}

/* One pass of a radix sort; false if all picks have the same digit, and nothing was moved. */
static bool sort_by_digit(const gz_pick *from, gz_pick *to, int64_t count, unsigned shift)
{
    int64_t starts[DIGITS] = {0}, sum = 0;
    for (int64_t i = 0; i < count; i++)
        starts[(from[i].row >> shift) % DIGITS]++;
    if (starts[(from[0].row >> shift) % DIGITS] == count)
        return false;
    for (int d = 0; d < DIGITS; d++) {
        int64_t here = starts[d];
        starts[d] = sum;
        sum += here;
    }
    for (int64_t i = 0; i < count; i++)
        to[starts[(from[i].row >> shift) % DIGITS]++] = from[i];
    return true;
}

void gz_picks_sort(gz_pick *picks, gz_pick *scratch, int64_t count)
{
    gz_pick *from = picks, *to = scratch;
    uint64_t all = 0;
    for (int64_t i = 0; i < count; i++)
        all |= picks[i].row;
    for (unsigned shift = 0; shift < 64 && all >> shift != 0; shift += DIGIT_BITS) {
        if (sort_by_digit(from, to, count, shift)) {
            gz_pick *sorted = to;
            to = from;
            from = sorted;
        }
    }
    if (from != picks && count > 0)
        memcpy(picks, from, (size_t)count * sizeof *picks);
}

void gz_picks_in_turn(gz_pick *picks, int64_t count, gz_pick *later)
{
    for (int64_t i = 0; i < count; i++) {
        later[i] = (gz_pick){(uint64_t)i, picks[i].place};
        picks[i].place = (uint64_t)i;
    }
}

/* The part that a place is in: the first whose end is beyond it. */
static int64_t part_of(const int64_t *ends, int64_t parts, uint64_t place)
{
    int64_t first = 0, last = parts - 1;
    while (first < last) {
        int64_t middle = (first + last) / 2;
        if (place < (uint64_t)ends[middle])
            last = middle;
        else
            first = middle + 1;
    }
    return first;
}

void gz_picks_divide(const gz_pick *picks, int64_t count, const int64_t *ends, int64_t parts,
                     gz_pick *out, int64_t *begins)
{
    for (int64_t i = 0; i <= parts; i++)
        begins[i] = 0;
    for (int64_t i = 0; i < count; i++)
        begins[part_of(ends, parts, picks[i].place) + 1]++;
    for (int64_t i = 0; i < parts; i++)
        begins[i + 1] += begins[i];
    for (int64_t i = 0; i < count; i++) {
        int64_t part = part_of(ends, parts, picks[i].place);
        uint64_t first = part == 0 ? 0 : (uint64_t)ends[part - 1];
        out[begins[part]++] = (gz_pick){picks[i].row, picks[i].place - first};
    }
    for (int64_t i = parts; i > 0; i--)
        begins[i] = begins[i - 1];
    begins[0] = 0;
}

GZ_INLINE void copy_picks(const gz_pick *picks, int64_t count, const unsigned char *rows,
                          uint64_t row_bytes, const gz_cast *cast, unsigned char *out)
{
    uint64_t out_bytes = gz_cast_bytes(cast, row_bytes);
    for (int64_t i = 0; i < count; i++) {
        if (i + GZ_ROW_HINT_DISTANCE < count)
            gz_row_hint(rows + picks[i + GZ_ROW_HINT_DISTANCE].row * row_bytes, row_bytes);
        gz_cast_copy(cast, rows + picks[i].row * row_bytes, row_bytes,
                     out + picks[i].place * out_bytes);
    }
}

void gz_picks_copy(const gz_pick *picks, int64_t count, const unsigned char *rows,
                   uint64_t row_bytes, const gz_cast *cast, unsigned char *out)
{
    if (cast->convert == NULL)
        copy_picks(picks, count, rows, row_bytes, &GZ_AS_STORED, out);
    else
        copy_picks(picks, count, rows, row_bytes, cast, out);
}

static uint64_t first_byte(const gz_reads *reads, int64_t pick)
{
    return reads->origin + reads->picks[pick].row * reads->row_bytes;
}

/* Counts the pages of the byte range [begin, end) that no earlier pick has requested. */
static void count_wanted(gz_reads *reads, uint64_t begin, uint64_t end)
{
    if (begin < reads->wanted_up_to)
        begin = reads->wanted_up_to;
    if (end <= begin)
        return;
    reads->pages_wanted += (end - begin) / reads->page_bytes;
    reads->wanted_up_to = end;
}

bool gz_reads_next(gz_reads *reads, gz_read *out)
{
    uint64_t page = reads->page_bytes;
    if (reads->next >= reads->count)
        return false;
    uint64_t begin = first_byte(reads, reads->next) / page * page;
    if (begin < reads->read_up_to)
        begin = reads->read_up_to;
    uint64_t end = begin, limit = begin + reads->most_bytes;
    int64_t pick = reads->next, first = pick;
    for (; pick < reads->count; pick++) {
        uint64_t byte = first_byte(reads, pick), row_begin = byte / page * page;
        uint64_t row_end = (byte + reads->row_bytes - 1) / page * page + page;
        if (pick > first && (row_begin > end + reads->gap_pages * page || row_begin >= limit))
            break;
        count_wanted(reads, row_begin, row_end < limit ? row_end : limit);
        end = row_end > end ? row_end : end;
        if (end > limit)
            break; /* this pick continues in the next read */
    }
    reads->next = pick;
    if (end > limit) {
        end = limit;
        while (pick < reads->count && first_byte(reads, pick) < end)
            pick++; /* and so do all picks that begin before the limit */
    }
    *out = (gz_read){begin, end - begin, first, pick};
    reads->read_up_to = end;
    reads->pages_read += (end - begin) / page;
    reads->reads++;
    return true;
}

void gz_reads_scatter(const gz_reads *reads, const gz_read *read, const unsigned char *bytes,
                      unsigned char *out)
{
    uint64_t row_bytes = reads->row_bytes, read_end = read->offset + read->length;
    for (int64_t i = read->first; i < read->end; i++) {
        uint64_t begin = first_byte(reads, i), end = begin + row_bytes;
        uint64_t from = begin > read->offset ? begin : read->offset;
        uint64_t to = end < read_end ? end : read_end;
        memcpy(out + reads->picks[i].place * row_bytes + (from - begin),
               bytes + (from - read->offset), (size_t)(to - from));
    }
}
