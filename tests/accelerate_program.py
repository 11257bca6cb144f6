"""One process of several that pass a loader to accelerate's ``prepare``; prints what happens.

python accelerate_program.py STORE {open,ready} RANK PROCESSES PORT
    [--shuffle] [--dispatch] [--alone]
"""

from __future__ import annotations

import argparse
import os

from torch.utils.data import DataLoader

import graphzero as gz


def main():
    parser = argparse.ArgumentParser()
    for name in ("store", "form", "rank", "processes", "port"):
        parser.add_argument(name)
    for name in ("shuffle", "dispatch", "alone"):  # alone: the loader is kept out of prepare
        parser.add_argument(f"--{name}", action="store_true")
    args = parser.parse_args()
    ranks = {"RANK": args.rank, "WORLD_SIZE": args.processes}
    os.environ.update(ranks, MASTER_ADDR="localhost", MASTER_PORT=args.port)
    os.environ.update({f"LOCAL_{name}": value for name, value in ranks.items()})
    from accelerate import Accelerator
    from accelerate.utils import DataLoaderConfiguration

    how = DataLoaderConfiguration(dispatch_batches=args.dispatch)
    accelerator = Accelerator(cpu=True, dataloader_config=how)
    ds = gz.open(args.store)
    options = {"batch_size": 16, "shuffle": args.shuffle, "distributed": args.alone, "seed": 0}
    if args.form == "ready":
        loader = gz.NeighborLoader(ds, [3], "train", **options)
    else:
        batches = gz.NeighborDataset(ds, ds.splits["train"], [3], **options)
        loader = DataLoader(batches, batch_size=None, collate_fn=gz.Collate(ds))
    if not args.alone:
        loader = accelerator.prepare(loader)
    try:
        seeds = sum(batch.batch_size for batch in loader)
    except RuntimeError as error:
        print(f"refused: {error}", flush=True)
    else:
        print(f"seeds: {seeds}", flush=True)
    os._exit(0)  # processes that raised leave the others without an answer


if __name__ == "__main__":
    main()
