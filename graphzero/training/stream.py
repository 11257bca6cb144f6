"""A layer of the form of `StreamedLayer`, computed by streaming.

Destinations are cut into blocks whose sums fit in memory. For each block the rows of the sources
are read once, window by window in the order of their file (as GridGraph does: Zhu, Han, Chen, ATC
2015). No sorted copy of the edges is needed: lists ascend, so each destination has a cursor that
stops where the window ends. Where all rows fit in memory there is one window.

Bytes depend neither on threads nor on memory: a destination adds up its list in its order, and maps
of rows get the same chunks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from threading import Barrier

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from graphzero import _core
from graphzero.graph.dataset import Dataset
from graphzero.graph.features import FeatureStore, as_booleans
from graphzero.graph.nodes_and_edges import EdgeStore, NodeStore
from graphzero.sampling.threads import WorkerThreads
from graphzero.store.format import BFLOAT16
from graphzero.store.free_memory import available_memory
from graphzero.store.manifest import EdgeType
from graphzero.training.layers import DEGREE, DEPENDS_ON_MORE, LayerOptions
from graphzero.training.node_ranges import CHUNK, NodeRange
from graphzero.training.streamed_layers import Messages, StreamedLayer, Update
from graphzero.units import available_processors

Rows = npt.NDArray[np.float32]
Used = npt.NDArray[np.bool_] | None

_WIDE_FROM = 1000  # edges whose rows are added up in float64
_CHUNK_BYTES = 1 << 20  # of rows that a map gets at a time
_CACHED_BYTES = 16 << 20  # of sums, where all rows are in memory
_READS_AHEAD = 4
_GROUP_BYTES = 1 << 12  # of rows that are read or left out together
_GAP_GROUPS = 32  # unused ones that are read along rather than skipped
_LIST_BYTES = 1 << 20  # of a list that is kept; of longer ones, what a window needs is read
_PARTS = 8  # of a block for each thread
_DESTINATION_WORK = 4  # of a destination, where that of an edge is 1
_DESTINATION_BYTES = 40  # its cursor, place and degree, and what they are made of
_SUMS_SHARE, _WINDOW_SHARE = 0.7, 0.05  # of the memory; there are two windows
_FREE_SHARE = 0.8  # of the memory that is available
_CHECKED, _TOLERANCE = 64, 1e-3
_LEAST_TOTAL = 1e-16  # as in PyG's softmax


@dataclass(frozen=True, kw_only=True)
class _Relation:
    """The edges of one type, and what is added up along them."""

    edges: EdgeStore
    messages: Messages
    source: FeatureStore
    width: int  # numbers that are added
    heads: int  # numbers behind them, of attention

    @property
    def row_numbers(self) -> int:
        return self.width + self.heads

    @property
    def sum_numbers(self) -> int:
        return self.width + 2 * self.heads


def _as_float32(stored: npt.NDArray[np.generic]) -> Rows:
    if stored.dtype == BFLOAT16:
        return (stored.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)
    return as_booleans(stored).astype(np.float32, copy=False)


class _Reader:
    """Rows of a file, read in chunks ahead of their use."""

    def __init__(self, store: FeatureStore, chunk: int, stack: ExitStack) -> None:
        self._store, self._chunk = store, chunk
        self._thread = WorkerThreads(1, "graphzero-rows")
        stack.callback(self._thread.close)
        self.group = max(1, _GROUP_BYTES // store.row_bytes)

    def chunks(self, begin: int, end: int, used: Used) -> Iterator[tuple[int, Rows]]:
        """The chunks of rows [begin, end) that have groups in use, with their first row.

        Rows of groups that are not in use have any numbers.
        """
        firsts = iter(range(begin, end, self._chunk))
        ahead: deque[tuple[int, Future[Rows]]] = deque()
        while True:
            while len(ahead) < _READS_AHEAD and (first := next(firsts, None)) is not None:
                last = min(end, first + self._chunk)
                runs = self._runs(first, last, used)
                if runs:
                    ahead.append((first, self._thread.submit(self._read, first, last, runs)))
            if not ahead:
                return
            first, future = ahead.popleft()
            yield first, future.result()

    def _runs(self, first: int, last: int, used: Used) -> list[tuple[int, int]]:
        """Ranges of rows to read."""
        if used is None:
            return [(first, last)]
        low = first // self.group
        groups = np.flatnonzero(used[low : (last - 1) // self.group + 1]) + low
        if len(groups) == 0:
            return []
        cuts = np.flatnonzero(np.diff(groups) > _GAP_GROUPS)
        begins = groups[np.append(0, cuts + 1)] * self.group
        ends = (groups[np.append(cuts, len(groups) - 1)] + 1) * self.group
        return [
            (max(first, int(begin)), min(last, int(end)))
            for begin, end in zip(begins, ends, strict=True)
        ]

    def _read(self, first: int, last: int, runs: list[tuple[int, int]]) -> Rows:
        store, is_whole = self._store, runs == [(first, last)]
        rows = (np.empty if is_whole else np.zeros)((last - first, store.feature_dim), store.dtype)
        for begin, end in runs:
            at, size = store.origin + begin * store.row_bytes, (end - begin) * store.row_bytes
            stored = np.frombuffer(store.mapping.read(at, size), store.dtype)
            rows[begin - first : end - first] = stored.reshape(end - begin, -1)
        return _as_float32(rows)


def _num_threads() -> int:
    """As many as torch may use, which `graphzero.ray` and users limit."""
    return min(available_processors(), torch.get_num_threads())


def _torch_threads(stack: ExitStack) -> WorkerThreads:
    """Threads for maps of chunks, in each of which torch uses no others and keeps no gradients."""
    count, num_threads = _num_threads(), torch.get_num_threads()
    threads, barrier = WorkerThreads(count, "graphzero-sums"), Barrier(count)
    stack.callback(threads.close)
    try:
        calls = [threads.submit(_use_one_thread, barrier) for _ in range(count)]
    except RuntimeError:  # too many threads
        barrier.abort()
        raise
    for call in calls:
        call.result()
    torch.set_num_threads(num_threads)  # also what threads of others begin with
    return threads


def _use_one_thread(barrier: Barrier) -> None:
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    barrier.wait()


class StreamedRows:
    """One layer for the nodes of one type, by streaming.

    Raises
    ------
    ValueError
        If the layer does not fit the dataset.
    """

    ranges_of_task = None  # of `graphzero.ray`: as many as make a task for each processor

    def __init__(
        self, options: LayerOptions, view: Dataset, node_type: str, layer: StreamedLayer, name: str
    ) -> None:
        self._options, self._view, self._name = options, view, name
        self._nodes = view.nodes[node_type]
        messages, update = layer.messages, layer.update
        if isinstance(messages, Mapping) != view.is_typed or isinstance(update, Mapping) != (
            view.is_typed
        ):
            raise ValueError(f"{name} needs messages and update by type in a typed graph, only")
        of_edges = (
            messages if isinstance(messages, Mapping) else dict.fromkeys(view.edges, messages)
        )
        self._update: Update | None = (
            update.get(node_type) if isinstance(update, Mapping) else update
        )
        if unknown := [kind for kind in of_edges if kind not in view.edges]:
            raise ValueError(f"{name} has messages along {unknown[0]}, which the dataset lacks")
        self._relations: dict[EdgeType, _Relation] = {}
        self._chunk, self._is_whole = 1, True
        self.has_rows = self._update is not None and self._nodes.num_nodes > 0
        if self.has_rows:
            self._prepare({k: m for k, m in of_edges.items() if self._is_here(k)})

    def _is_here(self, kind: EdgeType) -> bool:
        return self._view.edges[kind].owner.node_type == self._nodes.node_type

    def _prepare(self, of_edges: Mapping[EdgeType, Messages]) -> None:
        """Tries the maps on some rows."""
        x = self._some_rows(self._rows_of(self._nodes))
        for kind, messages in of_edges.items():
            edges = self._view.edges[kind]
            source = self._rows_of(self._view.nodes[edges.neighbor.node_type])
            if messages.edge_weight not in (None, *edges.attributes):
                raise ValueError(f"{self._name}: edges have no {messages.edge_weight!r}")
            if messages.degree_norm and self._view.is_typed:
                raise ValueError(f"{self._name}: degree_norm is for graphs without types")
            transform, heads = messages.transform, 0
            rows = self._some_rows(source)
            rows = rows if transform is None else self._checked(transform, rows)
            if messages.scores is not None:
                heads = self._checked(messages.scores, x).shape[1]
            self._relations[kind] = _Relation(
                edges=edges,
                messages=messages,
                source=source,
                width=rows.shape[1] - heads,
                heads=heads,
            )
        draw = torch.Generator().manual_seed(0)
        sums = [
            torch.rand(len(x), relation.width, generator=draw).to(x)
            for relation in self._relations.values()
        ]
        rows = self._checked(self._updated, x, *sums)
        dims = [r.source.feature_dim for r in self._relations.values()]
        dims += [r.sum_numbers for r in self._relations.values()]
        widest = max(*dims, x.shape[1], rows[0].numel(), 1)
        self._is_whole = self._has_room()  # once: memory may change meanwhile
        self._chunk = max(64, 1 << int(np.log2(_CHUNK_BYTES / (4 * widest))))

    def _rows_of(self, nodes: NodeStore) -> FeatureStore:
        if "x" not in nodes.attributes:
            raise ValueError(f"{self._name} needs rows of {nodes.node_type!r}, which are not there")
        return nodes.attributes["x"]

    def _some_rows(self, store: FeatureStore) -> Tensor:
        rows = store.get_tensor(stored_order=True)[:_CHECKED].copy()
        return self._tensor(_as_float32(rows).reshape(len(rows), -1))

    def _tensor(self, rows: Rows) -> Tensor:
        return torch.from_numpy(rows).to(self._options.device)

    def _checked(self, function: Callable[..., Tensor], *rows: Tensor) -> Tensor:
        """What a map of rows gives; refuses one that is not of each row alone."""
        result, count = function(*rows), len(rows[0])
        if not isinstance(result, Tensor) or result.dim() > 2 or len(result) != count:
            shown = list(result.shape) if isinstance(result, Tensor) else type(result).__name__
            raise ValueError(f"{self._name} must return a row for each of {count}, not {shown}")
        if count == 0:
            return result
        other, result = function(*(part[::2] for part in rows)).float(), result.float()
        worst = float((other - result[::2]).abs().nan_to_num().max())
        if worst > _TOLERANCE * max(_TOLERANCE, float(result.abs().nan_to_num().max())):
            raise ValueError(DEPENDS_ON_MORE.format(self._name, worst))
        return result

    def _updated(self, x: Tensor, *sums: Tensor) -> Tensor:
        """The rows of nodes, of what came along their edges of each type."""
        assert self._update is not None
        if not self._view.is_typed:
            return self._update(*sums, x)
        return self._update(dict(zip(self._relations, sums, strict=True)), x)

    # What is in memory

    def _memory(self) -> int:
        limit = self._options.limit
        return int(available_memory() * _FREE_SHARE) if limit is None else limit

    def _has_room(self) -> bool:
        """Whether all rows fit in memory beside the lists and some sums."""
        need = 2 * _CACHED_BYTES + 16 * _CHUNK_BYTES
        for relation in self._relations.values():
            graph = relation.edges.graph
            need += 4 * relation.row_numbers * relation.source.num_nodes
            need += graph.num_edges * graph.indices.itemsize + len(graph.indptr) * 8
        return need <= self._memory()

    def ranges(self, start: int) -> Iterator[NodeRange]:
        """Ranges of destinations from `start` on whose sums fit in memory, with their bytes."""
        most = _CACHED_BYTES if self._is_whole else int(self._memory() * _SUMS_SHARE)
        num_nodes, begin, size = self._nodes.num_nodes, start, 0
        for first in range(start, num_nodes, CHUNK):
            last = min(num_nodes, first + CHUNK)
            costs = np.zeros(last - first, np.int64)
            for relation in self._relations.values():
                graph = relation.edges.graph
                degrees = np.diff(graph.indptr[first : last + 1].astype(np.int64))
                in_sums = (degrees > 0) + 1 * (degrees >= _WIDE_FROM)
                costs += 4 * relation.sum_numbers * in_sums + _DESTINATION_BYTES
                entry = graph.indices.itemsize + 4 * (relation.messages.edge_weight is not None)
                costs += np.minimum(entry * degrees, _LIST_BYTES)
            sizes = np.add.reduceat(costs, np.arange(0, len(costs), self._chunk)).tolist()
            for i, more in enumerate(sizes):
                if size and size + more > most:
                    yield NodeRange(begin, first + i * self._chunk, size)
                    begin, size = first + i * self._chunk, 0
                size += more
        if begin < num_nodes:
            yield NodeRange(begin, num_nodes, size)

    # What is computed

    def rows(self, ranges: Sequence[NodeRange]) -> Generator[Rows, None, None]:
        """The rows of some ranges of nodes, in pieces."""
        if not ranges:
            return
        with ExitStack() as stack:
            threads = _torch_threads(stack)
            reader = _Reader(self._rows_of(self._nodes), self._chunk, stack)
            streams = {
                kind: _Stream(self, relation, _Reader(relation.source, self._chunk, stack), threads)
                for kind, relation in self._relations.items()
            }
            for block in ranges:
                sums = {kind: stream.sums_of(block, reader) for kind, stream in streams.items()}
                ahead: deque[Future[Rows]] = deque()
                for first, x in reader.chunks(block.begin, block.end, None):
                    ahead.append(threads.submit(self._finished, streams, sums, first, x))
                    if len(ahead) > 2 * _num_threads():
                        yield ahead.popleft().result()
                while ahead:
                    yield ahead.popleft().result()

    def _finished(
        self,
        streams: Mapping[EdgeType, _Stream],
        sums: Mapping[EdgeType, _core.BlockSums],
        first: int,
        x: Rows,
    ) -> Rows:
        """The rows of the nodes from `first` on whose rows in the layer before are `x`."""
        of_nodes = self._tensor(x)
        parts = [stream.part(sums[kind], first, of_nodes) for kind, stream in streams.items()]
        rows: Rows = self._updated(of_nodes, *parts).float().cpu().numpy()
        return rows


class _Stream:
    """The sums along the edges of one type."""

    def __init__(
        self, layer: StreamedRows, relation: _Relation, reader: _Reader, threads: WorkerThreads
    ) -> None:
        self._layer, self._relation, self._reader = layer, relation, reader
        self._threads, self._messages = threads, relation.messages
        self._count = relation.source.num_nodes
        is_whole, width, chunk = layer._is_whole, relation.row_numbers, layer._chunk
        share = layer._memory() * _WINDOW_SHARE / len(layer._relations)
        window = int(share) // (4 * width) // chunk * chunk
        self._window = max(1, self._count if is_whole else min(self._count, max(chunk, window)))
        self._buffers = [
            np.empty((self._window, width), np.float32) for _ in range(1 if is_whole else 2)
        ]
        if is_whole:
            self._fill(self._buffers[0], 0, None)
        self._is_whole = is_whole

    def _messages_of(self, x: Tensor, first: int) -> Tensor:
        """The rows that sources from `first` on have for their edges."""
        transform = self._messages.transform
        rows = x if transform is None else transform(x)
        if self._messages.degree_norm:
            rows = rows * self._scale(first, len(x)).to(x)
        return rows

    def _scale(self, first: int, count: int) -> Tensor:
        store = self._layer._nodes.attributes[DEGREE]
        degrees = store.get_tensor(stored_order=True)[first : first + count]
        return (torch.from_numpy(degrees + 1)).rsqrt()[:, None]

    def _fill(self, buffer: Rows, first: int, used: Used) -> int:
        """Reads and maps a window of sources; returns how many they are."""
        last, behind = min(self._count, first + self._window), deque[Future[None]]()
        for at, x in self._reader.chunks(first, last, used):
            behind.append(self._threads.submit(self._map, x, at, buffer[at - first :]))
            if len(behind) > 2 * _num_threads():
                behind.popleft().result()
        for call in behind:
            call.result()
        return last - first

    def _map(self, x: Rows, first: int, out: Rows) -> None:
        if self._messages.transform is None and not self._messages.degree_norm:
            out[: len(x)] = x
        else:
            out[: len(x)] = self._messages_of(self._layer._tensor(x), first).float().cpu().numpy()

    def sums_of(self, block: NodeRange, destinations: _Reader) -> _core.BlockSums:
        """What is added up for the nodes of a block."""
        messages, graph = self._messages, self._relation.edges.graph
        weights = scores = None
        if messages.edge_weight is not None:
            begin, end = (int(graph.indptr[node]) for node in (block.begin, block.end))
            store = self._relation.edges.attributes[messages.edge_weight]
            stored = store.get_tensor(stored_order=True)[begin:end].copy()
            weights = _as_float32(stored).reshape(-1)
        if messages.scores is not None:
            chunks = destinations.chunks(block.begin, block.end, None)
            tensors = [messages.scores(self._layer._tensor(x)) for _, x in chunks]
            scores = torch.cat(tensors).float().cpu().numpy()
        sums = _core.BlockSums(
            graph._csr,
            block.begin,
            block.end,
            messages.reduce,
            self._relation.width,
            wide_from=_WIDE_FROM,
            skips_loops=messages.self_loop,
            weights=weights,
            scores=scores,
            negative_slope=messages.negative_slope,
        )
        used = None
        if not self._is_whole:
            used = _core.mark_sources(graph._csr, block.begin, block.end, self._reader.group)
        work = np.append(0, np.cumsum(sums.degrees + _DESTINATION_WORK))
        targets = np.linspace(0, work[-1], _PARTS * _num_threads() + 1)
        cuts = np.searchsorted(work, targets).tolist()
        running: list[Future[None]] = []
        for number, first in enumerate(range(0, self._count, self._window)):
            buffer = self._buffers[number % len(self._buffers)]
            count = self._window if self._is_whole else self._fill(buffer, first, used)
            for call in running:
                call.result()
            running = [
                self._threads.submit(sums.add, buffer[:count], first, begin, end)
                for begin, end in pairwise(cuts)
            ]
        for call in running:
            call.result()
        sums.check_complete()
        return sums

    def part(self, sums: _core.BlockSums, first: int, x: Tensor) -> Tensor:
        """The sums of the nodes from `first` on whose rows are `x`."""
        begin, width, heads = first - sums.begin, self._relation.width, self._relation.heads
        inside = slice(begin, begin + len(x))
        rows = np.zeros((len(x), self._relation.sum_numbers), np.float32)
        rows[:, width + heads :] = -np.inf
        for flags, values in ((sums.is_narrow, sums.sums), (sums.is_wide, sums.wide_sums)):
            places = sums.places[inside][flags[inside]]
            if len(places):
                at = max(places[0], ~places[0])
                rows[flags[inside]] = values[at : at + len(places)]
        part = self._layer._tensor(rows)
        if self._messages.reduce == "mean":
            counts = torch.from_numpy(sums.degrees[inside]).clamp(min=1).to(part)
            return part / counts[:, None]
        if self._messages.reduce == "attention":
            return self._attended(part, x)
        if not self._messages.self_loop:
            return part
        part = part + self._messages_of(x, first)
        return part * self._scale(first, len(x)).to(part) if self._messages.degree_norm else part

    def _attended(self, part: Tensor, x: Tensor) -> Tensor:
        """The means of sums with their weights; a loop of each node comes here."""
        width, heads = self._relation.width, self._relation.heads
        rows = part[:, :width].view(len(x), heads, -1)
        total, largest = part[:, width : width + heads], part[:, width + heads :]
        if self._messages.self_loop and self._messages.scores is not None:
            message = self._messages_of(x, 0)
            score = message[:, width:] + self._messages.scores(x)
            score = torch.nn.functional.leaky_relu(score, self._messages.negative_slope)
            most = torch.maximum(largest, score)
            before, loop = (largest - most).exp(), (score - most).exp()
            rows = rows * before[..., None] + message[:, :width].view_as(rows) * loop[..., None]
            total = total * before + loop
        return (rows / (total[..., None] + _LEAST_TOTAL)).view(len(x), width)
