"""`train`: node classification with GraphSAGE on a dataset, through the standard DataLoader."""

from __future__ import annotations

import csv
import io
import math
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import DataLoader
from tqdm.auto import tqdm

from graphzero.graph.dataset import Dataset
from graphzero.graph.user_input import IdArray
from graphzero.io.prefetch import Prefetch
from graphzero.loader.mini_batch import Collate, MiniBatch
from graphzero.loader.neighbor_dataset import NeighborDataset
from graphzero.loader.stats import watch
from graphzero.packs.pack_file import Pack
from graphzero.packs.packing import PackedDataset
from graphzero.report.readings import MemoryReport, memory_report
from graphzero.store.format import dtype_name
from graphzero.store.free_memory import available_memory
from graphzero.store.outputs import Output, check_outputs, files_of_dataset, replaced_file
from graphzero.training.graphsage import GraphSAGE, SavedModel, as_fanouts, device_of
from graphzero.training.infer import check_inferable, infer
from graphzero.units import as_count, format_bytes

FilePath = str | os.PathLike[str]
Scores = npt.NDArray[np.float32]
Evaluation = Literal["sampled", "exact"]

SPLIT_NAMES = {"train": "train", "val": "val", "valid": "val", "test": "test"}
FEATURE_DTYPE = "float32"  # of the model's inputs, whatever the features are stored as
_ROWS: dict[str, Any] = {"gather": ("x", "y"), "feature_dtype": FEATURE_DTYPE, "distributed": False}
# A model may have some classes that no label names, but not mostly such classes.
_MOST_SPARSE_CLASSES = 10_000
_MOST_CLASSES_PER_LABEL = 10
_FRAME_BYTES = 1 << 16  # of a saved model, in addition to its weights


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
    roc_auc : float or None
        Of two classes: how often a node of class 1 has a higher score for it than one of class 0;
        ties count half (the area under the ROC curve; Hanley and McNeil, 1982).
    """

    num_nodes: int
    accuracy: float
    majority: float
    loss: float
    roc_auc: float | None = None


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
    evaluation : {"sampled", "exact"}
        Whether `splits` is of sampled neighbours or of all.
    num_classes, num_parameters : int
    device : str
    memory : MemoryReport
        At the end of the training, DataLoader workers included.
    io : str
        How the feature rows of the last epoch were read, and why.
    interrupted : bool
        Whether Ctrl-C ended the training, or the evaluation.
    evaluation_interrupted : bool
        Whether Ctrl-C ended the evaluation: then `splits` has those that were finished, and no
        predictions were written.
    """

    epochs: tuple[EpochReport, ...]
    best_epoch: int
    splits: dict[str, SplitReport]
    num_classes: int
    num_parameters: int
    device: str
    memory: MemoryReport
    evaluation: Evaluation
    io: str = ""
    interrupted: bool = False
    evaluation_interrupted: bool = False


# --- Ctrl-C: honoured between two batches, and only by the main process


class Interrupts:
    """Requests to stop, by SIGINT.

    A request is honoured where `check` is called. If another one comes first, perhaps because
    a batch takes long, that one is honoured at once.
    """

    pending = False

    def check(self, *_: object) -> None:
        """Raises `KeyboardInterrupt` if one is requested."""
        if self.pending:
            self.pending = False
            raise KeyboardInterrupt

    def _request(self, signum: int, frame: FrameType | None) -> None:
        self.check()
        self.pending = True

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Takes the place of Python's own SIGINT handler; any other handler stays."""
        installed = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        try:
            if installed:
                signal.signal(signal.SIGINT, self._request)
        except ValueError:  # not in the main thread, where no signal arrives
            installed = False
        try:
            yield
        finally:
            if installed:
                signal.signal(signal.SIGINT, signal.default_int_handler)


def start(loader: DataLoader[Any]) -> Iterator[MiniBatch]:
    """Begins a pass over a loader; its workers do not get SIGINT while they start.

    A terminal sends SIGINT to the workers as well. It would end them, with a traceback each, before
    they deliver the batch that the training waits for.
    """
    earlier = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # workers inherit the mask
    try:
        return iter(watch(loader))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, earlier)


def ignore_interrupts(worker: int) -> None:
    """The ``worker_init_fn``: for workers that a server forks, which inherit its signal mask."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


# --- which nodes can be trained on, and how many classes there are


def _labels(ds: Dataset, seeds: IdArray) -> IdArray:
    """Classes of nodes, (n,) int64; -1 where the class is unknown."""
    assert ds.labels is not None
    return ds.labels.gather(seeds).reshape(-1).astype(np.int64)


def _nodes_of_splits(ds: Dataset) -> dict[str, IdArray]:
    """All nodes of every split, by the dataset's names; without splits, all nodes as "train"."""
    return dict(ds.splits) if ds.splits else {"train": np.arange(ds.num_nodes)}


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
    labelled, names = {}, set()
    for split, seeds in _nodes_of_splits(ds).items():
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


def _count_classes(ds: Dataset, splits: dict[str, IdArray]) -> int:
    """The dataset's number of classes; if it has none, the largest label + 1.

    Raises ValueError if a label is not below the dataset's number of classes, or the labels look
    like ids.
    """
    labels = [_labels(ds, seeds) for seeds in splits.values()]
    largest = max(int(each.max()) for each in labels)
    if ds.num_classes is not None and largest >= ds.num_classes:
        raise ValueError(f"label {largest} is not below num_classes={ds.num_classes}")
    num_classes = ds.num_classes if ds.num_classes is not None else largest + 1
    if num_classes > _MOST_SPARSE_CLASSES:
        used = len(np.unique(np.concatenate(labels)))
        if num_classes > _MOST_CLASSES_PER_LABEL * used:
            raise ValueError(
                f"the labels would make a model of {num_classes:,} classes, but only {used:,} "
                f"different ones occur: if they are ids, number the classes from 0, as "
                f"numpy.unique(labels, return_inverse=True)[1] does, and build again"
            )
    return num_classes


# --- predictions


def _is_text(path: FilePath) -> bool:
    return os.fspath(path).lower().endswith(".csv")


def _bytes_of_predictions(path: FilePath, nodes: dict[str, IdArray], num_classes: int) -> int:
    """About how large the file of `write_predictions` will be."""
    number, rest = (12, 24) if _is_text(path) else (4, 16)
    of_name = 1 if _is_text(path) else 4 * max(map(len, nodes))
    return sum(len(ids) * (rest + of_name + number * num_classes) for ids in nodes.values())


def write_predictions(path: FilePath, nodes: dict[str, IdArray], scores: dict[str, Scores]) -> None:
    """Writes arrays, or records of text, of each node of each split, in one step.

    They are the node ids, the names of the splits, the most probable class, and the probability of
    each class: in a CSV file, probability_0, probability_1, ...
    """
    all_scores = np.concatenate([scores[name] for name in nodes])
    columns: dict[str, Any] = {
        "node_id": np.concatenate(list(nodes.values())),
        "split": np.repeat(np.array(list(nodes)), [len(ids) for ids in nodes.values()]),
        "predicted": all_scores.argmax(axis=1).astype(np.int64),
    }
    probability = torch.from_numpy(all_scores).softmax(dim=1).numpy()
    with replaced_file(path) as file:
        if not _is_text(path):
            np.savez(file, **columns, probability=probability)
            return
        columns |= {f"probability_{i}": each for i, each in enumerate(probability.T)}
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        records = csv.writer(text, lineterminator="\n")
        records.writerow(columns)
        records.writerows(zip(*columns.values(), strict=True))
        text.detach()  # flushes, and leaves the file open


def report_of(scores: Scores, labels: IdArray) -> SplitReport:
    """How well scores, (n, num_classes), predict the classes."""
    accuracy = float((scores.argmax(1) == labels).mean())
    majority = float(np.bincount(labels).max() / len(labels))
    loss = F.cross_entropy(torch.from_numpy(scores).double(), torch.from_numpy(labels)).item()
    auc = None
    if scores.shape[1] == 2 and len(np.unique(labels)) == 2:
        negative, positive = (np.sort(scores[labels == i] @ (-1, 1)) for i in (0, 1))
        wins = [np.searchsorted(negative, positive, side).mean() for side in ("left", "right")]
        auc = float(sum(wins) / (2 * len(negative)))
    return SplitReport(len(labels), accuracy, majority, loss, auc)


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


@dataclass(frozen=True)
class Trainer:
    """What the epochs and evaluations of one training share."""

    ds: Dataset
    model: GraphSAGE
    device: torch.device
    sampling: dict[str, Any]
    workers: int
    interrupts: Interrupts

    def batches(self, seeds: IdArray, *, shuffle: bool = False) -> NeighborDataset:
        """The mini-batches of some seeds."""
        return NeighborDataset(self.ds, seeds, shuffle=shuffle, **self.sampling)

    def loader(self, of: Any, *, persistent: bool = False) -> DataLoader[Any]:
        """Loads batches, or those of seeds; persistent workers stay between passes."""
        collate: Any = Collate(self.ds)  # torch's type names lists of samples only
        return DataLoader(
            of if isinstance(of, NeighborDataset) else self.batches(of),
            batch_size=None,
            num_workers=self.workers,
            collate_fn=collate,
            worker_init_fn=ignore_interrupts,
            pin_memory=self.device.type == "cuda",
            persistent_workers=persistent and self.workers > 0,
            # Making an iterator draws a number, which must not come from the model's generator.
            generator=torch.Generator(),
        )

    def scores(self, of: DataLoader[Any] | IdArray) -> tuple[Tensor, Tensor]:
        """Scores and labels of seeds, or all of a loader, without dropout, with equal draws."""
        loader = of if isinstance(of, DataLoader) else self.loader(of)
        self.model.eval()
        batches: Any = loader.dataset
        batches.set_epoch(0)  # else each evaluation would draw other neighbours
        found = []
        for batch in start(loader):
            with torch.no_grad():
                scored = forward_seeds(self.model, batch.to(self.device, non_blocking=True))
            found.append([each.cpu() for each in scored])
            self.interrupts.check()
        scores, labels = (torch.cat(each) for each in zip(*found, strict=True))
        return scores, labels

    def train_epoch(
        self, epoch: int, loader: DataLoader[Any], optimizer: torch.optim.Optimizer, bar: tqdm[Any]
    ) -> EpochReport:
        """One pass of training; the report has no validation accuracy yet."""
        self.model.train()
        # on the device until the end of the epoch
        loss_sum, correct = (torch.zeros((), device=self.device) for _ in range(2))
        seeds = batches = 0
        loading = waited = 0.0
        how = ""
        started = requested = time.perf_counter()
        for batch in start(loader):
            loading += time.perf_counter() - requested
            scores, labels = forward_seeds(self.model, batch.to(self.device, non_blocking=True))
            loss = F.cross_entropy(scores, labels)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            loss_sum += loss.detach() * batch.batch_size
            correct += (scores.detach().argmax(1) == labels).sum()
            seeds, batches = seeds + batch.batch_size, batches + 1
            waited, how = waited + batch.stats.disk, batch.stats.io
            bar.update()
            del batch, scores, labels, loss  # so that the next batch can use their memory
            self.interrupts.check()
            requested = time.perf_counter()
        seconds = time.perf_counter() - started
        mean_loss, accuracy = loss_sum.item() / seeds, correct.item() / seeds
        if not math.isfinite(mean_loss):
            raise ValueError(
                f"the loss of epoch {epoch} is {mean_loss}: "
                f"lower lr, or look for NaN and huge values among the features"
            )
        rate = batches / seconds
        return EpochReport(
            epoch, mean_loss, accuracy, None, seconds, batches, rate, loading, waited, how
        )

    def evaluate_splits(
        self, splits: dict[str, IdArray], predictions: FilePath | None, evaluation: Evaluation
    ) -> tuple[dict[str, SplitReport], bool]:
        """Evaluates the labelled splits, and writes predictions for all nodes of all splits.

        Ctrl-C ends this. The result has the splits that are finished, and whether it did.
        """
        found: dict[str, Scores] = {}
        is_interrupted = False
        try:
            if evaluation == "sampled":
                self._evaluate(splits, predictions, lambda ids: self.scores(ids)[0].numpy(), found)
            else:
                with (
                    tempfile.TemporaryDirectory() as folder,
                    infer(self.model, self.ds, Path(folder) / "scores.gd") as rows,
                ):
                    self._evaluate(splits, predictions, rows.gather, found)
        except KeyboardInterrupt:
            is_interrupted = True
        labels = {name: _labels(self.ds, splits[name]) for name in found}
        return {name: report_of(found[name], labels[name]) for name in found}, is_interrupted

    def _evaluate(
        self,
        splits: dict[str, IdArray],
        predictions: FilePath | None,
        scores_of: Callable[[IdArray], Scores],
        found: dict[str, Scores],
    ) -> None:
        """Adds scores to `found`; predictions of nodes that are evaluated are of the same ones."""
        for name, seeds in splits.items():
            found[name] = scores_of(seeds)
        if predictions is None:
            return
        nodes, scores = _nodes_of_splits(self.ds), {}
        for name, ids in nodes.items():
            known = SPLIT_NAMES.get(name, "")
            is_known = _labels(self.ds, ids) >= 0
            if not np.array_equal(ids[is_known], splits.get(known, ())):  # two splits of one name
                is_known[:] = False
            scores[name] = np.empty((len(ids), self.model.arguments["num_classes"]), np.float32)
            if is_known.any():
                scores[name][is_known] = found[known]
            if not is_known.all():
                scores[name][~is_known] = scores_of(ids[~is_known])
        write_predictions(predictions, nodes, scores)


def train(
    ds: Dataset,
    *,
    fanouts: Sequence[int] | None = None,
    hidden: int = 128,
    epochs: int = 50,
    batch_size: int | None = None,
    lr: float = 0.01,
    dropout: float = 0.3,
    weight_decay: float = 5e-4,
    workers: int = 0,
    seed: int = 0,
    device: str = "auto",
    prefetch: Prefetch | None = None,
    pack: FilePath | None = None,
    save: FilePath | None = None,
    predictions: FilePath | None = None,
    evaluation: Evaluation = "sampled",
    progress: bool = False,
    on_epoch: Callable[[EpochReport], object] = lambda report: None,
    on_interrupt: Callable[[EpochReport], object] = lambda report: None,
) -> TrainReport:
    """Trains GraphSAGE to predict the labels, and reports accuracy, speed and memory.

    Uses the splits named train, val (or valid) and test; without any split, all labelled nodes are
    trained on. Nodes whose label is -1 are neither trained on nor evaluated. On the same machine,
    the same seed gives the same report, apart from times and memory.

    Ctrl-C ends the training after the current batch, or at once if it is pressed again before
    that. The best weights so far are then evaluated, predictions are written, and the report says
    so. Ctrl-C during that ends it: the report has the splits that were finished.

    Parameters
    ----------
    ds : Dataset
        With features and integer labels.
    fanouts : sequence of int, optional
        Neighbours to sample per node in each hop; -1 samples all. The model has one layer for each
        hop. Default: 10, 10, or the fanouts of the pack.
    hidden : int
        Length of the vectors between two layers.
    epochs : int
    batch_size : int, optional
        Seeds in a batch. Default: 1024, or the batch size of the pack.
    lr, weight_decay : float
        Learning rate and weight decay of Adam.
    dropout : float
        Share of each layer's inputs that is set to zero while training.
    workers : int
        DataLoader workers; 0 loads in this process.
    seed : int
        Seed of all random choices.
    device : str
        A torch device, or "auto": CUDA where it is available, else the CPU.
    prefetch : Prefetch, optional
        How feature rows are read. Default: as for `NeighborDataset`.
    pack : path-like, optional
        A file that `graphzero.pack` has written for the labelled nodes of the training split.
        Training then uses its batches (see `PackedDataset`).
    save : path-like, optional
        Write the weights of the best epoch to this file, each time there is a better one;
        `GraphSAGE.from_saved` reads it. The file is always a whole one, whenever the process ends.
    predictions : path-like, optional
        Write the predicted class of every node of every split, nodes without a known label
        included, to this ``.npz`` or ``.csv`` file.
    evaluation : {"sampled", "exact"}
        How the best weights are evaluated, and predictions are made: with `fanouts` sampled
        neighbours, or over all neighbours of all nodes by `graphzero.infer`, which computes every
        node of the graph, and keeps the rows of two layers in a folder of `tempfile`. Each node of
        a split counts once. The validation after each epoch is sampled.
    progress : bool
        Show a progress bar on stderr.
    on_epoch : callable, optional
        Called with each `EpochReport`.
    on_interrupt : callable, optional
        Called with the last `EpochReport` when Ctrl-C has ended the training, before the
        evaluation.

    Returns
    -------
    TrainReport

    Raises
    ------
    ValueError
        If the dataset lacks what training needs, an option is out of range or contradicts the
        pack, or the loss is no longer finite.
    FormatError
        If the pack is truncated, foreign or corrupt.
    OSError
        If an output cannot be written.
    KeyboardInterrupt
        After Ctrl-C before the first epoch has ended; nothing is written then.
    """
    ds.require_untyped("the built-in model trains")
    splits = labelled_splits(ds)
    assert ds.features is not None
    num_classes = _count_classes(ds, splits)
    if pack is not None:
        if fanouts is not None or batch_size is not None:
            raise ValueError("a pack has its own fanouts and batch size: leave them out")
        batches: NeighborDataset = PackedDataset(
            ds, pack, splits["train"], prefetch=prefetch, **_ROWS
        )
        fanouts, batch_size = batches.options["fanouts"], batches.batch_size
    fanouts = as_fanouts((10, 10) if fanouts is None else fanouts)
    batch_size = 1024 if batch_size is None else batch_size
    if not fanouts:
        raise ValueError("fanouts must name at least one hop: the model has a layer for each")
    if evaluation not in ("sampled", "exact"):
        raise ValueError(f"evaluation must be 'sampled' or 'exact', not {evaluation!r}")
    if evaluation == "exact":
        check_inferable(ds, ("x",))  # not only after the training
    hidden, epochs = as_count(hidden, "hidden"), as_count(epochs, "epochs")
    if not 0 < lr < math.inf or not 0 <= dropout < 1:
        raise ValueError(
            f"lr must be a positive number, and dropout from 0 to below 1, not {lr} and {dropout}"
        )
    on_device, in_dim = device_of(device), ds.features.feature_dim
    sampling = {"fanouts": fanouts, "batch_size": batch_size, "seed": seed, "prefetch": prefetch}
    interrupts = Interrupts()
    with interrupts.deferred(), _seeded(seed, on_device):
        arguments = (in_dim, hidden, num_classes, len(fanouts))
        if on_device.type == "cpu":
            _check_memory(*arguments)
        model = GraphSAGE(*arguments, dropout=dropout).to(on_device)
        _check_files(ds, model, pack, save, predictions)
        optimizer = torch.optim.Adam(model.parameters(), lr=lr, weight_decay=weight_decay)
        trainer = Trainer(ds, model, on_device, {**sampling, **_ROWS}, workers, interrupts)
        if pack is None:
            batches = trainer.batches(splits["train"], shuffle=True)
        loader = trainer.loader(batches, persistent=True)
        validation = None
        if "val" in splits:
            validation = trainer.loader(splits["val"], persistent=True)
        reports: list[EpochReport] = []
        best: SavedModel | None = None
        best_quality = (-1.0, 0.0)
        interrupted = False
        with tqdm(total=epochs * len(batches), unit=" batches", disable=not progress) as bar:
            try:
                for epoch in range(1, epochs + 1):
                    bar.set_description(f"epoch {epoch}/{epochs}")
                    batches.set_epoch(epoch - 1)
                    report = trainer.train_epoch(epoch, loader, optimizer, bar)
                    quality = (float(epoch), 0.0)  # without validation, the last epoch is the best
                    if validation is not None:
                        scores, labels = trainer.scores(validation)
                        val = report_of(scores.numpy(), labels.numpy())
                        report = replace(report, val_accuracy=val.accuracy)
                        quality = (val.accuracy, -val.loss)
                    if is_better := quality > best_quality:
                        best_quality = quality
                        best = _saved(model, fanouts, epoch, int(seed))
                    reports.append(report)
                    if best is not None and is_better and save is not None:
                        best.write(save)
                    on_epoch(report)
            except KeyboardInterrupt:
                interrupted = True
        if best is None or not reports:  # Ctrl-C may fall between the two
            raise KeyboardInterrupt("interrupted before the first epoch ended: nothing was written")
        memory = memory_report(batches)  # while the workers still exist
        if interrupted:
            if save is not None:
                best.write(save)  # Ctrl-C may have fallen into the last time
            on_interrupt(reports[-1])
        model.load_state_dict(best.state_dict)
        found, is_cut = trainer.evaluate_splits(splits, predictions, evaluation)
    return TrainReport(
        epochs=tuple(reports),
        best_epoch=best.epoch,
        splits=found,
        num_classes=num_classes,
        num_parameters=sum(parameter.numel() for parameter in model.parameters()),
        device=str(on_device),
        memory=memory,
        evaluation=evaluation,
        io=reports[-1].io,
        interrupted=interrupted or is_cut or interrupts.pending,
        evaluation_interrupted=is_cut,
    )


def _check_memory(in_dim: int, hidden: int, num_classes: int, num_layers: int) -> None:
    """Refuses a model whose weights, gradients and two moments of Adam have no room."""
    with torch.device("meta"):
        model = GraphSAGE(in_dim, hidden, num_classes, num_layers)
    need = 4 * sum(weights.nbytes for weights in model.parameters())
    if need > (available := available_memory()):
        raise MemoryError(
            f"a model of {num_classes:,} classes with hidden={hidden} takes {format_bytes(need)}, "
            f"and {format_bytes(available)} are available: use fewer classes, or a smaller hidden"
        )


def _check_files(
    ds: Dataset,
    model: GraphSAGE,
    pack: FilePath | None,
    save: FilePath | None,
    predictions: FilePath | None,
) -> None:
    """Raises an error now if a file could not be written after the training."""
    outputs = []
    if save is not None:
        size = sum(weights.nbytes for weights in model.state_dict().values())
        outputs.append(Output("save", save, size + _FRAME_BYTES))
    if predictions is not None:
        nodes, num_classes = _nodes_of_splits(ds), model.arguments["num_classes"]
        size = _bytes_of_predictions(predictions, nodes, num_classes)
        outputs.append(Output("predictions", predictions, size))
    pack_files = [] if pack is None else Pack(pack).files
    check_outputs(outputs, [*files_of_dataset(ds.paths), *pack_files])


def _saved(model: GraphSAGE, fanouts: list[int], epoch: int, seed: int) -> SavedModel:
    """The model as it is now: the training goes on with its own weights."""
    weights = {n: v.detach().to("cpu", copy=True) for n, v in model.state_dict().items()}
    return SavedModel(model.arguments, weights, fanouts, FEATURE_DTYPE, epoch, seed)
