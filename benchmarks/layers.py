"""Layers of PyG on one mini-batch: forward and backward of three layers, in four forms.

`whole` gives every layer the whole mini-batch; `trim_to_layer` is PyG's; `targets` gives each layer
the nodes that it reads and those that it computes, as a pair; a GCNConv gets the weights of its
edges, which depend on all edges of the mini-batch, and adds the term of a node itself. `csr` gives
the edges as a sparse matrix besides.
"""

from __future__ import annotations

import time
from statistics import median
from typing import Any

import torch
from torch_geometric.nn import GATConv, GCNConv, SAGEConv
from torch_geometric.utils import trim_to_layer

import graphzero as gz
from benchmarks import timing
from benchmarks.inputs import build_once, prepare

HIDDEN, HOPS = 64, [15, 10, 5]


def matrix(edges: torch.Tensor, values: torch.Tensor, n: int, columns: int) -> torch.Tensor:
    """The edges to the first n nodes, which are sorted by target, as a sparse matrix."""
    rows = torch.searchsorted(edges[1], torch.arange(n + 1))
    return torch.sparse_csr_tensor(rows, edges[0], values, size=(n, columns))


def gcn(
    conv: GCNConv, x: torch.Tensor, edges: torch.Tensor, scale: Any, n: int, form: str
) -> torch.Tensor:
    """The rows of the first n nodes; `scale` is of all nodes, from all edges of the mini-batch."""
    rows, weight = conv.lin(x), scale[edges].prod(0) * (edges[0] != edges[1])
    if form == "csr":
        found = matrix(edges, weight, n, len(x)) @ rows
    else:
        found = conv.propagate(edges, x=(rows, rows[:n]), edge_weight=weight, size=(len(x), n))
    return found + rows[:n] * scale[:n, None] ** 2 + conv.bias


def forward(convs: Any, batch: Any, form: str) -> torch.Tensor:
    """The rows of the seeds."""
    x, edge_index, counts = batch.x, batch.edge_index, batch.num_sampled_nodes
    targets = edge_index[1][edge_index[0] != edge_index[1]]
    scale = (torch.bincount(targets, minlength=len(x)) + 1.0).rsqrt()
    for i, conv in enumerate(convs):
        if form == "trim_to_layer":
            x, edge_index, _ = trim_to_layer(i, counts, batch.num_sampled_edges, x, edge_index)
        if form in ("targets", "csr"):
            hops = len(convs) - i
            edge_index = batch.edge_index[:, : sum(batch.num_sampled_edges[:hops])]
            n = sum(counts[:hops])
            if isinstance(conv, GCNConv):
                x = gcn(conv, x, edge_index, scale, n, form)
            else:
                edges = edge_index
                if form == "csr":
                    edges = matrix(edge_index, torch.ones(edge_index.shape[1]), n, len(x))
                x = conv((x, x[:n]), edges)
        else:
            x = conv(x, edge_index)
        x = x.relu()
    return x[: batch.batch_size]


def main() -> None:
    """Measures and prints."""
    options = timing.parser_of("benchmarks.layers", __doc__, scale=20, edges=16e6).parse_args()
    size = {"num_nodes": 1 << options.scale, "num_edges": options.edges, "dim": options.dim}
    folder = build_once(prepare(options.data, **size), "in-lists", neighbors="in", order="hot")
    with gz.open(folder) as ds:
        batch = next(iter(gz.NeighborLoader(ds, HOPS, batch_size=1024, shuffle=True, seed=0)))
    for kind in (SAGEConv, GCNConv, GATConv):
        torch.manual_seed(0)
        convs = [kind(width, HIDDEN) for width in (options.dim, HIDDEN, HIDDEN)]
        # `trim_to_layer` would give a GCNConv the degrees of what is left
        forms = ["whole", *["trim_to_layer"] * (kind is not GCNConv), "targets"]
        for form in [*forms, *["csr"] * (kind is not GATConv)]:
            seconds = []
            for _ in range(options.runs + 1):
                begin = time.perf_counter()
                forward(convs, batch, form).sum().backward()
                seconds.append(time.perf_counter() - begin)
            print(f"{kind.__name__:10} {form:14} {1e3 * median(seconds[1:]):.0f} ms")


if __name__ == "__main__":
    main()
