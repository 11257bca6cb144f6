"""`infer`: the rows that a model computes for every node, layer by layer, over all neighbours.

Each layer reads the rows of the one before from a file, and writes its own to another, in the order
in which nodes are stored. Layers of the form of `StreamedLayer` are streamed; others gather the
neighbours' rows of mini-batches, which have as many nodes as fit in memory with all their edges; a
node with more edges than that is alone in its mini-batch.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import torch
from tqdm.auto import tqdm

from graphzero.graph.dataset import Dataset
from graphzero.graph.features import FeatureStore
from graphzero.graph.user_input import IdArray
from graphzero.io.prefetch import Prefetch
from graphzero.loader.arguments import Batching
from graphzero.loader.mini_batch import Collate, SampledBatch
from graphzero.loader.ranks import Ranks
from graphzero.loader.states import WorkerProgress
from graphzero.sampling.order import Share
from graphzero.sampling.sampler import NeighborSampler
from graphzero.sampling.threads import WorkerThreads
from graphzero.store.atomic import replace_file, sync_folder
from graphzero.store.free_memory import available_memory
from graphzero.store.manifest import NODES
from graphzero.store.outputs import Output, check_outputs, files_of_dataset
from graphzero.training.layer_files import Folder, RowsFile, RowsState, working_folder
from graphzero.training.layers import (
    DEGREE,
    DEPENDS_ON_MORE,
    Layer,
    LayerOptions,
    evaluating,
    layers_of,
    rows_of,
)
from graphzero.training.node_ranges import CHUNK, NodeRange, RangeDataset, node_ranges
from graphzero.training.stream import Rows, StreamedRows
from graphzero.training.streamed_layers import Messages, StreamedLayer
from graphzero.units import format_bytes, parse_size

_BATCH_BYTES = 512 << 20  # of rows that are in memory at the same time, without a memory_limit
_SHARE = 4  # a fourth of the limit is for rows of mini-batches, the rest for what is kept of files
_LEAST_LIMIT = 64 << 20
_DTYPES = ("float32", "float16", "bfloat16")
_COPIES = 8  # of the rows of a batch: in batches under way, as messages, as results
_COPIES_ALONE = 4  # of those of a batch that is larger than others
_EDGE_BYTES = 200  # of an edge besides: ids, positions, what sampling needs
_CHECKED, _CHECKED_EDGES, _SOURCES_FANOUT, _TOLERANCE = 16, 10_000, 10, 1e-3


Compute = Callable[
    ["OneLayer | StreamedRows", Sequence[NodeRange]], Generator["Rows | None", None, None]
]


def infer(
    model: Any,
    ds: Dataset,
    out: str | os.PathLike[str],
    *,
    gather: Sequence[str] = ("x",),
    memory_limit: int | str | None = None,
    device: torch.device | str | None = None,
    dtype: str = "float32",
    resume: bool | None = None,
    progress: bool = False,
    _compute: Compute | None = None,  # the rows of some ranges of nodes of a layer, of `ray`
) -> Any:
    """The rows that a model computes for every node, over all neighbours of all nodes.

    It goes layer by layer, as PyG's ``inference`` methods do (Hamilton, Ying, Leskovec: "Inductive
    Representation Learning on Large Graphs", NeurIPS 2017, computes all nodes so): every layer is
    computed once for each node, and written to a file from which the next one reads.

    Parameters
    ----------
    model : sequence of layers, GraphSAGE, one of torch_geometric.nn.models, or of ``to_hetero``
        Models of PyG are taken as they are: ``GraphSAGE``, ``GCN``, ``GAT``, ``GIN``, ..., and what
        ``to_hetero`` makes, for a typed graph, if its values pass one convolution each. For
        others, a list with a `StreamedLayer` for each layer, which reads every row once, or a
        function. Convolutions and a ``HeteroConv`` that `StreamedLayer.of` takes may be in the list
        themselves. A function gets a mini-batch that has some nodes as seeds and all their
        neighbours, with the rows of the layer before as ``batch.x``, and returns a row for each
        seed, ``(batch_size, width)``, or for each node. In a typed graph the seeds are of one type,
        ``batch.input_type``, and it may return a dict by node type; a type that it does not have
        gets no rows, and is absent from the next layer's ``batch.x_dict``.
    ds : Dataset
        With in-neighbours.
    out : path-like
        The ``.gd`` file to write. Of a typed graph, a folder, with a file for each node type.
    gather : sequence of str
        Attributes of nodes and edges that the functions use, "x" included.
    memory_limit : int or str, optional
        Bytes, or a text such as "2GB", that rows of mini-batches and what is kept of the files may
        take. Default: 512 MB of rows in mini-batches; of the files, what there is room for.
    device : torch device, optional
        Where batches are moved to. Default: that of the model's parameters, else the CPU.
    dtype : str
        Of the files: "float32", "float16" or "bfloat16".
    resume : bool, optional
        Whether to continue an inference with the same model, dataset, `out` and limit that was
        interrupted. Default: an error if there is one.
    progress : bool
        Whether to show progress on stderr, and of each layer whether it is streamed or gathered.

    Returns
    -------
    FeatureStore
        Rows by the user's ids. Of a typed graph, a dict of them by node type.

    Raises
    ------
    TypeError
        If the layers of the model are not known; says why, and shows the functions to write.
    ValueError
        If a layer depends on more than the neighbours of a node, such as by a norm over all nodes
        of the graph, or is random; if a whole model is given attributes of edges; if a node has
        more neighbours than fit in memory; if the dataset has no in-neighbours, or was edited in
        place; if an interrupted inference was another one.
    OSError
        With errno and path: no permission, no disk space, or another process writes to `out`.
    """
    layers = layers_of(model)
    is_whole_model = not isinstance(model, Sequence)
    if is_whole_model and not isinstance(model, torch.fx.GraphModule):
        ds.require_untyped("whole models are computed")
    streamed = [layer for layer in layers if isinstance(layer, StreamedLayer)]
    weights = set().union(*(layer.edge_weights for layer in streamed))
    check_inferable(ds, gather)
    ds.require_unedited(sorted(weights))
    if dtype not in _DTYPES:
        raise ValueError(f"dtype must be one of {', '.join(_DTYPES)}, not {dtype!r}")
    limit = None if memory_limit is None else parse_size(memory_limit, "memory_limit")
    if limit is not None and limit < _LEAST_LIMIT:
        raise ValueError(f"memory_limit must be at least {format_bytes(_LEAST_LIMIT)}")
    functions = [model] if is_whole_model else model
    modules = [function for function in functions if isinstance(function, torch.nn.Module)]
    modules += [module for layer in streamed for module in layer.modules]
    if device is None:
        devices = (parameter.device for module in modules for parameter in module.parameters())
        device = next(devices, torch.device("cpu"))
    common = LayerOptions(
        gather=tuple(gather),
        limit=limit,
        device=torch.device(device),
        widest=_widest(modules),
        dtype=dtype,
    )
    run = _Inference(
        ds=ds,
        layers=layers,
        common=common,
        compute=_compute or (lambda layer, ranges: layer.rows(ranges)),
        target=Path(os.path.realpath(out)),
    )
    edge_attributes = {name for edges in ds.edges.values() for name in edges.attributes}
    if is_whole_model and (unused := edge_attributes.intersection(gather)):
        raise ValueError(
            f"whole models are computed without attributes of edges: leave "
            f"{', '.join(sorted(unused))} out of gather, or give a list with a function for each "
            f"layer that uses them"
        )
    if ds.is_typed:
        run.target.mkdir(exist_ok=True)
    outputs = [Output("out", path) for path in run.outputs(ds.nodes).values()]
    check_outputs(outputs, files_of_dataset(ds.paths))
    options = run.options(modules, [*gather, *sorted(weights)])
    with evaluating(modules), working_folder(run.target, options, resume) as folder:
        return run.all_layers(folder, progress)


def check_inferable(ds: Dataset, gather: Sequence[str]) -> None:
    """Raises ValueError if attributes do not fit, were edited in place, or point the other way."""
    if isinstance(gather, str):
        raise ValueError(f"gather names several attributes: use [{gather!r}]")
    ds.require_unedited(gather)
    if ds.neighbors == "out":
        raise ValueError(
            "inference needs in-neighbours, along whose edges messages flow: build the dataset "
            "with neighbors='in', or change it with graphzero.reorder(..., neighbors='in')"
        )
    if not any("x" in nodes.attributes for nodes in ds.nodes.values()):
        raise ValueError("the dataset has no attribute 'x': build it with features")


def _widest(modules: Sequence[torch.nn.Module]) -> int:
    """The most numbers that a linear map of a model computes for a node."""
    sizes = (
        len(matrix) for module in modules for matrix in module.parameters() if matrix.dim() == 2
    )
    return max(sizes, default=1)


@dataclass(frozen=True, kw_only=True)
class _Inference:
    """All layers of a model, one after the other."""

    ds: Dataset
    layers: Sequence[Layer | StreamedLayer]
    common: LayerOptions
    compute: Compute
    target: Path

    def options(
        self, modules: Sequence[torch.nn.Module], gather: Sequence[str]
    ) -> dict[str, object]:
        """What the result is a function of, as far as it is known, in plain values."""
        graphs = [edges.graph.identity for edges in self.ds.edges.values()]
        owners = [*self.ds.nodes.values(), *self.ds.edges.values()]
        files = [
            store.identity
            for owner in owners
            for name, store in owner.attributes.items()
            if name in gather
        ]
        crc = 0
        for module in modules:
            for tensor in module.state_dict().values():
                crc = zlib.crc32(tensor.cpu().contiguous().view(-1).view(torch.uint8).numpy(), crc)
        return {
            "graph": f"{zlib.crc32(repr(graphs).encode()):08x}",
            "attributes": f"{zlib.crc32(repr(files).encode()):08x}",
            "model": f"{crc:08x}" if modules else "functions",
            "layers": [_way(layer) for layer in self.layers],
            "dtype": self.common.dtype,
            "gather": list(gather),
            "memory_limit": self.common.limit,
        }

    def all_layers(self, folder: Folder, progress: bool) -> FeatureStore | dict[str, FeatureStore]:
        """Computes what is not in the folder, and moves the last rows to their place."""
        files = [
            {node_type: f"{i}-{number}.gd" for number, node_type in enumerate(self.ds.nodes)}
            for i in range(len(self.layers))
        ]
        num_done = sum(folder.done.keys() >= set(of_layer.values()) for of_layer in files)
        with tqdm(
            total=len(self.layers) * self.ds.num_nodes,
            initial=num_done * self.ds.num_nodes,
            unit=" nodes",
            unit_scale=True,
            disable=not progress,
        ) as bar:
            for i in range(num_done, len(self.layers)):
                way = _way(self.layers[i])
                bar.set_description(f"layer {i + 1} of {len(self.layers)}, {way}")
                with ExitStack() as stack:
                    view = copy(self.ds)
                    if i > 0:
                        _replace_x(view, folder, files[i - 1], stack)
                    messages = getattr(self.layers[i], "messages", None)
                    if isinstance(messages, Messages) and messages.degree_norm:
                        degrees = stack.enter_context(_degrees(self.ds, folder))
                        view.nodes[NODES].attributes[DEGREE] = degrees
                    self._one_layer(i, view, folder, files[i], bar.update)
                if i > 0:
                    for name in files[i - 1].values():
                        (folder.path / name).unlink(missing_ok=True)
        return self._publish(folder, files[-1])

    def _one_layer(
        self,
        i: int,
        view: Dataset,
        folder: Folder,
        files: Mapping[str, str],
        advance: Callable[[int], object],
    ) -> None:
        """Writes the rows of a layer, for each node type of which they are not there."""
        for node_type, name in files.items():
            if name in folder.done:
                advance(self.ds.nodes[node_type].num_nodes)
                continue
            layer, called = self.layers[i], f"layer {i}"
            computed = (
                StreamedRows(self.common, view, node_type, layer, called)
                if isinstance(layer, StreamedLayer)
                else OneLayer(self.common, view, node_type, layer, called)
            )
            file = folder.file(name, self.ds.nodes[node_type], self.common.dtype)
            folder.done[name] = computed.has_rows and self._write(computed, file, advance)
            folder.save()

    def _write(
        self, layer: OneLayer | StreamedRows, file: RowsFile, advance: Callable[[int], object]
    ) -> bool:
        """Writes the rows that are not there; whether the layer has any."""
        advance(file.rows)
        with file, ExitStack() as stack:
            ranges = list(layer.ranges(file.rows))
            computed = stack.enter_context(closing(self.compute(layer, ranges)))
            writer = WorkerThreads(1, "graphzero-write")
            stack.callback(writer.close)
            written = writer.submit(lambda: None)  # nothing yet
            for rows in computed:
                written.result()  # an error, before other rows take the place of these
                if rows is None and file.rows > 0:
                    raise ValueError("a layer returned rows of some nodes, and none of others")
                if rows is None:
                    return False
                written = writer.submit(file.append, rows)
                advance(len(rows))
            written.result()
            file.finish()
        return True

    def outputs(self, node_types: Iterable[str]) -> dict[str, Path]:
        """The files to write, by node type."""
        if not self.ds.is_typed:
            return {NODES: self.target}
        return {name: self.target / f"{quote(name, safe=' ')}.gd" for name in node_types}

    def _publish(
        self, folder: Folder, files: Mapping[str, str]
    ) -> FeatureStore | dict[str, FeatureStore]:
        outputs = self.outputs(node_type for node_type, name in files.items() if folder.done[name])
        for node_type, path in outputs.items():
            if (folder.path / files[node_type]).exists():  # it may have been killed here before
                replace_file(folder.path / files[node_type], path)
        for path in set(self.outputs(files).values()) - set(outputs.values()):
            path.unlink(missing_ok=True)  # of types that have no rows any more
        for parent in {path.parent for path in outputs.values()}:
            sync_folder(parent)
        stores = {node_type: FeatureStore(path) for node_type, path in outputs.items()}
        return stores if self.ds.is_typed else stores[NODES]


def _way(layer: Layer | StreamedLayer) -> str:
    """How a layer is computed."""
    return "streamed" if isinstance(layer, StreamedLayer) else "gathered"


def _replace_x(view: Dataset, folder: Folder, files: Mapping[str, str], stack: ExitStack) -> None:
    """Has the rows of a layer in place of the features, until the end of a block."""
    for node_type, nodes in view.nodes.items():
        nodes.attributes.pop("x", None)
        if folder.done[files[node_type]]:
            rows = FeatureStore(folder.path / files[node_type])
            nodes.attributes["x"] = stack.enter_context(rows)


def _degrees(ds: Dataset, folder: Folder) -> FeatureStore:
    """The number of incoming edges of each node, without self-loops, in a file."""
    name, nodes, graph = f"{DEGREE}.gd", ds.nodes[NODES], ds.graph
    if folder.done.get(name):
        return FeatureStore(folder.path / name)
    with RowsFile(folder, folder.path / name, nodes, RowsState(name), "float32") as file:
        for begin, end, _ in node_ranges([graph], graph.num_nodes, CHUNK):
            ends = graph.indptr[begin : end + 1].astype(np.int64)
            degrees = ends[1:] - ends[:-1]
            first = int(graph.indptr[begin])
            owners = np.repeat(np.arange(begin, end), degrees)
            loops = owners[graph.indices[first : first + len(owners)] == owners]
            degrees -= np.bincount(loops - begin, minlength=end - begin)
            file.append(degrees.astype(np.float32))
        file.finish()
    folder.done[name] = True
    return FeatureStore(folder.path / name)


class OneLayer:
    """One layer for the nodes of one type, by gathering."""

    ranges_of_task: int | None = 4  # of `graphzero.ray`

    def __init__(
        self, options: LayerOptions, view: Dataset, node_type: str, layer: Layer, name: str
    ) -> None:
        self._options, self._view, self._node_type = options, view, node_type
        self._layer, self._name = layer, name
        self.has_rows = view.nodes[node_type].num_nodes > 0  # as far as is known
        self._edges = [e for e in view.edges.values() if e.owner.node_type == node_type]
        stores = [nodes.attributes["x"] for nodes in view.nodes.values() if "x" in nodes.attributes]
        self._width = max((store.feature_dim for store in stores), default=1)
        self._most = self._fitting(self._width)
        are_floats = bool(stores) and all(store.dtype.kind in "fV" for store in stores)
        limit = options.limit
        self._batching = Batching(
            ranks=Ranks(distributed=False),
            prefetch=Prefetch(memory_limit=None if limit is None else limit - limit // _SHARE),
            gather=options.gather,
            feature_dtype=np.dtype(np.float32) if are_floats else None,
        )
        self._collate = Collate(view)

    def _fitting(self, width: int) -> int:
        """Edges and nodes of a mini-batch, where rows have a width."""
        limit = self._options.limit
        budget = _BATCH_BYTES if limit is None else limit // _SHARE
        return max(2, budget // (_COPIES * 4 * width + _EDGE_BYTES))

    def _require_room(self, largest: NodeRange, width: int) -> None:
        """Refuses a node that takes more memory than there is, although it is alone."""
        limit = self._options.limit
        room = available_memory() if limit is None else limit
        need = largest.size * (_COPIES_ALONE * 4 * width + _EDGE_BYTES)
        if need > room and largest.end - largest.begin == 1:
            stored = np.array([largest.begin])
            user_id = int(self._view.nodes[self._node_type].to_user(stored)[0])
            raise ValueError(
                f"node {user_id} has {largest.size - 1:,} neighbours, whose rows take "
                f"{format_bytes(need)} in {self._name}, and there are {format_bytes(room)}: give a "
                f"larger memory_limit, or the layer as a graphzero.StreamedLayer, which needs no "
                f"memory for neighbours"
            )

    def ranges(self, start: int) -> Iterator[NodeRange]:
        """Ranges of nodes from `start` on, which fit in memory; they begin where others end."""
        width = max(self._width, self._options.widest, self._check())
        self._most = self._fitting(width)
        lists = [edges.graph for edges in self._edges]
        num_nodes = self._view.nodes[self._node_type].num_nodes
        ranges = list(node_ranges(lists, num_nodes, self._most))
        self._require_room(max(ranges, key=lambda nodes: nodes.size), width)
        return (nodes for nodes in ranges if nodes.begin >= start)

    def rows(self, ranges: Sequence[NodeRange]) -> Generator[Rows | None, None, None]:
        """The rows of each of some ranges of nodes; None if the layer has none for this type."""
        batches = self._batches(ranges)
        with closing(batches.iterate(WorkerProgress(0, 0, 0, Share()))) as iterator:
            for sampled in iterator:
                rows = self._rows_of(sampled)
                yield None if rows is None else rows.float().cpu().numpy()

    def _batches(self, ranges: Sequence[NodeRange]) -> RangeDataset:
        return RangeDataset(self._view, self._node_type, ranges, self._batching)

    def _rows_of(self, sampled: SampledBatch) -> torch.Tensor | None:
        batch = self._collate(sampled).to(self._options.device)
        return rows_of(self._layer, batch, self._node_type, self._name)

    def _check(self) -> int:
        """The width of the rows, tried on some nodes; refuses what depends on more than neighbours.

        Their neighbours' neighbours are given to the layer as well: the weights of a GCNConv, which
        depend on the degrees in the batch, then change, and so do dropout and batch norm in
        training mode. Every second node is given to it alone: norms over all nodes then change.
        """
        nodes, batches = self._view.nodes[self._node_type], self._batches([])
        tried = np.unique(np.linspace(0, nodes.num_nodes - 1, 64 * _CHECKED).astype(np.int64))
        degrees = np.zeros(len(tried), np.int64)
        for edges in self._edges:
            degrees += (edges.graph.indptr[tried + 1] - edges.graph.indptr[tried]).astype(np.int64)
        order = np.argsort(degrees, kind="stable")
        order = order[-max(_CHECKED, int((degrees > 0).sum())) :]  # few others
        order = order[np.unique(np.linspace(0, len(order) - 1, _CHECKED).astype(np.int64))]
        most = max(self._most, _CHECKED_EDGES) // _SOURCES_FANOUT
        seeds = tried[order[degrees[order].cumsum() <= most]]

        def rows_around(seeds: IdArray, *fanouts: int) -> torch.Tensor | None:
            sampler = NeighborSampler(self._view, fanouts, num_threads=1)
            subgraph = sampler.sample_stored({self._node_type: seeds}, epoch=0, batch=0)
            sampled = SampledBatch(subgraph, seeds, input_type=self._node_type)
            rows = self._rows_of(batches.with_rows(sampled, 1))
            return None if rows is None else rows.float().reshape(len(seeds), -1)

        rows = rows_around(seeds, -1) if len(seeds) else None
        if rows is None:
            return 1
        changes = [
            (rows_around(seeds, -1, _SOURCES_FANOUT), rows),
            (rows_around(seeds[::2].copy(), -1), rows[::2]),
        ]
        differences = [(a - b).abs().nan_to_num().max() for a, b in changes if a is not None]
        worst = float(max(differences, default=0))
        if worst > _TOLERANCE * max(_TOLERANCE, float(rows.abs().nan_to_num().max())):
            raise ValueError(DEPENDS_ON_MORE.format(self._name, worst))
        return int(rows.shape[1])
