"""examples/graph_sage_unsup.py: all edges against negatives; embeddings of the whole graph."""

import parts
import torch
from torch_geometric.nn import GraphSAGE

# PyG: from torch_geometric.loader import LinkNeighborLoader
from graphzero.pyg import LinkNeighborLoader, from_data

# PyG: data = parts.cora()
data = from_data(parts.cora(), "store")

train_loader = LinkNeighborLoader(
    data, batch_size=256, shuffle=True, neg_sampling_ratio=1.0, num_neighbors=[10, 10]
)
data = data.to("cpu", "x", "edge_index")


def predict(model, batch):
    h = model(batch.x, batch.edge_index)
    source, target = h[batch.edge_label_index[0]], h[batch.edge_label_index[1]]
    return (source * target).sum(dim=-1), batch.edge_label


model = GraphSAGE(data.num_node_features, hidden_channels=64, num_layers=2)
parts.fit(model, train_loader, predict, epochs=3)
model.eval()
with torch.no_grad():
    z = model(data.x, data.edge_index)
print(f"{parts.probe(z, data):.4f}")
