/* The kinds of drawing besides uniform draws, by the name of the option that chooses them. To add
 * one: a row in the table of kinds.c, and its kernel in a file of its own. */
#ifndef GRAPHZERO_KINDS_H
#define GRAPHZERO_KINDS_H

#include <stdbool.h>
#include <stdint.h>

#include "graphzero/csr.h"
#include "graphzero/draws.h"

/* How edges are drawn among those up to a time. */
typedef enum gz_time_rule {
    GZ_TIME_ANY = 0, /* times are ignored */
    GZ_TIME_UNIFORM,
    GZ_TIME_LAST, /* the most recent edges, without randomness */
} gz_time_rule;

typedef struct gz_draw_kind gz_draw_kind;

/* How neighbours are drawn, the same in all hops. */
typedef struct gz_rule {
    const gz_draw_kind *kind; /* NULL: uniform draws. Excludes time */
    bool replace;             /* with replacement */
    bool by_seed;      /* draws depend on the index in nodes[], not on the node: repeated nodes
                          draw independently */
    gz_time_rule time; /* if set, csr->time_order and until must not be NULL */
    bool strictly;     /* with time: edges before it, not at it */
} gz_rule;

typedef struct gz_hop {
    int64_t fanout; /* neighbours per node, > 0; or -1 for all of them */
    gz_rule rule;
    gz_draws draws; /* of this hop */
} gz_hop;

/* The neighbour list of a frontier node; the first pass reads it for the second. With times, degree
 * counts the edges up to the time. */
typedef struct gz_list {
    uint64_t first, degree;
} gz_list;

/* Both passes return how many entries were corrupt. Either reads the content of whole lists, so hop
 * read-ahead requests them whole. */
struct gz_draw_kind {
    const char *name;   /* of the option that chooses it */
    bool needs_weights; /* csr->cum_weights must not be NULL */
    bool reads_twice;   /* whole lists, in both passes: lists are sampled in blocks that stay in
                           the cache */
    /* First pass: counts[i] = edges that will be drawn from lists[i], for i in [begin, end). */
    uint64_t (*count)(const gz_csr *csr, const gz_hop *hop, int64_t begin, int64_t end,
                      const gz_list *lists, int64_t *counts);
    /* Cache hints before `draw`; NULL: none. */
    void (*hint)(const gz_csr *csr, const gz_list *list);
    /* Second pass: writes `count` stored positions; the draws are those of `stream`. */
    uint64_t (*draw)(const gz_csr *csr, const gz_hop *hop, uint64_t stream, const gz_list *list,
                     int64_t count, int64_t *out);
};

/* NULL if there is no kind of that name. */
const gz_draw_kind *gz_draw_kind_named(const char *name);

#endif
