"""Graphs for the scripts of this folder, as PyG users have them: `Data` and `HeteroData`.

A folder of a graph has ``edges.csv`` (``src,dst`` and perhaps a weight or a time),
``features.npy``, ``labels.npy`` and ``train_idx.npy``, ``val_idx.npy``, ``test_idx.npy``.
"""

from pathlib import Path

import numpy as np
import torch
import torch_geometric.transforms as T
from torch_geometric.data import Data, HeteroData


def load_edges(folder):
    """Columns of the edge list: sources, targets and whatever stands behind them."""
    return torch.from_numpy(
        np.loadtxt(Path(folder) / "edges.csv", delimiter=",", skiprows=1, dtype=np.int64).T.copy()
    )


def _array(folder, name):
    return torch.from_numpy(np.load(Path(folder) / f"{name}.npy"))


def _add_masks(nodes, folder):
    for split in ("train", "val", "test"):
        mask = torch.zeros(nodes.num_nodes, dtype=torch.bool)
        mask[_array(folder, f"{split}_idx")] = True
        nodes[f"{split}_mask"] = mask


def load(folder):
    """An undirected graph with features, labels and splits, such as Planetoid's Cora."""
    data = Data(
        x=_array(folder, "features"), edge_index=load_edges(folder)[:2], y=_array(folder, "labels")
    )
    _add_masks(data, folder)
    return T.ToUndirected()(data)


def load_citations(folder):
    """Papers that cite papers, with months: which papers are cited often after their first year?

    A message flows from the citing paper to the cited one. A paper's features are known when it
    appears, so what it was cited since must come from its edges up to the time of the question.
    """
    source, target, month = load_edges(folder)
    appeared = _array(folder, "node_time")
    asked = appeared + 365 * 24 * 3600
    number = appeared.shape[0]
    data = Data(edge_index=torch.stack([source, target]), edge_time=month, num_nodes=number)
    references = torch.bincount(source, minlength=number).float()
    data.x = torch.stack([torch.ones(number), (1 + references).log()], dim=1)
    later = month > asked[target]
    data.y = (torch.bincount(target[later], minlength=number) >= 5).long()
    data.asked = asked
    order = torch.randperm(number, generator=torch.Generator().manual_seed(0))
    for split, part in zip(
        ("train", "val", "test"), order.split([20000, 4000, 10546]), strict=True
    ):
        data[f"{split}_mask"] = torch.zeros(number, dtype=torch.bool).scatter_(0, part, True)
    return data


def load_flights(folder):
    """Airports, the time zones they are in, and routes between airports with attributes.

    A route has the number of airlines that fly it as its weight, and the length of its way as
    an attribute. What is to be predicted is the part of the world that an airport is in.
    """
    source, target, airlines = load_edges(folder)
    x = _array(folder, "features")
    zones, zone = torch.unique(x[:, 4:], dim=0, return_inverse=True)
    data = HeteroData()
    data["airport"].x = x[:, 3:4]  # the altitude; not the coordinates, which give the answer away
    data["airport"].y = _array(folder, "labels")
    _add_masks(data["airport"], folder)
    data["zone"].x = zones
    angle = (x[source, :3] * x[target, :3]).sum(dim=1).clamp(-1, 1).acos()
    routes = data["airport", "route", "airport"]
    routes.edge_index = torch.stack([source, target])
    routes.edge_weight = airlines.float()
    routes.edge_attr = torch.stack([angle, airlines.float().log1p()], dim=1)
    data["airport", "in", "zone"].edge_index = torch.stack([torch.arange(zone.shape[0]), zone])
    data["zone", "of", "airport"].edge_index = torch.stack([zone, torch.arange(zone.shape[0])])
    return data
