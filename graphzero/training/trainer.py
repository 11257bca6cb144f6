"""`train`: node classification with GraphSAGE on a dataset, through the standard DataLoader."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader
from tqdm.auto import tqdm

from graphzero.graph.dataset import Dataset
from graphzero.graph.user_input import IdArray
from graphzero.loader.device import DeviceLoader
from graphzero.loader.mini_batch import Collate, MiniBatch, SampledBatch
from graphzero.loader.neighbor_dataset import NeighborDataset
from graphzero.loader.stats import watch
from graphzero.packs.packing import PackedDataset
from graphzero.report.readings import MemoryReport, memory_report
from graphzero.store.format import dtype_name
from graphzero.store.free_memory import available_memory
from graphzero.training.captured_step import CapturedStep, can_capture
from graphzero.training.graphsage import GraphSAGE, device_of
from graphzero.training.train_options import TrainOptions
from graphzero.units import format_bytes

SPLIT_NAMES = {"train": "train", "val": "val", "valid": "val", "test": "test"}
_GATHER = ("x", "y")
_FEATURE_DTYPE = "float32"  # of the model's inputs, whatever the features are stored as
_FANOUTS = (10, 10)
_BATCH_SIZE = 1024
# A model may have some classes that no label names, but not mostly such classes.
_MOST_SPARSE_CLASSES = 10_000
_MOST_CLASSES_PER_LABEL = 10


# --- what is reported


@dataclass(frozen=True)
class EpochReport:
    """One epoch of training.

    Attributes
    ----------
    epoch : int
        Counted from 1.
    loss, train_accuracy : float
        Mean cross-entropy and accuracy over the training seeds, measured with dropout while the
        weights were changing.
    val_accuracy : float or None
        Accuracy on the validation split after the epoch; None without such a split.
    seconds : float
        Duration of the training, without the validation.
    batches : int
    batches_per_second : float
    loading : float
        Seconds for which the training loop waited for batches.
    waited : float
        Seconds for which batches waited for their pages to be read; with DataLoader workers, the
        sum over the workers.
    io : str
        How the feature rows of the last batch were read, and why.
    """

    epoch: int
    loss: float
    train_accuracy: float
    val_accuracy: float | None
    seconds: float
    batches: int
    batches_per_second: float
    loading: float
    waited: float
    io: str = ""


@dataclass(frozen=True)
class SplitReport:
    """How well a model predicts the labels of one split.

    Attributes
    ----------
    num_nodes : int
        Labelled nodes of the split.
    accuracy : float
    majority : float
        Accuracy of a model that always predicts the most frequent class of the split.
    loss : float
        Mean cross-entropy.
    """

    num_nodes: int
    accuracy: float
    majority: float
    loss: float


@dataclass(frozen=True)
class TrainReport:
    """A whole training.

    Attributes
    ----------
    epochs : tuple of EpochReport
        The epochs that ran to their end.
    best_epoch : int
        The epoch whose weights are evaluated. With a validation split it is the epoch with the
        highest validation accuracy and, among equal ones, the lowest validation loss; without one
        it is the last epoch.
    splits : dict of str to SplitReport
        By name: those of train, val and test that the dataset has.
    num_classes, num_parameters : int
    device : str
    memory : MemoryReport
        At the end of the training, DataLoader workers included.
    interrupted : bool
        Whether Ctrl-C ended the training.
    """

    epochs: tuple[EpochReport, ...]
    best_epoch: int
    splits: dict[str, SplitReport]
    num_classes: int
    num_parameters: int
    device: str
    memory: MemoryReport
    interrupted: bool = False


# --- which nodes can be trained on, and how many classes there are


def _labels(ds: Dataset, seeds: IdArray) -> IdArray:
    """Classes of nodes, (n,) int64; -1 where the class is unknown."""
    assert ds.labels is not None
    return ds.labels.gather(seeds).reshape(-1).astype(np.int64)


def labelled_splits(ds: Dataset) -> dict[str, IdArray]:
    """Nodes whose label is known, of each of the splits train, val and test that there are.

    The split "valid" is called val here. A split without labelled nodes is left out. Without any
    split, all nodes are in "train". Raises ValueError if the dataset cannot be trained on.
    """
    if ds.features is None:
        raise ValueError("the dataset has no features: build it with features to train on it")
    if ds.labels is None:
        raise ValueError("the dataset has no labels: build it with labels to train on it")
    if ds.labels.dtype.kind not in "iub" or ds.labels.feature_dim != 1:
        raise ValueError(
            f"labels are {dtype_name(ds.labels.dtype)} of shape {ds.labels.shape}: training needs "
            f"one integer class per node, from 0, or -1 for unknown"
        )
    splits = dict(ds.splits) if ds.splits else {"train": np.arange(ds.num_nodes)}
    names: set[str] = set()
    labelled: dict[str, IdArray] = {}
    for split, seeds in splits.items():
        if (name := SPLIT_NAMES.get(split)) is None:
            continue
        labels = _labels(ds, seeds)
        if labels.size and labels.min() < -1:
            raise ValueError(f"label {labels.min()} in split {name!r}: classes start at 0")
        names.add(name)
        if (labels >= 0).any():
            labelled[name] = seeds[labels >= 0]
    if "train" not in names:
        raise ValueError(f"there is no split 'train', only {sorted(ds.splits)}")
    if "train" not in labelled:
        raise ValueError("no node to train on has a known label")
    return labelled


def _count_classes(ds: Dataset, splits: Mapping[str, IdArray]) -> int:
    """The dataset's number of classes; if it has none, the largest label + 1.

    Raises ValueError if a label is not below the dataset's number of classes, or the labels look
    like ids.
    """
    labels = np.concatenate([_labels(ds, seeds) for seeds in splits.values()])
    largest = int(labels.max())
    if ds.num_classes is not None and largest >= ds.num_classes:
        raise ValueError(f"label {largest} is not below num_classes={ds.num_classes}")
    num_classes = ds.num_classes if ds.num_classes is not None else largest + 1
    if num_classes > _MOST_SPARSE_CLASSES:
        used = len(np.unique(labels))
        if num_classes > _MOST_CLASSES_PER_LABEL * used:
            raise ValueError(
                f"the labels would make a model of {num_classes:,} classes, but only {used:,} "
                f"different ones occur: if they are ids, number the classes from 0, as "
                f"numpy.unique(labels, return_inverse=True)[1] does, and build again"
            )
    return num_classes


def _check_memory(model_on_meta: GraphSAGE, num_classes: int, hidden: int) -> None:
    """Refuses a model whose weights, gradients and two moments of Adam have no room."""
    need = 4 * sum(weights.nbytes for weights in model_on_meta.parameters())
    if need > (available := available_memory()):
        raise MemoryError(
            f"a model of {num_classes:,} classes with hidden={hidden} takes {format_bytes(need)}, "
            f"and {format_bytes(available)} are available: use fewer classes, or a smaller hidden"
        )


def ignore_interrupts(worker: int) -> None:
    """The ``worker_init_fn``: a terminal sends SIGINT to workers as well, which would print it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


# --- the loop


@contextmanager
def _seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seeds torch's generators; afterwards they continue where they were."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


def forward_seeds(model: GraphSAGE, batch: MiniBatch) -> tuple[Tensor, Tensor]:
    """Scores and labels of a batch's seeds."""
    assert batch.x is not None
    assert batch.y is not None
    x = batch.x.reshape(batch.num_nodes, -1).float()
    scores = model(x, batch.edge_index, batch.num_sampled_nodes, batch.num_sampled_edges)
    return scores, batch.y[: batch.batch_size].reshape(-1).long()


class _Weights(NamedTuple):
    """The weights after an epoch, on the CPU."""

    epoch: int
    quality: tuple[float, float]  # the larger, the better
    state_dict: dict[str, Tensor]


class _Scores(nn.Module):
    """A model, and what it has scored in an epoch; both change in a step, which may be captured."""

    loss_sum: Tensor
    num_correct: Tensor

    def __init__(self, model: GraphSAGE, device: torch.device) -> None:
        super().__init__()
        self.model = model
        for name in ("loss_sum", "num_correct"):
            self.register_buffer(name, torch.zeros((), device=device))

    def loss(self, batch: MiniBatch) -> Tensor:
        """Mean cross-entropy over the labelled seeds, which is added up."""
        scores, labels = forward_seeds(self.model, batch)
        loss = F.cross_entropy(scores, labels)
        self.loss_sum += loss.detach() * (labels >= 0).sum()  # seeds that were added have none
        self.num_correct += (scores.detach().argmax(1) == labels).sum()
        return loss


class Trainer:
    """The model, its optimizer and the batches of one training.

    Parameters
    ----------
    ds : Dataset
    splits : mapping of str to (n,) int64
        Labelled nodes; with "train", and perhaps "val".
    options : TrainOptions
    device : torch.device
    check : callable
        Called between two batches; may raise a `KeyboardInterrupt`.
    """

    def __init__(
        self,
        ds: Dataset,
        splits: Mapping[str, IdArray],
        options: TrainOptions,
        device: torch.device,
        check: Callable[[], object] = lambda: None,
    ) -> None:
        self.ds = ds
        self.num_classes = _count_classes(ds, splits)
        self.options = options
        self.device = device
        self.check = check
        self.pad = "auto" if options.capture and can_capture(device) else None
        self.batches: NeighborDataset
        if options.pack is None:
            self.fanouts = [*(_FANOUTS if options.fanouts is None else options.fanouts)]
            self.batch_size = _BATCH_SIZE if options.batch_size is None else options.batch_size
            self.batches = self._sample(splits["train"], shuffle=True, pad=self.pad)
        else:
            self.batches = PackedDataset(
                ds,
                options.pack,
                splits["train"],
                pad=self.pad,
                prefetch=options.prefetch,
                gather=_GATHER,
                feature_dtype=_FEATURE_DTYPE,
                distributed=False,
            )
            self.fanouts = self.batches.options["fanouts"]
            self.batch_size = self.batches.batch_size
        self.reports: list[EpochReport] = []
        self.best: _Weights | None = None
        self.model = self._new_model()
        self.optimizer = torch.optim.Adam(
            self.model.parameters(), lr=options.lr, weight_decay=options.weight_decay
        )
        self.scores = _Scores(self.model, device)
        self.step = CapturedStep(self.scores, self.optimizer, _Scores.loss)
        self.loader = self._load(self.batches, persistent=True)
        self.val_loader: DataLoader[SampledBatch] | None = None
        if "val" in splits:
            self.val_loader = self._load(self._sample(splits["val"]), persistent=True)

    def _sample(
        self, seeds: IdArray, *, shuffle: bool = False, pad: str | None = None
    ) -> NeighborDataset:
        return NeighborDataset(
            self.ds,
            seeds,
            self.fanouts,
            batch_size=self.batch_size,
            shuffle=shuffle,
            pad=pad,
            seed=self.options.seed,
            prefetch=self.options.prefetch,
            gather=_GATHER,
            feature_dtype=_FEATURE_DTYPE,
            distributed=False,
        )

    def _new_model(self) -> GraphSAGE:
        assert self.ds.features is not None
        in_dim, hidden = self.ds.features.feature_dim, self.options.hidden
        num_layers, dropout = len(self.fanouts), self.options.dropout
        if self.device.type == "cpu":
            with torch.device("meta"):
                model = GraphSAGE(in_dim, hidden, self.num_classes, num_layers)
            _check_memory(model, self.num_classes, hidden)
        model = GraphSAGE(in_dim, hidden, self.num_classes, num_layers, dropout=dropout)
        return model.to(self.device)

    def _load(
        self, batches: NeighborDataset, *, persistent: bool = False
    ) -> DataLoader[SampledBatch]:
        """A DataLoader of batches; persistent workers stay between passes."""
        collate: Any = Collate(self.ds)  # torch's type names lists of samples only
        return DataLoader(
            batches,
            batch_size=None,
            num_workers=self.options.workers,
            collate_fn=collate,
            worker_init_fn=ignore_interrupts,
            persistent_workers=persistent and self.options.workers > 0,
            # Making an iterator draws a number, which must not come from the model's generator.
            generator=torch.Generator(),
        )

    def _on_device(self, loader: DataLoader[SampledBatch]) -> watch:
        """The batches of one pass, where the model is."""
        return watch(loader if self.device.type == "cpu" else DeviceLoader(loader, self.device))

    def train_epoch(self, epoch: int, advance: Callable[[], object]) -> EpochReport:
        """One pass of training; the report has no validation accuracy yet."""
        self.batches.set_epoch(epoch - 1)
        scores = self.scores  # on the device until the end of the epoch
        scores.train()
        scores.loss_sum.zero_()
        scores.num_correct.zero_()
        num_seeds = num_batches = 0
        loading = waited = 0.0
        io = ""
        started = requested = time.perf_counter()
        for batch in self._on_device(self.loader):
            loading += time.perf_counter() - requested
            self.step(batch)
            num_seeds += batch.stats.num_seeds
            num_batches += 1
            waited += batch.stats.disk
            io = batch.stats.io
            advance()
            del batch  # so that the next batch can use their memory
            self.check()
            requested = time.perf_counter()
        seconds = time.perf_counter() - started
        mean_loss = scores.loss_sum.item() / num_seeds
        if not math.isfinite(mean_loss):
            raise ValueError(
                f"the loss of epoch {epoch} is {mean_loss}: "
                f"lower lr, or look for NaN and huge values among the features"
            )
        return EpochReport(
            epoch=epoch,
            loss=mean_loss,
            train_accuracy=scores.num_correct.item() / num_seeds,
            val_accuracy=None,
            seconds=seconds,
            batches=num_batches,
            batches_per_second=num_batches / seconds,
            loading=loading,
            waited=waited,
            io=io,
        )

    def evaluate(self, seeds: IdArray) -> SplitReport:
        """Evaluates labelled nodes, each once, over sampled neighbours."""
        return self._evaluate(self._load(self._sample(seeds)))

    @torch.no_grad()
    def _evaluate(self, loader: DataLoader[SampledBatch]) -> SplitReport:
        self.model.eval()
        assert isinstance(loader.dataset, NeighborDataset)
        loader.dataset.set_epoch(0)  # else each evaluation would draw other neighbours
        num_correct, loss_sum = 0, 0.0
        class_counts = torch.zeros(self.num_classes, dtype=torch.int64)
        for batch in self._on_device(loader):
            outputs = forward_seeds(self.model, batch)
            scores, labels = outputs[0].cpu(), outputs[1].cpu()
            loss_sum += F.cross_entropy(scores.double(), labels, reduction="sum").item()
            num_correct += int((scores.argmax(1) == labels).sum())
            class_counts += torch.bincount(labels, minlength=self.num_classes)
            self.check()
        num_nodes = int(class_counts.sum())
        return SplitReport(
            num_nodes=num_nodes,
            accuracy=num_correct / num_nodes,
            majority=int(class_counts.max()) / num_nodes,
            loss=loss_sum / num_nodes,
        )

    def train_epochs(self, progress: bool, on_epoch: Callable[[EpochReport], object]) -> None:
        """All epochs; keeps their reports and the best weights."""
        total = self.options.epochs * len(self.batches)
        with tqdm(total=total, unit=" batches", disable=not progress) as bar:
            for epoch in range(1, self.options.epochs + 1):
                bar.set_description(f"epoch {epoch}/{self.options.epochs}")
                report = self.train_epoch(epoch, bar.update)
                quality = (float(epoch), 0.0)  # without validation, later weights are better
                if self.val_loader is not None:
                    validation = self._evaluate(self.val_loader)
                    quality = (validation.accuracy, -validation.loss)
                    report = replace(report, val_accuracy=validation.accuracy)
                self.reports.append(report)
                if self.best is None or quality > self.best.quality:
                    self._keep_weights(epoch, quality)
                on_epoch(report)

    def _keep_weights(self, epoch: int, quality: tuple[float, float]) -> None:
        """Copies the weights as they are now: the training goes on with its own."""
        state = self.model.state_dict()
        copies = {name: values.detach().to("cpu", copy=True) for name, values in state.items()}
        self.best = _Weights(epoch, quality, copies)


def train(
    ds: Dataset,
    options: TrainOptions,
    *,
    progress: bool = False,
    on_epoch: Callable[[EpochReport], object] = lambda report: None,
    on_interrupt: Callable[[EpochReport], object] = lambda report: None,
    check: Callable[[], object] = lambda: None,
) -> TrainReport:
    """Trains GraphSAGE to predict the labels, and reports accuracy, speed and memory.

    Uses the splits named train, val (or valid) and test; without any split, all labelled nodes are
    trained on. Nodes whose label is -1 are neither trained on nor evaluated. At the end each node
    of a split is evaluated once, with the weights of the best epoch, over as many sampled
    neighbours as in the training. On the same machine, the same seed gives the same report, apart
    from times and memory.

    Ctrl-C ends the training. The best weights so far are then evaluated, and the report says so.

    Parameters
    ----------
    ds : Dataset
        With features and integer labels.
    options : TrainOptions
    progress : bool
        Show a progress bar on stderr.
    on_epoch : callable, optional
        Called with each `EpochReport`.
    on_interrupt : callable, optional
        Called with the last `EpochReport` when Ctrl-C has ended the training, before the
        evaluation.
    check : callable, optional
        Called between two batches, where a `KeyboardInterrupt` leaves nothing half done.

    Returns
    -------
    TrainReport

    Raises
    ------
    ValueError
        If the dataset lacks what training needs, the pack is of another one, or the loss is no
        longer finite.
    FormatError
        If the pack is truncated, foreign or corrupt.
    MemoryError
        If the model has no room.
    KeyboardInterrupt
        After Ctrl-C before the first epoch has ended, or during the last evaluation.
    """
    ds.require_untyped("the built-in model trains")
    splits = labelled_splits(ds)
    device = device_of(options.device)
    with _seeded(options.seed, device):
        trainer = Trainer(ds, splits, options, device, check)
        interrupted = False
        try:
            trainer.train_epochs(progress, on_epoch)
        except KeyboardInterrupt:
            interrupted = True
        if trainer.best is None:
            raise KeyboardInterrupt("interrupted before the first epoch ended")
        memory = memory_report(trainer.batches)  # while the workers still exist
        if interrupted:
            on_interrupt(trainer.reports[-1])
        trainer.model.load_state_dict(trainer.best.state_dict)
        evaluated = {name: trainer.evaluate(seeds) for name, seeds in splits.items()}
    return TrainReport(
        epochs=tuple(trainer.reports),
        best_epoch=trainer.best.epoch,
        splits=evaluated,
        num_classes=trainer.num_classes,
        num_parameters=sum(parameter.numel() for parameter in trainer.model.parameters()),
        device=str(device),
        memory=memory,
        interrupted=interrupted,
    )
