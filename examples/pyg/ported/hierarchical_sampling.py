"""examples/hierarchical_sampling.py: layers that compute no more than the next one needs."""

import parts
from torch_geometric.nn.models.basic_gnn import GraphSAGE

# PyG: from torch_geometric.loader import NeighborLoader
from graphzero.pyg import NeighborLoader, from_data

# PyG: data = parts.cora().to("cpu", "x", "y")
data = from_data(parts.cora(), "store")

kwargs = {"num_neighbors": [20, 10, 5], "batch_size": 64, "num_workers": 0}
loader = NeighborLoader(data, input_nodes=data.train_mask, shuffle=True, **kwargs)
model = GraphSAGE(data.num_features, hidden_channels=64, out_channels=parts.CLASSES, num_layers=3)


def trimmed(model, batch):
    out = model(
        batch.x,
        batch.edge_index,
        num_sampled_nodes_per_hop=batch.num_sampled_nodes,
        num_sampled_edges_per_hop=batch.num_sampled_edges,
    )
    return out[: batch.batch_size], batch.y[: batch.batch_size]


parts.fit(model, loader, parts.of_seeds, epochs=5)
parts.fit(model, loader, trimmed, epochs=5)
test_loader = NeighborLoader(data, input_nodes=data.test_mask, **kwargs)
print(f"{parts.accuracy(model, test_loader, trimmed):.4f}")
