"""examples/hetero/to_hetero_mag.py: a model without types for a graph with types."""

import parts
import torch
from torch_geometric.nn import to_hetero

# PyG: from torch_geometric.loader import NeighborLoader
from graphzero.pyg import NeighborLoader, from_data

# PyG: data = parts.flights().to("cpu", "x", "y")
data = from_data(parts.flights(), "store")

kwargs = {"batch_size": 128, "num_workers": 1, "persistent_workers": True}
train_loader, test_loader = (
    NeighborLoader(
        data,
        num_neighbors=[10] * 2,
        shuffle=split == "train",
        input_nodes=("airport", data["airport"][f"{split}_mask"]),
        **kwargs,
    )
    for split in ("train", "test")
)


def predict(model, batch):
    return parts.of_airports(model, batch.to("cpu", "edge_index"))


model = to_hetero(parts.LazySAGE(64, 10), data.metadata(), aggr="sum")
with torch.no_grad():
    predict(model, next(iter(train_loader)))
parts.fit(model, train_loader, predict, epochs=5)
print(f"{parts.accuracy(model, test_loader, predict):.4f}")
