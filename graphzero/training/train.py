"""`train`: node classification with GraphSAGE on a dataset, through the standard DataLoader."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch

from graphzero import _core
from graphzero.graph.dataset import Dataset
from graphzero.io.prefetch import Prefetch
from graphzero.packs.pack_parts import pack_files
from graphzero.store.outputs import Output, check_outputs, files_of_dataset
from graphzero.training.fit import BestEpoch, fit
from graphzero.training.graphsage import GraphSAGE
from graphzero.training.interrupts import Interrupts, TrainingInterrupted
from graphzero.training.labels import count_classes, labelled_splits, nodes_of_splits
from graphzero.training.loaders import FEATURE_DTYPE, Loaders
from graphzero.training.options import TrainOptions, as_device, fanouts_and_batch_size
from graphzero.training.predictions import predictions_bytes, write_predictions
from graphzero.training.reports import EpochReport, SplitReport, TrainReport
from graphzero.training.saved_model import SavedModel
from graphzero.training.splits import evaluate_splits

__all__ = ["EpochReport", "SplitReport", "TrainReport", "TrainingInterrupted", "train"]

_FRAME_BYTES = 1 << 16  # of a saved model, in addition to its weights

FilePath = str | os.PathLike[str]


# Weights for the node itself and its neighbours, their gradients, and the two moments of Adam.
_NUMBERS_PER_WEIGHT = 2 * 4


def _check_memory(num_classes: int, width: int, batch_size: int, hidden: int) -> None:
    """Refuses a last layer that the machine has no memory for; `width` is of its inputs."""
    per_class = 4 * (width * _NUMBERS_PER_WEIGHT + batch_size)
    try:
        _core.require_memory(num_classes, per_class, "classes")
    except MemoryError as error:
        raise MemoryError(
            f"no memory for a model of {num_classes:,} classes with hidden={hidden} and batches of "
            f"{batch_size:,} ({error}): use fewer classes, or a smaller hidden or batch_size"
        ) from None


@contextmanager
def _seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seeds torch's generators; afterwards they continue where they were."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


def _check_files(
    ds: Dataset,
    model: GraphSAGE,
    pack: FilePath | None,
    save: FilePath | None,
    predictions: FilePath | None,
) -> None:
    """Raises an error now if one of the files could not be written after the training."""
    outputs = []
    if save is not None:
        weights = sum(value.nbytes for value in model.state_dict().values())
        outputs.append(Output("save", save, weights + _FRAME_BYTES))
    if predictions is not None:
        size = predictions_bytes(predictions, nodes_of_splits(ds), model.arguments["num_classes"])
        outputs.append(Output("predictions", predictions, size))
    if outputs:
        check_outputs(
            outputs, [*files_of_dataset(ds.paths), *([] if pack is None else pack_files(pack))]
        )


def _saver(
    model: GraphSAGE, options: TrainOptions, save: FilePath | None
) -> Callable[[BestEpoch], None]:
    """Writes the weights of an epoch to the file, if there is to be one."""

    def write(best: BestEpoch) -> None:
        if save is None:
            return
        SavedModel(
            arguments=model.arguments,
            state_dict=best.weights,
            fanouts=[int(fanout) for fanout in options.fanouts],
            feature_dtype=FEATURE_DTYPE,
            epoch=best.epoch,
            seed=int(options.seed),
        ).write(save)

    return write


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
    progress: bool = False,
    on_epoch: Callable[[EpochReport], object] | None = None,
    on_interrupt: Callable[[EpochReport], object] | None = None,
) -> TrainReport:
    """Trains GraphSAGE to predict the labels, and reports accuracy, speed and memory.

    Uses the splits named train, val (or valid) and test; without any split, all labelled nodes are
    trained on. Nodes whose label is -1 are neither trained on nor evaluated. On the same machine,
    the same seed gives the same report, apart from times and memory.

    Ctrl-C ends the training after the current batch, or at once if it is pressed again before
    that. The best weights so far are then evaluated (unless Ctrl-C is pressed again), predictions
    are written, and `TrainingInterrupted` is raised with the report.

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
        Write the predicted class of every node of every split to this ``.npz`` or ``.csv`` file
        (see `Predictions`), nodes without a known label included.
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
        pack, the loss is no longer finite, or an output is a file that is read.
    MemoryError
        If the model is larger than the memory of the machine.
    FormatError
        If the pack is truncated, foreign or corrupt.
    OSError
        If an output cannot be written; if possible, before the training.
    TrainingInterrupted
        After Ctrl-C.
    """
    ds.require_untyped("the built-in model trains")
    splits = labelled_splits(ds)
    assert ds.features is not None
    num_classes = count_classes(ds, splits)
    fanouts, batch_size = fanouts_and_batch_size(fanouts, batch_size, pack)
    options = TrainOptions(
        fanouts=fanouts,
        batch_size=batch_size,
        hidden=hidden,
        epochs=epochs,
        lr=lr,
        dropout=dropout,
        weight_decay=weight_decay,
        workers=workers,
        seed=seed,
        device=as_device(device),
        prefetch=prefetch,
        pack=pack,
    )
    width = ds.features.feature_dim if len(fanouts) == 1 else options.hidden
    _check_memory(num_classes, width, int(batch_size), options.hidden)
    loaders, interrupts = Loaders(ds, options), Interrupts()
    with interrupts.deferred(), _seeded(seed, options.device):
        model = GraphSAGE(
            ds.features.feature_dim, options.hidden, num_classes, len(fanouts), dropout=dropout
        ).to(options.device)
        _check_files(ds, model, pack, save, predictions)
        save_best = _saver(model, options, save)
        fitted = fit(
            model,
            torch.optim.Adam(model.parameters(), lr=lr, weight_decay=weight_decay),
            loaders,
            splits,
            interrupts,
            progress=progress,
            on_epoch=on_epoch or (lambda report: None),
            on_best=save_best,
        )
        if fitted is None:
            raise TrainingInterrupted(None)
        if fitted.interrupted:
            save_best(fitted.best)  # Ctrl-C may have fallen into the last time
            if on_interrupt is not None:
                on_interrupt(fitted.epochs[-1])
        model.load_state_dict(fitted.best.weights)
        evaluated = evaluate_splits(
            model, loaders, splits, interrupts, predict=predictions is not None
        )
        if predictions is not None and evaluated.predictions is not None:
            write_predictions(predictions, evaluated.predictions)
        interrupted = fitted.interrupted or evaluated.interrupted or interrupts.pending
    report = TrainReport(
        epochs=fitted.epochs,
        best_epoch=fitted.best.epoch,
        splits=evaluated.reports,
        num_classes=num_classes,
        num_parameters=sum(parameter.numel() for parameter in model.parameters()),
        device=str(options.device),
        memory=fitted.memory,
        io=fitted.epochs[-1].io,
        interrupted=interrupted,
        evaluation_interrupted=evaluated.interrupted,
    )
    if interrupted:
        raise TrainingInterrupted(report)
    return report
