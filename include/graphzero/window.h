/* A search in a sorted list that can be left while it waits for memory. It looks at two cache lines
 * at a time, first where its caller guesses, then where the slope of what it has seen points to. */
#ifndef GRAPHZERO_WINDOW_H
#define GRAPHZERO_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "graphzero/csr.h"

/* Entries in a cache line, and how often a slope may mislead before the list is halved instead. */
enum { GZ_LINE_NARROW = 16, GZ_LINE_WIDE = 8, GZ_MOST_GUESSES = 8 };

/* Looks at [from, end); what is looked for can only be in [low, high). */
typedef struct gz_window {
    uint64_t low, high, from, end;
    int looks;
} gz_window;

/* Two lines about a position of [low, high), where they are in it. */
static inline void gz_window_about(gz_window *w, uint64_t middle, uint64_t line)
{
    uint64_t from = middle < line ? 0 : (middle - line / 2) & ~(line - 1), end = from + 2 * line;
    w->from = from < w->low ? w->low : from;
    w->end = end > w->high ? w->high : end;
}

/* Goes on to the left or the right, where entries must be left, to what differs by `gap` from the
 * end of the window on this side; `span` is the difference between its ends. */
static inline void gz_window_beyond(gz_window *w, bool left, double gap, double span, uint64_t line)
{
    double far = gap * (double)(int64_t)(w->end - w->from) / span;
    w->low = left ? w->low : w->end;
    w->high = left ? w->from : w->high;
    uint64_t widest = w->high - w->low - 1;
    uint64_t step = far >= 0.0 && far < (double)(int64_t)widest ? (uint64_t)(int64_t)far : widest;
    if (++w->looks > GZ_MOST_GUESSES)
        step = widest / 2;
    gz_window_about(w, left ? w->high - 1 - step : w->low + step, line);
}

/* Asks for what gz_window_look will read. */
GZ_INLINE void gz_window_hint(const gz_window *w, const gz_ids *ids)
{
    gz_cache_hint(gz_id_address(ids, w->from));
    gz_cache_hint(gz_id_address(ids, w->end - 1));
}

/* `found` holds only where the search is not to go on. */
typedef struct gz_sight {
    bool found, goes_left, goes_right;
} gz_sight;

/* Halves the window as often as any of its size, with no branch that depends on the ids: nobody
 * could predict it. */
GZ_INLINE gz_sight gz_look(const gz_window *w, const gz_ids *ids, uint64_t x, uint64_t line)
{
    uint64_t at = w->from, remaining = w->end - w->from;
    bool below = x < gz_id(ids, at);
    bool above = x > gz_id(ids, w->end - 1);
    for (uint64_t round = line; round > 0; round /= 2) {
        uint64_t half = remaining / 2;
        at = gz_id(ids, at + half) <= x ? at + half : at;
        remaining -= half;
    }
    return (gz_sight){gz_id(ids, at) == x, below & (w->from > w->low), above & (w->end < w->high)};
}

/* Whether x is among the ids of the window, or may be on one of its sides. */
static inline gz_sight gz_window_look(const gz_window *w, const gz_ids *ids, uint64_t x)
{
    /* of a width that the compiler knows: it unrolls the loop, and asks for the width once */
    gz_ids narrow = {ids->data, false}, wide = {ids->data, true};
    return ids->wide ? gz_look(w, &wide, x, GZ_LINE_WIDE) : gz_look(w, &narrow, x, GZ_LINE_NARROW);
}

/* To where the search for x goes on. */
static inline void gz_window_follow(gz_window *w, const gz_ids *ids, uint64_t x)
{
    uint64_t first = gz_id(ids, w->from), last = gz_id(ids, w->end - 1);
    bool left = x < first && w->from > w->low; /* as it looked: lists may not ascend */
    uint64_t gap = left ? first - x : x - last, line = ids->wide ? GZ_LINE_WIDE : GZ_LINE_NARROW;
    gz_window_beyond(w, left, (double)(int64_t)gap, (double)(int64_t)(last - first), line);
}

#endif
