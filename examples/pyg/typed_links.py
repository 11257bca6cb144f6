"""Recommendation on a typed graph: to which airports could there be a route from an airport?

python examples/pyg/typed_links.py FOLDER
"""

import argparse

import graphs
import torch
import torch.nn.functional as F
import torch_geometric.transforms as T
from torch_geometric.nn import Linear, SAGEConv, to_hetero

# PyG: from torch_geometric.loader import LinkNeighborLoader
from graphzero.pyg import LinkNeighborLoader, from_data

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("folder", help="a graph of flights as graphs.py describes it")
parser.add_argument("--store", default="store", help="where graphzero keeps the graphs")
parser.add_argument("--epochs", type=int, default=5)
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()

torch.manual_seed(args.seed)
ROUTE = ("airport", "route", "airport")
split = T.RandomLinkSplit(
    0.05, 0.1, edge_types=[ROUTE], disjoint_train_ratio=0.3, add_negative_train_samples=False
)
parts = zip(("train", "val", "test"), split(graphs.load_flights(args.folder)), strict=True)

# PyG: train_data, val_data, test_data = (part for name, part in parts)
train_data, val_data, test_data = (from_data(part, f"{args.store}/{name}") for name, part in parts)


def make_loader(data, **options):
    return LinkNeighborLoader(
        data,
        num_neighbors=[20, 10],
        edge_label_index=(ROUTE, data[ROUTE].edge_label_index),
        edge_label=data[ROUTE].edge_label,
        batch_size=512,
        **options,
    )


train_loader = make_loader(train_data, neg_sampling_ratio=2.0, shuffle=True)
test_loader = make_loader(test_data)


class GNN(torch.nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.conv1 = SAGEConv(hidden, hidden)
        self.conv2 = SAGEConv(hidden, hidden)

    def forward(self, x, edge_index):
        return self.conv2(self.conv1(x, edge_index).relu(), edge_index)


class Model(torch.nn.Module):
    def __init__(self, data, hidden):
        super().__init__()
        counts = {kind: data[kind].num_nodes for kind in data.node_types}
        self.own = torch.nn.ModuleDict(
            {kind: torch.nn.Embedding(count, hidden) for kind, count in counts.items()}
        )
        self.inputs = torch.nn.ModuleDict(
            {kind: Linear(data[kind].num_features, hidden) for kind in counts}
        )
        self.gnn = to_hetero(GNN(hidden), data.metadata())
        self.source, self.target = Linear(hidden, hidden), Linear(hidden, hidden)

    def forward(self, batch):
        x_dict = {
            kind: self.inputs[kind](batch[kind].x) + self.own[kind](batch[kind].n_id)
            for kind in batch.node_types
        }
        x = self.gnn(x_dict, batch.edge_index_dict)["airport"]
        source, target = batch[ROUTE].edge_label_index
        return (self.source(x[source]) * self.target(x[target])).sum(dim=-1)


model = Model(train_data, 32)
optimizer = torch.optim.Adam(model.parameters(), lr=0.005)


def train():
    model.train()
    for batch in train_loader:
        optimizer.zero_grad()
        loss = F.binary_cross_entropy_with_logits(model(batch), batch[ROUTE].edge_label.float())
        loss.backward()
        optimizer.step()


@torch.no_grad()
def test(loader):
    """The share of pairs (a true route, a false one) whose true route has the higher score."""
    model.eval()
    scores, labels = zip(*((model(b), b[ROUTE].edge_label) for b in loader), strict=True)
    scores, labels = torch.cat(scores), torch.cat(labels)
    return float((scores[labels == 1][:, None] > scores[labels == 0]).float().mean())


for epoch in range(1, args.epochs + 1):
    train()
    print(f"epoch {epoch:02d}", flush=True)
print(f"test AUC {test(test_loader):.4f}")
