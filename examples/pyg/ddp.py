"""Several processes, by PyG's recipe: each process has a part of the seeds.

python examples/pyg/ddp.py FOLDER --world-size 2
"""

import argparse
import os

import graphs
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch_geometric.nn import GraphSAGE

# PyG: from torch_geometric.loader import NeighborLoader
from graphzero.pyg import NeighborLoader, from_data


def run(rank, world_size, data, args):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = args.port
    dist.init_process_group("gloo", rank=rank, world_size=world_size)

    train_idx = data.train_mask.nonzero(as_tuple=False).view(-1)
    train_idx = train_idx.split(train_idx.size(0) // world_size)[rank]
    kwargs = {"num_neighbors": [10, 10], "batch_size": 32}
    train_loader = NeighborLoader(data, input_nodes=train_idx, shuffle=True, **kwargs)
    if rank == 0:
        val_loader = NeighborLoader(data, input_nodes=data.val_mask, **kwargs)

    torch.manual_seed(args.seed)
    model = GraphSAGE(data.num_features, 64, 2, int(data.y.max()) + 1, dropout=0.5)
    replica = DistributedDataParallel(model)
    optimizer = torch.optim.Adam(replica.parameters(), lr=0.01, weight_decay=5e-4)

    for epoch in range(1, args.epochs + 1):
        replica.train()
        for batch in train_loader:
            optimizer.zero_grad()
            out = replica(batch.x, batch.edge_index)[: batch.batch_size]
            loss = F.cross_entropy(out, batch.y[: batch.batch_size])
            loss.backward()
            optimizer.step()
        dist.barrier()
        if rank == 0:
            model.eval()
            correct = 0
            with torch.no_grad():
                for batch in val_loader:
                    out = model(batch.x, batch.edge_index)[: batch.batch_size]
                    correct += int((out.argmax(dim=-1) == batch.y[: batch.batch_size]).sum())
            val = correct / len(val_loader.dataset)
            print(f"epoch {epoch:02d}: loss {loss:.4f}, val accuracy {val:.4f}", flush=True)
        dist.barrier()
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", help="a graph as graphs.py describes it")
    parser.add_argument("--store", default="store", help="where graphzero keeps the graph")
    parser.add_argument("--world-size", type=int, default=2)
    parser.add_argument("--port", default="12355")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    # PyG: data = graphs.load(args.folder)
    data = from_data(graphs.load(args.folder), args.store)
    mp.spawn(run, args=(args.world_size, data, args), nprocs=args.world_size, join=True)


if __name__ == "__main__":
    main()
