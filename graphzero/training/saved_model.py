"""The file of a trained model: its weights, and what is needed to use them."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from graphzero.errors import FormatError
from graphzero.graph.ids import as_count
from graphzero.graph.sampling_options import as_fanouts
from graphzero.store.outputs import replaced_file

__all__ = ["SavedModel", "read_saved_model"]

FORMAT = "graphzero.GraphSAGE"
VERSION = 1
_ARGUMENTS = {"in_dim", "hidden", "num_classes", "num_layers", "dropout"}


@dataclass(frozen=True)
class SavedModel:
    """A trained `GraphSAGE`.

    The file is a dict that ``torch.load(path, weights_only=True)`` reads. Its keys are the names
    of these attributes, and ``format`` and ``version``.

    Attributes
    ----------
    arguments : mapping of str to number
        Arguments of `GraphSAGE`: in_dim, hidden, num_classes, num_layers, dropout.
    state_dict : mapping of str to Tensor
        On the CPU.
    fanouts : sequence of int
        Of the batches that the model was trained on.
    feature_dtype : str
        What the features were converted to for the model.
    epoch : int
        The epoch that the weights are of, counted from 1.
    seed : int
        Of the training.
    """

    arguments: Mapping[str, Any]
    state_dict: Mapping[str, Tensor]
    fanouts: list[int]
    feature_dtype: str
    epoch: int
    seed: int

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes the file, which replaces an earlier one in one step."""
        content = {"format": FORMAT, "version": VERSION, **vars(self)}
        buffer = io.BytesIO()  # torch would not name the path in its errors
        torch.save(content, buffer)
        with replaced_file(path) as file:
            file.write(buffer.getbuffer())


_FIELDS = tuple(each.name for each in fields(SavedModel))


def _check(content: Any) -> None:
    """Raises some exception where the content is not what `SavedModel.write` writes."""
    if content["format"] != FORMAT:
        raise ValueError(f"its format is {content['format']!r}")
    if content["version"] != VERSION:
        raise ValueError(
            f"it has version {content['version']!r}, this graphzero reads version {VERSION}"
        )
    if content["arguments"].keys() != _ARGUMENTS:
        raise ValueError(f"its arguments are not {sorted(_ARGUMENTS)}")
    for name in _ARGUMENTS - {"dropout"}:
        as_count(content["arguments"][name], name)
    if not 0 <= float(content["arguments"]["dropout"]) < 1:
        raise ValueError("its dropout is not from 0 to 1")
    as_fanouts(content["fanouts"])
    if len(content["fanouts"]) != content["arguments"]["num_layers"]:
        raise ValueError("it has not one fanout for each layer")


def read_saved_model(path: str | os.PathLike[str]) -> SavedModel:
    """Reads what ``graphzero train --save`` has written; no code in the file is run.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    SavedModel

    Raises
    ------
    OSError
        If the file cannot be read.
    FormatError
        If it is truncated, foreign, corrupt or of an unknown version.
    """
    with open(path, "rb") as file:
        try:
            content = torch.load(file, map_location="cpu", weights_only=True)
        except Exception:  # torch raises many kinds
            raise FormatError(
                f"{os.fspath(path)} is not a model that 'graphzero train --save' has written, "
                f"or is damaged: train again"
            ) from None
    try:
        _check(content)
        return SavedModel(**{name: content[name] for name in _FIELDS})
    except Exception as error:  # hostile content raises many kinds
        raise FormatError(
            f"{os.fspath(path)} is not a model that this graphzero reads ({str(error)[:200]}): "
            f"train again"
        ) from None
