/* The header page of .gl and .gd files, version 1: bytes <-> struct, as specified in
 * docs/format.md. graphzero/store/format.py implements the same in Python. */
#ifndef GRAPHZERO_FORMAT_H
#define GRAPHZERO_FORMAT_H

#include <stdbool.h>
#include <stdint.h>

#include "graphzero/status.h"

#define GZ_FORMAT_VERSION 1u
#define GZ_PAGE_BYTES 4096u
#define GZ_MAX_SECTIONS 62u
#define GZ_NAME_BYTES 16u

typedef enum gz_kind { GZ_KIND_GRAPH = 1, GZ_KIND_FEATURES = 2 } gz_kind;

enum {
    GZ_FLAG_DIRECTED = 1u,
    GZ_FLAG_VECTOR = 2u,
    GZ_FLAG_INCOMING = 4u,
    GZ_FLAG_TYPED =
        8u, /* an edge type of a typed graph: neighbours are ids of another set of nodes */
};
#define GZ_KNOWN_FLAGS                                                                             \
    ((uint32_t)(GZ_FLAG_DIRECTED | GZ_FLAG_VECTOR | GZ_FLAG_INCOMING | GZ_FLAG_TYPED))

typedef enum gz_dtype {
    GZ_INT8 = 1,
    GZ_UINT8 = 2,
    GZ_INT16 = 3,
    GZ_UINT16 = 4,
    GZ_INT32 = 5,
    GZ_UINT32 = 6,
    GZ_INT64 = 7,
    GZ_UINT64 = 8,
    GZ_FLOAT16 = 9,
    GZ_BFLOAT16 = 10,
    GZ_FLOAT32 = 11,
    GZ_FLOAT64 = 12,
    GZ_BOOL = 13,
} gz_dtype;

typedef struct gz_section {
    char name[GZ_NAME_BYTES + 1]; /* always NUL-terminated here */
    uint32_t dtype;
    uint64_t offset; /* bytes from the start of the file, a multiple of GZ_PAGE_BYTES */
    uint64_t count;  /* elements */
    uint64_t length; /* bytes */
    uint32_t crc;    /* CRC-32 of the section's bytes */
} gz_section;

typedef struct gz_header {
    gz_kind kind;
    uint32_t flags;
    uint64_t file_bytes;
    uint64_t num_nodes; /* .gl: lists; .gd: rows */
    uint64_t width;     /* .gl: stored edges; .gd: feature columns */
    uint64_t num_input_edges;
    uint64_t
        num_neighbors; /* with GZ_FLAG_TYPED: nodes of the set that neighbours belong to; else 0 */
    uint32_t num_sections;
    gz_section sections[GZ_MAX_SECTIONS];
} gz_header;

/* Size in bytes of one element, 0 for an unknown code. */
uint32_t gz_dtype_size(uint32_t dtype);

/* Decodes the GZ_PAGE_BYTES bytes at page and checks all that can be checked without reading the
 * sections. file_bytes is the size of the file. */
GZ_MUST_CHECK gz_code gz_header_decode(const unsigned char *page, uint64_t file_bytes, gz_kind kind,
                                       gz_header *out, gz_error *err);

/* Writes GZ_PAGE_BYTES bytes, checksum included. */
void gz_header_encode(const gz_header *header, unsigned char *page);

/* NULL if there is no section of that name. */
const gz_section *gz_header_find(const gz_header *header, const char *name);

#endif
