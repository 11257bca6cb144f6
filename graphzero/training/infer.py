"""`infer`: the rows that a model computes for every node, layer by layer, over all neighbours.

Each layer reads the rows of the one before from a file, and writes its own to another, in the order
in which nodes are stored. Mini-batches have as many nodes as fit in memory with all their edges; a
node with more edges than that is computed from pieces of its list.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import numpy.typing as npt
import torch
from tqdm.auto import tqdm

from graphzero.errors import FormatError
from graphzero.graph.dataset import Dataset
from graphzero.graph.features import FeatureStore
from graphzero.graph.graph import Graph
from graphzero.graph.user_input import IdArray
from graphzero.io.prefetch import Prefetch
from graphzero.loader.arguments import Batching
from graphzero.loader.mini_batch import Collate, SampledBatch
from graphzero.loader.ranks import Ranks
from graphzero.loader.seed_dataset import SeedDataset
from graphzero.loader.states import WorkerProgress
from graphzero.sampling.order import Share
from graphzero.sampling.sampler import HopReadAhead, NeighborSampler, TypedSubgraph
from graphzero.store.atomic import replace_file, sync_folder
from graphzero.store.manifest import NODES, EdgeType
from graphzero.store.outputs import Output, check_outputs, files_of_dataset
from graphzero.training.layer_files import Folder, RowsFile, new_state, working_folder
from graphzero.training.layers import (
    DEGREE,
    Layer,
    Pieces,
    evaluating,
    layers_of,
    norm_over_nodes,
    rows_of,
)
from graphzero.units import format_bytes, parse_size

_BATCH_BYTES = 512 << 20  # of rows that are in memory at the same time, without a memory_limit
_SHARE = 4  # a fourth of the limit is for rows of mini-batches, the rest for what is kept of files
_LEAST_LIMIT = 64 << 20
_COPIES = 8  # of the rows of a batch: in batches under way, as messages, as results
_EDGE_BYTES = 200  # of an edge besides: ids, positions, what sampling needs
_CHECKED, _CHECKED_EDGES, _SOURCES_FANOUT, _TOLERANCE = 16, 10_000, 10, 1e-3


NodeRange = tuple[int, int, int]  # stored nodes [begin, end), and their edges and nodes together
Rows = npt.NDArray[np.float32]
Compute = Callable[["OneLayer", Sequence[NodeRange]], Generator["Rows | None", None, None]]


def infer(
    model: Any,
    ds: Dataset,
    out: str | os.PathLike[str],
    *,
    gather: Sequence[str] = ("x",),
    memory_limit: int | str | None = None,
    device: Any = None,
    resume: bool | None = None,
    progress: bool = False,
) -> Any:
    """The rows that a model computes for every node, over all neighbours of all nodes.

    It goes layer by layer, as PyG's ``inference`` methods do (Hamilton, Ying, Leskovec: "Inductive
    Representation Learning on Large Graphs", NeurIPS 2017, computes all nodes so): every layer is
    computed once for each node, and written to a file from which the next one reads.

    Parameters
    ----------
    model : sequence of callables, GraphSAGE, or one of torch_geometric.nn.models
        Models of PyG are taken as they are: ``GraphSAGE``, ``GCN``, ``GAT``, ``GIN``, ... For
        others, a list with a function for each layer. It gets a mini-batch that has some nodes as
        seeds and all their neighbours, with the rows of the layer before as ``batch.x``, and
        returns a row for each seed, ``(batch_size, width)``, or for each node. In a typed graph the
        seeds are of one type, ``batch.input_type``, and it may return a dict by node type; a type
        that it does not have gets no rows, and is absent from the next layer's ``batch.x_dict``.
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
    resume : bool, optional
        Whether to continue an inference with the same model, dataset, `out` and limit that was
        interrupted. Default: an error if there is one.
    progress : bool
        Whether to show progress on stderr.

    Returns
    -------
    FeatureStore
        Rows by the user's ids. Of a typed graph, a dict of them by node type.

    Raises
    ------
    TypeError
        If the layers of the model are not known; shows the functions to write.
    ValueError
        If a layer depends on more than the neighbours of a node, such as by a norm over all nodes
        of the graph, or is random; if a whole model is given attributes of edges; if a node has
        more neighbours than fit in memory, and the layer cannot be computed in pieces; if the
        dataset has no in-neighbours, or was edited in place; if an interrupted inference was
        another one.
    OSError
        With errno and path: no permission, no disk space, or another process writes to `out`.
    """
    given = (gather, memory_limit, device, resume, progress)
    return infer_by(OneLayer.rows, model, ds, out, *given)


def infer_by(
    compute: Compute,
    model: Any,
    ds: Dataset,
    out: str | os.PathLike[str],
    gather: Sequence[str],
    memory_limit: int | str | None,
    device: Any,
    resume: bool | None,
    progress: bool,
) -> Any:
    """`infer`, with the function that computes the rows of some ranges of nodes of a layer."""
    layers, needs_degrees = layers_of(model)
    if not isinstance(model, Sequence):
        ds.require_untyped("whole models are computed")
    check_inferable(ds, gather)
    limit = None if memory_limit is None else parse_size(memory_limit, "memory_limit")
    if limit is not None and limit < _LEAST_LIMIT:
        raise ValueError(f"memory_limit must be at least {format_bytes(_LEAST_LIMIT)}")
    given = model if isinstance(model, Sequence) else [model]
    modules = [each for each in given if isinstance(each, torch.nn.Module)]
    if device is None:
        found = (parameter.device for module in modules for parameter in module.parameters())
        device = next(found, torch.device("cpu"))
    target = Path(os.path.realpath(out))
    run = _Inference(ds, gather, limit, torch.device(device), target, _widest(modules))
    unused = {name for name in gather for edges in ds.edges.values() if name in edges.attributes}
    if unused and not isinstance(model, Sequence):
        raise ValueError(
            f"whole models are computed without attributes of edges: leave "
            f"{', '.join(sorted(unused))} out of gather, or give a list with a function for each "
            f"layer that uses them"
        )
    if ds.is_typed:
        target.mkdir(exist_ok=True)
    outputs = [Output("out", path) for path in run.outputs(ds.nodes).values()]
    check_outputs(outputs, files_of_dataset(ds.paths))
    options = run.options(modules, len(layers))
    with evaluating(modules), working_folder(target, options, resume) as folder:
        return run.all_layers(layers, folder, needs_degrees, progress, compute)


def check_inferable(ds: Dataset, gather: Sequence[str]) -> None:
    """Raises ValueError if a dataset has no in-neighbours, or attributes were edited in place."""
    ds.require_unedited(gather)
    if ds.neighbors == "out":
        raise ValueError(
            "inference needs in-neighbours, along whose edges messages flow: build the dataset "
            "with neighbors='in', or change it with graphzero.reorder(..., neighbors='in')"
        )


def _widest(modules: Sequence[torch.nn.Module]) -> int:
    """The most numbers that a linear map of a model computes for a node."""
    sizes = (len(each) for module in modules for each in module.parameters() if each.dim() == 2)
    return max(sizes, default=1)


@dataclass(frozen=True)
class _Inference:
    """What all layers have in common."""

    ds: Dataset
    gather: Sequence[str]
    limit: int | None
    device: torch.device
    target: Path
    widest: int = 1  # of what is known to be computed for an edge

    def __post_init__(self) -> None:
        if isinstance(self.gather, str):
            raise ValueError(f"gather names several attributes: use [{self.gather!r}]")
        if not any("x" in nodes.attributes for nodes in self.ds.nodes.values()):
            raise ValueError("the dataset has no attribute 'x': build it with features")

    def options(self, modules: Sequence[torch.nn.Module], num_layers: int) -> dict[str, Any]:
        """What the result is a function of, as far as it is known, in plain values."""
        lists = [
            edges.graph.fingerprint({*edges.graph.section_bytes} - {"node_rank"})
            for edges in self.ds.edges.values()
        ]
        files = [
            repr(store.identity)
            for of in (self.ds.nodes, self.ds.edges)
            for each in of.values()
            for name, store in each.attributes.items()
            if name in self.gather
        ]
        crc = 0
        for module in modules:
            for tensor in module.state_dict().values():
                crc = zlib.crc32(tensor.cpu().contiguous().view(-1).view(torch.uint8).numpy(), crc)
        parameters = f"{crc:08x}" if modules else "functions"
        return {
            **{"graph": "-".join(lists), "attributes": f"{zlib.crc32(repr(files).encode()):08x}"},
            **{"model": parameters, "layers": num_layers, "gather": list(self.gather)},
            "memory_limit": self.limit,
        }

    def all_layers(
        self,
        layers: Sequence[Layer],
        folder: Folder,
        needs_degrees: bool,
        progress: bool,
        compute: Compute,
    ) -> Any:
        """Computes what is not in the folder, and moves the last rows to their place."""
        names = (*self.gather, DEGREE) if needs_degrees else tuple(self.gather)
        files = [
            {kind: f"{i}-{number}.gd" for number, kind in enumerate(self.ds.nodes)}
            for i in range(len(layers))
        ]
        ended = sum(folder.done.keys() >= set(each.values()) for each in files)
        with tqdm(
            total=len(layers) * self.ds.num_nodes,
            initial=ended * self.ds.num_nodes,
            **{"unit": " nodes", "unit_scale": True, "disable": not progress},
        ) as bar:
            for i in range(ended, len(layers)):
                bar.set_description(f"layer {i + 1} of {len(layers)}")
                with ExitStack() as stack:
                    rows = None if i == 0 else folder.open(files[i - 1], stack)
                    degrees = {}
                    if needs_degrees:
                        degrees[DEGREE] = stack.enter_context(_degrees(self.ds, folder))
                    view = _view(self.ds, rows, degrees)
                    for kind, name in files[i].items():
                        if name not in folder.done:
                            one = OneLayer(self, view, kind, layers[i], names, f"layer {i}")
                            folder.done[name] = one.write(folder, name, bar, compute)
                            folder.save()
                        else:
                            bar.update(self.ds.nodes[kind].num_nodes)
                if i > 0:
                    folder.remove(files[i - 1])
        return self._publish(folder, files[-1])

    def outputs(self, kinds: Iterable[str]) -> dict[str, Path]:
        """The files to write, by node type."""
        if not self.ds.is_typed:
            return {NODES: self.target}
        return {kind: self.target / f"{quote(kind, safe=' ')}.gd" for kind in kinds}

    def _publish(self, folder: Folder, files: Mapping[str, str]) -> Any:
        found = self.outputs(kind for kind, name in files.items() if folder.done[name])
        for kind, path in found.items():
            if (folder.path / files[kind]).exists():  # it may have been killed here before
                replace_file(folder.path / files[kind], path)
        for path in set(self.outputs(files).values()) - set(found.values()):
            path.unlink(missing_ok=True)  # of types that have no rows any more
        for each in {path.parent for path in found.values()}:
            sync_folder(each)
        stores = {kind: FeatureStore(path) for kind, path in found.items()}
        return stores if self.ds.is_typed else stores[NODES]


def _view(
    ds: Dataset, rows: Mapping[str, FeatureStore] | None, more: Mapping[str, FeatureStore]
) -> Dataset:
    """The dataset with the rows of a layer in place of its features."""
    view = copy(ds)
    for kind, nodes in view.nodes.items():
        if rows is not None:
            nodes.attributes.pop("x", None)
            nodes.attributes.update({"x": rows[kind]} if kind in rows else {})
        nodes.attributes.update(more)
    return view


# --- which nodes are in a mini-batch


def _ranges(lists: Sequence[Graph], num_nodes: int, most: int) -> Iterator[NodeRange]:
    """Nodes [begin, end) that have at most so many edges and nodes together, and how many.

    A node with more edges is alone.
    """
    for first in range(0, num_nodes, _CHUNK):
        last = min(num_nodes, first + _CHUNK)
        costs = np.arange(last - first + 1)
        for graph in lists:
            costs += (graph.indptr[first : last + 1] - graph.indptr[first]).astype(np.int64)
        begin = 0
        while begin < last - first:
            end = int(np.searchsorted(costs, costs[begin] + most, side="right")) - 1
            end = max(end, begin + 1)
            yield first + begin, first + end, int(costs[end] - costs[begin])
            begin = end


_CHUNK = 1 << 20


class _NodeRanges(SeedDataset):
    """Mini-batches of ranges of stored nodes of one type, with all their neighbours."""

    translates_seeds = False

    def __init__(
        self, view: Dataset, kind: str, ranges: Sequence[NodeRange], batching: Batching
    ) -> None:
        self.kind, self._ranges = kind, ranges
        widest = max((end - begin for begin, end, _ in ranges), default=1)
        batching = replace(batching, batch_size=widest)
        super().__init__(view, view.nodes[kind].num_nodes, [-1], batching)

    @property
    def num_batches(self) -> int:
        return len(self._ranges)

    def epoch_order(self, epoch: int) -> IdArray:
        return np.empty(0, np.int64)  # as stored

    def positions_of(self, order: IdArray, batch: int) -> IdArray:
        begin, end, _ = self._ranges[batch]
        return np.arange(begin, end)

    def seed_options(self) -> dict[str, Any]:
        return {"kind": self.kind}

    def sample(
        self,
        positions: IdArray,
        *,
        epoch: int,
        batch: int,
        readahead: Sequence[HopReadAhead] | None = None,
    ) -> SampledBatch:
        how: Any = {"epoch": epoch, "batch": batch, "readahead": readahead}
        return self.of(self.sampler.sample_stored({self.kind: positions}, **how), positions)

    def of(self, subgraph: TypedSubgraph, seeds: IdArray) -> SampledBatch:
        """A mini-batch of a subgraph around some seeds, without rows."""
        return SampledBatch(subgraph, seeds, input_type=self.kind)


class OneLayer:
    """One layer for the nodes of one type."""

    def __init__(
        self,
        run: _Inference,
        view: Dataset,
        kind: str,
        layer: Layer,
        gather: tuple[str, ...],
        what: str,
    ) -> None:
        self._run, self._view, self._kind, self._layer, self._what = run, view, kind, layer, what
        self._edges = [e for e in view.edges.values() if e.owner.node_type == kind]
        stores = [nodes.attributes["x"] for nodes in view.nodes.values() if "x" in nodes.attributes]
        self._width = max((store.feature_dim for store in stores), default=1)
        self._most = self._fitting(self._width)
        are_floats = bool(stores) and all(store.dtype.kind in "fV" for store in stores)
        limit = None if run.limit is None else run.limit - run.limit // _SHARE
        self._batching = Batching(
            ranks=Ranks(distributed=False),
            prefetch=Prefetch(memory_limit=limit),
            gather=gather,
            feature_dtype=np.dtype(np.float32) if are_floats else None,
        )
        self._collate = Collate(view)

    def _fitting(self, width: int) -> int:
        """Edges and nodes of a mini-batch, where rows have a width."""
        budget = _BATCH_BYTES if self._run.limit is None else self._run.limit // _SHARE
        return max(2, budget // (_COPIES * 4 * width + _EDGE_BYTES))

    def write(self, folder: Folder, name: str, bar: tqdm[Any], compute: Compute) -> bool:
        """Writes the rows; whether the layer has any for these nodes."""
        nodes = self._view.nodes[self._kind]
        if nodes.num_nodes == 0:
            return False
        self._most = self._fitting(max(self._width, self._run.widest, self._check()))
        lists = [edges.graph for edges in self._edges]
        ranges = list(_ranges(lists, nodes.num_nodes, self._most))
        file = folder.file(name, nodes)
        done = file.batches
        bar.update(0 if done == 0 else ranges[done - 1][1])
        with closing(compute(self, ranges[done:])) as computed, file:
            for (begin, end, _), rows in zip(ranges[done:], computed, strict=True):
                if rows is None and file.batches == 0:
                    return False
                if rows is None:
                    raise ValueError(f"{self._what} returned rows of {self._kind!r}, and now none")
                file.append(rows)
                bar.update(end - begin)
            file.finish()
        return True

    def rows(self, ranges: Sequence[NodeRange]) -> Generator[Rows | None, None, None]:
        """The rows of each of some ranges of nodes; None if the layer has none for this type."""
        batches = self._batches([one for one in ranges if not self._is_hub(one)])
        with closing(batches.iterate(WorkerProgress(0, 0, 0, Share()))) as iterator:
            for one in ranges:
                if self._is_hub(one):
                    rows = self._row_of_hub(batches, one[0])
                else:
                    rows = self._rows_of(next(iterator))
                yield None if rows is None else rows.float().cpu().numpy()

    def _batches(self, ranges: Sequence[NodeRange]) -> _NodeRanges:
        return _NodeRanges(self._view, self._kind, ranges, self._batching)

    def _is_hub(self, one: NodeRange) -> bool:
        return one[2] > self._most

    def _rows_of(self, sampled: SampledBatch) -> torch.Tensor | None:
        batch = self._collate(sampled).to(self._run.device)
        return rows_of(self._layer, batch, self._kind, self._what)

    def _check(self) -> int:
        """The width of the rows, tried on some nodes; refuses what depends on more than neighbours.

        Their neighbours' neighbours are given to the layer as well: the weights of a GCNConv, which
        depend on the degrees in the batch, then change, and so do dropout and batch norm in
        training mode. Every second node is given to it alone: norms over all nodes then change.
        """
        nodes, batches = self._view.nodes[self._kind], self._batches([])
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
            subgraph = sampler.sample_stored({self._kind: seeds}, epoch=0, batch=0)
            rows = self._rows_of(batches.with_rows(batches.of(subgraph, seeds), 1))
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
            norm = norm_over_nodes(lambda: rows_around(seeds, -1))
            reason = f"by {norm}, which normalises over all nodes" if norm else "as GCNConv does"
            raise ValueError(
                f"{self._what} gives a node other rows (by {worst:.2g}) when other nodes are in "
                f"the batch, too: it depends on more than the neighbours of a node, {reason}, or "
                f"dropout or batch norm is in training mode. Call model.eval(), give PyG's GCN as "
                f"a whole model, and use norms of a node alone, such as LayerNorm(mode='node'); or "
                f"compute model(data.x, data.edge_index) of the whole graph at once"
            )
        return int(rows.shape[1])

    # a node with more neighbours than fit

    def _row_of_hub(self, batches: _NodeRanges, node: int) -> torch.Tensor | None:
        nodes = self._view.nodes[self._kind]
        user = int(nodes.to_user(np.array([node]))[0])
        slices = []
        for edges in self._edges:
            begin, end = (int(edges.graph.indptr[node + i]) for i in (0, 1))
            step = max(1, self._most - 1)
            slices += [(edges.edge_type, i, min(end, i + step)) for i in range(begin, end, step)]
        count = sum(end - begin for _, begin, end in slices)
        what = f"node {user} has {count:,} neighbours, of which {self._most:,} fit in memory"
        pieces, row = Pieces(self._on_device, what), None
        for edge_type, begin, end in slices:
            subgraph = _piece(self._view, self._kind, node, edge_type, begin, end)
            sampled = batches.with_rows(batches.of(subgraph, np.array([node])), 1)
            row = pieces.run(self._collate(sampled))
        return row

    def _on_device(self, batch: Any) -> torch.Tensor | None:
        return rows_of(self._layer, batch.to(self._run.device), self._kind, self._what)


def _piece(
    view: Dataset, kind: str, node: int, edge_type: EdgeType, begin: int, end: int
) -> TypedSubgraph:
    """A node with some of the edges of its list."""
    edges = view.edges[edge_type]
    source = edges.neighbor.node_type
    listed = np.asarray(edges.graph.indices[begin:end]).astype(np.int64)
    if listed.max() >= view.nodes[source].num_nodes:
        raise FormatError(f"{edges.graph.path} has a corrupt neighbour list: see graphzero verify")
    others, local = np.unique(listed, return_inverse=True)
    stored = {each: np.empty(0, np.int64) for each in view.nodes}
    if source == kind:  # the node itself, which comes first, may be its own neighbour
        is_other = others != node
        local = np.where(is_other, np.cumsum(is_other), 0)[local]
        others = np.concatenate([[node], others[is_other]])
    else:
        stored[kind] = np.array([node])
    stored[source] = others
    nothing = np.empty((2, 0), np.int64)
    ends = np.stack([local, np.zeros_like(local)])
    at = {each: np.empty(0, np.int64) for each in view.edges}
    return TypedSubgraph(
        n_id={each: view.nodes[each].to_user(ids) for each, ids in stored.items()},
        stored_id=stored,
        edge_index={each: ends if each == edge_type else nothing for each in view.edges},
        positions={**at, edge_type: np.arange(begin, end)},
        e_id=dict.fromkeys(view.edges),
        num_sampled_nodes={
            each: [int(each == kind), len(ids) - int(each == kind)] for each, ids in stored.items()
        },
        num_sampled_edges={each: [(end - begin) * (each == edge_type)] for each in view.edges},
    )


def _degrees(ds: Dataset, folder: Folder) -> FeatureStore:
    """The number of incoming edges of each node, without self-loops, in a file."""
    name, nodes, graph = f"{DEGREE}.gd", ds.nodes[NODES], ds.graph
    if folder.done.get(name):
        return FeatureStore(folder.path / name)
    with RowsFile(folder, folder.path / name, nodes, new_state(name)) as file:
        for begin, end, _ in _ranges([graph], graph.num_nodes, _CHUNK):
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
