"""Embeddings of all nodes from random walks (node2vec), with sparse gradients.

    python examples/node2vec.py data/ --out embeddings.npy

The walks come whole (``context_size=walk_length``): the loss looks up each of their nodes once, and
forms all pairs of the windows from these rows. PyG's ``Node2Vec`` has the same loss and looks up
each node in each window.
"""

import argparse
import os

import numpy as np
import torch
import torch.nn.functional as F

import graphzero as gz


def scores(rows, context):
    """The products of the first node of every window with each other one, (num_walks, pairs)."""
    first, other = torch.ones(rows.shape[1], rows.shape[1]).triu(1).tril(context - 1).nonzero().T
    is_in_window = first <= rows.shape[1] - context  # later ones begin no whole window
    return (rows @ rows.mT)[:, first[is_in_window], other[is_in_window]]


def skip_gram_loss(table, pos_rw, neg_rw, context):
    """Mikolov et al., "Distributed representations of words and phrases", NeurIPS 2013."""
    positive = F.logsigmoid(scores(table(pos_rw), context)).mean()
    return -positive - F.logsigmoid(-scores(table(neg_rw), context)).mean()


def embed(ds, *, dim=128, context=10, epochs=10, lr=0.01, seed=0, workers=0, **walks):
    """The embeddings of all nodes, (num_nodes, dim) float32."""
    torch.manual_seed(seed)
    table = torch.nn.Embedding(ds.num_nodes, dim, sparse=True)
    optimizer = torch.optim.SparseAdam(table.parameters(), lr=lr)
    loader = gz.WalkLoader(ds, shuffle=True, seed=seed, num_workers=workers, **walks)
    for epoch in range(epochs):
        total = torch.zeros(())
        for pos_rw, neg_rw in loader:
            loss = skip_gram_loss(table, pos_rw, neg_rw, context)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach()
        print(f"epoch {epoch + 1}: loss {total.item() / len(loader):.4f}")
    return table.weight.detach()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "dir", help="a dataset with out-neighbours: graphzero build --neighbors both"
    )
    parser.add_argument("--out", default="embeddings.npy")
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--walk-length", type=int, default=20)
    parser.add_argument("--context", type=int, default=10)
    parser.add_argument("--walks-per-node", type=int, default=10)
    parser.add_argument("--p", type=float, default=1.0)
    parser.add_argument("--q", type=float, default=1.0)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--workers", type=int, default=0)
    options = vars(parser.parse_args())
    out = options.pop("out")
    with gz.open(options.pop("dir")) as ds:
        found = embed(ds, **options)
    np.save(out, found.numpy())
    print(f"{len(found):,} embeddings in {os.path.abspath(out)}")
