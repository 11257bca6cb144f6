#include "graphzero/batch_state.h"

#include <string.h>

#include "graphzero/growable.h"

void gz_batch_init(gz_batch *batch)
{
    memset(batch, 0, sizeof *batch);
    batch->ahead = GZ_WHOLE_HOP;
}

void gz_batch_free(gz_batch *batch)
{
    for (int i = 0; i < batch->num_spaces; i++)
        gz_nodes_free(&batch->spaces[i]);
    for (int i = 0; i < batch->num_edge_lists; i++)
        gz_edges_free(&batch->edges[i]);
    gz_free_array(batch->spaces);
    gz_free_array(batch->edges);
    gz_free_array(batch->offsets);
    gz_free_array(batch->lists);
    gz_free_array(batch->picks);
    gz_batch_init(batch);
}

void gz_batch_rest(gz_batch *batch)
{
    for (int i = 0; i < batch->num_spaces; i++)
        gz_nodes_rest(&batch->spaces[i]);
    for (int i = 0; i < batch->num_edge_lists; i++)
        gz_edges_rest(&batch->edges[i]);
    gz_rest_array(batch->offsets);
    gz_rest_array(batch->lists);
    gz_rest_array(batch->picks);
}

gz_code gz_batch_reserve_types(gz_batch *batch, int num_spaces, int num_edge_lists, gz_error *err)
{
    if (num_spaces > batch->num_spaces) {
        gz_node_space *spaces =
            gz_grown(batch->spaces, num_spaces, sizeof *spaces, "node types", err);
        if (spaces == NULL)
            return err->code;
        batch->spaces = spaces;
        while (batch->num_spaces < num_spaces)
            gz_nodes_init(&spaces[batch->num_spaces++]);
    }
    if (num_edge_lists > batch->num_edge_lists) {
        gz_edge_list *edges =
            gz_grown(batch->edges, num_edge_lists, sizeof *edges, "edge types", err);
        if (edges == NULL)
            return err->code;
        batch->edges = edges;
        while (batch->num_edge_lists < num_edge_lists)
            gz_edges_init(&edges[batch->num_edge_lists++]);
    }
    return GZ_OK;
}

gz_code gz_batch_reserve_frontier(gz_batch *batch, int64_t count, gz_error *err)
{
    int64_t capacity = count + count / 2 + 1;
    if (count < batch->frontier_capacity)
        return GZ_OK;
    int64_t *offsets =
        gz_grown(batch->offsets, capacity, sizeof *offsets, "nodes of a frontier", err);
    if (offsets == NULL)
        return err->code;
    batch->offsets = offsets;
    gz_list *lists = gz_grown(batch->lists, capacity, sizeof *lists, "nodes of a frontier", err);
    if (lists == NULL)
        return err->code;
    batch->lists = lists;
    batch->frontier_capacity = capacity;
    return GZ_OK;
}

gz_code gz_batch_read_hop_ahead(gz_batch *batch, const gz_edge_type *edge_type, const gz_hop *hop,
                                const gz_frontier *frontier, int64_t count, gz_error *err)
{
    if (edge_type->readahead == NULL)
        return GZ_OK;
    if (count > batch->pick_capacity) {
        int64_t capacity = count + count / 2;
        gz_pick *picks =
            gz_grown(batch->picks, 2 * capacity, sizeof *picks, "nodes of a frontier", err);
        if (picks == NULL)
            return err->code;
        batch->picks = picks;
        batch->pick_capacity = capacity;
    }
    gz_read_hop_ahead(edge_type->readahead, edge_type->csr, hop, frontier, count, batch->picks,
                      batch->picks + batch->pick_capacity, &batch->willneed);
    return GZ_OK;
}
