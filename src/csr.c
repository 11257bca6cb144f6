#include "graphzero/csr.h"

#include <inttypes.h>
#include <string.h>

enum { HINT_DISTANCE = 32 };

/* Start of a section, which must have this element count and one of two dtypes; NULL if absent. */
static gz_code find(const gz_header *header, const gz_mapping *mapping, const char *name,
                    uint64_t count, gz_dtype dtype, gz_dtype or_dtype, const void **data,
                    uint32_t *found, gz_error *err)
{
    const gz_section *section = gz_header_find(header, name);
    *data = NULL;
    *found = 0;
    if (section == NULL)
        return GZ_OK;
    if (section->dtype != (uint32_t)dtype && section->dtype != (uint32_t)or_dtype)
        return gz_fail(err, GZ_E_FORMAT, 0, section->offset, "section '%s' has a wrong dtype",
                       name);
    if (section->count != count)
        return gz_fail(err, GZ_E_FORMAT, 0, section->offset,
                       "section '%s' has %" PRIu64 " elements, but the header implies %" PRIu64,
                       name, section->count, count);
    *data = mapping->base + section->offset;
    *found = section->dtype;
    return GZ_OK;
}

/* An id section of count elements; out->data is NULL where the file has none. */
static gz_code find_ids(const gz_header *header, const gz_mapping *mapping, const char *name,
                        uint64_t count, gz_ids *out, gz_error *err)
{
    uint32_t dtype;
    gz_code code =
        find(header, mapping, name, count, GZ_UINT32, GZ_UINT64, &out->data, &dtype, err);
    out->wide = dtype == GZ_UINT64;
    return code;
}

static gz_code check_ends(const gz_csr *csr, const gz_section *indptr, const gz_mapping *mapping,
                          gz_error *err)
{
    uint64_t ends[2] = {0, 0}, width = csr->indptr.wide ? 8 : 4; /* little-endian: zeros follow */
    gz_code code = gz_mapping_read(mapping, indptr->offset, width, (unsigned char *)&ends[0], err);
    if (code == GZ_OK)
        code = gz_mapping_read(mapping, indptr->offset + width * csr->num_nodes, width,
                               (unsigned char *)&ends[1], err);
    if (code != GZ_OK)
        return code;
    if (ends[0] != 0 || ends[1] != csr->num_edges)
        return gz_fail(err, GZ_E_FORMAT, 0, indptr->offset,
                       "'indptr' does not start at 0 and end at %" PRIu64, csr->num_edges);
    return GZ_OK;
}

gz_code gz_csr_from_header(const gz_header *header, const gz_mapping *mapping, gz_csr *out,
                           gz_error *err)
{
    const struct {
        const char *name;
        uint64_t count;
        gz_ids *ids;
    } ids[] = {
        {"indptr", header->num_nodes + 1, &out->indptr},
        {"indices", header->width, &out->indices},
        {"edge_ids", header->width, &out->edge_ids},
        {"time_order", header->width, &out->time_order},
        {"node_ids", header->num_nodes, &out->node_ids},
        {"node_rank", header->num_nodes, &out->node_rank},
    };
    const void *weights, *cum_weights,
        *times; /* weights are only checked here; Python reads them */
    uint32_t dtype;
    gz_code code;

    memset(out, 0, sizeof *out);
    out->num_nodes = header->num_nodes;
    out->num_edges = header->width;
    out->typed = (header->flags & GZ_FLAG_TYPED) != 0;
    out->num_neighbors = out->typed ? header->num_neighbors : header->num_nodes;
    out->incoming = (header->flags & GZ_FLAG_INCOMING) != 0;
    if (header->num_nodes > INT64_MAX - 1 || header->width > INT64_MAX ||
        header->num_neighbors > INT64_MAX)
        return gz_fail(err, GZ_E_FORMAT, 0, 0, "counts do not fit 63 bits");
    if (out->num_neighbors == 0 && out->num_edges > 0) /* id 0 stands for those out of range */
        return gz_fail(err, GZ_E_FORMAT, 0, 0,
                       "has %" PRIu64 " edges, but no nodes that they could lead to: check it with "
                       "'graphzero verify' and build it again",
                       out->num_edges);
    if ((code = find(header, mapping, "weights", header->width, GZ_FLOAT32, GZ_FLOAT32, &weights,
                     &dtype, err)) != GZ_OK ||
        (code = find(header, mapping, "cum_weights", header->width, GZ_FLOAT64, GZ_FLOAT64,
                     &cum_weights, &dtype, err)) != GZ_OK ||
        (code = find(header, mapping, "times", header->width, GZ_INT64, GZ_INT64, &times, &dtype,
                     err)) != GZ_OK)
        return code;
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++)
        if ((code = find_ids(header, mapping, ids[i].name, ids[i].count, ids[i].ids, err)) != GZ_OK)
            return code;
    if (out->indptr.data == NULL || out->indices.data == NULL)
        return gz_fail(err, GZ_E_FORMAT, 0, 0, "lacks the section 'indptr' or 'indices'");
    if ((out->node_ids.data == NULL) != (out->node_rank.data == NULL))
        return gz_fail(err, GZ_E_FORMAT, 0, 0, "has 'node_ids' or 'node_rank' without the other");
    if (out->typed && out->node_ids.data != NULL)
        return gz_fail(err, GZ_E_FORMAT, 0, 0,
                       "has 'node_ids', which the file of an edge type cannot have");
    if (out->time_order.data != NULL && times == NULL)
        return gz_fail(err, GZ_E_FORMAT, 0, 0, "has 'time_order' without 'times'");
    out->cum_weights = cum_weights;
    out->times = times;
    return check_ends(out, gz_header_find(header, "indptr"), mapping, err);
}

uint64_t gz_csr_read_neighbors(const gz_csr *csr, const int64_t *positions, int64_t begin,
                               int64_t end, int64_t *out)
{
    uint64_t corrupt = 0;
    for (int64_t i = begin; i < end; i++)
        out[i] = (int64_t)gz_csr_neighbor(csr, (uint64_t)positions[i], &corrupt);
    return corrupt;
}

uint64_t gz_csr_degrees(const gz_csr *csr, const int64_t *nodes, int64_t begin, int64_t end,
                        int64_t *out)
{
    uint64_t corrupt = 0, first;
    for (int64_t i = begin; i < end; i++) {
        if (i + HINT_DISTANCE < end)
            gz_cache_hint(gz_id_address(&csr->indptr, (uint64_t)nodes[i + HINT_DISTANCE]));
        out[i] = (int64_t)gz_csr_list(csr, (uint64_t)nodes[i], &first, &corrupt);
    }
    return corrupt;
}
