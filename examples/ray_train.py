"""Trains GraphSAGE on a dataset folder with Ray Train, on nodes that may be lost.

Start it on one node of a Ray cluster:

    python examples/ray_train.py data/ --storage /shared/runs --workers 4

The folder is at the same path on every node, and all nodes see the storage. A lost node costs the
batches since the last checkpoint; the run goes on with as many workers as there is room for. The
same command continues a run that has ended itself, also with another number of workers.
"""

import argparse
import tempfile
from argparse import Namespace
from pathlib import Path

import ray.train
import torch
import torch.distributed as dist
import torch.nn.functional as F
from ray.train.torch import TorchTrainer, get_device
from torch.nn.parallel import DistributedDataParallel

import graphzero as gz


def make_model(ds, args):
    model = gz.GraphSAGE(ds.features.feature_dim, 128, ds.num_classes, len(args.fanouts))
    return model.to(get_device())


def make_optimizer(model):
    return torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)


def loss_of(model, batch):
    out = model(batch.x, batch.edge_index, batch.num_sampled_nodes, batch.num_sampled_edges)
    return F.cross_entropy(out, batch.y[: batch.batch_size], ignore_index=-1)


def save(model, optimizer, loader, metrics):
    """Makes a checkpoint; every rank calls it, after equally many rounds."""
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = None
        if dist.get_rank() == 0:  # its position is that of all ranks
            parts = {"model": model, "optimizer": optimizer, "loader": loader}
            states = {name: part.state_dict() for name, part in parts.items()}
            torch.save(states, Path(folder, "states.pt"))
            checkpoint = ray.train.Checkpoint.from_directory(folder)
        ray.train.report(metrics, checkpoint=checkpoint)


def train(options):
    args = Namespace(**options)
    torch.manual_seed(args.seed)
    ds = gz.open(args.dir)
    # The ranks are found from torch.distributed, which Ray has set up. even=False repeats and drops
    # no batch; in the last round some ranks may have none.
    loader = gz.NeighborLoader(
        ds,
        args.fanouts,
        "train",
        batch_size=args.batch_size,
        shuffle=True,
        seed=args.seed,
        num_workers=args.loader_workers,
        distributed=True,
        even=False,
    )
    model = make_model(ds, args)
    optimizer = make_optimizer(model)
    if checkpoint := ray.train.get_checkpoint():
        with checkpoint.as_directory() as folder:
            states = torch.load(Path(folder, "states.pt"), map_location=get_device())
        for name, part in {"model": model, "optimizer": optimizer, "loader": loader}.items():
            part.load_state_dict(states[name])
    replica = DistributedDataParallel(model)

    for epoch in range(loader.epoch, args.epochs):
        with replica.join():  # ranks without a batch wait for those that have one
            for count, batch in enumerate(loader, 1):
                loss = loss_of(replica, batch.to(get_device()))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                # not in the last round, after which the loader is in the next epoch
                if count % args.checkpoint_every == 0 and loader.state_dict()["epoch"] == epoch:
                    save(model, optimizer, loader, {"epoch": epoch})
        save(model, optimizer, loader, {"epoch": epoch + 1})
        if dist.get_rank() == 0:
            print(f"epoch {epoch + 1}: {dist.get_world_size()} workers", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dir", help="a folder that graphzero.build has written")
    parser.add_argument("--storage", required=True, help="a folder that all nodes see")
    parser.add_argument("--name", default="graphzero", help="of the run, which is continued")
    parser.add_argument("--workers", type=int, default=2, help="at most")
    parser.add_argument("--cpus", type=int, default=1, help="of each worker")
    parser.add_argument("--fanouts", type=int, nargs="+", default=[10, 10])
    parser.add_argument("--batch-size", type=int, default=1024, help="of each worker")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--checkpoint-every", type=int, default=100, help="batches of a worker")
    parser.add_argument("--loader-workers", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    options = {**vars(args), "dir": str(Path(args.dir).resolve())}

    trainer = TorchTrainer(
        train,
        train_loop_config=options,
        scaling_config=ray.train.ScalingConfig(
            num_workers=(1, args.workers),  # as many as there is room for
            resources_per_worker={"CPU": args.cpus},
            use_gpu=torch.cuda.is_available(),
        ),
        run_config=ray.train.RunConfig(
            name=args.name,
            storage_path=str(Path(args.storage).resolve()),
            failure_config=ray.train.FailureConfig(max_failures=-1),
            checkpoint_config=ray.train.CheckpointConfig(num_to_keep=2),
        ),
    )
    print(trainer.fit().metrics)


if __name__ == "__main__":
    main()
