"""Names that attributes may have: none that a mini-batch or a graph of PyG uses otherwise."""

from __future__ import annotations

import keyword
from typing import Literal

AttributeOf = Literal["node", "edge"]

# What a mini-batch has besides the attributes of its nodes and edges.
_OF_MINI_BATCH = """
    n_id edge_index e_id batch_size input_id num_sampled_nodes num_sampled_edges stats batch
    seed_time edge_label_index edge_label edge_label_time src_index dst_pos_index dst_neg_index
    num_nodes num_edges num_features keys to_dict to cpu cuda pin_memory clone
    to_pyg
"""
# Methods and properties of PyG's Data and HeteroData: `MiniBatch.to_pyg` makes these.
_OF_PYG = """
    adj_t apply apply_ coalesce collect concat connected_components contains_isolated_nodes
    contains_self_loops contiguous coo csc csr debug detach detach_ edge_attrs edge_items
    edge_stores edge_subgraph edge_type_subgraph edge_types face from_dict generate_ids
    get_all_edge_attrs get_all_tensor_attrs get_edge_index get_edge_store get_node_store get_tensor
    get_tensor_size has_isolated_nodes has_self_loops input_type is_coalesced is_cuda is_directed
    is_edge_attr is_node_attr is_sorted is_sorted_by_time is_undirected metadata multi_get_tensor
    node_attrs node_items node_offsets node_stores node_type_subgraph node_types num_edge_features
    num_edge_types num_faces num_node_features num_node_types ptr put_edge_index put_tensor
    record_stream remove_edge_index remove_tensor rename requires_grad_ set_value_dict
    share_memory_ size snapshot sort sort_by_time stores stores_as subgraph to_heterogeneous
    to_homogeneous to_namedtuple up_to update update_tensor validate view
"""
RESERVED = frozenset((_OF_MINI_BATCH + _OF_PYG).split())
# Names that PyG's Data has for one of the two only.
_OF_ONE = {
    "node": frozenset(["x", "y", "pos"]),
    "edge": frozenset(["edge_attr", "edge_weight", "edge_time"]),
}


def check_attribute_name(name: object, of: AttributeOf) -> None:
    """Raises a ValueError for a name that an attribute in a mini-batch cannot have."""
    what = f"{of} attribute {name!r}"
    text = name if isinstance(name, str) and name.isidentifier() else "_"
    if not text.isascii() or keyword.iskeyword(text) or text.startswith("_"):
        raise ValueError(
            f"{what}: the name must be a Python identifier of ASCII letters, such as 'year'"
        )
    if name in RESERVED:
        raise ValueError(f"{what}: a mini-batch has something else of this name: choose another")
    other: AttributeOf = "edge" if of == "node" else "node"
    if name in _OF_ONE[other]:
        raise ValueError(f"{what}: this is a name of {other} attributes: choose another")
