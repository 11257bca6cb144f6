"""examples/graph_sage_unsup_ppi.py: several graphs as one, and as such in tests."""

import parts
import torch
from torch_geometric.data import Batch
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GraphSAGE

# PyG: from torch_geometric.loader import LinkNeighborLoader
from graphzero.pyg import LinkNeighborLoader, from_data

train_dataset, test_data = parts.cora_in_parts()
# PyG: train_data = Batch.from_data_list(train_dataset)
train_data = from_data(Batch.from_data_list(train_dataset), "store")

loader = LinkNeighborLoader(
    train_data, batch_size=512, shuffle=True, neg_sampling_ratio=1.0, num_neighbors=[10, 10]
)


def predict(model, data):
    h = model(data.x, data.edge_index)
    source, target = data.edge_label_index
    return (h[source] * h[target]).sum(dim=-1), data.edge_label


model = GraphSAGE(train_data.num_features, hidden_channels=64, num_layers=2, out_channels=64)
parts.fit(model, loader, predict, epochs=6)
model.eval()
whole = Batch.from_data_list([*train_dataset, test_data])
whole.test_mask = whole.batch == 3
whole.train_mask = ~whole.test_mask
with torch.no_grad():
    z = torch.cat([model(b.x, b.edge_index) for b in DataLoader([*train_dataset, test_data])])
print(f"{parts.probe(z, whole):.4f}")
