"""Graphs, models and loops that the scripts of this folder share: `sys.argv[1]` has the graphs."""

import sys
from itertools import pairwise
from pathlib import Path

import graphs
import torch
import torch.nn.functional as F
import torch_geometric.transforms as T
from torch_geometric.data import HeteroData
from torch_geometric.nn import Linear, SAGEConv

FOLDER = Path(sys.argv[1])
CLASSES = 7
torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)


def cora():
    data = graphs.load(FOLDER / "cora")
    data.x = data.x / data.x.sum(dim=1, keepdim=True).clamp(min=1)
    return data


def cora_in_parts():
    """Four graphs, as PPI has several: those of four parts of the nodes; the last is for tests."""
    data, part = cora(), torch.randint(0, 4, (2708,), generator=torch.Generator().manual_seed(0))
    found = [data.subgraph(part == number) for number in range(4)]
    return found[:3], found[3]


def flights():
    """Airports and zones of the same width of features."""
    data = graphs.load_flights(FOLDER / "openflights")
    data["airport"].x = F.pad(data["airport"].x, (0, data["zone"].x.shape[1] - 1))
    return data


def ratings():
    """Users rate items with 5 in their own group and with 1 in others, one at a time."""
    rng = torch.Generator().manual_seed(0)
    user = torch.randint(0, 400, (8000,), generator=rng)
    alike = torch.rand(8000, generator=rng) < 0.9
    group = torch.where(alike, user % 8, torch.randint(0, 8, (8000,), generator=rng))
    item = group + 8 * torch.randint(0, 40, (8000,), generator=rng)
    data = HeteroData()
    data["user"].num_nodes, data["item"].num_nodes = 400, 320
    edges = data["user", "to", "item"]
    edges.edge_index = torch.stack([user, item])
    edges.edge_label = torch.where(user % 8 == item % 8, 5, 1)
    edges.time = torch.arange(8000)
    return data


def with_features(data):
    for kind in data.node_types:
        data[kind].x = torch.eye(data[kind].num_nodes)
    return data


def bought_together(edge_index, least=3):
    """Pairs of items that `least` users have in common."""
    of_users = torch.zeros(400, 320)
    of_users[edge_index[0], edge_index[1]] = 1
    common = of_users.T @ of_users
    return (common.fill_diagonal_(0) >= least).nonzero().T.contiguous()


def split_of_links():
    """Parts of the ratings for training and tests, with ids as features and items of items."""
    data = ratings()
    del data["user", "item"].time, data["user", "item"].edge_label
    for kind in data.node_types:
        data[kind].x = torch.arange(data[kind].num_nodes)
    split = T.RandomLinkSplit(
        0.1,
        0.1,
        neg_sampling_ratio=1.0,
        add_negative_train_samples=False,
        edge_types=[("user", "to", "item")],
        rev_edge_types=[("item", "rev_to", "user")],
    )
    return split(T.ToUndirected()(data))


class SAGE(torch.nn.Module):
    def __init__(self, *sizes):
        super().__init__()
        self.convs = torch.nn.ModuleList(SAGEConv(a, b) for a, b in pairwise(sizes))

    def forward(self, x, edge_index):
        for conv in self.convs[:-1]:
            x = F.dropout(conv(x, edge_index).relu(), 0.5, self.training)
        return self.convs[-1](x, edge_index)

    @torch.no_grad()
    def inference(self, x_all, loader, name="n_id"):
        """Layer by layer, over all edges."""
        for conv in self.convs:
            xs = []
            for batch in loader:
                x = conv(x_all[batch[name]], batch.edge_index)[: batch.batch_size]
                xs.append(x if conv is self.convs[-1] else x.relu())
            x_all = torch.cat(xs)
        return x_all


class LazySAGE(torch.nn.Module):
    """For `to_hetero`: sizes are those of the first batch."""

    def __init__(self, hidden, out_channels):
        super().__init__()
        self.conv1, self.conv2 = SAGEConv((-1, -1), hidden), SAGEConv((-1, -1), hidden)
        self.lin = Linear(hidden, out_channels)

    def forward(self, x, edge_index):
        x = self.conv1(x, edge_index).relu()
        return self.lin(self.conv2(x, edge_index).relu())


class BipartiteSAGE(torch.nn.Module):
    """Scores of a user and an item, with embeddings of their ids."""

    def __init__(self, hidden=32):
        super().__init__()
        self.own = torch.nn.ModuleDict(
            {kind: torch.nn.Embedding(400, hidden) for kind in ("user", "item")}
        )
        self.of_items, self.of_users = SAGEConv(hidden, hidden), SAGEConv((hidden, hidden), hidden)

    def forward(self, batch):
        x = {kind: self.own[kind](ids) for kind, ids in batch.x_dict.items()}
        x["item"] = self.of_items(x["item"], batch.edge_index_dict["item", "to", "item"]).relu()
        edges = batch.edge_index_dict["item", "rev_to", "user"]
        x["user"] = self.of_users((x["item"], x["user"]), edges)
        source, target = batch["user", "item"].edge_label_index
        return (x["user"][source] * x["item"][target]).sum(dim=-1)


def of_seeds(model, batch):
    """What a model says of the seeds, and what is true."""
    size = batch.batch_size
    return model(batch.x, batch.edge_index)[:size], batch.y[:size]


def in_mask(model, batch):
    """As `of_seeds`, of the nodes of a subgraph that are for training."""
    return model(batch.x, batch.edge_index)[batch.train_mask], batch.y[batch.train_mask]


def of_airports(model, batch):
    size = batch["airport"].batch_size
    out = model(batch.x_dict, batch.edge_index_dict)["airport"]
    return out[:size], batch["airport"].y[:size]


def fit(model, loader, predict, epochs=10, lr=0.01):
    """Trains by `predict(model, batch)`, which gives scores and what is true."""
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    for _ in range(epochs):
        model.train()
        for batch in loader:
            optimizer.zero_grad()
            out, y = predict(model, batch)
            criterion = F.cross_entropy if out.dim() == 2 else F.binary_cross_entropy_with_logits
            criterion(out, y if out.dim() == 2 else y.float()).backward()
            optimizer.step()


@torch.no_grad()
def accuracy(model, loader, predict):
    """The share of seeds whose class is found."""
    model.eval()
    pairs = [predict(model, batch) for batch in loader]
    return torch.cat([right(out, y) for out, y in pairs]).float().mean().item()


def right(out, y):
    return (out.argmax(dim=-1) if out.dim() == 2 else (out > 0).long()) == y


def probe(z, data):
    """Test accuracy of a linear classifier of embeddings."""
    model, y, train = torch.nn.Linear(z.shape[1], CLASSES), data.y, data.train_mask
    z = (z - z.mean(0)) / (z.std(0) + 1e-6)
    fit(model, [None], lambda model, _: (model(z[train]), y[train]), epochs=100, lr=0.05)
    return right(model(z), y)[data.test_mask].float().mean().item()
