"""Inputs of the benchmarks: R-MAT graphs, rows, labels, their files, and the datasets of them."""

from __future__ import annotations

import json
import os
import struct
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import graphzero as gz

IntArray = npt.NDArray[np.int64]

# Chakrabarti, Zhan, Faloutsos, "R-MAT: A Recursive Model for Graph Mining", 2004.
QUADRANTS = (0.57, 0.19, 0.19, 0.05)
CHUNK_EDGES, CHUNK_ROWS = 1 << 20, 1 << 14
NUM_CLASSES = 47
TRAIN_SHARE = 10


def edge_chunk(
    rng: np.random.Generator,
    scale: int,
    num_edges: int,
    quadrants: tuple[float, float, float, float] = QUADRANTS,
) -> IntArray:
    """Draws edges by descending into one quadrant of the adjacency matrix per bit of the ids.

    Returns (num_edges, 2) sources and targets of a graph with 2^scale nodes. Low ids have high
    degrees; repeats and self-loops occur.
    """
    a, b, c, _ = quadrants
    edges = np.zeros((num_edges, 2), dtype=np.int64)
    for _ in range(scale):
        draw = rng.random(num_edges, dtype=np.float32)
        lower = draw >= a + b
        right = ((draw >= a) & ~lower) | (draw >= a + b + c)
        edges <<= 1
        edges[:, 0] |= lower
        edges[:, 1] |= right
    return edges


def write_edges(
    path: str | os.PathLike[str],
    scale: int,
    num_edges: int,
    *,
    seed: int = 0,
    num_nodes: int | None = None,
) -> np.memmap[Any, np.dtype[np.int64]]:
    """Writes an R-MAT edge list as ``.npy`` in pieces, and returns it mapped.

    A random permutation scrambles the ids, so that they do not reveal the degrees. With fewer than
    2^scale nodes, edges of nodes beyond are drawn again. Equal arguments give equal files.
    """
    rng = np.random.default_rng(seed)
    scrambled = rng.permutation(1 << scale if num_nodes is None else num_nodes)
    out = np.lib.format.open_memmap(path, mode="w+", dtype=np.int64, shape=(num_edges, 2))
    begin = 0
    while begin < num_edges:
        drawn = edge_chunk(rng, scale, min(CHUNK_EDGES, num_edges - begin))
        drawn = drawn[drawn.max(axis=1) < scrambled.size]
        out[begin : begin + len(drawn)] = scrambled[drawn]
        begin += len(drawn)
    out.flush()
    edges: np.memmap[Any, np.dtype[np.int64]] = np.load(path, mmap_mode="r")
    return edges


def _quadrant_codes(levels: int) -> npt.NDArray[np.uint16]:
    """2^16 equally likely outcomes of some levels: bits of the source, then eight of the target."""
    share, code = np.ones(1), np.zeros(1, np.int64)
    for _ in range(levels):
        source, target = code >> 8 << 1, (code & 255) << 1
        code = np.concatenate([source + a << 8 | target + b for a in (0, 1) for b in (0, 1)])
        share = np.concatenate([share * each for each in QUADRANTS])
    ends = np.round(np.cumsum(share) * (1 << 16)).astype(np.int64)
    return np.repeat(code, np.diff(ends, prepend=0)).astype(np.uint16)


def _scrambled(ids: npt.NDArray[np.uint32], scale: int) -> npt.NDArray[np.uint32]:
    """A permutation of the ids below 2^scale, in place: products with odd numbers, and shifts."""
    for factor, shift in ((0x9E3779B1, scale // 2), (0x85EBCA6B, scale // 2 + 1)):
        ids *= np.uint32(factor)
        ids &= np.uint32((1 << scale) - 1)
        ids ^= ids >> np.uint32(shift)
    return ids


def _rmat_chunk(
    key: tuple[int, int], num_nodes: int, num_edges: int, codes: dict[int, npt.NDArray[np.uint16]]
) -> npt.NDArray[np.uint32]:
    rng, scale = np.random.Generator(np.random.SFC64(key)), (num_nodes - 1).bit_length()
    out, have = np.empty((num_edges, 2), np.uint32), 0
    while have < num_edges:
        count = num_edges - have
        ends = np.zeros((2, count), np.uint32)
        for level in range(0, scale, 4):
            levels = min(4, scale - level)
            drawn = codes[levels][np.frombuffer(rng.bytes(2 * count), np.uint16)]
            ends <<= np.uint32(levels)
            ends[0] |= drawn >> 8
            ends[1] |= drawn & 255
        source, target = (_scrambled(each, scale) for each in ends)
        kept = np.flatnonzero((source < num_nodes) & (target < num_nodes))
        out[have : have + kept.size, 0] = source[kept]
        out[have : have + kept.size, 1] = target[kept]
        have += kept.size
    return out


def rmat_chunks(
    num_nodes: int, num_edges: int, *, seed: int = 0, threads: int = 2
) -> Iterator[npt.NDArray[np.uint32]]:
    """(n, 2) sources and targets of an R-MAT graph, chunk by chunk, drawn by several threads.

    Four levels of the recursion take one look-up by 16 random bits, which rounds their shares to
    1/65536: 30 ns an edge, against 400 in `edge_chunk`. A hash scrambles the ids, and edges of
    nodes from `num_nodes` on are drawn again. Equal arguments but `threads` give equal edges.
    """
    codes = {levels: _quadrant_codes(levels) for levels in (1, 2, 3, 4)}
    waiting: deque[Any] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for number, begin in enumerate(range(0, num_edges, 2 * CHUNK_EDGES)):
            size = min(2 * CHUNK_EDGES, num_edges - begin)
            waiting.append(pool.submit(_rmat_chunk, (seed, number), num_nodes, size, codes))
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def write_rmat(path: str | os.PathLike[str], num_nodes: int, num_edges: int, **how: int) -> None:
    """Writes the edges of `rmat_chunks` as ``.npy``, (num_edges, 2) uint32."""
    header = {"descr": "<u4", "fortran_order": False, "shape": (num_edges, 2)}
    with open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for chunk in rmat_chunks(num_nodes, num_edges, **how):
            file.write(chunk.data)


def row_chunks(num_nodes: int, dim: int, dtype: str) -> Iterator[npt.NDArray[Any]]:
    """The values of `feature_rows` for all nodes, in chunks; of integers, times 127."""
    cycle = feature_rows(np.zeros(1, np.int64), 8191 + dim)[0]
    values = (cycle * 127 if np.dtype(dtype).kind == "i" else cycle).astype(dtype)
    rows = np.lib.stride_tricks.sliding_window_view(values, dim)
    for begin in range(0, num_nodes, CHUNK_ROWS):
        yield rows[np.arange(begin, min(begin + CHUNK_ROWS, num_nodes)) * 131 % 8191]


def label_chunks(num_nodes: int) -> Iterator[npt.NDArray[np.uint8]]:
    """`labels_of` all nodes, in chunks of one byte a node."""
    for begin in range(0, num_nodes, CHUNK_EDGES):
        nodes = np.arange(begin, min(begin + CHUNK_EDGES, num_nodes))
        yield labels_of(nodes).astype(np.uint8)


def write_csv(path: str | os.PathLike[str], edges: npt.NDArray[np.int64]) -> None:
    """Writes an edge list as CSV with a header."""
    import pyarrow as pa
    import pyarrow.csv as pc

    schema = pa.schema([("src", pa.int64()), ("dst", pa.int64())])
    plain = pc.WriteOptions(quoting_style="none")
    with pc.CSVWriter(path, schema, write_options=plain) as writer:
        for begin in range(0, len(edges), CHUNK_EDGES):
            part = edges[begin : begin + CHUNK_EDGES]
            columns = [np.ascontiguousarray(part[:, i]) for i in (0, 1)]
            writer.write(pa.table(columns, schema=schema))


def feature_rows(nodes: IntArray, dim: int) -> npt.NDArray[np.float32]:
    """Rows of some nodes, computed from node and column so that any row can be checked."""
    values = (nodes[:, None] * 131 + np.arange(dim)) % 8191
    return (values / np.float32(8191)).astype(np.float32)


def labels_of(nodes: IntArray) -> IntArray:
    """Classes of some nodes, computed from the node."""
    return nodes * 7919 % NUM_CLASSES


def write_rows(path: str | os.PathLike[str], num_nodes: int, dim: int) -> None:
    """Writes the rows of all nodes as ``.npy``, in pieces."""
    rows: np.memmap[Any, Any] = np.lib.format.open_memmap(
        path, mode="w+", dtype=np.float32, shape=(num_nodes, dim)
    )
    for begin in range(0, num_nodes, CHUNK_ROWS):
        nodes = np.arange(begin, min(begin + CHUNK_ROWS, num_nodes))
        rows[begin : begin + nodes.size] = feature_rows(nodes, dim)
    rows.flush()


@dataclass(frozen=True)
class Inputs:
    """Files of one R-MAT graph with directed edges, in one folder."""

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

    @cached_property
    def keys(self) -> IntArray:
        """source * num_nodes + target of every edge, sorted; written by the first call."""
        path = self.path("keys.npy")
        if not path.exists():
            edges = np.load(self.path("edges.npy"), mmap_mode="r")
            keys = edges[:, 0] * self.num_nodes + edges[:, 1]
            keys.sort()
            np.save(path, keys)
        return np.load(path)  # type: ignore[no-any-return]

    @cached_property
    def degrees(self) -> IntArray:
        """Out-degrees, (num_nodes,) int64."""
        return np.bincount(self.keys // self.num_nodes, minlength=self.num_nodes)

    def seeds(self, purpose: int, number: int, count: int) -> IntArray:
        """Distinct nodes that have neighbours, by purpose and run number."""
        rng = np.random.default_rng([self.seed, purpose, number])
        nodes = np.flatnonzero(self.degrees)
        return rng.choice(nodes, min(count, nodes.size), replace=False)

    def has_edges(self, source: IntArray, target: IntArray) -> bool:
        """Whether every pair is an edge of the graph."""
        if source.size == 0:
            return True
        if min(source.min(), target.min()) < 0 or target.max() >= self.num_nodes:
            return False
        keys = source * self.num_nodes + target
        at = np.minimum(np.searchsorted(self.keys, keys), self.keys.size - 1)
        return bool((self.keys[at] == keys).all())


def prepare(
    folder: str | os.PathLike[str], *, num_nodes: int, num_edges: int, dim: int, seed: int = 0
) -> Inputs:
    """Writes edges, features, labels and training seeds, unless an earlier call has written them.

    Training seeds are a tenth of the nodes with incoming edges, shuffled.
    """
    home = Path(folder) / f"rmat-{num_nodes}-{num_edges}-{dim}-{seed}"
    inputs = Inputs(str(home), num_nodes, num_edges, dim, seed)
    marker = home / "inputs.json"
    if marker.exists():
        return inputs
    home.mkdir(parents=True, exist_ok=True)
    scale = (num_nodes - 1).bit_length()
    edges = write_edges(home / "edges.npy", scale, num_edges, seed=seed, num_nodes=num_nodes)
    write_rows(home / "features.npy", num_nodes, dim)
    # One byte is enough for every class, and memory is scarce.
    np.save(home / "labels.npy", labels_of(np.arange(num_nodes)).astype(np.uint8))
    has_neighbors = np.zeros(num_nodes, dtype=np.bool_)
    for begin in range(0, num_edges, CHUNK_EDGES):
        has_neighbors[edges[begin : begin + CHUNK_EDGES, 1]] = True
    nodes = np.random.default_rng(seed).permutation(np.flatnonzero(has_neighbors))
    np.save(home / "train.npy", nodes[: -(-nodes.size // TRAIN_SHARE)])
    marker.write_text(json.dumps(asdict(inputs)))
    return inputs


def build_once(inputs: Inputs, name: str, **options: Any) -> Path:
    """The folder of the dataset that graphzero builds from the inputs; built by the first call."""
    import graphzero as gz

    folder = inputs.path(name)
    if not (folder / "dataset.json").exists():
        gz.build(
            folder,
            edges=inputs.path("edges.npy"),
            features=inputs.path("features.npy"),
            labels=inputs.path("labels.npy"),
            splits={"train": inputs.path("train.npy")},
            num_nodes=inputs.num_nodes,
            **options,
        ).close()
    return folder


def row_batches(
    inputs: Inputs, order: str, fanouts: list[int], *, batch_size: int, count: int
) -> dict[str, Path]:
    """Inputs of a benchmark that reads the rows of sampled batches, without sampling them.

    A dataset of ``features`` and ``edges`` has no edges to speak of, so that a loader with the
    ``seeds`` of a batch reads exactly their rows. Its ids are the nodes in input order or, for
    "hot", by descending degree; ``nodes`` has the node of each id. Written by the first call.
    """
    import graphzero as gz

    folder = inputs.path(f"rows-{order}-{batch_size}-{count}")
    paths = {name: folder / f"{name}.npy" for name in ("nodes", "features", "seeds", "edges")}
    if paths["edges"].exists():
        return paths
    folder.mkdir(exist_ok=True)
    original = np.load(inputs.path("features.npy"), mmap_mode="r")
    if order == "hot":
        sources = np.load(inputs.path("edges.npy"), mmap_mode="r")[:, 0]
        nodes = np.argsort(-np.bincount(sources, minlength=inputs.num_nodes), kind="stable")
        rows = np.lib.format.open_memmap(
            paths["features"], "w+", original.dtype, (inputs.num_nodes, inputs.dim)
        )
        for begin in range(0, nodes.size, CHUNK_ROWS):
            rows[begin : begin + CHUNK_ROWS] = original[nodes[begin : begin + CHUNK_ROWS]]
        rows.flush()
    else:
        nodes = np.arange(inputs.num_nodes)
        paths["features"].unlink(missing_ok=True)
        paths["features"].symlink_to(inputs.path("features.npy").resolve())
    rank = np.empty_like(nodes)
    rank[nodes] = np.arange(nodes.size)
    sampled, train = [], np.load(inputs.path("train.npy"))
    with gz.open(build_once(inputs, "dataset-hot", order="hot")) as ds:
        sampler = gz.NeighborSampler(ds.graph, fanouts)
        for number in range(count):
            positions = range(number * batch_size, (number + 1) * batch_size)
            batch = sampler.sample(np.take(train, positions, mode="wrap"), batch=number)
            sampled.append(rank[batch.n_id])
    size = min(batch.size for batch in sampled)
    np.save(paths["nodes"], nodes)
    np.save(paths["seeds"], np.stack([batch[:size] for batch in sampled]))
    np.save(paths["edges"], np.zeros((1, 2), np.int64))  # a self-loop
    return paths


@dataclass(frozen=True)
class Cut:
    """The nodes of an edge list, dealt at random to types; an edge type for each pair of types.

    A node keeps its rank among the nodes of its type.
    """

    edges: IntArray
    total_nodes: int
    num_types: int

    @cached_property
    def type_of(self) -> npt.NDArray[np.int8]:
        """The type of each node."""
        rng = np.random.default_rng(self.num_types)
        return rng.integers(0, self.num_types, self.total_nodes).astype(np.int8)

    @property
    def node_types(self) -> list[str]:
        """Their names, in order."""
        return [f"n{number}" for number in range(self.num_types)]

    @cached_property
    def num_nodes(self) -> dict[str, int]:
        """Nodes of each type."""
        counts = np.bincount(self.type_of, minlength=self.num_types).tolist()
        return dict(zip(self.node_types, counts, strict=True))

    @cached_property
    def local_id(self) -> IntArray:
        """The id of each node among those of its type."""
        local = np.empty(self.total_nodes, np.int64)
        for number in range(self.num_types):
            mine = self.type_of == number
            local[mine] = np.arange(mine.sum())
        return local

    def edge_lists(self) -> Iterator[tuple[tuple[str, str, str], IntArray]]:
        """(edge type, (2, n) local ids of sources and targets) of each edge type."""
        source, target = np.ascontiguousarray(np.asarray(self.edges).T)
        pair = self.type_of[source].astype(np.int64) * self.num_types + self.type_of[target]
        order = np.argsort(pair, kind="stable")
        ends = np.stack([self.local_id[source[order]], self.local_id[target[order]]])
        bounds = np.searchsorted(pair[order], np.arange(self.num_types**2 + 1))
        edge_types = [(a, "to", b) for a in self.node_types for b in self.node_types]
        for number, edge_type in enumerate(edge_types):
            yield edge_type, ends[:, bounds[number] : bounds[number + 1]]

    def build(self, folder: str | os.PathLike[str], **options: Any) -> gz.Dataset:
        """Builds and opens the typed dataset."""
        import graphzero as gz

        return gz.build(
            folder,
            nodes={name: {"num_nodes": count} for name, count in self.num_nodes.items()},
            edges={name: {"edge_index": ends} for name, ends in self.edge_lists()},
            **options,
        )


# Files of graphzero 0.2, whose converter reads only CSV: 2^21 rows of 128 columns are over 2 GB of
# text. A benchmark has 0.2 convert a small CSV and compares the bytes before it trusts these.
ALIGNMENT02, FLOAT32_02 = 64, 2


def write_graph02(
    path: str | os.PathLike[str], degrees: IntArray, targets: npt.NDArray[np.integer[Any]]
) -> None:
    """Writes an unweighted ``.gl`` file of 0.2: out-degrees, and targets ordered by source.

    Targets are written in pieces: they may be mapped, and of any integer dtype.
    """
    indptr = np.zeros(degrees.size + 1, dtype="<u8")
    np.cumsum(degrees, out=indptr[1:], dtype="<u8")
    indices_at = -(-(ALIGNMENT02 + indptr.nbytes) // ALIGNMENT02) * ALIGNMENT02
    sizes = (indptr.nbytes, 8 * targets.size, ALIGNMENT02, indices_at, degrees.size, targets.size)
    with open(path, "wb") as file:
        file.write(struct.pack("<8s7Q", b"graphlit", *sizes, 0))
        indptr.tofile(file)
        file.write(bytes(indices_at - file.tell()))
        for begin in range(0, targets.size, CHUNK_EDGES):
            targets[begin : begin + CHUNK_EDGES].astype("<u8", copy=False).tofile(file)


def write_features02(path: str | os.PathLike[str], rows: npt.NDArray[np.float32]) -> None:
    """Writes a ``.gd`` file of 0.2 with (num_nodes, dim) float32 rows."""
    with open(path, "wb") as file:
        file.write(struct.pack("<8sIIQQ", b"GZDATA26", 0, FLOAT32_02, *rows.shape))
        rows.astype("<f4", copy=False).tofile(file)
