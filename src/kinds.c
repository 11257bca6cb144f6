#include "graphzero/kinds.h"

#include <stddef.h>
#include <string.h>

#include "graphzero/labor.h"
#include "graphzero/weighted.h"

enum { HINT_DISTANCE = 16 };

/* Hints at the first and last sum of a list, which both passes read first. */
static void hint_sums(const gz_csr *csr, const gz_list *list)
{
    if (list->degree > 0) {
        gz_cache_hint(&csr->cum_weights[list->first]);
        gz_cache_hint(&csr->cum_weights[list->first + list->degree - 1]);
    }
}

static uint64_t count_weighted(const gz_csr *csr, const gz_hop *hop, int64_t begin, int64_t end,
                               const gz_list *lists, int64_t *counts)
{
    uint64_t corrupt = 0;
    int64_t most = hop->fanout < 0 ? INT64_MAX : hop->fanout;
    for (int64_t i = begin; i < end; i++) {
        if (i + HINT_DISTANCE < end)
            hint_sums(csr, &lists[i + HINT_DISTANCE]);
        gz_weighted_list list = gz_weighted_list_of(csr, lists[i].first, lists[i].degree, &corrupt);
        if (hop->rule.replace && hop->fanout >= 0)
            counts[i] = list.total > 0.0 ? hop->fanout : 0;
        else
            counts[i] = gz_weighted_count(csr, &list, most, &corrupt);
    }
    return corrupt;
}

static uint64_t draw_weighted(const gz_csr *csr, const gz_hop *hop, uint64_t stream,
                              const gz_list *list, int64_t count, int64_t *out)
{
    uint64_t first = list->first, degree = list->degree;
    if (hop->rule.replace && hop->fanout >= 0)
        return gz_weighted_replace(csr, stream, first, degree, count, out);
    if (hop->fanout < 0 || count < hop->fanout || (uint64_t)count == degree)
        return gz_weighted_all(csr, first, degree, count, out);
    return gz_weighted_distinct(csr, stream, first, degree, count, out);
}

static uint64_t count_labor(const gz_csr *csr, const gz_hop *hop, int64_t begin, int64_t end,
                            const gz_list *lists, int64_t *counts)
{
    uint64_t corrupt = 0;
    for (int64_t i = begin; i < end; i++) {
        if (i + HINT_DISTANCE < end)
            gz_cache_hint(gz_id_address(&csr->indices, lists[i + HINT_DISTANCE].first));
        counts[i] = gz_labor_count(csr, &hop->draws, lists[i].first, lists[i].degree, hop->fanout,
                                   &corrupt);
    }
    return corrupt;
}

static uint64_t draw_labor(const gz_csr *csr, const gz_hop *hop, uint64_t stream,
                           const gz_list *list, int64_t count, int64_t *out)
{
    (void)stream; /* draws belong to the neighbours, which all lists share */
    return gz_labor_positions(csr, &hop->draws, list->first, list->degree, hop->fanout, count, out);
}

static const gz_draw_kind KINDS[] = {
    {.name = "weighted",
     .needs_weights = true,
     .count = count_weighted,
     .hint = hint_sums,
     .draw = draw_weighted},
    {.name = "labor", .reads_twice = true, .count = count_labor, .draw = draw_labor},
};

const gz_draw_kind *gz_draw_kind_named(const char *name)
{
    for (size_t i = 0; i < sizeof KINDS / sizeof KINDS[0]; i++)
        if (strcmp(KINDS[i].name, name) == 0)
            return &KINDS[i];
    return NULL;
}
