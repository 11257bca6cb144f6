"""examples/graph_saint.py: random walks with normalisation."""

import parts
import torch
from torch_geometric.nn import GraphConv
from torch_geometric.utils import degree

# PyG: from torch_geometric.loader import GraphSAINTRandomWalkSampler
from graphzero.pyg import GraphSAINTRandomWalkSampler, from_data

graph = parts.cora()
col = graph.edge_index[1]
graph.edge_weight = 1.0 / degree(col, graph.num_nodes)[col]
# PyG: data = graph
data = from_data(graph, "store")

loader = GraphSAINTRandomWalkSampler(
    data, batch_size=300, walk_length=2, num_steps=5, sample_coverage=20, save_dir="."
)


class Net(torch.nn.Module):
    def __init__(self, in_channels, hidden, out_channels):
        super().__init__()
        self.conv1, self.conv2 = GraphConv(in_channels, hidden), GraphConv(hidden, out_channels)

    def set_aggr(self, aggr):
        self.conv1.aggr = self.conv2.aggr = aggr

    def forward(self, x, edge_index, edge_weight=None):
        x = self.conv1(x, edge_index, edge_weight).relu()
        return self.conv2(x, edge_index, edge_weight).log_softmax(dim=-1)


model = Net(data.num_node_features, 64, parts.CLASSES)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(15):
    model.train()
    model.set_aggr("add")
    for batch in loader:
        optimizer.zero_grad()
        out = model(batch.x, batch.edge_index, batch.edge_norm * batch.edge_weight)
        loss = torch.nn.functional.nll_loss(out, batch.y, reduction="none")
        (loss * batch.node_norm)[batch.train_mask].sum().backward()
        optimizer.step()

model.eval()
model.set_aggr("mean")
with torch.no_grad():
    correct = model(data.x, data.edge_index).argmax(dim=-1).eq(data.y)
for _, mask in data("train_mask", "val_mask", "test_mask"):
    print(f"{correct[mask].sum().item() / mask.sum().item():.4f}")
