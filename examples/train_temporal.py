"""Predicts what users buy next: links of a typed graph, each with the edges before its time.

The taste of each user changes once. What a user bought last says what comes next; what the user
buys later must not be seen.
"""

import argparse

import numpy as np
import torch
import torch.nn.functional as F

import graphzero as gz

BUYS, BOUGHT_BY = ("user", "buys", "item"), ("item", "bought_by", "user")
USERS, ITEMS, KINDS, TIMES = 300, 200, 5, 1000


def build(path, seed):
    rng = np.random.default_rng(seed)
    kind_of_item = rng.integers(0, KINDS, ITEMS)
    tastes, change = rng.integers(0, KINDS, (2, USERS)), rng.integers(0, TIMES, USERS)
    users, times = rng.integers(0, USERS, 30_000), np.sort(rng.integers(0, TIMES, 30_000))
    wanted = tastes[(times >= change[users]).astype(int), users]
    by_kind = [np.flatnonzero(kind_of_item == kind) for kind in range(KINDS)]
    items = np.array([rng.choice(by_kind[kind]) for kind in wanted])
    buys = np.stack([users, items])
    ds = gz.build(
        path,
        nodes={
            "user": {"num_nodes": USERS},
            "item": {"x": np.eye(KINDS, dtype=np.float32)[kind_of_item]},
        },
        edges={
            BUYS: {"edge_index": buys, "time": times},
            BOUGHT_BY: {"edge_index": buys[::-1].copy(), "time": times},
        },
        time_attrs="time",
    )
    return ds, buys, times


class Recent(torch.nn.Module):
    """Compares an item with the mean of what the user bought last."""

    def __init__(self):
        super().__init__()
        self.match = torch.nn.Bilinear(KINDS, KINDS, 1)

    def forward(self, batch):
        item, user = batch[BOUGHT_BY].edge_index
        x = batch["item"].x
        total = torch.zeros(batch["user"].num_nodes, KINDS).index_add(0, user, x[item])
        degree = torch.bincount(user, minlength=len(total)).clamp(min=1)
        of_users, of_items = batch[BUYS].edge_label_index  # those bought, then those not bought
        return self.match((total / degree[:, None])[of_users], x[of_items]).reshape(-1)


@torch.no_grad()
def auc(model, loader):
    """How often an item that was bought is above one that was not."""
    scores = [(model(batch), batch[BUYS].edge_label) for batch in loader]
    score, label = (torch.cat(each) for each in zip(*scores, strict=True))
    bought, not_bought = score[label == 1][:, None], score[label == 0][None]
    return ((bought > not_bought).float() + 0.5 * (bought == not_bought)).mean().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("store", help="folder for the dataset, which is written there")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    ds, buys, times = build(args.store, args.seed)
    late = times >= 0.8 * TIMES  # the test is in the future of the training

    def make_loader(chosen, **options):
        return gz.LinkNeighborLoader(
            ds,
            num_neighbors={BOUGHT_BY: [5], BUYS: [0]},
            edge_label_index=(BUYS, buys[:, chosen]),
            edge_label_time=times[chosen],
            time_attr="time",
            temporal_strategy="last",
            strictly_before=True,  # not the seed edge itself, whose time it is
            neg_sampling="binary",
            batch_size=256,
            num_workers=args.workers,
            **options,
        )

    train_loader, test_loader = make_loader(~late, shuffle=True), make_loader(late)
    model = Recent()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for epoch in range(args.epochs):
        for batch in train_loader:
            loss = F.binary_cross_entropy_with_logits(model(batch), batch[BUYS].edge_label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch + 1}: loss {loss.item():.4f}", flush=True)
    print(f"test AUC {auc(model, test_loader):.4f}")


if __name__ == "__main__":
    main()
