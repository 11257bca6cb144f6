"""What a training reports: its epochs, the splits that it evaluated, and the whole."""

from __future__ import annotations

from dataclasses import dataclass

from graphzero.report.readings import MemoryReport


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
    io : str
        How the feature rows of the last epoch were read, and why.
    interrupted : bool
        Whether Ctrl-C ended the training, or the evaluation.
    evaluation_interrupted : bool
        Whether Ctrl-C ended the evaluation: then `splits` has those that were finished.
    """

    epochs: tuple[EpochReport, ...]
    best_epoch: int
    splits: dict[str, SplitReport]
    num_classes: int
    num_parameters: int
    device: str
    memory: MemoryReport
    io: str = ""
    interrupted: bool = False
    evaluation_interrupted: bool = False
