"""Temporal sampling: a seed sees the edges up to its own time, and no later one.

python examples/pyg/temporal.py FOLDER
"""

import argparse

import graphs
import torch
import torch.nn.functional as F
from torch_geometric.nn import SAGEConv

# PyG: from torch_geometric.loader import NeighborLoader
from graphzero.pyg import NeighborLoader, from_data

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("folder", help="a graph of citations as graphs.py describes it")
parser.add_argument("--store", default="store", help="where graphzero keeps the graph")
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()

torch.manual_seed(args.seed)

# PyG: data = graphs.load_citations(args.folder)
data = from_data(graphs.load_citations(args.folder), args.store, time_attrs=["edge_time"])
asked = data.asked


def make_loader(mask, **options):
    return NeighborLoader(
        data,
        num_neighbors=[20, 5],
        input_nodes=mask,
        input_time=asked[mask],
        time_attr="edge_time",
        temporal_strategy="last",
        batch_size=512,
        **options,
    )


train_loader = make_loader(data.train_mask, shuffle=True)
test_loader = make_loader(data.test_mask)


class GNN(torch.nn.Module):
    def __init__(self, in_channels, hidden):
        super().__init__()
        self.conv1 = SAGEConv(in_channels, hidden, aggr="sum")
        self.conv2 = SAGEConv(hidden, 2, aggr="sum")

    def forward(self, x, edge_index):
        return self.conv2(self.conv1(x, edge_index).relu(), edge_index)


model = GNN(data.num_features, 32)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)


def train():
    model.train()
    for batch in train_loader:
        assert (batch.edge_time <= batch.seed_time[batch.batch[batch.edge_index[1]]]).all()
        optimizer.zero_grad()
        out = model(batch.x, batch.edge_index)[: batch.batch_size]
        loss = F.cross_entropy(out, batch.y[: batch.batch_size])
        loss.backward()
        optimizer.step()


@torch.no_grad()
def test(loader):
    model.eval()
    correct = 0
    for batch in loader:
        out = model(batch.x, batch.edge_index)[: batch.batch_size]
        correct += int((out.argmax(dim=-1) == batch.y[: batch.batch_size]).sum())
    return correct / len(loader.dataset)


for epoch in range(1, args.epochs + 1):
    train()
    print(f"epoch {epoch:02d}: test {test(test_loader):.4f}", flush=True)
print(f"test accuracy {test(test_loader):.4f}")
