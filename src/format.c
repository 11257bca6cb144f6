#include "graphzero/format.h"

#include <inttypes.h>
#include <string.h>

#include "graphzero/checksum.h"

/* Byte positions in the header page: the table of docs/format.md. */
enum {
    AT_MAGIC = 0,
    AT_VERSION = 8,
    AT_FLAGS = 12,
    AT_FILE_BYTES = 16,
    AT_NUM_NODES = 24,
    AT_WIDTH = 32,
    AT_INPUT_EDGES = 40,
    AT_NUM_SECTIONS = 48,
    AT_NUM_NEIGHBORS = 56,
    AT_SECTIONS = 64,
    SECTION_BYTES = 64,
    IN_SECTION_DTYPE = 16,
    IN_SECTION_OFFSET = 24,
    IN_SECTION_COUNT = 32,
    IN_SECTION_LENGTH = 40,
    IN_SECTION_CRC = 48,
    AT_HEADER_CRC = 4092,
    MAGIC_BYTES = 8,
};

static const unsigned char MAGIC_GRAPH[MAGIC_BYTES] = {0x89, 'G', 'Z', 'L', '\r', '\n', 0x1a, '\n'};
static const unsigned char MAGIC_FEATURES[MAGIC_BYTES] = {0x89, 'G',  'Z',  'D',
                                                          '\r', '\n', 0x1a, '\n'};

/* Byte by byte: the page need not be aligned. */
static uint64_t get_uint(const unsigned char *bytes, int size)
{
    uint64_t value = 0;
    for (int i = size - 1; i >= 0; i--)
        value = value << 8 | bytes[i];
    return value;
}

static void put_uint(unsigned char *bytes, int size, uint64_t value)
{
    for (int i = 0; i < size; i++, value >>= 8)
        bytes[i] = (unsigned char)value;
}

static const unsigned char *magic_of(gz_kind kind)
{
    return kind == GZ_KIND_GRAPH ? MAGIC_GRAPH : MAGIC_FEATURES;
}

uint32_t gz_dtype_size(uint32_t dtype)
{
    switch (dtype) {
    case GZ_INT8:
    case GZ_UINT8:
    case GZ_BOOL: return 1;
    case GZ_INT16:
    case GZ_UINT16:
    case GZ_FLOAT16:
    case GZ_BFLOAT16: return 2;
    case GZ_INT32:
    case GZ_UINT32:
    case GZ_FLOAT32: return 4;
    case GZ_INT64:
    case GZ_UINT64:
    case GZ_FLOAT64: return 8;
    default: return 0;
    }
}

static gz_code check_identity(const unsigned char *page, gz_kind kind, gz_error *err)
{
    const char *name = kind == GZ_KIND_GRAPH ? ".gl" : ".gd";
    if (memcmp(page + AT_MAGIC, magic_of(kind), MAGIC_BYTES) != 0) {
        gz_kind other = kind == GZ_KIND_GRAPH ? GZ_KIND_FEATURES : GZ_KIND_GRAPH;
        if (memcmp(page + AT_MAGIC, magic_of(other), MAGIC_BYTES) == 0)
            return gz_fail(err, GZ_E_FORMAT, 0, AT_MAGIC,
                           kind == GZ_KIND_GRAPH
                               ? "is a feature file (.gd), not a graph: open it with FeatureStore"
                               : "is a graph file (.gl), not features: open it with Graph");
        return gz_fail(err, GZ_E_FORMAT, 0, AT_MAGIC,
                       "is not a graphzero %s file (wrong magic bytes): build it with "
                       "graphzero.build; files of graphzero 0.2 must be converted again from CSV",
                       name);
    }
    uint64_t version = get_uint(page + AT_VERSION, 4);
    if (version != GZ_FORMAT_VERSION)
        return gz_fail(err, GZ_E_FORMAT, 0, AT_VERSION,
                       "has format version %" PRIu64 ", this graphzero reads version %u: "
                       "use the graphzero that wrote it, or build the file again",
                       version, GZ_FORMAT_VERSION);
    uint32_t crc = (uint32_t)get_uint(page + AT_HEADER_CRC, 4);
    if (gz_crc32(page, AT_HEADER_CRC) != crc)
        return gz_fail(err, GZ_E_FORMAT, 0, AT_HEADER_CRC,
                       "has a corrupt header (checksum mismatch): build the file again");
    return GZ_OK;
}

static gz_code decode_section(const unsigned char *entry, uint64_t at, uint64_t file_bytes,
                              uint64_t lowest_offset, gz_section *out, gz_error *err)
{
    memcpy(out->name, entry, GZ_NAME_BYTES);
    out->name[GZ_NAME_BYTES] = '\0';
    out->dtype = (uint32_t)get_uint(entry + IN_SECTION_DTYPE, 4);
    out->offset = get_uint(entry + IN_SECTION_OFFSET, 8);
    out->count = get_uint(entry + IN_SECTION_COUNT, 8);
    out->length = get_uint(entry + IN_SECTION_LENGTH, 8);
    out->crc = (uint32_t)get_uint(entry + IN_SECTION_CRC, 4);

    uint32_t size = gz_dtype_size(out->dtype);
    if (out->name[0] == '\0' || size == 0)
        return gz_fail(err, GZ_E_FORMAT, 0, at, "has a section without a known name or dtype");
    if (out->length % size != 0 || out->length / size != out->count)
        return gz_fail(err, GZ_E_FORMAT, 0, at,
                       "section '%s': %" PRIu64 " bytes are not %" PRIu64 " elements of %u bytes",
                       out->name, out->length, out->count, size);
    if (out->offset % GZ_PAGE_BYTES != 0 || out->offset < lowest_offset)
        return gz_fail(err, GZ_E_FORMAT, 0, at,
                       "section '%s' starts at byte %" PRIu64 ", not on a page of its own",
                       out->name, out->offset);
    if (out->offset > file_bytes || out->length > file_bytes - out->offset)
        return gz_fail(err, GZ_E_FORMAT, 0, at, "section '%s' reaches beyond the end of the file",
                       out->name);
    return GZ_OK;
}

/* Only a graph can be of an edge type, and only then it has a second set of nodes. */
static gz_code check_neighbors(const gz_header *header, gz_error *err)
{
    bool is_typed = (header->flags & GZ_FLAG_TYPED) != 0;
    if (is_typed && header->kind != GZ_KIND_GRAPH)
        return gz_fail(err, GZ_E_FORMAT, 0, AT_FLAGS, "has the flag of an edge type, but no edges");
    if (!is_typed && header->num_neighbors != 0)
        return gz_fail(err, GZ_E_FORMAT, 0, AT_NUM_NEIGHBORS,
                       "has %" PRIu64 " neighbours, but not the flag of an edge type",
                       header->num_neighbors);
    return GZ_OK;
}

gz_code gz_header_decode(const unsigned char *page, uint64_t file_bytes, gz_kind kind,
                         gz_header *out, gz_error *err)
{
    memset(out, 0, sizeof *out);
    gz_code code = check_identity(page, kind, err);
    if (code != GZ_OK)
        return code;
    out->kind = kind;
    out->flags = (uint32_t)get_uint(page + AT_FLAGS, 4);
    out->file_bytes = get_uint(page + AT_FILE_BYTES, 8);
    out->num_nodes = get_uint(page + AT_NUM_NODES, 8);
    out->width = get_uint(page + AT_WIDTH, 8);
    out->num_input_edges = get_uint(page + AT_INPUT_EDGES, 8);
    out->num_neighbors = get_uint(page + AT_NUM_NEIGHBORS, 8);
    uint64_t num_sections = get_uint(page + AT_NUM_SECTIONS, 4);

    if ((out->flags & ~GZ_KNOWN_FLAGS) != 0)
        return gz_fail(err, GZ_E_FORMAT, 0, AT_FLAGS,
                       "has flags that this graphzero does not know: use a newer graphzero");
    if ((code = check_neighbors(out, err)) != GZ_OK)
        return code;
    if (out->file_bytes != file_bytes)
        return gz_fail(
            err, GZ_E_FORMAT, 0, AT_FILE_BYTES,
            "is %s: its header says %" PRIu64 " bytes, it has %" PRIu64 ": copy or build it again",
            file_bytes < out->file_bytes ? "truncated" : "too long", out->file_bytes, file_bytes);
    if (num_sections > GZ_MAX_SECTIONS)
        return gz_fail(err, GZ_E_FORMAT, 0, AT_NUM_SECTIONS,
                       "has %" PRIu64 " sections, more than %u", num_sections, GZ_MAX_SECTIONS);
    uint64_t lowest_offset = GZ_PAGE_BYTES;
    for (uint32_t i = 0; i < num_sections; i++) {
        uint64_t at = AT_SECTIONS + (uint64_t)i * SECTION_BYTES;
        gz_section *section = &out->sections[i];
        code = decode_section(page + at, at, file_bytes, lowest_offset, section, err);
        if (code != GZ_OK)
            return code;
        if (gz_header_find(out, section->name) != NULL)
            return gz_fail(err, GZ_E_FORMAT, 0, at, "has two sections named '%s'", section->name);
        lowest_offset = section->offset + section->length;
        out->num_sections = i + 1;
    }
    return GZ_OK;
}

void gz_header_encode(const gz_header *header, unsigned char *page)
{
    memset(page, 0, GZ_PAGE_BYTES);
    memcpy(page + AT_MAGIC, magic_of(header->kind), MAGIC_BYTES);
    put_uint(page + AT_VERSION, 4, GZ_FORMAT_VERSION);
    put_uint(page + AT_FLAGS, 4, header->flags);
    put_uint(page + AT_FILE_BYTES, 8, header->file_bytes);
    put_uint(page + AT_NUM_NODES, 8, header->num_nodes);
    put_uint(page + AT_WIDTH, 8, header->width);
    put_uint(page + AT_INPUT_EDGES, 8, header->num_input_edges);
    put_uint(page + AT_NUM_SECTIONS, 4, header->num_sections);
    put_uint(page + AT_NUM_NEIGHBORS, 8, header->num_neighbors);
    for (uint32_t i = 0; i < header->num_sections; i++) {
        const gz_section *section = &header->sections[i];
        unsigned char *entry = page + AT_SECTIONS + (uint64_t)i * SECTION_BYTES;
        memcpy(entry, section->name, GZ_NAME_BYTES);
        put_uint(entry + IN_SECTION_DTYPE, 4, section->dtype);
        put_uint(entry + IN_SECTION_OFFSET, 8, section->offset);
        put_uint(entry + IN_SECTION_COUNT, 8, section->count);
        put_uint(entry + IN_SECTION_LENGTH, 8, section->length);
        put_uint(entry + IN_SECTION_CRC, 4, section->crc);
    }
    put_uint(page + AT_HEADER_CRC, 4, gz_crc32(page, AT_HEADER_CRC));
}

const gz_section *gz_header_find(const gz_header *header, const char *name)
{
    for (uint32_t i = 0; i < header->num_sections; i++)
        if (strcmp(header->sections[i].name, name) == 0)
            return &header->sections[i];
    return NULL;
}
