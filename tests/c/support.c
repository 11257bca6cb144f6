#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "graphzero/rng.h"
#include "graphzero/uring.h"
#include "support.h"

gz_error err;
static char folder[64];

bool check_message(const char *part)
{
    bool is_there = CHECK(strstr(err.message, part) != NULL);
    if (!is_there)
        printf("  '%s' is not in '%s'\n", part, err.message);
    return is_there;
}

void graph_with_degrees(graph *out, const int *degrees, int num_nodes)
{
    memset(out, 0, sizeof *out);
    for (int v = 0; v < num_nodes; v++) {
        for (int i = 0; i < degrees[v]; i++)
            out->indices[out->indptr[v] + (uint64_t)i] = (uint32_t)(i * num_nodes / degrees[v]);
        out->indptr[v + 1] = out->indptr[v] + (uint64_t)degrees[v];
    }
    out->csr.num_nodes = out->csr.num_neighbors = (uint64_t)num_nodes;
    out->csr.num_edges = out->indptr[num_nodes];
    out->csr.indptr = (gz_ids){out->indptr, true};
    out->csr.indices = (gz_ids){out->indices, false};
    for (uint64_t i = 0; i < out->csr.num_edges; i++)
        out->wide[i] = out->indices[i];
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

static void remove_folder(void)
{
    if (rmdir(folder) != 0)
        perror(folder);
}

static void path_of(char path[PATH_BYTES], const char *name)
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

bool map_file(gz_mapping *out, const unsigned char *bytes, size_t size)
{
    char path[PATH_BYTES];
    unsigned char *zeros = calloc(size + 1, 1);
    write_file(path, "mapped", bytes != NULL ? bytes : zeros, size);
    free(zeros);
    bool is_open = CHECK_EQ(gz_mapping_open(path, out, &err), GZ_OK);
    unlink(path);
    return is_open;
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

const unsigned char *known_bytes(void)
{
    static unsigned char bytes[ROWS_FILE_BYTES];
    for (size_t i = 0; i < sizeof bytes && bytes[sizeof bytes - 1] == 0; i++)
        bytes[i] = (unsigned char)(gz_draw(5, i / 8) >> (i % 8 * 8));
    return bytes;
}

bool open_rows(rows_file *out)
{
    write_file(out->path, "rows", known_bytes(), ROWS_FILE_BYTES);
    return CHECK_EQ(gz_mapping_open(out->path, &out->mapping, &err), GZ_OK) &&
           CHECK_EQ(gz_direct_open(&out->mapping, &out->file, &err), GZ_OK);
}

void close_rows(rows_file *rows)
{
    gz_direct_close(&rows->file);
    gz_mapping_close(&rows->mapping);
    unlink(rows->path);
}

bool has_ring(void)
{
    static bool was_said;
    if (!gz_uring_is_built())
        return false;
    bool is_there = gz_uring_probe(&err) == GZ_OK;
    if (!is_there && !was_said)
        printf("skipped the tests of io_uring: %s\n", err.message);
    was_said = !is_there;
    return is_there;
}

void in_child(bool (*work)(void))
{
    int status = -1;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        bool fine = work();
        fflush(stdout);
        _exit(fine ? 0 : 1);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
}
