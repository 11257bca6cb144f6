"""Checksums of what every kind of sampling, strategy and builder gives, as recorded on one day.

``python tests/recorded_batches.py`` records them anew, for a change that is meant to change bytes:
say in the change log what and why. The script uses the public interface alone, so that it runs on
any earlier version as well.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from pathlib import Path

import numpy as np
from kinds import KINDS, options_of
from loaders import loader_of

import graphzero as gz

RECORD = Path(__file__).with_suffix(".json")
NODES, EDGES, FANOUTS, BATCH_SIZE = 3000, 40_000, [6, 4], 64
STRATEGIES = ("none", "willneed", "pread", "uring", "auto")
ORDERS = ("input", "hot", "presample")


class Digest:
    """One checksum of many arrays, with their dtypes and shapes."""

    def __init__(self, *values):
        self._hash = hashlib.sha256()
        for value in values:
            self.add(value)

    def add(self, value):
        """Takes an array, a tensor or plain numbers into the checksum."""
        if value is None or isinstance(value, (int, list, dict)):
            self._hash.update(json.dumps(value).encode())
            return
        array = np.ascontiguousarray(value)
        self._hash.update(f"{array.dtype.str}{array.shape}".encode())
        self._hash.update(array.tobytes())

    def text(self):
        """The checksum."""
        return self._hash.hexdigest()[:24]


def digest_of(*values):
    """Checksum of some values."""
    return Digest(*values).text()


def make_inputs():
    """Edges, weights, times, features, labels and splits, by name."""
    rng = np.random.default_rng(7)
    return {
        "edges": (rng.random((EDGES, 2)) ** 2 * NODES).astype(np.int64),
        "weight": rng.random(EDGES).astype(np.float32),
        "timestamp": rng.integers(0, 1000, EDGES),
        "features": (rng.random((NODES, 24)) * 100).astype(np.float32).round(1),
        "labels": rng.integers(0, 5, NODES),
        "splits": {"train": rng.permutation(NODES)[:700], "val": np.arange(40)},
    }


def build(folder, order, **options):
    """A dataset of the inputs in one order of nodes."""
    presample = gz.Presample(fanouts=(4, 4), batch_size=64, min_batches=16)
    how = {"presample": presample} if order == "presample" else {}
    options = {"neighbors": "out", **options}  # walks are recorded, too
    return gz.build(folder, **make_inputs(), order=order, edge_ids=True, **how, **options)


def times_of(seeds):
    """A time for each seed."""
    return np.asarray(seeds) * 7 % 1000


def of_batches(batches, epochs=(0, 1), workers=0):
    """Checksum of all mini-batches of some epochs."""
    digest = Digest()
    loader = loader_of(batches, workers)
    names = ("n_id", "edge_index", "e_id", "input_id", "num_sampled_nodes", "num_sampled_edges")
    more = ("x", "y", "batch", "seed_time", "edge_label_index", "edge_label")
    triplets = ("src_index", "dst_pos_index", "dst_neg_index")
    for epoch in epochs:
        batches.set_epoch(epoch)
        for batch in loader:
            for name in (*names, *more, *triplets):
                digest.add(getattr(batch, name))
    return digest.text()


def of_files(folder):
    """Checksums of the files of a dataset."""
    paths = sorted(Path(folder).glob("*.g[ld]"))
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest()[:24] for path in paths}


def neighbor_dataset(ds, **options):
    """A dataset of mini-batches over the split train."""
    how = {"batch_size": BATCH_SIZE, "shuffle": True, "seed": 3, "num_threads": 2, **options}
    return gz.NeighborDataset(ds, ds.splits["train"], FANOUTS, **how)


def of_graph(graph):
    """Single hops, walks, and the methods of graphzero 0.2, by name."""
    seeds = np.arange(0, NODES, 3)
    found = {}
    for name, how in (
        ("uniform", {}),
        ("replaced", {"replace": True}),
        ("weighted", {"weighted": True}),
        ("weighted, replaced", {"weighted": True, "replace": True}),
    ):
        hop = graph.sample_neighbors(seeds, 5, seed=9, **how)
        found[f"hop, {name}"] = digest_of(hop.indptr, hop.indices, hop.e_id)
    for name, how in (
        ("uniform", {}),
        ("weighted", {"weighted": True}),
        ("restarts", {"restart": 0.2}),
        ("node2vec", {"p": 2.0, "q": 0.5}),
        ("node2vec, weighted", {"p": 0.5, "q": 2.0, "weighted": True}),
    ):
        found[f"walk, {name}"] = digest_of(graph.random_walk(seeds, 8, seed=5, **how))
    found["0.2"] = digest_of(
        graph.batch_random_walk(seeds, 6, 2.0, 0.5),
        graph.batch_random_fanout(seeds, 4),
        graph.sample_neighbours(5, 3),
        graph.get_neighbours(5),
    )
    return found


def of_samplers(graph):
    """Each kind of sampling by a `NeighborSampler`."""
    seeds = np.arange(1, 200, 2)
    found = {}
    for kind in KINDS:
        options, timed = options_of(kind)
        for threads in (1, 2):
            sampler = gz.NeighborSampler(graph, FANOUTS, seed=4, num_threads=threads, **options)
            digest = Digest()
            for batch in range(3):
                sub = sampler.sample(
                    seeds, epoch=2, batch=batch, seed_time=times_of(seeds) if timed else None
                )
                for value in (sub.n_id, sub.edge_index, sub.e_id, sub.batch):
                    digest.add(value)
                digest.add([sub.num_sampled_nodes, sub.num_sampled_edges])
            found[f"{kind}, {threads} threads"] = digest.text()
    return found


def of_kinds(ds):
    """Each kind of sampling by a `NeighborDataset`."""
    found = {}
    for kind in KINDS:
        options, timed = options_of(kind)
        times = times_of(ds.splits["train"]) if timed else None
        found[kind] = of_batches(neighbor_dataset(ds, input_time=times, **options))
    return found


def prefetches(strategy):
    """Settings of one strategy, by name: with room for all, and with next to none."""
    yield "roomy", gz.Prefetch(strategy)
    yield "tight", gz.Prefetch(strategy, memory_limit="4MB")
    yield "tight, resident", gz.Prefetch(strategy, memory_limit="16MB", resident=0.25)
    yield "no lookahead", gz.Prefetch(strategy, memory_limit="4MB", lookahead=0)
    yield "far, merged", gz.Prefetch(strategy, memory_limit="4MB", lookahead=3)


def of_strategy(ds, strategy):
    """The mini-batches that a strategy reads, under several settings."""
    found = {
        name: of_batches(neighbor_dataset(ds, prefetch=prefetch))
        for name, prefetch in prefetches(strategy)
    }
    for workers in (1, 2):
        batches = neighbor_dataset(ds, prefetch=gz.Prefetch(strategy, memory_limit="4MB"))
        found[f"{workers} workers"] = of_batches(batches, workers=workers)
    return found


def of_links(ds):
    """Mini-batches around seed edges."""
    edges = np.array(make_inputs()["edges"][:500].T)
    return {
        str(mode): of_batches(
            gz.LinkNeighborDataset(
                ds, edges, FANOUTS, neg_sampling=mode, amount=2, batch_size=48, shuffle=True
            )
        )
        for mode in (None, "binary", "triplet")
    }


def of_packs(ds, path):
    """Mini-batches from packs that differ in what is resident, and the packs themselves."""
    found = {}
    for resident in (0.0, 0.3):
        how = {"epochs": 2, "batch_size": BATCH_SIZE, "shuffle": True, "seed": 3}
        gz.pack(ds, path, ds.splits["train"], FANOUTS, resident=resident, overwrite=True, **how)
        found[f"{resident}, file"] = hashlib.sha256(Path(path).read_bytes()).hexdigest()[:24]
        for strategy in STRATEGIES:
            prefetch = gz.Prefetch(strategy, memory_limit="4MB")
            batches = gz.PackedDataset(ds, path, ds.splits["train"], prefetch=prefetch)
            found[f"{resident}, {strategy}"] = of_batches(batches, epochs=(0, 1, 2))
    return found


def record_order(folder, order):
    """Everything that depends on the order of the nodes, by name."""
    with build(folder, order) as ds:
        found = {
            "files": of_files(folder),
            "graph": of_graph(ds.graph),
            "samplers": of_samplers(ds.graph),
            "links": of_links(ds),
        }
        if order == "hot":
            found["kinds"] = of_kinds(ds)
            found["packs"] = of_packs(ds, Path(folder) / "pack.gd")
        for strategy in STRATEGIES:
            found[f"strategy {strategy}"] = of_strategy(ds, strategy)
    return found


def record_narrow(folder):
    """float16 rows, as they are stored and converted to float32."""
    with build(folder, "hot", feature_dtype="float16", directed=False) as ds:
        return {
            "files": of_files(folder),
            **{
                f"{strategy}, {dtype}": of_batches(
                    neighbor_dataset(
                        ds,
                        prefetch=gz.Prefetch(strategy, memory_limit="4MB"),
                        feature_dtype=dtype,
                    )
                )
                for strategy in STRATEGIES
                for dtype in (None, "float32")
            },
        }


def record_reordered(folder):
    """A dataset that was brought from one order to the others."""
    build(folder, "input").close()
    presample = gz.Presample(fanouts=(4, 4), batch_size=64, min_batches=16)
    found = {}
    for order, how in (("hot", {}), ("presample", {"presample": presample}), ("input", {})):
        gz.reorder(folder, order, **how).close()
        found[order] = of_files(folder)
    return found


def record(folder):
    """All checksums, made in a folder."""
    found = {order: record_order(Path(folder) / order, order) for order in ORDERS}
    found["float16"] = record_narrow(Path(folder) / "float16")
    found["reordered"] = record_reordered(Path(folder) / "reordered")
    return found


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        RECORD.write_text(json.dumps(record(scratch), indent=1) + "\n")
