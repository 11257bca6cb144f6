"""Classifies the nodes of one type in a typed graph, with a model in plain PyTorch.

Without --flights it makes a small graph of papers and authors. With it, it reads a folder with
edges.csv (src,dst,weight), features.npy, labels.npy and train_idx.npy, val_idx.npy, test_idx.npy:
airports, their time zones, and the routes between them.
"""

import argparse

import numpy as np
import torch
import torch.nn.functional as F

import graphzero as gz


def papers(seed=0, count=2000):
    """Papers of three fields, whose features say nothing, and authors who know their own field."""
    rng = np.random.default_rng(seed)
    field, topic = rng.integers(0, 3, count // 4), rng.integers(0, 3, count)
    author, paper = rng.integers(0, count // 4, 40 * count), rng.integers(0, count, 40 * count)
    kept = (field[author] == topic[paper]) | (rng.random(40 * count) < 0.05)
    writes = np.stack([author[kept], paper[kept]])[:, : 6 * count]
    known = np.eye(3, dtype=np.float32)[field] + rng.normal(0, 0.7, (count // 4, 3))
    nodes = {
        "paper": {"x": rng.standard_normal((count, 4)).astype(np.float32), "y": topic},
        "author": {"x": known.astype(np.float32)},
    }
    edges = {
        ("author", "writes", "paper"): writes,
        ("paper", "written_by", "author"): writes[::-1].copy(),
    }
    parts = np.split(rng.permutation(count), [count // 2, 3 * count // 4])
    return "paper", nodes, edges, dict(zip(("train", "val", "test"), parts, strict=True))


def flights(folder):
    """Airports in a part of the world, which is to be predicted, and in time zones."""
    source, target, airlines = np.loadtxt(
        f"{folder}/edges.csv", delimiter=",", skiprows=1, dtype=np.int64
    ).T
    x = np.load(f"{folder}/features.npy")
    zones, zone = np.unique(x[:, 4:], axis=0, return_inverse=True)
    inside = np.stack([np.arange(len(x)), zone.reshape(-1)])
    nodes = {
        "airport": {"x": x[:, 3:4].copy(), "y": np.load(f"{folder}/labels.npy")},
        "zone": {"x": zones},
    }
    edges = {
        ("airport", "route", "airport"): {
            "edge_index": np.stack([source, target]),
            "edge_weight": airlines.astype(np.float32),
        },
        ("airport", "in", "zone"): inside,
        ("zone", "of", "airport"): inside[::-1].copy(),
    }
    splits = {name: np.load(f"{folder}/{name}_idx.npy") for name in ("train", "val", "test")}
    return "airport", nodes, edges, splits


class TypedSAGE(torch.nn.Module):
    """Each layer adds, to a node's own vector, the mean of its neighbours' of each edge type."""

    def __init__(self, ds, input_type, hidden, layers):
        super().__init__()
        self.input_type = input_type
        self.inputs = torch.nn.ModuleDict(
            {kind: torch.nn.Linear(ds[kind].x.shape[1], hidden) for kind in ds.node_types}
        )
        self.layers = torch.nn.ModuleList()
        for _ in range(layers):
            of_edges = {"__".join(kind): torch.nn.Linear(hidden, hidden) for kind in ds.edge_types}
            of_nodes = {kind: torch.nn.Linear(hidden, hidden) for kind in ds.node_types}
            self.layers.append(torch.nn.ModuleDict({**of_edges, **of_nodes}))
        self.out = torch.nn.Linear(hidden, ds[input_type].num_classes)

    def forward(self, batch):
        h = {kind: self.inputs[kind](x).relu() for kind, x in batch.x_dict.items()}
        for layer in self.layers:
            new = {kind: layer[kind](each) for kind, each in h.items()}
            for kind, (source, target) in batch.edge_index_dict.items():
                total = torch.zeros_like(new[kind[2]]).index_add(0, target, h[kind[0]][source])
                degree = torch.bincount(target, minlength=len(total)).clamp(min=1)
                new[kind[2]] = new[kind[2]] + layer["__".join(kind)](total / degree[:, None])
            h = {kind: each.relu() for kind, each in new.items()}
        return self.out(h[self.input_type][: batch.batch_size])


def labels_of(batch, input_type):
    return batch[input_type].y[: batch.batch_size]


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    loader.set_epoch(0)  # the same random draws in each evaluation
    correct = [model(batch).argmax(1) == labels_of(batch, model.input_type) for batch in loader]
    return torch.cat(correct).float().mean().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("store", help="folder for the dataset, which is written there")
    parser.add_argument("--flights", help="folder of the graph of airports")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    input_type, nodes, edges, splits = flights(args.flights) if args.flights else papers()
    splits = {name: {input_type: ids} for name, ids in splits.items()}
    ds = gz.build(args.store, nodes=nodes, edges=edges, splits=splits)

    def make_loader(split, **options):
        return gz.NeighborLoader(
            ds,
            num_neighbors=[10, 5],
            input_nodes=(input_type, split),
            batch_size=128,
            num_workers=args.workers,
            **options,
        )

    train_loader = make_loader("train", shuffle=True)
    val_loader, test_loader = make_loader("val"), make_loader("test")
    model = TypedSAGE(ds, input_type, hidden=64, layers=2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    for epoch in range(args.epochs):
        model.train()
        for batch in train_loader:
            loss = F.cross_entropy(model(batch), labels_of(batch, input_type))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        val = accuracy(model, val_loader)
        print(f"epoch {epoch + 1}: loss {loss.item():.4f}, val accuracy {val:.4f}", flush=True)
    print(f"test accuracy {accuracy(model, test_loader):.4f}")


if __name__ == "__main__":
    main()
