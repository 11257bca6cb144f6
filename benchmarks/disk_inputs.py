"""The files of the out-of-core benchmark, written in bounded memory, and their datasets."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from benchmarks import files02, rmat
from benchmarks.inputs import CHUNK_ROWS, feature_rows, labels_of

if TYPE_CHECKING:
    import graphzero as gz

__all__ = ["DiskInputs", "build_order", "prepare_disk", "write_features02", "write_pyg_graph"]

IntArray = npt.NDArray[np.int64]

TRAIN_SHARE = 10


@dataclass(frozen=True)
class DiskInputs:
    """One R-MAT graph with scrambled ids, feature rows and labels, in one folder.

    Attributes
    ----------
    folder : str
    num_nodes, num_edges, dim, seed : int
    """

    folder: str
    num_nodes: int
    num_edges: int
    dim: int
    seed: int = 0

    def path(self, name: str) -> Path:
        """Path of one file in the folder."""
        return Path(self.folder) / name

    @property
    def features_bytes(self) -> int:
        """Size of the feature rows."""
        return self.num_nodes * self.dim * 4

    @property
    def train(self) -> IntArray:
        """A tenth of the nodes that have neighbours, shuffled."""
        return np.load(self.path("train.npy"))  # type: ignore[no-any-return]


def prepare_disk(
    folder: str | os.PathLike[str], *, num_nodes: int, num_edges: int, dim: int, seed: int = 0
) -> DiskInputs:
    """Writes edges, features, labels and training seeds, unless they exist."""
    home = Path(folder) / f"disk-{num_nodes}-{num_edges}-{dim}-{seed}"
    inputs = DiskInputs(str(home), num_nodes, num_edges, dim, seed)
    if (home / "inputs.json").exists():
        return inputs
    home.mkdir(parents=True, exist_ok=True)
    scale = (num_nodes - 1).bit_length()
    edges = rmat.write_edges(home / "edges.npy", scale, num_edges, seed=seed, num_nodes=num_nodes)
    _write_features(inputs)
    # One byte is enough for every class, and memory is scarce.
    np.save(home / "labels.npy", labels_of(np.arange(num_nodes)).astype(np.uint8))
    _write_train(inputs, edges)
    (home / "inputs.json").write_text(json.dumps(asdict(inputs)))
    return inputs


def _chunks(count: int, size: int) -> list[slice]:
    return [slice(begin, min(begin + size, count)) for begin in range(0, count, size)]


def _write_features(inputs: DiskInputs) -> None:
    rows: np.memmap[Any, Any] = np.lib.format.open_memmap(
        inputs.path("features.npy"),
        mode="w+",
        dtype=np.float32,
        shape=(inputs.num_nodes, inputs.dim),
    )
    for part in _chunks(inputs.num_nodes, CHUNK_ROWS):
        rows[part] = feature_rows(np.arange(part.start, part.stop), inputs.dim)
    rows.flush()


def _write_train(inputs: DiskInputs, edges: npt.NDArray[np.int64]) -> None:
    has_neighbors = np.zeros(inputs.num_nodes, dtype=np.bool_)
    for part in _chunks(inputs.num_edges, rmat.CHUNK_EDGES):
        has_neighbors[edges[part, 1]] = True  # those that its incoming edges come from
    nodes = np.random.default_rng(inputs.seed).permutation(np.flatnonzero(has_neighbors))
    np.save(inputs.path("train.npy"), nodes[: -(-nodes.size // TRAIN_SHARE)])


def build_order(inputs: DiskInputs, order: str, memory_limit: str | None = None) -> Path:
    """Folder of the dataset in one order; graphzero builds it once.

    Raises
    ------
    ValueError
        If graphzero does not know the order.
    """
    import graphzero as gz

    folder = inputs.path(f"dataset-{order}")
    if not (folder / "dataset.json").exists():
        options: dict[str, Any] = {"order": order}
        if memory_limit is not None:
            options["memory_limit"] = memory_limit
        gz.build(
            folder,
            edges=inputs.path("edges.npy"),
            features=inputs.path("features.npy"),
            labels=inputs.path("labels.npy"),
            splits={"train": inputs.path("train.npy")},
            directed=True,
            progress=True,
            **options,
        )
    return folder


def write_features02(inputs: DiskInputs) -> Path:
    """The feature file of graphzero 0.2, written once."""
    path = inputs.path("features02.gd")
    if not path.exists():
        part = path.with_suffix(".part")
        files02.write_features(part, np.load(inputs.path("features.npy"), mmap_mode="r"))
        part.rename(path)
    return path


def write_pyg_graph(inputs: DiskInputs, ds: gz.Dataset) -> dict[str, str]:
    """The CSC arrays colptr and row in the user's ids, for PyG; from a dataset in input order."""
    paths = {name: inputs.path(f"pyg-{name}.npy") for name in ("colptr", "row")}
    if not paths["row"].exists():
        np.save(paths["colptr"], np.asarray(ds.graph.indptr).astype(np.int64))
        part = inputs.path("pyg-row.part.npy")
        shape = (ds.num_edges,)
        rows = np.lib.format.open_memmap(part, mode="w+", dtype=np.int64, shape=shape)
        for chunk in _chunks(ds.num_edges, 1 << 22):
            rows[chunk] = ds.graph.indices[chunk]
        rows.flush()
        part.rename(paths["row"])
    return {name: str(path) for name, path in paths.items()}
