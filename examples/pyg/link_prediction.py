"""Link prediction: pairs of nodes that are connected against pairs that are not.

python examples/pyg/link_prediction.py FOLDER
"""

import argparse

import graphs
import torch
import torch.nn.functional as F
import torch_geometric.transforms as T
from torch_geometric.nn import SAGEConv

# PyG: from torch_geometric.loader import LinkNeighborLoader
from graphzero.pyg import LinkNeighborLoader, from_data

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("folder", help="a graph as graphs.py describes it")
parser.add_argument("--store", default="store", help="where graphzero keeps the graphs")
parser.add_argument("--epochs", type=int, default=5)
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()

torch.manual_seed(args.seed)
split = T.RandomLinkSplit(0.05, 0.1, is_undirected=True, add_negative_train_samples=False)
parts = zip(("train", "val", "test"), split(graphs.load(args.folder)), strict=True)

# PyG: train_data, val_data, test_data = (part for name, part in parts)
train_data, val_data, test_data = (from_data(part, f"{args.store}/{name}") for name, part in parts)


def make_loader(data, **options):
    return LinkNeighborLoader(
        data,
        num_neighbors=[20, 10],
        edge_label_index=data.edge_label_index,
        edge_label=data.edge_label,
        batch_size=256,
        **options,
    )


train_loader = make_loader(train_data, neg_sampling_ratio=1.0, shuffle=True)
test_loader = make_loader(test_data)


class GNN(torch.nn.Module):
    def __init__(self, in_channels, hidden):
        super().__init__()
        self.conv1 = SAGEConv(in_channels, hidden)
        self.conv2 = SAGEConv(hidden, hidden)

    def forward(self, batch):
        x = self.conv1(batch.x, batch.edge_index).relu()
        x = self.conv2(x, batch.edge_index)
        source, target = batch.edge_label_index
        return (x[source] * x[target]).sum(dim=-1)


model = GNN(train_data.num_features, 64)
optimizer = torch.optim.Adam(model.parameters(), lr=0.005)


def train():
    model.train()
    for batch in train_loader:
        optimizer.zero_grad()
        loss = F.binary_cross_entropy_with_logits(model(batch), batch.edge_label.float())
        loss.backward()
        optimizer.step()


@torch.no_grad()
def test(loader):
    """The share of pairs (a true edge, a false one) whose true edge has the higher score."""
    model.eval()
    scores, labels = zip(*((model(batch), batch.edge_label) for batch in loader), strict=True)
    scores, labels = torch.cat(scores), torch.cat(labels)
    return float((scores[labels == 1][:, None] > scores[labels == 0]).float().mean())


for epoch in range(1, args.epochs + 1):
    train()
    print(f"epoch {epoch:02d}", flush=True)
print(f"test AUC {test(test_loader):.4f}")
