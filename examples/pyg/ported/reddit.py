"""examples/reddit.py: layer-wise inference over a copy of the graph without its features."""

import copy

import parts
import torch

# PyG: from torch_geometric.loader import NeighborLoader
from graphzero.pyg import NeighborLoader, from_data

# PyG: data = parts.cora().to("cpu", "x", "y")
data = from_data(parts.cora(), "store")

kwargs = {"batch_size": 64, "num_workers": 1, "persistent_workers": True}
train_loader = NeighborLoader(
    data, input_nodes=data.train_mask, num_neighbors=[25, 10], shuffle=True, **kwargs
)
subgraph_loader = NeighborLoader(
    copy.copy(data), input_nodes=None, num_neighbors=[-1], shuffle=False, **kwargs
)
del subgraph_loader.data.x, subgraph_loader.data.y
subgraph_loader.data.num_nodes = data.num_nodes
subgraph_loader.data.n_id = torch.arange(data.num_nodes)

model = parts.SAGE(data.num_features, 64, parts.CLASSES)
parts.fit(model, train_loader, parts.of_seeds)
model.eval()
right = model.inference(data.x, subgraph_loader).argmax(dim=-1) == data.y
for mask in (data.train_mask, data.val_mask, data.test_mask):
    print(f"{int(right[mask].sum()) / int(mask.sum()):.4f}")
