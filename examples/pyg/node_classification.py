"""Node classification with neighbour sampling: PyG's script, with two lines changed.

python examples/pyg/node_classification.py FOLDER --conv gcn
"""

import argparse

import graphs
import torch
import torch.nn.functional as F
from torch_geometric.nn import GCNConv, SAGEConv

# PyG: from torch_geometric.loader import NeighborLoader
from graphzero.pyg import NeighborLoader, from_data

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("folder", help="a graph as graphs.py describes it")
parser.add_argument("--store", default="store", help="where graphzero keeps the graph")
parser.add_argument("--conv", choices=["sage", "gcn"], default="sage")
parser.add_argument("--epochs", type=int, default=30)
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--workers", type=int, default=0)
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()

torch.manual_seed(args.seed)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

# PyG: data = graphs.load(args.folder)
data = from_data(graphs.load(args.folder), args.store)
num_classes = int(data.y.max()) + 1

kwargs = {"num_neighbors": [10, 10], "batch_size": args.batch_size, "num_workers": args.workers}
train_loader = NeighborLoader(data, input_nodes=data.train_mask, shuffle=True, **kwargs)
val_loader = NeighborLoader(data, input_nodes=data.val_mask, **kwargs)
test_loader = NeighborLoader(data, input_nodes=data.test_mask, **kwargs)


class GNN(torch.nn.Module):
    def __init__(self, in_channels, hidden, out_channels, dropout):
        super().__init__()
        conv = {"sage": SAGEConv, "gcn": GCNConv}[args.conv]
        self.conv1 = conv(in_channels, hidden)
        self.conv2 = conv(hidden, out_channels)
        self.dropout = dropout

    def forward(self, x, edge_index):
        x = F.dropout(x, self.dropout, self.training)
        x = self.conv1(x, edge_index).relu()
        x = F.dropout(x, self.dropout, self.training)
        return self.conv2(x, edge_index)


model = GNN(data.num_features, 64, num_classes, dropout=0.5).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)


def train():
    model.train()
    total_loss = 0
    for batch in train_loader:
        batch = batch.to(device)
        optimizer.zero_grad()
        out = model(batch.x, batch.edge_index)[: batch.batch_size]
        loss = F.cross_entropy(out, batch.y[: batch.batch_size])
        loss.backward()
        optimizer.step()
        total_loss += float(loss) * batch.batch_size
    return total_loss / len(train_loader.dataset)


@torch.no_grad()
def test(loader):
    model.eval()
    correct = 0
    for batch in loader:
        batch = batch.to(device)
        out = model(batch.x, batch.edge_index)[: batch.batch_size]
        correct += int((out.argmax(dim=-1) == batch.y[: batch.batch_size]).sum())
    return correct / len(loader.dataset)


best_val = test_at_best = 0
for epoch in range(1, args.epochs + 1):
    loss = train()
    val = test(val_loader)
    if val > best_val:
        best_val, test_at_best = val, test(test_loader)
    print(f"epoch {epoch:02d}: loss {loss:.4f}, val {val:.4f}", flush=True)
print(f"test accuracy {test_at_best:.4f}")
