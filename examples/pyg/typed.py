"""Typed node classification: airports and time zones, routes with attributes.

python examples/pyg/typed.py FOLDER
"""

import argparse

import graphs
import torch
import torch.nn.functional as F
from torch_geometric.nn import GATConv, HeteroConv, Linear, SAGEConv

# PyG: from torch_geometric.loader import NeighborLoader
from graphzero.pyg import NeighborLoader, from_data

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("folder", help="a graph of flights as graphs.py describes it")
parser.add_argument("--store", default="store", help="where graphzero keeps the graph")
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()

torch.manual_seed(args.seed)

# PyG: data = graphs.load_flights(args.folder)
data = from_data(graphs.load_flights(args.folder), args.store)


def make_loader(split, **options):
    return NeighborLoader(
        data,
        num_neighbors={
            ("airport", "route", "airport"): [10, 5],
            ("airport", "in", "zone"): [5, 5],
            ("zone", "of", "airport"): [1, 1],
        },
        input_nodes=("airport", data["airport"][f"{split}_mask"]),
        batch_size=128,
        **options,
    )


train_loader = make_loader("train", shuffle=True)
val_loader, test_loader = make_loader("val"), make_loader("test")


class GNN(torch.nn.Module):
    def __init__(self, node_types, hidden, out_channels):
        super().__init__()
        self.inputs = torch.nn.ModuleDict({kind: Linear(-1, hidden) for kind in node_types})
        self.convs = torch.nn.ModuleList(self._conv(hidden) for _ in range(2))
        self.out = Linear(hidden, out_channels)

    def _conv(self, hidden):
        return HeteroConv(
            {
                ("airport", "route", "airport"): GATConv(hidden, hidden, edge_dim=2),
                ("airport", "in", "zone"): SAGEConv(hidden, hidden),
                ("zone", "of", "airport"): SAGEConv(hidden, hidden),
            }
        )

    def forward(self, x_dict, edge_index_dict, edge_attr_dict):
        x_dict = {kind: self.inputs[kind](x).relu() for kind, x in x_dict.items()}
        for conv in self.convs:
            x_dict = conv(x_dict, edge_index_dict, edge_attr_dict=edge_attr_dict)
            x_dict = {kind: x.relu() for kind, x in x_dict.items()}
        return self.out(x_dict["airport"])


model = GNN(data.node_types, 64, int(data["airport"].y.max()) + 1)


def predict(batch):
    out = model(batch.x_dict, batch.edge_index_dict, batch.edge_attr_dict)
    return out[: batch["airport"].batch_size], batch["airport"].y[: batch["airport"].batch_size]


with torch.no_grad():  # the sizes of the first layers
    predict(next(iter(train_loader)))
optimizer = torch.optim.Adam(model.parameters(), lr=0.005)


def train():
    model.train()
    for batch in train_loader:
        optimizer.zero_grad()
        out, y = predict(batch)
        F.cross_entropy(out, y).backward()
        optimizer.step()


@torch.no_grad()
def test(loader):
    model.eval()
    correct = 0
    for batch in loader:
        out, y = predict(batch)
        correct += int((out.argmax(dim=-1) == y).sum())
    return correct / len(loader.dataset)


for epoch in range(1, args.epochs + 1):
    train()
    print(f"epoch {epoch:02d}: val {test(val_loader):.4f}", flush=True)
print(f"test accuracy {test(test_loader):.4f}")
