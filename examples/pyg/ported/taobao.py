"""examples/multi_gpu/taobao.py: graphs with types that are handed to ranks."""

import parts
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel

# PyG: from torch_geometric.loader import LinkNeighborLoader
from graphzero.pyg import LinkNeighborLoader, from_data

KIND = ("user", "to", "item")


def predict(model, batch):
    return model(batch), batch["user", "item"].edge_label


def run(rank, train_data, test_data, world_size):
    ids = train_data[KIND].edge_label_index
    ids = ids.split(ids.size(1) // world_size, dim=1)[rank].clone()
    train_loader = LinkNeighborLoader(
        data=train_data,
        num_neighbors=[8, 4],
        edge_label_index=(KIND, ids),
        neg_sampling="binary",
        batch_size=256,
        shuffle=True,
        drop_last=True,
    )
    test_loader = LinkNeighborLoader(
        data=test_data,
        num_neighbors=[8, 4],
        edge_label_index=(KIND, test_data[KIND].edge_label_index),
        edge_label=test_data[KIND].edge_label,
        batch_size=512,
    )
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    model = DistributedDataParallel(parts.BipartiteSAGE())
    parts.fit(model, train_loader, predict, epochs=12)
    if rank == 0:
        print(f"{parts.accuracy(model.module, test_loader, predict):.4f}")
    dist.barrier()
    del model  # while the group has its threads: torch's may wait for each other at the end
    dist.destroy_process_group()


if __name__ == "__main__":
    train_data, _, test_data = parts.split_of_links()
    item_to_item = parts.bought_together(train_data["user", "item"].edge_index)
    train_data["item", "item"].edge_index = test_data["item", "item"].edge_index = item_to_item
    # PyG: ...
    train_data, test_data = from_data(train_data, "store/train"), from_data(test_data, "store/test")
    mp.spawn(run, args=(train_data, test_data, 2), nprocs=2)
