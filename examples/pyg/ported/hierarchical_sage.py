"""examples/hetero/hierarchical_sage.py: layers of a typed model that are trimmed."""

import parts
import torch
from torch_geometric.nn import HeteroConv, Linear, SAGEConv
from torch_geometric.utils import trim_to_layer

# PyG: from torch_geometric.loader import NeighborLoader
from graphzero.pyg import NeighborLoader, from_data

# PyG: data = parts.flights().to("cpu", "x", "y")
data = from_data(parts.flights(), "store")


class Hierarchical(torch.nn.Module):
    def __init__(self, edge_types, hidden, out_channels):
        super().__init__()
        self.convs = torch.nn.ModuleList(
            HeteroConv({kind: SAGEConv((-1, -1), hidden) for kind in edge_types}, aggr="sum")
            for _ in range(2)
        )
        self.lin = Linear(hidden, out_channels)

    def forward(self, x_dict, edge_index_dict, num_sampled_nodes_dict, num_sampled_edges_dict):
        for layer, conv in enumerate(self.convs):
            x_dict, edge_index_dict, _ = trim_to_layer(
                layer=layer,
                num_sampled_nodes_per_hop=num_sampled_nodes_dict,
                num_sampled_edges_per_hop=num_sampled_edges_dict,
                x=x_dict,
                edge_index=edge_index_dict,
            )
            x_dict = {kind: x.relu() for kind, x in conv(x_dict, edge_index_dict).items()}
        return self.lin(x_dict["airport"])


def predict(model, batch):
    counts = batch.num_sampled_nodes_dict, batch.num_sampled_edges_dict
    size = batch["airport"].batch_size
    out = model(batch.x_dict, batch.edge_index_dict, *counts)
    return out[:size], batch["airport"].y[:size]


def make_loader(split):
    return NeighborLoader(
        data,
        num_neighbors=[10] * 2,
        shuffle=split == "train",
        input_nodes=("airport", data["airport"][f"{split}_mask"]),
        batch_size=128,
    )


model = Hierarchical(data.edge_types, 64, 10)
parts.fit(model, make_loader("train"), predict, epochs=5)
print(f"{parts.accuracy(model, make_loader('test'), predict):.4f}")
