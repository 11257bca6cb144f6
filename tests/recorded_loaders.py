"""Checksums of mini-batches of all kinds of loaders, as recorded on one day.

``python tests/recorded_loaders.py`` records them anew, for a change that is meant to change bytes:
say in the change log what and why. The script uses the public interface alone, so that it runs on
any earlier version as well.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import recorded_builds as builds
from kinds import KINDS, options_of
from loaders import loader_of
from recorded_builds import CITES, KNOWS, WRITES

import graphzero as gz

RECORD = Path(__file__).with_suffix(".json")
FANOUTS, BATCH_SIZE = [4, 3], 16
OPTIONS = {"batch_size": BATCH_SIZE, "shuffle": True, "seed": 3, "num_threads": 2}
TYPED_KINDS = [kind for kind, how in KINDS.items() if how.get("subgraph_type") != "induced"]
PREFETCHES = {
    "none": gz.Prefetch("none"),
    "willneed": gz.Prefetch("willneed", memory_limit="4MB", lookahead=2),
    "pread": gz.Prefetch("pread", memory_limit="4MB", resident=0.25),
    "uring": gz.Prefetch("uring", memory_limit="4MB", lookahead=0),
    "auto": gz.Prefetch(),
}


HOPS: dict[str, dict[str, Any]] = {
    "uniform": {},
    "replaced": {"replace": True},
    "weighted": {"weighted": True},
    "weighted, replaced": {"weighted": True, "replace": True},
}
WALKS: dict[str, dict[str, Any]] = {
    "uniform": {},
    "weighted": {"weighted": True},
    "restarts": {"restart": 0.2},
    "node2vec": {"p": 2.0, "q": 0.5},
    "node2vec, weighted": {"p": 0.5, "q": 2.0, "weighted": True},
}


def content_of(batch: Any) -> dict[str, Any]:
    """Every attribute of a mini-batch, with or without types."""
    if hasattr(batch, "edge_index"):
        return dict(batch.to_dict())
    found: dict[str, Any] = {"input_type": batch.input_type}
    for kind in (*batch.node_types, *batch.edge_types):
        found.update({f"{kind} {name}": value for name, value in batch[kind].items()})
    return found


def of_batches(batches: Iterable[Any]) -> str:
    """One checksum of all attributes of some mini-batches, and of how many there are."""
    digest = hashlib.sha256()
    count = 0
    for batch in batches:
        count += 1
        for name, value in sorted(content_of(batch).items()):
            if name == "stats":
                continue
            digest.update(name.encode())
            if hasattr(value, "numpy"):
                array = np.ascontiguousarray(as_numpy(value))
                digest.update(f"{array.dtype.str}{array.shape}".encode())
                digest.update(array.tobytes())
            else:
                digest.update(json.dumps(value).encode())
    return f"{count} batches, {digest.hexdigest()[:12]}"


def of_arrays(*values: Any) -> str:
    """One checksum of some arrays, and of lists of numbers or None."""
    digest = hashlib.sha256()
    for value in values:
        if not hasattr(value, "dtype"):
            digest.update(json.dumps(value).encode())
            continue
        array = np.ascontiguousarray(value)
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()[:12]


def as_numpy(tensor: Any) -> Any:
    """A tensor as an array; one of bfloat16, which NumPy does not know, as its bits."""
    import torch

    return tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor


def plain(folder: Path, order: str = "hot", **options: Any) -> gz.Dataset:
    """A graph without types that has every kind of attribute."""
    attributes = {**builds.attributes_of_edges(), **builds.dtypes_of_edges()}
    return gz.build(
        folder,
        {"edge_index": builds.edge_list().T, **attributes},
        nodes=builds.attributes_of_nodes(),
        splits=builds.splits(),
        edge_splits=builds.edge_splits(),
        **builds.presample(order),
        **options,
    )


def typed(folder: Path, order: str = "hot", **options: Any) -> gz.Dataset:
    """A typed graph with weights and times of edges."""
    arguments = builds.typed(weight_attrs="share", edge_ids=True)
    arguments["edges"][WRITES]["t"] = np.arange(builds.EDGES) % 300
    arguments["edges"][CITES]["t"] = np.arange(builds.EDGES)[::-1] % 300
    arguments["splits"]["train"]["author"] = np.arange(30, 3, -2)
    return gz.build(
        folder, **{**arguments, "time_attrs": "t", **builds.presample(order), **options}
    )


def train_of(nodes: Any) -> Any:
    """A copy of the split train, of a graph without types or of a node type."""
    return np.array(nodes.splits["train"])


def of_open_form(batches: Any, epochs: Iterable[int] = (0, 2), workers: int = 0) -> str:
    """Mini-batches of some epochs of a dataset of seeds, in a plain DataLoader."""
    loader = loader_of(batches, workers)

    def all_epochs() -> Iterable[Any]:
        for epoch in epochs:
            batches.set_epoch(epoch)
            yield from loader

    return of_batches(all_epochs())


def of_passes(loader: Any, passes: int = 2) -> str:
    """Mini-batches of some passes over a ready-made loader, as they follow each other."""
    return of_batches(batch for _ in range(passes) for batch in loader)


def times_of(seeds: Any) -> Any:
    """A time for each seed."""
    return np.asarray(seeds) * 7 % 300


def record_typed(folder: Path) -> dict[str, Any]:
    """Kinds of sampling, strategies and seeds of typed graphs, in every order of nodes."""
    found = {}
    for order in builds.ORDERS:
        with typed(folder / order, order) as ds:
            train = train_of(ds["paper"])
            for kind in TYPED_KINDS if order == "hot" else TYPED_KINDS[::4]:
                options, timed = options_of(kind)
                times = times_of(train) if timed else None
                batches = gz.NeighborDataset(
                    ds, ("paper", train), FANOUTS, input_time=times, **OPTIONS, **options
                )
                found[f"{order}, {kind}"] = of_open_form(batches)
            by_type = {WRITES: [4, 2], CITES: [3, 0], KNOWS: [-1, 2]}
            for name, seeds, fanouts in (
                ("of authors", ("author", ds["author"].splits["train"]), FANOUTS),
                ("all papers", ("paper", None), by_type),
                ("all neighbours", ("paper", [5, 3]), [-1, -1]),
            ):
                found[f"{order}, {name}"] = of_open_form(
                    gz.NeighborDataset(ds, seeds, fanouts, **OPTIONS)
                )
            for name, prefetch in PREFETCHES.items():
                batches = gz.NeighborDataset(
                    ds, ("paper", train), FANOUTS, prefetch=prefetch, **OPTIONS
                )
                found[f"{order}, {name}"] = of_open_form(batches)
    with typed(folder / "times", time_attrs="year") as ds:
        times = times_of(train_of(ds["paper"])) + 1900
        for name, given in (("own", None), ("other", times)):
            batches = gz.NeighborDataset(
                ds, ("paper", train_of(ds["paper"])), FANOUTS, input_time=given, **OPTIONS
            )
            found[f"{name} times of nodes"] = of_open_form(batches)
    return found


def record_plain(folder: Path) -> dict[str, Any]:
    """Graphs without types with attributes of many dtypes, directions and ids of users."""
    found = {}
    for direction, how in builds.DIRECTIONS.items():
        for order in builds.ORDERS:
            with plain(folder / f"{direction} {order}", order, **how) as ds:
                train = train_of(ds)
                batches = gz.NeighborDataset(ds, train, FANOUTS, **OPTIONS)
                found[f"{direction}, {order}"] = of_open_form(batches)
                every = gz.NeighborDataset(ds, None, [-1], gather=["x", "half"], **OPTIONS)
                found[f"{direction}, {order}, some attributes"] = of_open_form(every)
    with plain(folder / "times", time_attrs="year") as ds:
        train = train_of(ds)
        for name, how in {
            "own times": {},
            "other times": {"input_time": times_of(train) + 1900},
            "before": {
                "strictly_before": True,
                "temporal_strategy": "last",
                "input_time": times_of(train) + 1900,
            },
        }.items():
            batches = gz.NeighborDataset(ds, train, FANOUTS, **OPTIONS, **how)
            found[name] = of_open_form(batches)
    for dtype in ("float16", "bfloat16", "float64"):
        path = folder / dtype
        with gz.build(
            path, builds.edge_list(), builds.attributes_of_nodes()["x"], feature_dtype=dtype
        ) as ds:
            for converted in (None, "float32"):
                batches = gz.NeighborDataset(ds, None, FANOUTS, feature_dtype=converted, **OPTIONS)
                found[f"{dtype} to {converted}"] = of_open_form(batches)
    for name, numbers in (("integers", np.arange(60) * 99 - 7), ("texts", np.arange(60))):
        ids = numbers[builds.edge_list()]
        edges = ids if name == "integers" else np.array([[f"n{i}" for i in e] for e in ids], object)
        edges = edges if name == "integers" else edges.T
        with gz.build(folder / f"ids {name}", edges, ids="map", directed=False) as ds:
            found[f"ids, {name}"] = of_open_form(gz.NeighborDataset(ds, None, FANOUTS, **OPTIONS))
    return found


def record_links(folder: Path) -> dict[str, Any]:
    """Seed edges with every kind of negatives, with and without types, weights and times."""
    found = {}
    rng = np.random.default_rng(12)
    amounts = {None: 1, "binary": 1.5, "triplet": 2}
    with plain(folder / "plain", "hot") as ds, typed(folder / "typed", "hot") as by_type:
        writes = np.stack([rng.integers(0, 40, 90), rng.integers(0, 60, 90)])
        everything: list[tuple[str, Any, Any, int, int]] = [
            ("plain", ds, builds.edge_list()[:90].T, 60, 60),
            ("typed", by_type, (WRITES, writes), 40, 60),
            ("one type", by_type, (CITES, builds.edge_list()[:90].T), 60, 60),
        ]
        for name, dataset, seeds, sources, targets in everything:
            for mode, amount in amounts.items():
                labels = None if mode == "triplet" else rng.integers(0, 3, 90)
                weights: dict[str, Any] = {"dst_weight": np.arange(targets)}
                if mode == "binary":
                    weights["src_weight"] = np.arange(sources)
                for case, how in {
                    "uniform": {},
                    "labels": {"edge_label": labels},
                    "weights": weights if mode else {"replace": True},
                    "times": {"edge_label_time": np.arange(90) + 100},
                    "times, before": {
                        "edge_label_time": np.arange(90) + 100,
                        "strictly_before": True,
                        "temporal_strategy": "last",
                    },
                }.items():
                    batches = gz.LinkNeighborDataset(
                        dataset, seeds, FANOUTS, neg_sampling=mode, amount=amount, **OPTIONS, **how
                    )
                    found[f"{name}, {mode}, {case}"] = of_open_form(batches)
    with typed(folder / "times", time_attrs="year") as ds:
        for mode in ("binary", "triplet"):
            batches = gz.LinkNeighborDataset(
                ds,
                (CITES, builds.edge_list()[:90].T),
                FANOUTS,
                edge_label_time=np.full(90, 2010),
                neg_sampling=mode,
                **OPTIONS,
            )
            found[f"times of nodes, {mode}"] = of_open_form(batches)
    return found


def ready(ds: Any, seeds: Any, **options: Any) -> Any:
    """A ready-made loader around nodes."""
    return gz.NeighborLoader(ds, FANOUTS, seeds, **{**OPTIONS, **options})


def record_loaders(folder: Path) -> dict[str, Any]:
    """Ready-made loaders: PyG's arguments, and seeds of every form."""
    found = {}
    with plain(folder / "plain") as ds, typed(folder / "typed") as by_type:
        mask = np.arange(60) % 3 == 0
        cases: dict[str, tuple[Any, Any, dict[str, Any]]] = {
            "a split": (ds, "train", {}),
            "all nodes": (ds, None, {}),
            "a mask": (ds, mask, {"shuffle": False}),
            "input ids": (ds, np.arange(30), {"input_id": np.arange(30) * 10}),
            "weight": (ds, "train", {"weight_attr": "edge_weight"}),
            "time": (ds, "train", {"time_attr": "edge_time", "input_time": np.arange(25) * 4}),
            "seed weights": (ds, "train", {"seed_weights": np.arange(25)}),
            "balanced": (ds, None, {"seed_weights": "balanced"}),
            "drop last": (ds, "train", {"drop_last": True}),
            "induced": (ds, "train", {"subgraph_type": "induced"}),
            "disjoint": (ds, "train", {"disjoint": True, "replace": True}),
            "typed, a split": (by_type, ("paper", "train"), {}),
            "typed, all": (by_type, "author", {}),
            "typed, weight": (by_type, ("paper", "val"), {"weight_attr": "share"}),
            "typed, time": (
                by_type,
                ("paper", "train"),
                {"time_attr": "t", "input_time": np.arange(25) * 9},
            ),
            "typed, balanced": (by_type, ("paper", "train"), {"seed_weights": "balanced"}),
            "typed, by type": (
                by_type,
                ("paper", "train"),
                {"num_neighbors": {WRITES: [2, 2], "default": [3, 0]}},
            ),
        }
        for name, (dataset, seeds, options) in cases.items():
            options = {**OPTIONS, "num_neighbors": FANOUTS, **options}
            loader = gz.NeighborLoader(dataset, input_nodes=seeds, **options)
            found[name] = of_passes(loader)
        found["one batch"] = of_batches([ready(ds, None)([3, 9]), ready(by_type, "paper")([4])])
        link_cases: dict[str, tuple[Any, Any, dict[str, Any]]] = {
            "links, a split": (ds, "train", {"neg_sampling": "binary"}),
            "links, all": (ds, None, {"neg_sampling_ratio": 0.5}),
            "links, triplet": (ds, "val", {"neg_sampling": ("triplet", 2)}),
            "links, time": (
                ds,
                builds.edge_list()[:50].T,
                {"time_attr": "edge_time", "edge_label_time": np.arange(50)},
            ),
            "links, balanced": (
                ds,
                builds.edge_list()[:50].T,
                {"edge_label": np.arange(50) % 4, "seed_weights": "balanced"},
            ),
            "links, typed": (by_type, (WRITES, "train"), {"neg_sampling": "triplet"}),
            "links, typed, all": (by_type, KNOWS, {"neg_sampling": "binary"}),
            "links, typed, weights": (
                by_type,
                (CITES, "train"),
                {"neg_sampling": ("binary", 1, np.arange(60), np.arange(60)[::-1])},
            ),
        }
        for name, (dataset, edges, options) in link_cases.items():
            loader = gz.LinkNeighborLoader(dataset, FANOUTS, edges, **{**OPTIONS, **options})
            found[name] = of_passes(loader)
    with plain(folder / "undirected", directed=False) as ds:
        loader = gz.LinkNeighborLoader(ds, FANOUTS, None, neg_sampling="binary", **OPTIONS)
        found["links, undirected, all"] = of_passes(loader)
    return found


def record_workers(folder: Path) -> dict[str, Any]:
    """Workers that are forked, spawned and persistent, with and without types."""
    found = {}
    fork: dict[str, Any] = {"num_workers": 2, "multiprocessing_context": "fork"}
    spawn: dict[str, Any] = {"num_workers": 1, "multiprocessing_context": "spawn"}
    stay = {"persistent_workers": True}
    with plain(folder / "plain") as ds, typed(folder / "typed", "presample") as by_type:
        for name, dataset, seeds, options in (
            ("plain, none", ds, "train", {}),
            ("plain, fork", ds, "train", fork),
            ("plain, fork, persistent", ds, "train", {**fork, **stay}),
            ("plain, spawn, persistent", ds, "train", {**spawn, **stay}),
            ("typed, none", by_type, ("paper", "train"), {}),
            ("typed, fork", by_type, ("paper", "train"), fork),
            ("typed, fork, persistent", by_type, ("paper", "train"), {**fork, **stay}),
        ):
            found[name] = of_passes(ready(dataset, seeds, **options), passes=3)
        chosen = ready(ds, "train", **fork, **stay)
        list(chosen)
        chosen.set_epoch(7)
        found["an epoch that was chosen"] = of_passes(chosen)
        batches = gz.NeighborDataset(by_type, ("paper", None), FANOUTS, **OPTIONS)
        found["open form, fork"] = of_open_form(batches, workers=2)
        links = gz.LinkNeighborDataset(ds, builds.edge_list()[:50].T, FANOUTS, **OPTIONS)
        found["open form, links, fork"] = of_open_form(links, workers=2)
        loader = gz.LinkNeighborLoader(
            by_type, FANOUTS, (WRITES, "train"), neg_sampling="binary", **OPTIONS, **fork
        )
        found["links, typed, fork"] = of_passes(loader)
    return found


def record_ranks(folder: Path) -> dict[str, Any]:
    """Each of several ranks, even and uneven, and epochs that are resumed, also by other ranks."""
    found = {}
    with plain(folder / "plain") as ds, typed(folder / "typed") as by_type:
        for name, dataset, seeds in (
            ("plain", ds, np.arange(55)),
            ("typed", by_type, ("paper", np.arange(55))),
        ):
            for how, options in {
                "even": {},
                "uneven": {"even": False},
                "dropped": {"drop_last": True},
            }.items():
                for size in (2, 3):
                    for rank in range(size):
                        options = {**OPTIONS, **options, "rank": rank, "world_size": size}
                        batches = gz.NeighborDataset(dataset, seeds, FANOUTS, **options)
                        case = f"{name}, {how}, {rank} of {size}"
                        found[case] = of_open_form(batches)
                        found[f"{case}, ready"] = of_passes(ready(dataset, seeds, **options))
            for taken in (0, 1, 3):
                loader = ready(dataset, seeds)
                list(loader)
                iterator = iter(loader)
                for _ in range(taken):
                    next(iterator)
                state = json.loads(json.dumps(loader.state_dict()))
                del iterator
                resumed = ready(dataset, seeds)
                resumed.load_state_dict(state)
                found[f"{name}, resumed after {taken}"] = of_passes(resumed)
                batches = gz.NeighborDataset(dataset, seeds, FANOUTS, **OPTIONS)
                batches.resume(state)
                found[f"{name}, open form, resumed after {taken}"] = of_batches(
                    map(gz.Collate(dataset), batches)
                )
                for rank in (0, 1):
                    other = ready(dataset, seeds, rank=rank, world_size=2, even=False)
                    other.load_state_dict(state)
                    found[f"{name}, resumed after {taken} by {rank} of 2"] = of_passes(other)
        edges = builds.edge_list()[:55].T
        links = gz.LinkNeighborDataset(ds, edges, FANOUTS, rank=1, world_size=2, **OPTIONS)
        found["links, 1 of 2"] = of_open_form(links)
    return found


def record_packs(folder: Path) -> dict[str, Any]:
    """Packs of several files of rows, with and without types."""
    found = {}
    with plain(folder / "plain") as ds, typed(folder / "typed") as by_type:
        for name, dataset, seeds in (
            ("plain", ds, train_of(ds)),
            ("typed", by_type, ("paper", train_of(by_type["paper"]))),
        ):
            for resident in (0.0, 0.3):
                path = folder / name / f"{resident}.gd"
                gz.pack(dataset, path, seeds, FANOUTS, epochs=2, resident=resident, **OPTIONS)
                for strategy, prefetch in PREFETCHES.items():
                    batches = gz.PackedDataset(dataset, path, seeds, prefetch=prefetch)
                    found[f"{name}, {resident}, {strategy}"] = of_open_form(batches, (0, 1, 2))
            batches = gz.PackedDataset(dataset, path, seeds, rank=1, world_size=2)
            found[f"{name}, 1 of 2"] = of_open_form(batches, (0, 1))
    return found


def larger(folder: Path, **options: Any) -> gz.Dataset:
    """A graph of which hops draw few of many neighbours, and rows are on many pages."""
    rng = np.random.default_rng(7)
    return gz.build(
        folder,
        (rng.random((40_000, 2)) ** 2 * 3000).astype(np.int64),
        (rng.random((3000, 24)) * 100).astype(np.float32).round(1),
        weight=rng.random(40_000).astype(np.float32),
        timestamp=rng.integers(0, 300, 40_000),
        neighbors="out",
        edge_ids=True,
        **options,
    )


def of_sampler(graph: gz.Graph, kind: str, threads: int) -> str:
    """Three subgraphs that a `NeighborSampler` draws."""
    options, timed = options_of(kind)
    seeds = np.arange(1, 200, 2)
    sampler = gz.NeighborSampler(graph, FANOUTS, seed=4, num_threads=threads, **options)
    values: list[Any] = []
    for batch in range(3):
        drawn = sampler.sample(
            seeds, epoch=2, batch=batch, seed_time=times_of(seeds) if timed else None
        )
        values += [drawn.n_id, drawn.edge_index, drawn.e_id, drawn.num_sampled_nodes]
        values += [drawn.num_sampled_edges, drawn.batch]
    return of_arrays(*values)


def record_draws(folder: Path) -> dict[str, Any]:
    """Hops, walks, and every kind of sampling and strategy on a graph of more nodes."""
    found = {}
    seeds = np.arange(0, 3000, 3)
    loading = {**OPTIONS, "batch_size": 64}
    with larger(folder / "float32") as ds:
        for name, options in HOPS.items():
            hop = ds.graph.sample_neighbors(seeds, 5, seed=9, **options)
            found[f"hop, {name}"] = of_arrays(hop.indptr, hop.indices, hop.e_id)
        for name, options in WALKS.items():
            found[f"walk, {name}"] = of_arrays(ds.graph.random_walk(seeds, 8, seed=5, **options))
        found["0.2"] = of_arrays(
            ds.graph.batch_random_walk(seeds, 6, 2.0, 0.5),
            ds.graph.batch_random_fanout(seeds, 4),
            ds.graph.sample_neighbours(5, 3),
            ds.graph.get_neighbours(5),
        )
        for kind in KINDS:
            options, timed = options_of(kind)
            options["input_time"] = times_of(seeds) if timed else None
            batches = gz.NeighborDataset(ds, seeds, FANOUTS, **loading, **options)
            found[f"{kind}, mini-batches"] = of_open_form(batches)
            for threads in (1, 2):
                found[f"{kind}, {threads} threads"] = of_sampler(ds.graph, kind, threads)
        for name, prefetch in PREFETCHES.items():
            for workers in (0, 2):
                batches = gz.NeighborDataset(ds, seeds, FANOUTS, prefetch=prefetch, **loading)
                found[f"rows, {name}, {workers} workers"] = of_open_form(batches, workers=workers)
    with larger(folder / "float16", feature_dtype="float16") as ds:
        for name, prefetch in PREFETCHES.items():
            for dtype in (None, "float32"):
                batches = gz.NeighborDataset(
                    ds, seeds, FANOUTS, prefetch=prefetch, feature_dtype=dtype, **loading
                )
                found[f"float16 to {dtype}, {name}"] = of_open_form(batches)
    return found


RECORDERS = {
    "draws": record_draws,
    "plain": record_plain,
    "typed": record_typed,
    "links": record_links,
    "loaders": record_loaders,
    "workers": record_workers,
    "ranks": record_ranks,
    "packs": record_packs,
}


def record(name: str, folder: Path) -> Any:
    """The checksums of one kind, made in a folder."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return RECORDERS[name](folder)


if __name__ == "__main__":
    builds.main(RECORD, RECORDERS, record)
