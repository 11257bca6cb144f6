"""examples/ogbn_train.py: splits and labels as OGB has them."""

import parts
import torch
from torch_geometric.nn.models import GAT

# PyG: from torch_geometric.loader import NeighborLoader
from graphzero.pyg import NeighborLoader, from_data

graph = parts.cora()
split_idx = {name: graph[f"{name}_mask"].nonzero().view(-1) for name in ("train", "val", "test")}
graph.y = graph.y.view(-1, 1)

# PyG: data = graph
data = from_data(graph, "store")
data.to("cpu", "x", "y")

kwargs = {"num_neighbors": [10] * 2, "batch_size": 64, "shuffle": True}
kwargs |= {"num_workers": 1, "persistent_workers": True}
train_loader = NeighborLoader(data, input_nodes=split_idx["train"], **kwargs)
test_loader = NeighborLoader(data, input_nodes=split_idx["test"], **kwargs)


def predict(model, batch):
    size = batch.num_sampled_nodes[0]
    batch = batch.to("cpu")
    return model(batch.x, batch.edge_index)[:size], batch.y[:size].squeeze().to(torch.long)


model = GAT(data.num_features, 64, 2, parts.CLASSES, dropout=0.5, heads=2)
parts.fit(model, train_loader, predict)
print(f"{parts.accuracy(model, test_loader, predict):.4f}")
