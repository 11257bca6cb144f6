"""examples/shadow.py: a graph around each node."""

import parts
import torch
from torch_geometric.nn import global_mean_pool

# PyG: from torch_geometric.loader import ShaDowKHopSampler
from graphzero.pyg import ShaDowKHopSampler, from_data

# PyG: data = parts.cora()
data = from_data(parts.cora(), "store")

kwargs = {"depth": 2, "num_neighbors": 5, "batch_size": 64, "num_workers": 1}
train_loader = ShaDowKHopSampler(data, node_idx=data.train_mask, **kwargs)
test_loader = ShaDowKHopSampler(data, node_idx=data.test_mask, **kwargs)


class GNN(torch.nn.Module):
    def __init__(self, in_channels, hidden, out_channels):
        super().__init__()
        self.sage = parts.SAGE(in_channels, hidden, hidden)
        self.lin = torch.nn.Linear(2 * hidden, out_channels)

    def forward(self, data):
        x = self.sage(data.x, data.edge_index)
        return self.lin(torch.cat([x[data.root_n_id], global_mean_pool(x, data.batch)], dim=-1))


def predict(model, batch):
    batch = batch.to("cpu")
    assert batch.num_graphs == batch.y.size(0)
    return model(batch), batch.y


model = GNN(data.num_features, 64, parts.CLASSES)
parts.fit(model, train_loader, predict)
print(f"{parts.accuracy(model, test_loader, predict):.4f}")
