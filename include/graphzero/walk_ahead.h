/* Walks beyond memory: all walkers make a step, then the next. They are sorted by their node, so
 * that a block of them reads a narrow part of the file, whose pages are requested while the block
 * before steps (walkers by block: Wang et al., "GraphWalker", ATC 2020; by step: Sun et al.,
 * "ThunderRW", VLDB 2021). */
#ifndef GRAPHZERO_WALK_AHEAD_H
#define GRAPHZERO_WALK_AHEAD_H

#include <stdint.h>

#include "graphzero/node2vec.h"
#include "graphzero/page_ahead.h"
#include "graphzero/walk.h"

/* Walks of any kind: uniform, first-order or second-order, as *walk says. */
uint64_t gz_walk_steps(const gz_csr *csr, const gz_walk *walk, const gz_walks *walks, int64_t begin,
                       int64_t end);

/* All steps of the walks [begin, end): the same walks as by gz_walk_steps; with to_user, of the
 * user's ids. picks and scratch have room for as many; second-order walks need walks->states. */
uint64_t gz_walk_ahead(gz_page_ahead *ahead, const gz_csr *csr, const gz_walk *walk,
                       const gz_walks *walks, bool to_user, gz_pick *picks, gz_pick *scratch,
                       int64_t begin, int64_t end);

#endif
