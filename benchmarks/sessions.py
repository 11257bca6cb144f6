"""Sessions of graphzero and of other libraries, which a benchmark runs in processes of their own.

``python sessions.py NAME`` answers requests with the methods of one class, one JSON object per
line: the method's result with its measured times, or ``{"error": message}``. The environments of
other libraries have NumPy and the standard library beside them. There, a node's neighbours are the
targets of its edges, as everywhere in the benchmarks of sampling.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import json
import math
import mmap
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def open_huge(folder: str) -> Any:
    """The dataset with its topology in huge pages, all of which are there when this returns."""
    import graphzero

    ds = graphzero.open(folder, topology="huge")
    assert ds.huge_topology is not None
    ds.huge_topology.wait()
    return ds


def steps_of(walks: Any) -> int:
    """Steps to another node: at dead ends walks repeat their node, or go on with -1."""
    return int(((walks[:, 1:] != walks[:, :-1]) & (walks[:, 1:] >= 0)).sum())


class Session:
    """What one process keeps open between requests."""

    def __init__(self) -> None:
        self.times: dict[str, float] = {}

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Measures the part of a request that counts."""
        processor, begin = time.process_time(), time.perf_counter()
        yield
        self.times = {
            "seconds": time.perf_counter() - begin,
            "processor_seconds": time.process_time() - processor,
        }


class Graphzero02(Session):
    """graphzero 0.2.0."""

    def __init__(self) -> None:
        super().__init__()
        import numpy

        import graphzero

        self.np, self.gz = numpy, graphzero

    def convert(self, edges: str, out: str) -> dict[str, Any]:
        """Converts a CSV edge list, directed; syncs nothing."""
        with self.timed():
            self.gz.convert_csv_to_gl(edges, out, True)
        return {"num_edges": int(self.gz.Graph(out).num_edges), "version": self.gz.__version__}

    def open_lists(self, graph: str) -> dict[str, Any]:
        """Opens the graph alone, whatever its size."""
        self.graph = self.gz.Graph(graph)
        return {"num_edges": int(self.graph.num_edges)}

    def open(self, graph: str, degrees: str) -> dict[str, Any]:
        """Opens the graph and touches every page."""
        self.graph = self.gz.Graph(graph)
        self.degrees = self.np.load(degrees)
        self.graph.batch_random_fanout(list(range(self.degrees.size)), 10)
        versions = {"graphzero": self.gz.__version__, "numpy": self.np.__version__}
        return {"versions": versions, "num_edges": int(self.graph.num_edges)}

    def walk(self, seeds: str, out: str, length: int, p: float, q: float) -> dict[str, Any]:
        """Walks of `length` steps, (n, length + 1) int64.

        Both methods return one column more than requested. The uniform one does not set the last
        column, so one step more is requested.
        """
        starts = self.np.load(seeds).tolist()
        with self.timed():
            if p == q == 1.0:
                walks = self.graph.batch_random_walk_uniform(starts, length + 1)
            else:
                walks = self.graph.batch_random_walk(starts, length, p, q)
        self.np.savez(out, walks=walks[:, : length + 1])
        return {}

    def one_hop(self, seeds: str, out: str, fanout: int) -> dict[str, Any]:
        """Neighbours, (n, fanout) int64; entries beyond a node's degree are padding."""
        np, nodes = self.np, self.np.load(seeds)
        requested = nodes.tolist()
        with self.timed():
            neighbors = self.graph.batch_random_fanout(requested, fanout)
        real = np.arange(fanout) < self.degrees[nodes][:, None]
        np.savez(out, target=np.repeat(nodes, real.sum(axis=1)), source=neighbors[real])
        return {}


class PyG(Session):
    """torch-cluster, torch-sparse and PyG's NeighborLoader on them."""

    def __init__(self) -> None:
        super().__init__()
        import numpy
        import torch
        import torch_geometric

        # Importing the extensions registers their operators.
        extensions = ("torch_scatter", "torch_sparse", "torch_cluster")
        modules = {name: importlib.import_module(name) for name in extensions}
        if torch_geometric.typing.WITH_PYG_LIB:
            raise RuntimeError("PyG would sample by pyg-lib: it must not be installed here")
        modules |= {"torch": torch, "torch_geometric": torch_geometric}
        self.versions = {name: str(module.__version__) for name, module in modules.items()}
        self.np, self.torch = numpy, torch

    def open(self, edges: str, features: str, labels: str, num_nodes: int) -> dict[str, Any]:
        """Reads everything into memory and sorts the edges by source."""
        from torch_geometric.data import Data

        np, torch = self.np, self.torch
        pairs = np.load(edges, mmap_mode="r")
        keys = pairs[:, 0] * num_nodes + pairs[:, 1]
        keys.sort()
        source, target = (torch.from_numpy(part) for part in np.divmod(keys, num_nodes))
        self.indptr = torch.zeros(num_nodes + 1, dtype=torch.int64)
        torch.cumsum(torch.bincount(source, minlength=num_nodes), 0, out=self.indptr[1:])
        self.indices = target
        # PyG samples the edges that arrive at a node, so it gets the transposed graph.
        self.data = Data(
            x=torch.from_numpy(np.load(features)),
            y=torch.from_numpy(np.load(labels)),
            edge_index=torch.stack([target, source]),
            num_nodes=num_nodes,
        )
        return {"versions": self.versions, "num_edges": int(self.indices.numel())}

    def open_lists(self, graph: str) -> dict[str, Any]:
        """Maps the lists in a ``.gl`` file of graphzero 0.2, whatever their size."""
        *_, starts_at, targets_at, nodes, edges, _ = self.np.fromfile(graph, "<i8", 8).tolist()
        parts = ((starts_at, nodes + 1), (targets_at, edges))
        self.indptr, self.indices = (
            self.torch.from_numpy(self.np.memmap(graph, "<i8", "c", at, (size,)))
            for at, size in parts
        )
        return {"num_edges": edges}

    def walk(self, seeds: str, out: str, length: int, p: float, q: float) -> dict[str, Any]:
        """Walks of `length` steps; a dead end repeats its node.

        Calls the operator directly: `torch_cluster.random_walk` would sort all edges in each call.
        """
        starts = self.torch.from_numpy(self.np.load(seeds))
        with self.timed():
            walks, _ = self.torch.ops.torch_cluster.random_walk(
                self.indptr, self.indices, starts, length, p, q
            )
        self.np.savez(out, walks=walks.numpy())
        return {}

    def windows(self, seeds: str, out: str, batch_size: int, **how: Any) -> dict[str, Any]:
        """Windows and negatives from the loader of `Node2Vec`, on torch-cluster's operator.

        PyG 2.8 asks for pyg-lib in the constructor, so the attributes are set here.
        """
        from torch_geometric.nn import Node2Vec

        model = Node2Vec.__new__(Node2Vec)
        self.torch.nn.Module.__init__(model)
        model.random_walk_fn = self.torch.ops.torch_cluster.random_walk
        model.rowptr, model.col = self.indptr, self.indices
        model.num_nodes, model.num_negative_samples = self.indptr.numel() - 1, 1
        model.walk_length = how.pop("walk_length") - 1
        for name, value in how.items():
            setattr(model, name, value)
        starts = self.torch.from_numpy(self.np.load(seeds))
        rows = 0
        with self.timed():
            for pos_rw, _ in self.torch.utils.data.DataLoader(
                starts,
                batch_size=batch_size,
                collate_fn=lambda each: model.sample(self.torch.stack(each)),
            ):
                rows += len(pos_rw)
        self.np.savez(out, rows=rows, pos_rw=pos_rw.numpy())
        return {}

    def multi_hop(self, seeds: str, out: str, fanouts: list[int]) -> dict[str, Any]:
        """Relabelled subgraphs of several batches; returns the last one for a check."""
        batches = self.torch.from_numpy(self.np.load(seeds))
        with self.timed():
            for batch in batches:
                n_id, row, col, _ = self.torch.ops.torch_sparse.neighbor_sample(
                    self.indptr, self.indices, batch, fanouts, False, True
                )
        edge_index = self.torch.stack([row, col]).numpy()
        self.np.savez(out, n_id=n_id.numpy(), edge_index=edge_index)
        return {}

    def load(self, seeds: str, out: str, fanouts: list[int]) -> dict[str, Any]:
        """The same batches from a NeighborLoader, with rows and labels."""
        from torch_geometric.loader import NeighborLoader
        from torch_geometric.sampler import NeighborSampler

        batches = self.torch.from_numpy(self.np.load(seeds))
        if not hasattr(self, "sampler"):
            self.sampler = NeighborSampler(self.data, fanouts, is_sorted=True)
        how = {"input_nodes": batches.reshape(-1), "batch_size": batches.shape[1]}
        loader = NeighborLoader(self.data, fanouts, neighbor_sampler=self.sampler, **how)
        with self.timed():
            for item in loader:
                batch = item
        arrays = {name: batch[name].numpy() for name in ("n_id", "edge_index", "x", "y")}
        self.np.savez(out, **arrays)
        return {}


class DuckDB(Session):
    """DuckDB, which sorts a CSV edge list into a Parquet file."""

    def convert(self, edges: str, out: str, threads: int) -> dict[str, Any]:
        """`COPY (SELECT ... ORDER BY src, dst) TO ...`."""
        duckdb = importlib.import_module("duckdb")
        with duckdb.connect() as connection:
            connection.execute(f"SET threads = {int(threads)}")
            with self.timed():
                connection.execute(
                    f"COPY (SELECT src, dst FROM read_csv('{edges}') ORDER BY src, dst) "
                    f"TO '{out}' (FORMAT parquet)"
                )
            found = connection.execute(f"SELECT count(*) FROM read_parquet('{out}')").fetchone()
        return {"num_edges": int(found[0]), "version": duckdb.__version__}


class Own(Session):
    """graphzero of this process's path, by the public interface that every version has.

    Its modules beside this file are found by their own names: `benchmarks` may be that of another
    version, which stands on the path.
    """

    def __init__(self) -> None:
        super().__init__()
        import numpy

        import graphzero

        self.np, self.gz = numpy, graphzero
        self.machine, self.inputs = (importlib.import_module(n) for n in ("machine", "inputs"))
        self.batches: Any = None

    def about(self) -> dict[str, Any]:
        """Which graphzero this is."""
        return {"file": self.gz.__file__, "version": self.gz.__version__}

    def convert(self, edges: str, out: str, **options: Any) -> dict[str, Any]:
        """`gz.build`, up to the synced and published dataset; with its peak of memory.

        `neighbors` is left out where this version does not know it: its lists are "out".
        """
        if "neighbors" not in inspect.signature(self.gz.build).parameters:
            options.pop("neighbors", None)
        with self.machine.PeakAnonymous() as anonymous, self.timed():
            ds = self.gz.build(out, edges, **options)
        counts = {"num_nodes": ds.num_nodes, "num_edges": ds.num_edges}
        ds.close()
        return {**counts, "peak_anonymous": anonymous.peak, "version": self.gz.__version__}

    def copy(self, dataset: str, out: str) -> dict[str, Any]:
        """Copies a dataset to the disk, as a build leaves it there."""
        with self.timed():
            shutil.copytree(dataset, out)
            for name in os.listdir(out):
                with open(os.path.join(out, name), "rb") as file:
                    os.fsync(file.fileno())
        return {}

    def append(self, dataset: str, edges: str, memory_limit: int) -> dict[str, Any]:
        """Appends edges to a dataset."""
        with self.timed():
            ds = self.gz.append(dataset, edges, memory_limit=memory_limit)
        ds.close()
        return {}

    def opening(self, dataset: str, runs: int) -> dict[str, Any]:
        """Seconds of each `gz.open`, and the anonymous memory of the first that stays open."""
        self.gz.open(dataset).close()  # imports what it needs
        kept, taken, seconds = [], self.machine.anonymous_bytes(), []
        for _ in range(runs):
            with self.timed():
                kept.append(self.gz.open(dataset))
            seconds.append(self.times["seconds"])
        private = (self.machine.anonymous_bytes() - taken) / runs
        return {"each": seconds, "private": private}

    def open(self, dataset: str, threads: int, huge: bool = False) -> dict[str, Any]:
        """Opens a dataset, or opens it in huge pages."""
        import torch

        torch.set_num_threads(threads)
        with self.timed():
            self.ds: Any = open_huge(dataset) if huge else self.gz.open(dataset)
        self.threads, self.folder = threads, dataset
        versions = {"graphzero": self.gz.__version__, "torch": torch.__version__}
        return {"versions": versions, "num_edges": self.ds.num_edges}

    def walk(
        self, seeds: str, length: int, p: float, q: float, out: str = "", number: int = 0
    ) -> dict[str, Any]:
        """Walks from some nodes."""
        starts, threads = self.np.load(seeds), self.threads
        with self.timed():
            walks = self.ds.graph.random_walk(
                starts, length, p=p, q=q, seed=number, num_threads=threads
            )
        return self._saved(out, walks=walks)

    def walks(
        self,
        seeds: str,
        length: int,
        p: float,
        q: float,
        number: int = 0,
        most_seconds: float = math.inf,
    ) -> dict[str, Any]:
        """Walks from each row of a file of (rounds, starts) nodes, a call each, up to a time."""
        rounds, how = self.np.load(seeds), {"num_threads": self.threads, "p": p, "q": q}
        draw = self.ds.graph.random_walk
        found = (draw(one, length, seed=number + 99 * i, **how) for i, one in enumerate(rounds))
        laps: list[float] = []
        steps, walks = 0, None
        before = self.machine.read_counters(self.folder)
        with self.machine.PeakAnonymous() as anonymous:
            while sum(laps) < most_seconds:
                with self.timed():
                    walks = next(found, None)
                if walks is None:
                    break
                laps.append(self.times["seconds"])
                steps += steps_of(walks)
                walks = None  # frees its memory
        cost = self.machine.read_counters(self.folder).since(before)
        self.times = {"seconds": sum(laps)}
        return {"laps": laps, "work": steps, **self._cost(cost, anonymous)}

    def one_hop(self, seeds: str, fanout: int, out: str = "", number: int = 0) -> dict[str, Any]:
        """Neighbours of some nodes, without relabelling."""
        nodes, threads = self.np.load(seeds), self.threads
        with self.timed():
            found = self.ds.graph.sample_neighbors(nodes, fanout, seed=number, num_threads=threads)
        target = self.np.repeat(nodes, self.np.diff(found.indptr))
        return self._saved(out, target=target, source=found.indices)

    def windows(self, seeds: str, out: str, number: int = 0, **how: Any) -> dict[str, Any]:
        """Windows of walks and negatives."""
        loader = self.gz.WalkLoader(
            self.ds, self.np.load(seeds), seed=number, num_threads=self.threads, **how
        )
        rows = 0
        with self.timed():
            for pos_rw, _ in loader:
                rows += len(pos_rw)
        return self._saved(out, rows=rows, pos_rw=pos_rw.numpy())

    def _saved(self, out: str, **arrays: Any) -> dict[str, Any]:
        if out:
            self.np.savez(out, **arrays)
        return {}

    def load(
        self,
        seeds: str,
        fanouts: list[int],
        out: str = "",
        number: int = 0,
        rows: bool = True,
        workers: int = 0,
        prefetch: dict[str, Any] | None = None,
        train: dict[str, Any] | None = None,
        pack: str = "",
        most_seconds: float = math.inf,
    ) -> dict[str, Any]:
        """An epoch in the open form; with `train`, of training or of sleeping.

        Parameters
        ----------
        seeds : str
            A file of (batches, batch_size) nodes. In epochs after 0 they are shuffled.
        fanouts : list of int
        out : str
            The last batch is saved there.
        number : int
            The epoch.
        rows : bool
            Whether batches have features and labels.
        workers : int
            Of the DataLoader.
        prefetch : dict, optional
            Fields of `Prefetch`.
        train : dict, optional
            {"hidden": 256} for a GraphSAGE of this size, or {"sleep_ms": 20} for a sleep in place
            of a model elsewhere.
        pack : str
            Read from this pack.
        most_seconds : float
            End the epoch at the first batch after this time.
        """
        from torch.utils.data import DataLoader

        how: Any = {"num_threads": self.threads, "prefetch": self._prefetch(prefetch)}
        if self.batches is None or out:
            nodes = self.np.load(seeds)
            flat = nodes.reshape(-1)
            if pack:
                self.batches = self.gz.PackedDataset(self.ds, pack, flat, **how)
            else:
                how |= {"batch_size": nodes.shape[1], "shuffle": not out}
                how |= {} if rows else {"gather": ()}
                self.batches = self.gz.NeighborDataset(self.ds, flat, fanouts, **how)
            self.step = None if train is None else self._step_of(train, len(fanouts))
        self.batches.set_epoch(number)
        collate: Any = self.gz.Collate(self.ds) if rows else _same
        loader = DataLoader(self.batches, batch_size=None, num_workers=workers, collate_fn=collate)
        waited, edges, laps = 0.0, 0, []
        before = self.machine.read_counters(self.folder)
        with self.machine.PeakAnonymous() as anonymous, self.timed():
            requested = time.perf_counter()
            for batch in loader:
                waited += time.perf_counter() - requested
                if self.step is not None:
                    self.step(batch)
                last = batch
                edges += sum((batch if rows else batch.subgraph).num_sampled_edges)
                del batch  # frees the memory of the one before
                laps.append(time.perf_counter() - requested)
                if sum(laps) > most_seconds:
                    break
                requested = time.perf_counter()
        cost = self.machine.read_counters(self.folder).since(before)
        names = ("n_id", "edge_index", *(("x", "y") if rows else ()))
        batch = last if rows else last.subgraph
        arrays = {name: self.np.asarray(getattr(batch, name)) for name in names} if out else {}
        cost = self._cost(cost, anonymous)
        cost |= {"waited": waited, "edges": edges, "laps": laps}
        return {**cost, **self._saved(out, **arrays)}

    def rows(
        self,
        seeds: str,
        nodes: str,
        count: int,
        how: str,
        number: int = 0,
        prefetch: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """The rows of the next `count` batches, whose nodes are the seeds, without sampling.

        Parameters
        ----------
        seeds : str
            A file of (batches, size) ids.
        nodes : str
            A file of the node that each id stands for, by which rows are checked.
        count : int
        how : {"loader", "memmap"}
            By a loader, or by torch from the mapped file ``features.npy`` beside the nodes, with
            MADV_RANDOM.
        prefetch : dict, optional
            Fields of `Prefetch`.
        """
        if self.batches is None:
            self.batches = getattr(self, f"_{how}_rows")(self.np.load(seeds), nodes, prefetch)
        read = 0
        last: Any = None
        before = self.machine.read_counters(self.folder)
        with self.machine.PeakAnonymous() as anonymous, self.timed():
            for _ in range(count):
                del last
                last = next(self.batches)
                read += len(last[0])
        cost = self.machine.read_counters(self.folder).since(before)
        true = self.np.load(nodes, mmap_mode="r")
        for begin in range(0, len(last[0]), 1024):  # memory is limited
            ids, found = (part[begin : begin + 1024] for part in last)
            if not self.np.array_equal(found, self.inputs.feature_rows(true[ids], found.shape[1])):
                raise ValueError("a row that is not its node's")
        return {"work": count, "rows": read, **self._cost(cost, anonymous)}

    def _loader_rows(self, seeds: Any, nodes: str, prefetch: Any) -> Iterator[Any]:
        from torch.utils.data import DataLoader

        how: Any = {"prefetch": self._prefetch(prefetch), "num_threads": self.threads}
        flat, size = seeds.reshape(-1), seeds.shape[1]
        batches = self.gz.NeighborDataset(self.ds, flat, [1], batch_size=size, **how)
        collate: Any = self.gz.Collate(self.ds)
        for batch in DataLoader(batches, batch_size=None, collate_fn=collate):
            rows: Any = batch.x
            yield batch.n_id.numpy(), rows.numpy()

    def _memmap_rows(self, seeds: Any, nodes: str, prefetch: Any) -> Iterator[Any]:
        import torch

        mapped = self.np.load(os.path.join(os.path.dirname(nodes), "features.npy"), mmap_mode="r")
        mapped._mmap.madvise(mmap.MADV_RANDOM)
        matrix = torch.from_numpy(mapped)
        for ids in seeds:
            yield ids, matrix[torch.from_numpy(ids)].numpy()

    def pack(self, seeds: str, out: str, fanouts: list[int], epochs: int) -> dict[str, Any]:
        """Packs the batches that `load` reads."""
        nodes = self.np.load(seeds)
        how = {"batch_size": nodes.shape[1], "shuffle": True, "epochs": epochs}
        with self.timed():
            self.gz.pack(self.ds, out, nodes.reshape(-1), fanouts, **how)
        return {"bytes": os.path.getsize(out)}

    def _prefetch(self, fields: dict[str, Any] | None) -> Any:
        return None if fields is None else self.gz.Prefetch(**fields)

    def _cost(self, cost: Any, anonymous: Any) -> dict[str, Any]:
        return {
            "read_bytes": cost.read_bytes,
            "major_faults": cost.major_faults,
            "anonymous": anonymous.peak,
        }

    def _step_of(self, train: dict[str, Any], layers: int) -> Any:
        """What is done with a batch: a step of GraphSAGE with mean aggregation, or a sleep."""
        import torch

        if "sleep_ms" in train:
            return lambda _: time.sleep(train["sleep_ms"] / 1000)
        torch.manual_seed(0)
        sizes = [self.ds.features.feature_dim, *[train["hidden"]] * (layers - 1), 64]
        pairs = list(itertools.pairwise(sizes))
        own = torch.nn.ModuleList([torch.nn.Linear(*pair) for pair in pairs])
        other = torch.nn.ModuleList([torch.nn.Linear(*pair, bias=False) for pair in pairs])
        optimizer = torch.optim.Adam([*own.parameters(), *other.parameters()], lr=0.003)

        def step(batch: Any) -> None:
            x = batch.x.float()
            for layer in range(layers):
                # Only the nodes and edges that the seeds can still see.
                hops = layers - layer
                targets = sum(batch.num_sampled_nodes[:hops])
                source, target = batch.edge_index[:, : sum(batch.num_sampled_edges[:hops])]
                total = torch.zeros(targets, x.shape[1]).index_add_(0, target, x[source])
                degree = torch.bincount(target, minlength=targets).clamp(min=1)
                mean = total / degree[:, None]
                x = own[layer](x[:targets]) + other[layer](mean)
                x = x if layer == layers - 1 else x.relu()
            labels = batch.y[: batch.batch_size].long()
            loss = torch.nn.functional.cross_entropy(x[: batch.batch_size], labels)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()

        return step


def _same(item: Any) -> Any:
    """A collate function that leaves sampled batches as they are."""
    return item


SESSIONS = {"graphzero02": Graphzero02, "pyg": PyG, "duckdb": DuckDB, "graphzero": Own}


def main() -> None:
    """Answers requests until the standard input ends."""
    # Some libraries print to the standard output, which is reserved for the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    session: Session = SESSIONS[sys.argv[1]]()
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = getattr(session, request.pop("op"))(**request) | session.times
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
