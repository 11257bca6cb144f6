#include "graphzero/edge_list.h"

#include <inttypes.h>
#include <string.h>

#include "graphzero/bounds.h"
#include "graphzero/growable.h"

void gz_edges_init(gz_edge_list *edges) { memset(edges, 0, sizeof *edges); }

void gz_edges_free(gz_edge_list *edges)
{
    gz_free_array(edges->sources);
    gz_free_array(edges->targets);
    gz_free_array(edges->positions);
    gz_free_array(edges->ids);
    gz_edges_init(edges);
}

void gz_edges_rest(gz_edge_list *edges)
{
    gz_rest_array(edges->sources);
    gz_rest_array(edges->targets);
    gz_rest_array(edges->positions);
    gz_rest_array(edges->ids);
}

/* Reserves half as much again, so that slightly longer batches do not reallocate. */
gz_code gz_edges_reserve(gz_edge_list *edges, int64_t count, gz_error *err)
{
    int64_t **arrays[] = {&edges->sources, &edges->targets, &edges->positions};
    if (count <= edges->capacity)
        return GZ_OK;
    if (!gz_fits_memory(count, sizeof arrays / sizeof arrays[0] * sizeof **arrays[0]))
        return gz_fail(err, GZ_E_NOMEM, 0, 0,
                       "%" PRId64 " sampled edges are more than the memory of this machine holds",
                       count);
    int64_t capacity = count + count / 2;
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
        int64_t *larger = gz_grown(*arrays[i], capacity, sizeof *larger, "sampled edges", err);
        if (larger == NULL)
            return err->code;
        *arrays[i] = larger;
    }
    edges->capacity = capacity;
    return GZ_OK;
}

gz_code gz_edges_reserve_ids(gz_edge_list *edges, gz_error *err)
{
    if (edges->capacity <= edges->ids_capacity)
        return GZ_OK;
    int64_t *ids = gz_grown(edges->ids, edges->capacity, sizeof *ids, "ids of edges", err);
    if (ids == NULL)
        return err->code;
    edges->ids = ids;
    edges->ids_capacity = edges->capacity;
    return GZ_OK;
}
