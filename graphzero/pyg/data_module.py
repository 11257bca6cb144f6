"""`DataModule`: the loaders of a dataset for Lightning's Trainer."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import torch
from torch_geometric.data.lightning.datamodule import LightningDataModule

from graphzero.graph.dataset import Dataset
from graphzero.loader.seeds import as_dataset, as_seed_nodes
from graphzero.pyg.loaders import LinkNeighborLoader, NeighborLoader

_Other: type = LightningDataModule
with suppress(ImportError):  # its Trainer asks for its own class, and PyG may have taken another
    _Other = importlib.import_module("pytorch_lightning").LightningDataModule
_Bases = (LightningDataModule, *(() if issubclass(LightningDataModule, _Other) else (_Other,)))


class DataModule(*_Bases):  # type: ignore[misc]
    """The loaders of a dataset for Lightning: train, validate, test and predict.

    It takes the arguments of PyG's ``LightningNodeData``, and with seed edges those of
    ``LightningLinkData``, by name. In several processes, training deals
    whole batches to the ranks, equally many to each; evaluation and prediction yield each seed
    once, unless the model needs equally many batches there as well: with buffers, such as those of
    BatchNorm, or another strategy than DDP. All ranks draw from one seed. A checkpoint that was
    saved in the middle of an epoch resumes it at its next batch.

    Parameters
    ----------
    data : Dataset
        From `from_data` or `graphzero.open`.
    input_train_nodes, input_val_nodes, input_test_nodes : ids, mask or str, optional
        Seeds, or the name of a split; in a typed graph (node type, seeds). Default: the splits
        "train", "val" and "test", in a typed graph of the one node type that has them. Without a
        split for it, there is no validation or test.
    input_pred_nodes : ids, mask or str, optional
        Default: all nodes; in a typed graph, all of the type that is trained with.
    input_train_time, input_val_time, input_test_time, input_pred_time : integers, optional
        A time for each seed.
    input_train_edges, input_val_edges, input_test_edges, input_pred_edges : edges or str, optional
        Seed edges, as `LinkNeighborLoader` takes them, in place of nodes. Validation and test are
        by default the edge splits "val" and "test", where there are such in a graph without types;
        prediction is by default of all edges of the graph.
    input_train_labels, input_val_labels, input_test_labels, input_pred_labels : numbers, optional
        A label for each seed edge.
    eval_loader_kwargs : mapping, optional
        Other arguments of the loaders of validation, test and prediction.
    seed : int, optional
        Of the order and the draws. Default: drawn by torch, for all ranks by the first one, and
        kept in checkpoints.
    **kwargs
        Of `NeighborLoader`, or `LinkNeighborLoader`; ``num_neighbors`` and ``batch_size`` at least.

    Raises
    ------
    ImportError
        If Lightning is not installed.
    ValueError
        If there are no seeds to train with, or nodes and edges.
    """

    def __init__(
        self,
        data: Dataset,
        input_train_nodes: object = None,
        input_train_time: object = None,
        input_val_nodes: object = None,
        input_val_time: object = None,
        input_test_nodes: object = None,
        input_test_time: object = None,
        input_pred_nodes: object = None,
        input_pred_time: object = None,
        *,
        input_train_edges: object = None,
        input_train_labels: object = None,
        input_val_edges: object = None,
        input_val_labels: object = None,
        input_test_edges: object = None,
        input_test_labels: object = None,
        input_pred_edges: object = None,
        input_pred_labels: object = None,
        eval_loader_kwargs: Mapping[str, Any] | None = None,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        as_dataset(data)
        if kwargs.pop("loader", "neighbor") != "neighbor":
            raise ValueError("DataModule samples neighbours: loader='neighbor' is the only choice")
        nodes = [input_train_nodes, input_val_nodes, input_test_nodes, input_pred_nodes]
        edges = [input_train_edges, input_val_edges, input_test_edges, input_pred_edges]
        labels = [input_train_labels, input_val_labels, input_test_labels, input_pred_labels]
        times = [input_train_time, input_val_time, input_test_time, input_pred_time]
        self._of_links = any(seeds is not None for seeds in edges)
        if self._of_links and any(seeds is not None for seeds in nodes):
            raise ValueError("DataModule has seeds that are nodes, or edges: give one kind of them")
        stores = data.edges.values() if self._of_links else data.nodes.values()
        splits = sorted({name for store in stores for name in store.splits})
        seeds = edges if self._of_links else nodes
        if not (self._of_links and data.is_typed):
            for i, names in enumerate((("train",), ("val", "valid"), ("test",))):
                defaults = (name for name in names if seeds[i] is None and name in splits)
                seeds[i] = next(defaults, seeds[i])
        if not self._of_links and nodes[3] is None and data.is_typed and nodes[0] is not None:
            nodes[3] = as_seed_nodes(nodes[0], data).node_type
        kwargs.setdefault("pin_memory", torch.cuda.is_available())
        # without seeds, Lightning leaves the stage out
        super().__init__(seeds[1] is not None, seeds[2] is not None, **kwargs)
        self.data, self._splits = data, splits
        for what, values in (
            ("nodes", nodes),
            ("edges", edges),
            ("labels", labels),
            ("time", times),
        ):
            for stage, value in zip(("train", "val", "test", "pred"), values, strict=True):
                setattr(self, f"input_{stage}_{what}", value)
        self.eval_kwargs = {**self.kwargs, **(eval_loader_kwargs or {})}
        self._seed = seed

    def _shared_seed(self) -> int:
        """The seed of all ranks."""
        if self._seed is None:
            drawn = int(torch.randint(2**31, ()))
            self._seed = drawn if self.trainer is None else self.trainer.strategy.broadcast(drawn)
        return self._seed

    def _loader(self, stage: str) -> NeighborLoader | LinkNeighborLoader:
        training = stage == "train"
        options = self.kwargs if training else self.eval_kwargs
        if self.trainer is not None and self.trainer.world_size > 1:
            # DDP sends its buffers, such as those of BatchNorm, in every forward pass, and other
            # strategies gather their parameters: ranks wait for each other in evaluation, too.
            waits = [*self.trainer.lightning_module.buffers()]
            even = training or bool(waits) or type(self.trainer.strategy).__name__ != "DDPStrategy"
            options = {"distributed": True, "even": even, **options}
        nodes, edges, labels, time = (
            getattr(self, f"input_{stage}_{what}") for what in ("nodes", "edges", "labels", "time")
        )
        options = {"shuffle": training, "seed": self._shared_seed(), **options}
        if not self._of_links:
            return NeighborLoader(self.data, input_nodes=nodes, input_time=time, **options)
        options = {"edge_label": labels, "edge_label_time": time, **options}
        return LinkNeighborLoader(self.data, edge_label_index=edges, **options)

    def train_dataloader(self) -> NeighborLoader | LinkNeighborLoader:
        """Shuffled batches of the training seeds, equally many on every rank."""
        kind = "edges" if self._of_links else "nodes"
        if getattr(self, f"input_train_{kind}") is None:
            raise ValueError(
                f"there are no {kind} to train with: give input_train_{kind}; the dataset has the "
                f"splits {self._splits}. For links, give input_train_edges"
            )
        return self._loader("train")

    def val_dataloader(self) -> NeighborLoader | LinkNeighborLoader:
        """Batches of the validation seeds, each once over all ranks."""
        return self._loader("val")

    def test_dataloader(self) -> NeighborLoader | LinkNeighborLoader:
        """Batches of the test seeds, each once over all ranks."""
        return self._loader("test")

    def predict_dataloader(self) -> NeighborLoader | LinkNeighborLoader:
        """Batches of the seeds to predict for, each once over all ranks."""
        return self._loader("pred")

    def state_dict(self) -> dict[str, int | None]:
        """The seed, for checkpoints."""
        return {"seed": self._seed}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Takes the seed of a checkpoint, whose epoch is resumed."""
        self._seed = state_dict["seed"]
