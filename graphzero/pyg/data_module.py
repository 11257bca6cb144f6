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
from graphzero.pyg.loaders import NeighborLoader

_Other: type = LightningDataModule
with suppress(ImportError):  # its Trainer asks for its own class, and PyG may have taken another
    _Other = importlib.import_module("pytorch_lightning").LightningDataModule
_Bases = (LightningDataModule, *(() if issubclass(LightningDataModule, _Other) else (_Other,)))


class DataModule(*_Bases):  # type: ignore[misc]
    """The loaders of a dataset for Lightning: train, validate, test and predict.

    It takes the arguments of PyG's ``LightningNodeData``. In several processes, training deals
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
    eval_loader_kwargs : mapping, optional
        Other arguments of the loaders of validation, test and prediction.
    seed : int, optional
        Of the order and the draws. Default: drawn by torch, for all ranks by the first one, and
        kept in checkpoints.
    **kwargs
        Of `NeighborLoader`; ``num_neighbors`` and ``batch_size`` at least.

    Raises
    ------
    ImportError
        If Lightning is not installed.
    ValueError
        If there are no seeds to train with.
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
        eval_loader_kwargs: Mapping[str, Any] | None = None,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        as_dataset(data)
        if kwargs.pop("loader", "neighbor") != "neighbor":
            raise ValueError("DataModule samples neighbours: loader='neighbor' is the only choice")
        splits = sorted({name for of in data.nodes.values() for name in of.splits})

        def nodes_or_split(nodes: object, *names: str) -> object:
            """The seeds as given, else the name of a split that the dataset has."""
            return next((name for name in names if nodes is None and name in splits), nodes)

        train = nodes_or_split(input_train_nodes, "train")
        if input_pred_nodes is None and data.is_typed and train is not None:
            input_pred_nodes = as_seed_nodes(train, data).node_type
        seeds: dict[str, tuple[object, object]] = {
            "train": (train, input_train_time),
            "val": (nodes_or_split(input_val_nodes, "val", "valid"), input_val_time),
            "test": (nodes_or_split(input_test_nodes, "test"), input_test_time),
            "pred": (input_pred_nodes, input_pred_time),
        }
        kwargs.setdefault("pin_memory", torch.cuda.is_available())
        # without seeds, Lightning leaves the stage out
        super().__init__(seeds["val"][0] is not None, seeds["test"][0] is not None, **kwargs)
        self.data, self._splits = data, splits
        for stage, (nodes, time) in seeds.items():
            setattr(self, f"input_{stage}_nodes", nodes)
            setattr(self, f"input_{stage}_time", time)
        self.eval_kwargs = {**self.kwargs, **(eval_loader_kwargs or {})}
        self._seed = seed

    def _shared_seed(self) -> int:
        """The seed of all ranks."""
        if self._seed is None:
            drawn = int(torch.randint(2**31, ()))
            self._seed = drawn if self.trainer is None else self.trainer.strategy.broadcast(drawn)
        return self._seed

    def _loader(self, stage: str) -> NeighborLoader:
        training = stage == "train"
        options = self.kwargs if training else self.eval_kwargs
        if self.trainer is not None and self.trainer.world_size > 1:
            # DDP sends its buffers, such as those of BatchNorm, in every forward pass, and other
            # strategies gather their parameters: ranks wait for each other in evaluation, too.
            waits = [*self.trainer.lightning_module.buffers()]
            even = training or bool(waits) or type(self.trainer.strategy).__name__ != "DDPStrategy"
            options = {"distributed": True, "even": even, **options}
        nodes, time = (getattr(self, f"input_{stage}_{what}") for what in ("nodes", "time"))
        options = {"shuffle": training, "seed": self._shared_seed(), **options}
        return NeighborLoader(self.data, input_nodes=nodes, input_time=time, **options)

    def train_dataloader(self) -> NeighborLoader:
        """Shuffled batches of the training nodes, equally many on every rank."""
        if self.input_train_nodes is None:
            raise ValueError(
                f"there are no nodes to train with: give input_train_nodes; the dataset has the "
                f"splits {self._splits}"
            )
        return self._loader("train")

    def val_dataloader(self) -> NeighborLoader:
        """Batches of the validation nodes, each once over all ranks."""
        return self._loader("val")

    def test_dataloader(self) -> NeighborLoader:
        """Batches of the test nodes, each once over all ranks."""
        return self._loader("test")

    def predict_dataloader(self) -> NeighborLoader:
        """Batches of the nodes to predict for, each once over all ranks."""
        return self._loader("pred")

    def state_dict(self) -> dict[str, int | None]:
        """The seed, for checkpoints."""
        return {"seed": self._seed}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Takes the seed of a checkpoint, whose epoch is resumed."""
        self._seed = state_dict["seed"]
