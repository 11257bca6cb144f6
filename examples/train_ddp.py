"""Trains GraphSAGE on a dataset folder in several processes, with DistributedDataParallel.

Start it with torchrun, which starts the processes:

    torchrun --standalone --nproc-per-node 2 examples/train_ddp.py data/
"""

import argparse
import gc
import os

import numpy as np
import torch
import torch.distributed as dist
import torch.distributed.nn  # before there is a process group, which it would keep to the end
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

import graphzero as gz


def make_loader(ds, split, args, **options):
    """The batches of this rank; the ranks share the nodes of the split."""
    seeds = ds.splits[split]
    seeds = seeds[ds.labels.gather(seeds).reshape(-1) >= 0]  # -1: the label is unknown
    batches = gz.NeighborDataset(
        ds, seeds, args.fanouts, batch_size=args.batch_size, distributed=True, **options
    )
    return batches, DataLoader(
        batches, batch_size=None, num_workers=args.workers, collate_fn=gz.Collate(ds)
    )


def predict(model, batch):
    return model(batch.x, batch.edge_index, batch.num_sampled_nodes, batch.num_sampled_edges)


def train(model, loader, optimizer, device):
    """Trains for one epoch; how many batches this rank had. It must be equal on all ranks."""
    model.train()
    count = 0
    for batch in loader:
        batch = batch.to(device)
        loss = F.cross_entropy(predict(model, batch), batch.y[: batch.batch_size])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        count += 1
    return count


@torch.no_grad()
def evaluate(model, loader, device):
    """Nodes, labels and predicted classes, from all ranks; each node of the split is there once."""
    model.eval()
    loader.dataset.set_epoch(0)  # the same draws in each evaluation, which workers need to know
    found = [np.empty((3, 0), np.int64)]
    for batch in loader:
        nodes, labels = batch.n_id[: batch.batch_size], batch.y[: batch.batch_size]
        predicted = predict(model, batch.to(device)).argmax(1).cpu()
        found.append(torch.stack([nodes, labels, predicted]).numpy())
    of_ranks = [None] * dist.get_world_size()
    dist.all_gather_object(of_ranks, np.concatenate(found, axis=1))
    return np.concatenate(of_ranks, axis=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dir", help="a folder that graphzero.build has written")
    parser.add_argument("--fanouts", type=int, nargs="+", default=[10, 10])
    parser.add_argument("--batch-size", type=int, default=1024, help="of each rank")
    parser.add_argument("--drop-last", action="store_true")
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--predictions", help="write nodes and predicted classes to this .npz file")
    args = parser.parse_args()

    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    rank = dist.get_rank()

    torch.manual_seed(args.seed)
    ds = gz.open(args.dir)
    # equally many batches for each rank, which DistributedDataParallel needs
    batches, loader = make_loader(
        ds, "train", args, shuffle=True, seed=args.seed, drop_last=args.drop_last
    )
    # each node once, for evaluation
    val_loader, test_loader = (make_loader(ds, s, args, even=False)[1] for s in ("val", "test"))
    model = gz.GraphSAGE(ds.features.feature_dim, 128, ds.num_classes, len(args.fanouts)).to(device)
    replica = DistributedDataParallel(model)
    optimizer = torch.optim.Adam(replica.parameters(), lr=0.01, weight_decay=5e-4)

    for epoch in range(args.epochs):
        batches.set_epoch(epoch)
        count = train(replica, loader, optimizer, device)
        print(f"rank {rank}: epoch {epoch + 1}: {count} batches", flush=True)
        # the model without DistributedDataParallel: the ranks may have unequally many batches
        _, labels, predicted = evaluate(model, val_loader, device)
        if rank == 0:
            print(f"val accuracy {(labels == predicted).mean():.4f}", flush=True)

    nodes, labels, predicted = evaluate(model, test_loader, device)
    if rank == 0:
        print(f"test accuracy {(labels == predicted).mean():.4f} of {len(nodes)} nodes")
        if args.predictions:
            np.savez(args.predictions, node_id=nodes, predicted=predicted)
    # Gloo's threads must end before the interpreter does: they live as long as the replica.
    del replica, optimizer
    gc.collect()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
