"""Predicted classes of nodes, and the file that they are written to."""

from __future__ import annotations

import csv
import io
import os
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from graphzero.graph.ids import IdArray
from graphzero.store.outputs import replaced_file

__all__ = ["Predictions", "check_predictions_path", "predictions_bytes", "write_predictions"]

_BLOCK = 1 << 14  # records of a CSV file that are formatted in one step


@dataclass(frozen=True)
class Predictions:
    """One record for each node of each split.

    Attributes
    ----------
    node_id : (n,) int64
        The user's ids, split by split, in the order of the split.
    split : (n,) str
        Name of the split.
    predicted : (n,) int64
        The most probable class.
    probability : (n, num_classes) float32
        Of each class.
    """

    node_id: IdArray
    split: npt.NDArray[np.str_]
    predicted: IdArray
    probability: npt.NDArray[np.float32]

    @classmethod
    def of_splits(
        cls, nodes: dict[str, IdArray], scores: dict[str, npt.NDArray[np.float32]]
    ) -> Predictions:
        """Predictions from class scores, (n, num_classes) for the nodes of each split."""
        all_scores = np.concatenate([scores[name] for name in nodes])
        exponentials = np.exp(all_scores - all_scores.max(axis=1, keepdims=True))
        return cls(
            node_id=np.concatenate(list(nodes.values())),
            split=np.repeat(np.array(list(nodes)), [len(ids) for ids in nodes.values()]),
            predicted=all_scores.argmax(axis=1).astype(np.int64),
            probability=exponentials / exponentials.sum(axis=1, keepdims=True),
        )


def _is_csv(path: str | os.PathLike[str]) -> bool:
    """Whether a predictions file is CSV and not ``.npz``.

    Raises
    ------
    ValueError
        If the name ends in neither of them.
    """
    suffix = os.path.splitext(os.fspath(path))[1].lower()
    if suffix not in (".npz", ".csv"):
        raise ValueError(
            f"{os.fspath(path)}: predictions are written as .npz or .csv, not as "
            f"{suffix!r}: choose a name that ends in one of these"
        )
    return suffix == ".csv"


def check_predictions_path(path: str | os.PathLike[str]) -> None:
    """Checks the end of the name, which decides on the format.

    Raises
    ------
    ValueError
        If it is neither ``.npz`` nor ``.csv``.
    """
    _is_csv(path)


def predictions_bytes(
    path: str | os.PathLike[str], nodes: dict[str, IdArray], num_classes: int
) -> int:
    """About how large the file of predictions for the nodes of each split will be."""
    count = sum(len(ids) for ids in nodes.values())
    longest = max((len(name) for name in nodes), default=0)
    if _is_csv(path):
        return count * (20 + longest + 12 * num_classes)
    return 4096 + count * (16 + 4 * longest + 4 * num_classes)


def write_predictions(path: str | os.PathLike[str], predictions: Predictions) -> None:
    """Writes predictions; an earlier file is replaced in one step.

    Parameters
    ----------
    path : path-like
        Ends in ``.npz`` (arrays with the names of the attributes of `Predictions`) or in ``.csv``
        (columns node_id, split, predicted, and probability_0, probability_1, ...).
    predictions : Predictions

    Raises
    ------
    OSError
        With errno and path, if the file cannot be written.
    ValueError
        If the name ends in neither of them.
    """
    as_csv = _is_csv(path)
    with replaced_file(path) as file:
        if as_csv:
            _write_csv(file, predictions)
        else:
            np.savez(file, **vars(predictions))


def _write_csv(file: BinaryIO, predictions: Predictions) -> None:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.writer(text, lineterminator="\n")
    classes = range(predictions.probability.shape[1])
    writer.writerow(["node_id", "split", "predicted", *(f"probability_{i}" for i in classes)])
    for begin in range(0, len(predictions.node_id), _BLOCK):
        block = slice(begin, begin + _BLOCK)
        columns = [
            predictions.node_id[block].tolist(),
            predictions.split[block].tolist(),
            predictions.predicted[block].tolist(),
            *predictions.probability[block].astype("U").T.tolist(),
        ]
        writer.writerows(zip(*columns, strict=True))
    text.detach()  # flushes, and leaves the file open
