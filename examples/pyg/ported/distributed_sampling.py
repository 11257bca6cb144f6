"""examples/multi_gpu/distributed_sampling.py: each rank reads the graph, and has its seeds."""

import graphs
import parts
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel

# PyG: from torch_geometric.loader import NeighborLoader
from graphzero.pyg import NeighborLoader, from_data


def run(rank, world_size, dataset):
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    # PyG: data = dataset
    data = from_data(dataset, "store")
    data = data.to("cpu", "x", "y")
    kwargs = {"batch_size": 32, "num_neighbors": [25, 10], "drop_last": True}
    loaders = {}
    for split in ("train", "test"):
        ids = data[f"{split}_mask"].nonzero(as_tuple=False).view(-1)
        ids = ids.split(ids.size(0) // world_size)[rank]
        loaders[split] = NeighborLoader(data, input_nodes=ids, shuffle=split == "train", **kwargs)
    torch.manual_seed(12345)
    model = DistributedDataParallel(parts.SAGE(data.num_features, 64, parts.CLASSES))
    parts.fit(model, loaders["train"], parts.of_seeds)
    dist.barrier()
    found = torch.tensor(parts.accuracy(model.module, loaders["test"], parts.of_seeds))
    dist.all_reduce(found)
    if rank == 0:
        print(f"{found / world_size:.4f}")
    del model  # while the group has its threads: torch's may wait for each other at the end
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(run, args=(2, graphs.load(parts.FOLDER / "cora")), nprocs=2)
