"""Packs of several row files have the batches of the loader, byte for byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_program import run
from hypothesis import example, given, settings
from hypothesis import strategies as st
from packed_graphs import (
    PARTS,
    SAMPLING,
    SEEDS,
    build_typed,
    build_untyped,
    make,
    rows_of,
)

import graphzero as gz
from graphzero.packs.pack_file import open_pack, open_parts, pack_files
from graphzero.store.format import read_header

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_typed(tmp_path_factory.mktemp("graph") / "data")


@pytest.fixture(scope="module")
def untyped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_untyped(tmp_path_factory.mktemp("graph") / "data")


@pytest.fixture(params=["typed", "untyped"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def ds(kind: str, request: pytest.FixtureRequest) -> Any:
    with gz.open(request.getfixturevalue(kind)) as ds:
        yield ds


def random_typed(seed: int, num_types: int, num_edge_types: int) -> dict[str, Any]:
    """Arguments of a build: attributes of any dtype and shape, some large enough to be packed."""
    rng = np.random.default_rng(seed)
    counts = {f"type {i}": int(rng.integers(5, 50)) for i in range(num_types)}
    nodes: dict[str, Any] = {}
    for i, (name, count) in enumerate(counts.items()):
        nodes[name] = {"num_nodes": count}
        if i % 2 == 0:
            nodes[name] |= {
                "x": rng.random((count, int(rng.integers(1, 40))), np.float32),
                "y": rng.integers(-1, 5, count),
                "image": rng.integers(0, 255, (count, 8, 3, 4), np.uint8),
                "wide": rng.random((count, 20)).astype(np.float16),
            }
    edges: dict[Any, Any] = {}
    for i in range(num_edge_types):
        source, target = map(str, rng.choice(list(counts), 2))
        number = int(rng.integers(0, 200)) * int(rng.random() < 0.9)
        ends = [rng.integers(0, counts[end], number) for end in (source, target)]
        content: dict[str, Any] = {"edge_index": np.stack(ends)}
        if i % 2 == 0:
            content |= {"w": rng.random(number), "edge_attr": rng.random((number, 3), np.float32)}
        if i % 3 == 0:
            content["matrix"] = rng.integers(0, 9, (number, 2, 2))
        edges[source, f"relation {i}", target] = content
    attrs = ["w"] if any("w" in content for content in edges.values()) else []
    return {"nodes": nodes, "edges": edges, "weight_attrs": attrs}


@settings(max_examples=15, deadline=None)
@example(0, 3, 6, "hot", 0.4, False, "pread")
@example(3, 1, 2, "input", 0, True, "willneed")
@given(
    st.integers(0, 10_000),
    st.integers(1, 4),
    st.integers(1, 6),
    st.sampled_from(["hot", "input"]),
    st.sampled_from([0, 0.4, 1.0]),
    st.booleans(),
    st.sampled_from(["none", "willneed", "pread", "auto"]),
)
def test_packed_batches_of_typed_graphs_are_those_of_the_loader(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    num_types: int,
    num_edge_types: int,
    order: Any,
    resident: float,
    weighted: bool,
    strategy: str,
) -> None:
    folder = tmp_path_factory.mktemp("typed")
    arguments = random_typed(seed, num_types, num_edge_types)
    with gz.build(folder / "data", order=order, **arguments) as ds:
        given = ("type 0", np.random.default_rng(seed).integers(0, ds["type 0"].num_nodes, 20))
        options: dict[str, Any] = {"weighted": weighted and bool(arguments["weight_attrs"])}
        fanouts: Any = {next(iter(ds.edges)): [3, 0], "default": [2, 2]}
        plain = gz.NeighborDataset(ds, given, fanouts, **SAMPLING, **options)
        out = gz.pack(
            ds, folder / "p.gd", given, fanouts, epochs=2, first_epoch=1, resident=resident,
            **SAMPLING, **options,
        )  # fmt: skip
        packed = gz.PackedDataset(ds, out, given, prefetch=gz.Prefetch(strategy))
        large = {
            key
            for key, source in plain.row_sources(0).items()
            if source.num_bytes
            and (key[0] in ds.edges or source.store.row_bytes >= 64 or key[1] == "x")
            if key[1] != "w"  # is in the graph file
        }
        assert set(packed._packs) == large
        for epoch in (1, 2):
            assert rows_of(packed, epoch) == rows_of(plain, epoch)
        for path in pack_files(out):
            assert run("verify", path, "--quiet") == 0
        del plain, packed


def loaded(batches: Any, workers: int = 0, method: str = "fork") -> list[dict[str, Any]]:
    """Batches of epoch 0 as a training loop gets them."""
    if batches.epoch == 0:
        batches.set_epoch(0)
    loader = torch.utils.data.DataLoader(
        batches,
        batch_size=None,
        num_workers=workers,
        collate_fn=gz.Collate(batches.dataset),
        multiprocessing_context=method if workers else None,
    )
    return [flat(batch.to_dict()) for batch in loader]


def flat(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: flat(one) for key, one in value.items() if key != "stats"}
    if isinstance(value, torch.Tensor):
        return value.dtype, tuple(value.shape), value.numpy().tobytes()
    return value


@pytest.mark.parametrize("workers", [0, 2])
def test_workers_ranks_and_resuming(ds: Any, kind: str, tmp_path: Path, workers: int) -> None:
    seeds = SEEDS[kind]
    out = make(ds, tmp_path / "p.gd", seeds, resident=0.3)
    plain = gz.NeighborDataset(ds, seeds, [4, 3], **SAMPLING)
    packed = gz.PackedDataset(ds, out, seeds)
    assert list(packed._packs) == PARTS[kind]
    expected = loaded(plain)
    assert len(expected) == 6
    assert loaded(packed, workers) == expected
    for rank in range(2):
        of_rank = gz.PackedDataset(ds, out, seeds, rank=rank, world_size=2, even=False)
        assert loaded(of_rank, workers) == expected[rank::2]
    packed.set_epoch(2)  # packed epoch 0
    iterator = iter(packed)
    for _ in range(2):
        next(iterator)
    state = json.loads(json.dumps(packed.state_after(2)))
    again = gz.PackedDataset(ds, out, seeds)
    again.resume(state)
    assert loaded(again, workers) == expected[2:]


@pytest.mark.no_asan
def test_spawned_workers(typed: Path, tmp_path: Path) -> None:
    with gz.open(typed) as ds:
        out = make(ds, tmp_path / "p.gd", SEEDS["typed"], resident=0.3)
        plain = gz.NeighborDataset(ds, SEEDS["typed"], [4, 3], **SAMPLING)
        packed = gz.PackedDataset(ds, out, SEEDS["typed"])
        assert loaded(packed, 1, "spawn") == loaded(plain)
        del plain, packed


def test_every_row_comes_from_the_pack(ds: Any, kind: str, tmp_path: Path) -> None:
    """Marked rows: of the resident prefix once, of the batches as often as they occur."""
    out = make(ds, tmp_path / "p.gd", SEEDS[kind], resident=0.3)
    packs = open_parts(open_pack(out))
    residents = {key: pack.info.resident_rows for key, pack in packs.items()}
    assert any(residents.values())
    for path in pack_files(out):
        section = read_header(path).find("rows")
        assert section is not None
        with open(path, "r+b") as file:
            file.seek(section.offset)
            file.write(b"\x01" * section.length)
    plain = gz.NeighborDataset(ds, SEEDS[kind], [4, 3], **SAMPLING)
    packed = gz.PackedDataset(ds, out, SEEDS[kind], prefetch=gz.Prefetch("pread"))
    for before, now in zip(plain, packed, strict=True):
        for key, rows in now.rows.items():
            if key in packs:
                assert set(rows.tobytes()) <= {1}
            else:
                np.testing.assert_array_equal(rows, before.rows[key])
    small = {"typed": {("paper", "y")}, "untyped": {"y", "edge_weight"}}[kind]
    assert set(now.rows) - set(packs) == small


def test_prefixes_are_those_of_the_pack(ds: Any, kind: str, tmp_path: Path) -> None:
    """Each file keeps its own first rows, in whatever proportion its batches have rows."""
    out = make(ds, tmp_path / "p.gd", SEEDS[kind], resident=0.5, epochs=5)
    packed = gz.PackedDataset(ds, out, SEEDS[kind], prefetch=gz.Prefetch("pread"))
    sources = packed.row_sources(0)
    wanted = {
        key: (ds[key[0]] if kind == "typed" else {**ds.attributes, **ds.edge_attributes})[
            key[1] if kind == "typed" else key
        ]
        for key in PARTS[kind]
    }
    for key, store in wanted.items():
        resident = packed._packs[key].info.resident_rows
        assert resident * store.row_bytes == sources[key].prefix_bytes
        assert abs(resident - store.num_nodes / 2) <= 1
        np.testing.assert_array_equal(
            packed._packs[key].store.gather_stored(np.arange(resident), None, 1),
            store.gather_stored(np.arange(resident), None, 1),
        )
    from graphzero.loader.iteration import start_session
    from graphzero.sampling.order import Share

    session = start_session(packed, Share(), 0, range(packed.num_batches))
    try:
        group = session.rows.prefix
        group.resize(sum(source.prefix_bytes or 0 for source in sources.values()))
        assert [prefix.num_bytes for prefix in group.parts] == [
            sources[key].prefix_bytes for key in sources if key in wanted
        ]
    finally:
        session.close()


def test_gather_chooses_what_is_packed_and_what_is_read(ds: Any, kind: str, tmp_path: Path) -> None:
    out = make(ds, tmp_path / "p.gd", SEEDS[kind], gather=["edge_attr", "y"])
    assert [path.name for path in tmp_path.iterdir()] == ["p.gd"]
    packed = gz.PackedDataset(ds, out, SEEDS[kind])
    assert list(packed._packs) == [PARTS[kind][-1]]
    plain = gz.NeighborDataset(ds, SEEDS[kind], [4, 3], **SAMPLING)
    assert rows_of(packed, 1) == rows_of(plain, 1)
    few = gz.PackedDataset(ds, out, SEEDS[kind], gather=["x"])
    for sampled in few:
        assert {key if kind == "untyped" else key[1] for key in sampled.rows} == {"x"}
    with pytest.raises(ValueError, match="no features to pack, nor other attributes"):
        make(ds, tmp_path / "q.gd", SEEDS[kind], gather=["y"])


def test_times_of_typed_seeds(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    nodes = {"a": {"x": rng.random((50, 4), np.float32), "year": rng.integers(0, 9, 50)}}
    edges = {
        ("a", "r", "a"): {
            "edge_index": rng.integers(0, 50, (2, 300)),
            "edge_attr": np.ones((300, 2)),
        }
    }
    with gz.build(tmp_path / "data", nodes=nodes, edges=edges, time_attrs="year") as ds:
        seeds, times = ("a", np.arange(50)), rng.integers(0, 9, 50)
        out = make(ds, tmp_path / "p.gd", seeds, input_time=times)
        plain = gz.NeighborDataset(ds, seeds, [4, 3], input_time=times, **SAMPLING)
        packed = gz.PackedDataset(ds, out, seeds, input_time=times)
        assert rows_of(packed, 1) == rows_of(plain, 1)
        with pytest.raises(ValueError, match="packed with other inputs: times_crc"):
            gz.PackedDataset(ds, out, seeds)
        del plain, packed
