"""examples/rev_gnn.py: parts of random nodes as sparse matrices."""

from functools import partial

import parts
import torch
import torch_geometric.transforms as T
from torch_geometric.nn import GroupAddRev, SAGEConv

# PyG: from torch_geometric.loader import RandomNodeLoader
from graphzero.pyg import RandomNodeLoader, from_data

graph = T.AddSelfLoops()(parts.cora())
graph.valid_mask = graph.val_mask
del graph.val_mask
# PyG: data = graph
data = from_data(graph, "store")

transform = T.Compose([T.ToDevice("cpu"), T.ToSparseTensor()])
train_loader = RandomNodeLoader(data, num_parts=4, shuffle=True)
test_loader = RandomNodeLoader(data, num_parts=1)


class RevGNN(torch.nn.Module):
    def __init__(self, in_channels, hidden, out_channels, layers):
        super().__init__()
        self.lin1 = torch.nn.Linear(in_channels, hidden)
        self.lin2 = torch.nn.Linear(hidden, out_channels)
        half = hidden // 2
        self.convs = torch.nn.ModuleList(
            GroupAddRev(SAGEConv(half, half), num_groups=2) for _ in range(layers)
        )

    def forward(self, x, adj_t):
        x = self.lin1(x)
        for conv in self.convs:
            x = conv(x, adj_t)
        return self.lin2(torch.nn.functional.dropout(x.relu(), 0.5, self.training))


def predict(model, batch, split="train"):
    batch, mask = transform(batch), batch[f"{split}_mask"]
    return model(batch.x, batch.adj_t)[mask], batch.y[mask].view(-1)


model = RevGNN(data.num_features, 64, parts.CLASSES, 2)
parts.fit(model, train_loader, predict, epochs=20)
for split in ("train", "valid", "test"):
    of_split = partial(predict, split=split)
    print(f"{parts.accuracy(model, test_loader, of_split):.4f}")
