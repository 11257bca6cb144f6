"""One process of several that pass a loader to accelerate's ``prepare``; prints what happens.

python accelerate_program.py STORE {open,ready} RANK PROCESSES PORT [--shuffle] [--dispatch]
"""

from __future__ import annotations

import argparse
import os

from torch.utils.data import DataLoader

import graphzero as gz


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("store")
    parser.add_argument("form", choices=["open", "ready"])
    parser.add_argument("rank")
    parser.add_argument("processes")
    parser.add_argument("port")
    parser.add_argument("--shuffle", action="store_true")
    parser.add_argument("--dispatch", action="store_true")
    parser.add_argument("--alone", action="store_true", help="keep the loader out of prepare")
    args = parser.parse_args()
    os.environ.update(
        MASTER_ADDR="localhost",
        MASTER_PORT=args.port,
        RANK=args.rank,
        LOCAL_RANK=args.rank,
        WORLD_SIZE=args.processes,
        LOCAL_WORLD_SIZE=args.processes,
    )
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
