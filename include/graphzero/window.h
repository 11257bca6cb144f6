/* A search in a sorted list that can be suspended while it waits for memory. It examines two cache
 * lines at a time: first where the caller guesses, then by interpolation from what it has seen. */
#ifndef GRAPHZERO_WINDOW_H
#define GRAPHZERO_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "graphzero/csr.h"

/* Entries in a cache line, and the number of interpolation steps before binary search takes over.
 */
enum { GZ_LINE_NARROW = 16, GZ_LINE_WIDE = 8, GZ_MOST_GUESSES = 8 };

/* The window [from, end); the entry searched for can only be in [low, high). */
typedef struct gz_window {
    uint64_t low, high, from, end;
    int looks;
} gz_window;

/* Moves the window to the two lines around a position, clipped to [low, high). */
static inline void gz_window_about(gz_window *w, uint64_t middle, uint64_t line)
{
    uint64_t from = middle < line ? 0 : (middle - line / 2) & ~(line - 1), end = from + 2 * line;
    w->from = from < w->low ? w->low : from;
    w->end = end > w->high ? w->high : end;
}

/* Continues to the left or right, where entries must remain. The target differs by `gap` from the
 * window's end on that side; `span` is the difference between the window's ends. */
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

/* Hints at the cache lines that gz_window_look will read. */
GZ_INLINE void gz_window_hint(const gz_window *w, const gz_ids *ids)
{
    gz_cache_hint(gz_id_address(ids, w->from));
    gz_cache_hint(gz_id_address(ids, w->end - 1));
}

/* `found` is valid only if neither goes_left nor goes_right is set. */
typedef struct gz_sight {
    bool found, goes_left, goes_right;
} gz_sight;

/* A binary search with a fixed number of steps and no branch that depends on the ids: such a branch
 * could not be predicted. */
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

/* Whether x is in the window, or may be to its left or right. */
static inline gz_sight gz_window_look(const gz_window *w, const gz_ids *ids, uint64_t x)
{
    /* with a constant width, so that the compiler unrolls the loop */
    gz_ids narrow = {ids->data, false}, wide = {ids->data, true};
    return ids->wide ? gz_look(w, &wide, x, GZ_LINE_WIDE) : gz_look(w, &narrow, x, GZ_LINE_NARROW);
}

/* Moves the window to where the search for x continues. */
static inline void gz_window_follow(gz_window *w, const gz_ids *ids, uint64_t x)
{
    uint64_t first = gz_id(ids, w->from), last = gz_id(ids, w->end - 1);
    bool left =
        x < first && w->from > w->low; /* as gz_look computed it: corrupt lists may not ascend */
    uint64_t gap = left ? first - x : x - last, line = ids->wide ? GZ_LINE_WIDE : GZ_LINE_NARROW;
    gz_window_beyond(w, left, (double)(int64_t)gap, (double)(int64_t)(last - first), line);
}

#endif
