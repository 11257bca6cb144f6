#include "graphzero/weighted.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "graphzero/rng.h"

/* MOST_PICKS bounds the sorted picks on the stack, and the quadratic pass over them. */
enum { MOST_PICKS = 256, SPARE_TRIES = 16 };

#define LEAST_REMAINING 0x1p-20
#define KEYS_FROM (UINT64_C(1) << 32) /* above the numbers of all draws by inverse transform */

uint64_t gz_weighted_find(const gz_csr *csr, const gz_weighted_list *list, double x,
                          uint64_t *corrupt)
{
    uint64_t low = list->first, high = list->first + list->degree - 1;
    while (low < high)
        gz_weighted_halve(csr, x, &low, &high);
    gz_weighted_check(csr, list->first, low, x, corrupt);
    return low;
}

int64_t gz_weighted_count(const gz_csr *csr, const gz_weighted_list *list, int64_t most,
                          uint64_t *corrupt)
{
    int64_t count = 0;
    if (list->total == 0.0)
        return 0;
    for (uint64_t i = 0; i < list->degree && count < most; i++)
        count += gz_weight(csr, list->first, list->first + i, corrupt) > 0.0;
    return count;
}

/* Fills the rest of the output if the file has changed since the entries were counted. */
static uint64_t fill(uint64_t first, int64_t from, int64_t count, int64_t *out)
{
    for (int64_t i = from; i < count; i++)
        out[i] = (int64_t)first;
    return from < count;
}

uint64_t gz_weighted_replace(const gz_csr *csr, uint64_t stream, uint64_t first, uint64_t degree,
                             int64_t count, int64_t *out)
{
    uint64_t corrupt = 0;
    gz_weighted_list list = gz_weighted_list_of(csr, first, degree, &corrupt);
    if (list.total == 0.0)
        return corrupt + fill(first, 0, count, out);
    for (int64_t i = 0; i < count; i++) {
        double x = gz_unit(gz_draw(stream, (uint64_t)i)) * list.total;
        out[i] = (int64_t)gz_weighted_find(csr, &list, x, &corrupt);
    }
    return corrupt;
}

uint64_t gz_weighted_all(const gz_csr *csr, uint64_t first, uint64_t degree, int64_t count,
                         int64_t *out)
{
    uint64_t corrupt = 0;
    int64_t taken = 0;
    for (uint64_t i = 0; i < degree && taken < count; i++)
        if (gz_weight(csr, first, first + i, &corrupt) > 0.0)
            out[taken++] = (int64_t)(first + i);
    return corrupt + fill(first, taken, count, out);
}

/* Maps x from the cumulative weights without the picked entries to those of the whole list. */
static double stretched(const gz_csr *csr, uint64_t first, const uint64_t *picks, int64_t count,
                        double x, uint64_t *corrupt)
{
    for (int64_t i = 0; i < count; i++) {
        if (x < gz_weight_before(csr, first, picks[i]))
            break;
        x += gz_weight(csr, first, picks[i], corrupt);
    }
    return x;
}

/* Inserts a pick in ascending order; false if it is already there. */
static bool insert(uint64_t *picks, int64_t count, uint64_t pick)
{
    int64_t at = count;
    while (at > 0 && picks[at - 1] > pick)
        at--;
    if (at > 0 && picks[at - 1] == pick)
        return false;
    memmove(picks + at + 1, picks + at, (size_t)(count - at) * sizeof *picks);
    picks[at] = pick;
    return true;
}

/* Draws by inverse transform; returns how many were drawn. Rejects a repeated pick, which rounding
 * can cause. */
static int64_t draw_cut(const gz_csr *csr, uint64_t stream, const gz_weighted_list *list,
                        int64_t count, int64_t *out, uint64_t *corrupt)
{
    uint64_t picks[MOST_PICKS];
    double remaining = list->total;
    int64_t taken = 0;
    for (int64_t i = 0; i < count + SPARE_TRIES && taken < count; i++) {
        if (!(remaining >= LEAST_REMAINING * list->total))
            break;
        double x = gz_unit(gz_draw(stream, (uint64_t)i)) * remaining;
        x = stretched(csr, list->first, picks, taken, x, corrupt);
        if (!(x < list->total))
            continue;
        uint64_t pick = gz_weighted_find(csr, list, x, corrupt);
        if (!insert(picks, taken, pick))
            continue;
        out[taken++] = (int64_t)pick;
        remaining -= gz_weight(csr, list->first, pick, corrupt);
    }
    return taken;
}

/* The list and stream of exponential keys, which are recomputed instead of stored. */
typedef struct keys {
    const gz_csr *csr;
    uint64_t stream, first;
    uint64_t *corrupt;
} keys;

static double key_of(const keys *k, int64_t position)
{
    uint64_t i = (uint64_t)position - k->first;
    double weight = gz_weight(k->csr, k->first, (uint64_t)position, k->corrupt);
    return -log(1.0 - gz_unit(gz_draw(k->stream, KEYS_FROM + i))) / weight;
}

static bool comes_before(const keys *k, int64_t a, int64_t b)
{
    double key_a = key_of(k, a), key_b = key_of(k, b);
    return key_a < key_b || (key_a == key_b && a < b);
}

/* Restores the max-heap below one place. */
static void sift(const keys *k, int64_t *heap, int64_t at, int64_t count)
{
    for (int64_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && comes_before(k, heap[child], heap[child + 1]))
            child++;
        if (!comes_before(k, heap[at], heap[child]))
            return;
        int64_t moved = heap[at];
        heap[at] = heap[child];
        heap[child] = moved;
        at = child;
    }
}

static bool holds(const int64_t *picks, int64_t count, int64_t pick)
{
    for (int64_t i = 0; i < count; i++)
        if (picks[i] == pick)
            return true;
    return false;
}

/* Writes the `count - taken` entries with the smallest keys that are not among out[0 .. taken), in
 * the order of their keys. Uses a heap within `out`, because kernels do not allocate. */
static int64_t draw_keys(const keys *k, uint64_t degree, int64_t taken, int64_t count, int64_t *out)
{
    int64_t *heap = out + taken, wanted = count - taken, size = 0;
    double worst = 0.0;
    for (uint64_t i = 0; i < degree; i++) {
        int64_t position = (int64_t)(k->first + i);
        if (!(gz_weight(k->csr, k->first, (uint64_t)position, k->corrupt) > 0.0))
            continue;
        if ((size == wanted && !(key_of(k, position) < worst)) || holds(out, taken, position))
            continue;
        if (size < wanted) {
            heap[size++] = position;
            for (int64_t at = size == wanted ? wanted / 2 : 0; at > 0; at--)
                sift(k, heap, at, wanted);
        } else {
            heap[0] = position;
        }
        if (size == wanted) {
            sift(k, heap, 0, wanted);
            worst = key_of(k, heap[0]);
        }
    }
    if (size < wanted)
        return taken + size;
    for (int64_t end = wanted - 1; end > 0; end--) {
        int64_t last = heap[0];
        heap[0] = heap[end];
        heap[end] = last;
        sift(k, heap, 0, end);
    }
    return count;
}

uint64_t gz_weighted_distinct(const gz_csr *csr, uint64_t stream, uint64_t first, uint64_t degree,
                              int64_t count, int64_t *out)
{
    uint64_t corrupt = 0;
    gz_weighted_list list = gz_weighted_list_of(csr, first, degree, &corrupt);
    int64_t taken = 0;
    if (list.total == 0.0)
        return corrupt + fill(first, 0, count, out);
    if (count <= MOST_PICKS)
        taken = draw_cut(csr, stream, &list, count, out, &corrupt);
    if (taken < count) {
        const keys k = {csr, stream, first, &corrupt};
        taken = draw_keys(&k, degree, taken, count, out);
    }
    return corrupt + fill(first, taken, count, out);
}
