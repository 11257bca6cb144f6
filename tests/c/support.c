#define _GNU_SOURCE /* mkdtemp under -std=c11 */
#define _DARWIN_C_SOURCE

#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "graphzero/checksum.h"

static char folder[64];

static void point(graph *g, int num_nodes)
{
    memset(&g->csr, 0, sizeof g->csr);
    g->csr.num_nodes = g->csr.num_neighbors = (uint64_t)num_nodes;
    g->csr.num_edges = g->indptr[num_nodes];
    g->csr.indptr = (gz_ids){g->indptr, true};
    g->csr.indices = (gz_ids){g->indices, false};
    for (uint64_t i = 0; i < g->csr.num_edges; i++)
        g->wide[i] = g->indices[i];
}

void graph_with_degrees(graph *out, const int *degrees, int num_nodes)
{
    out->indptr[0] = 0;
    for (int v = 0; v < num_nodes; v++) {
        for (int i = 0; i < degrees[v]; i++)
            out->indices[out->indptr[v] + (uint64_t)i] = (uint32_t)(i * num_nodes / degrees[v]);
        out->indptr[v + 1] = out->indptr[v] + (uint64_t)degrees[v];
    }
    point(out, num_nodes);
}

void graph_of_edges(graph *out, int num_nodes, const int (*edges)[2])
{
    int at = 0;
    for (int v = 0; v < num_nodes; v++) {
        out->indptr[v] = (uint64_t)at;
        for (; edges[at][0] == v; at++)
            out->indices[at] = (uint32_t)edges[at][1];
    }
    out->indptr[num_nodes] = (uint64_t)at;
    point(out, num_nodes);
}

void plan_of(one_type *out, const graph *g, const int64_t *fanouts, int num_hops)
{
    memset(out, 0, sizeof *out);
    out->num_nodes = (int64_t)g->csr.num_nodes;
    out->edge_type = (gz_edge_type){.csr = &g->csr, .fanouts = fanouts};
    out->plan = (gz_plan){.edge_types = &out->edge_type,
                          .num_edge_types = 1,
                          .num_nodes = &out->num_nodes,
                          .num_node_types = 1,
                          .num_hops = num_hops};
}

bool has_edge_naive(const graph *g, int64_t from, int64_t to)
{
    for (uint64_t i = g->indptr[from]; i < g->indptr[from + 1]; i++)
        if (g->indices[i] == (uint64_t)to)
            return true;
    return false;
}

static void remove_folder(void)
{
    if (rmdir(folder) != 0)
        perror(folder);
}

void path_of(char path[PATH_BYTES], const char *name)
{
    if (folder[0] == '\0') {
        const char *parent = getenv("TMPDIR");
        snprintf(folder, sizeof folder, "%.40s/graphzero-XXXXXX", parent ? parent : "/tmp");
        if (mkdtemp(folder) == NULL) {
            perror(folder);
            exit(2);
        }
        atexit(remove_folder);
    }
    snprintf(path, PATH_BYTES, "%s/%s", folder, name);
}

void write_file(char path[PATH_BYTES], const char *name, const unsigned char *bytes, size_t size)
{
    path_of(path, name);
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(bytes, 1, size, file) != size || fclose(file) != 0) {
        perror(path);
        exit(2);
    }
}

void small_header(gz_header *out)
{
    memset(out, 0, sizeof *out);
    out->kind = GZ_KIND_GRAPH;
    out->flags = GZ_FLAG_DIRECTED;
    out->file_bytes = SMALL_FILE_BYTES;
    out->num_nodes = 3;
    out->width = 4;
    out->num_input_edges = 4;
    out->num_sections = 2;
    out->sections[0] = (gz_section){"indptr", GZ_UINT64, GZ_PAGE_BYTES, 4, 32, 0x01020304};
    out->sections[1] = (gz_section){"indices", GZ_UINT32, 2 * GZ_PAGE_BYTES, 4, 16, 0xFFFFFFFF};
}

void small_file(const gz_header *header, unsigned char bytes[SMALL_FILE_BYTES])
{
    const uint64_t indptr[] = {0, 2, 3, 4};
    const uint32_t indices[] = {1, 2, 0, 1};
    memset(bytes, 0, SMALL_FILE_BYTES);
    gz_header_encode(header, bytes);
    memcpy(bytes + GZ_PAGE_BYTES, indptr, sizeof indptr);
    memcpy(bytes + 2 * GZ_PAGE_BYTES, indices, sizeof indices);
}

void poke(unsigned char *page, size_t at, int size, uint64_t value)
{
    for (int i = 0; i < size; i++)
        page[at + (size_t)i] = (unsigned char)(value >> (8 * i));
    const unsigned crc_at = GZ_PAGE_BYTES - 4;
    uint32_t crc = gz_crc32(page, crc_at);
    for (unsigned i = 0; i < 4; i++)
        page[crc_at + i] = (unsigned char)(crc >> (8 * i));
}
