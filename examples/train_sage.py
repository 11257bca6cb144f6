"""Trains GraphSAGE on a dataset folder, with a training loop of its own over the DataLoader."""

import argparse

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader

import graphzero as gz


def make_loader(ds, split, args, shuffle=False):
    seeds = ds.splits[split]
    seeds = seeds[ds.labels.gather(seeds).reshape(-1) >= 0]  # -1: the label is unknown
    batches = gz.NeighborDataset(
        ds, seeds, args.fanouts, batch_size=1024, shuffle=shuffle, seed=args.seed
    )
    return DataLoader(batches, batch_size=None, num_workers=args.workers, collate_fn=gz.Collate(ds))


def predict(model, batch):
    return model(batch.x, batch.edge_index, batch.num_sampled_nodes, batch.num_sampled_edges)


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    loader.dataset.set_epoch(0)  # the same random draws in each evaluation
    correct = [predict(model, batch).argmax(1) == batch.y[: batch.batch_size] for batch in loader]
    return torch.cat(correct).float().mean().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dir", help="a folder that graphzero.build has written")
    parser.add_argument("--fanouts", type=int, nargs="+", default=[10, 10])
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    ds = gz.open(args.dir)
    loader = make_loader(ds, "train", args, shuffle=True)
    val_loader, test_loader = (make_loader(ds, split, args) for split in ("val", "test"))
    model = gz.GraphSAGE(ds.features.feature_dim, 128, ds.num_classes, len(args.fanouts))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)

    best = (0.0, 0.0)  # highest validation accuracy, and the test accuracy of the same epoch
    for epoch in range(args.epochs):
        model.train()
        for batch in loader:
            loss = F.cross_entropy(predict(model, batch), batch.y[: batch.batch_size])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        val = accuracy(model, val_loader)
        print(f"epoch {epoch + 1}: loss {loss.item():.4f}, val accuracy {val:.4f}")
        if val > best[0]:
            best = (val, accuracy(model, test_loader))
    print(f"test accuracy {best[1]:.4f}")


if __name__ == "__main__":
    main()
