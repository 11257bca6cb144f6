/* Shared by several tests: small graphs in memory, files in a temporary folder, and children. */
#ifndef GRAPHZERO_TESTS_SUPPORT_H
#define GRAPHZERO_TESTS_SUPPORT_H

#include <stddef.h>

#include "graphzero/batch_state.h"
#include "graphzero/csr.h"
#include "graphzero/direct.h"
#include "graphzero/format.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

extern gz_error err; /* of the latest call */

/* Checks that the latest call said this. */
bool check_message(const char *part);

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

/* A plan for a graph without types, and the memory that it points to. */
typedef struct one_type {
    int64_t num_nodes;
    gz_edge_type edge_type;
    gz_plan plan;
} one_type;

void plan_of(one_type *out, const graph *g, const int64_t *fanouts, int num_hops);

/* Writes a file and returns its path; the first call makes the folder. */
void write_file(char path[PATH_BYTES], const char *name, const unsigned char *bytes, size_t size);

/* Maps a file of these bytes, or of zeros, which has no name any more; on failure, false and a
 * failed check. */
bool map_file(gz_mapping *out, const unsigned char *bytes, size_t size);

/* The header and the file of a graph of 3 nodes and 4 edges. */
void small_header(gz_header *out);
enum { SMALL_FILE_BYTES = 2 * GZ_PAGE_BYTES + 16 };
void small_file(const gz_header *header, unsigned char bytes[SMALL_FILE_BYTES]);

/* Bytes that depend on their position in a file, and a file of them that is open for direct reads.
 * On failure, false and a failed check. */
enum { ROWS_FILE_BYTES = (3 << 20) + 77 };
typedef struct rows_file {
    gz_mapping mapping;
    gz_direct file;
    char path[PATH_BYTES];
} rows_file;

const unsigned char *known_bytes(void);
bool open_rows(rows_file *out);
void close_rows(rows_file *rows);

/* Whether io_uring was built in and may be used here; says once why not. */
bool has_ring(void);

/* Runs in a forked child; fails the test if it returns false. */
void in_child(bool (*work)(void));

#endif
