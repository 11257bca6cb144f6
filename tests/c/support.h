/* Shared by several tests: small graphs in memory, and files in a temporary folder. */
#ifndef GRAPHZERO_TESTS_SUPPORT_H
#define GRAPHZERO_TESTS_SUPPORT_H

#include <stddef.h>

#include "graphzero/batch_state.h"
#include "graphzero/csr.h"
#include "graphzero/format.h"

enum { PATH_BYTES = 256, MOST_NODES = 64, MOST_EDGES = 4096 };

/* A graph whose arrays may be changed by the test. */
typedef struct graph {
    gz_csr csr;
    uint64_t indptr[MOST_NODES + 1];
    uint32_t indices[MOST_EDGES];
    uint64_t wide[MOST_EDGES];
} graph;

/* Node v gets degrees[v] neighbours: ascending, distinct, spread over all nodes. */
void graph_with_degrees(graph *out, const int *degrees, int num_nodes);

/* Edges (source, target) given in ascending order; ends at source -1. */
void graph_of_edges(graph *out, int num_nodes, const int (*edges)[2]);

/* A plan for a graph without types, and the memory that it points to. */
typedef struct one_type {
    int64_t num_nodes;
    gz_edge_type edge_type;
    gz_plan plan;
} one_type;

void plan_of(one_type *out, const graph *g, const int64_t *fanouts, int num_hops);

bool has_edge_naive(const graph *g, int64_t from, int64_t to);

/* Writes a file and returns its path; the first call makes the folder. */
void write_file(char path[PATH_BYTES], const char *name, const unsigned char *bytes, size_t size);
void path_of(char path[PATH_BYTES], const char *name);

/* The header and the file of a graph of 3 nodes and 4 edges. */
void small_header(gz_header *out);
enum { SMALL_FILE_BYTES = 2 * GZ_PAGE_BYTES + 16 };
void small_file(const gz_header *header, unsigned char bytes[SMALL_FILE_BYTES]);

/* Writes a value into a header page, and updates the checksum. */
void poke(unsigned char *page, size_t at, int size, uint64_t value);

#endif
