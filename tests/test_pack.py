"""Packed batches are those of a `NeighborDataset`, byte for byte, and come from the pack."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import files
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
    content_of,
    make,
    rows_of,
)

import graphzero as gz
from graphzero.io import plan as io_plan
from graphzero.packs.pack_file import Pack, open_parts
from graphzero.store.format import read_header

torch = pytest.importorskip("torch")
pytestmark = [  # Python, over code that runs under the sanitizers in test_row_io
    pytest.mark.no_asan,
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
]


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


def plain_of(ds: Any, seeds: Any, **options: Any) -> gz.NeighborDataset:
    return gz.NeighborDataset(ds, seeds, [4, 3], **{**SAMPLING, **options})


def random_typed(seed: int, num_types: int, num_edge_types: int) -> dict[str, Any]:
    """Arguments of a build: attributes of any dtype and shape, some large enough to be packed."""
    rng = np.random.default_rng(seed)
    counts = {f"type {i}": int(rng.integers(5, 50)) for i in range(num_types)}
    nodes: dict[str, Any] = {name: {"num_nodes": count} for name, count in counts.items()}
    for name, count in [*counts.items()][::2]:
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


CASES = st.tuples(
    *(st.integers(0, 10_000), st.integers(1, 4), st.integers(1, 6)),
    *(st.sampled_from(["hot", "input"]), st.sampled_from([0, 0.4, 1.0]), st.booleans()),
    st.sampled_from(["none", "willneed", "pread", "uring", "auto"]),
)


@settings(max_examples=15, deadline=None)
@example((0, 3, 6, "hot", 0.4, False, "pread"))
@example((3, 1, 2, "input", 0, True, "willneed"))
@given(CASES)
def test_packed_batches_of_typed_graphs_are_those_of_the_loader(
    tmp_path_factory: pytest.TempPathFactory, case: Any
) -> None:
    seed, num_types, num_edge_types, order, resident, weighted, strategy = case
    folder = tmp_path_factory.mktemp("typed")
    arguments = random_typed(seed, num_types, num_edge_types)
    with gz.build(folder / "data", order=order, **arguments) as ds:
        given = ("type 0", np.random.default_rng(seed).integers(0, ds["type 0"].num_nodes, 20))
        options: dict[str, Any] = {"weighted": weighted and bool(arguments["weight_attrs"])}
        fanouts: Any = {next(iter(ds.edges)): [3, 0], "default": [2, 2]}
        plain = gz.NeighborDataset(ds, given, fanouts, **SAMPLING, **options)
        how = {"epochs": 2, "first_epoch": 1, "resident": resident, **SAMPLING, **options}
        out = gz.pack(ds, folder / "p.gd", given, fanouts, **how)
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
        for path in Pack(out).files:
            assert run("verify", path, "--quiet") == 0
        del plain, packed


def loaded(batches: Any, workers: int = 0, method: str = "fork") -> list[dict[str, Any]]:
    """Batches of epoch 0, or of the epoch that was chosen, as DataLoader workers make them."""
    if batches.epoch == 0:
        batches.set_epoch(0)
    how: Any = {"num_workers": workers, "multiprocessing_context": method if workers else None}
    return list(torch.utils.data.DataLoader(batches, None, collate_fn=content_of, **how))


@pytest.mark.parametrize("workers", [0, 2])
def test_workers_ranks_and_resuming(ds: Any, kind: str, tmp_path: Path, workers: int) -> None:
    """The worker that resumes is spawned."""
    seeds = SEEDS[kind]
    out = make(ds, tmp_path / "p.gd", seeds, resident=0.3)
    plain = plain_of(ds, seeds)
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
    assert again.epoch == 2
    assert loaded(again, workers // 2, "spawn") == expected[2:]
    with pytest.raises(ValueError, match=r"other options: packed_epochs \(\[0, 2\], now None\)"):
        plain.resume(state)  # its epoch 2 would be another


def test_every_row_comes_from_the_pack(ds: Any, kind: str, tmp_path: Path) -> None:
    """Marked rows: of the resident prefix once, of the batches as often as they occur."""
    out = make(ds, tmp_path / "p.gd", SEEDS[kind], resident=0.3)
    packs = open_parts(out)
    assert any(pack.info.resident_rows for pack in packs.values())
    for path in Pack(out).files:
        section = read_header(path).find("rows")
        assert section is not None
        with open(path, "r+b") as file:
            file.seek(section.offset)
            file.write(b"\x01" * section.length)
    packed = gz.PackedDataset(ds, out, SEEDS[kind], prefetch=gz.Prefetch("pread"))
    for before, now in zip(plain_of(ds, SEEDS[kind]), packed, strict=True):
        for key, rows in now.rows.items():
            if key in packs:
                assert set(rows.tobytes()) <= {1}
            else:
                np.testing.assert_array_equal(rows, before.rows[key])
    small = {"typed": {("paper", "y")}, "untyped": {"y", "edge_weight"}}[kind]
    assert set(now.rows) - set(packs) == small


def test_gather_chooses_what_is_packed_and_what_is_read(ds: Any, kind: str, tmp_path: Path) -> None:
    out = make(ds, tmp_path / "p.gd", SEEDS[kind], gather=["edge_attr", "y"])
    assert [path.name for path in tmp_path.iterdir()] == ["p.gd"]
    packed = gz.PackedDataset(ds, out, SEEDS[kind])
    assert list(packed._packs) == [PARTS[kind][-1]]
    assert rows_of(packed, 1) == rows_of(plain_of(ds, SEEDS[kind]), 1)
    few = gz.PackedDataset(ds, out, SEEDS[kind], gather=["x"])
    for sampled in few:
        assert {key if kind == "untyped" else key[1] for key in sampled.rows} == {"x"}
    with pytest.raises(ValueError, match="nothing to pack: it takes features, other attributes"):
        make(ds, tmp_path / "q.gd", SEEDS[kind], gather=["y"])


def test_times_of_typed_seeds(typed: Path, tmp_path: Path) -> None:
    seeds, times = SEEDS["typed"], np.arange(37) % 4
    with gz.open(typed) as ds:
        out = make(ds, tmp_path / "p.gd", seeds, input_time=times)
        packed = gz.PackedDataset(ds, out, seeds, input_time=times)
        assert rows_of(packed, 1) == rows_of(plain_of(ds, seeds, input_time=times), 1)
        with pytest.raises(ValueError, match="packed with other inputs: times_crc"):
            gz.PackedDataset(ds, out, seeds)
        del packed


@pytest.mark.parametrize(
    "options",
    [{"replace": True}, {"labor": True, "drop_last": True}, {"disjoint": True, "shuffle": False}],
)
def test_options_are_the_packs_and_later_epochs_are_packed_ones_again(
    untyped: Path, tmp_path: Path, options: Any
) -> None:
    with gz.open(untyped) as ds:
        seeds = [3, 5, 3, *range(30)]  # some repeated
        out = make(ds, tmp_path / "p.gd", seeds, epochs=3, first_epoch=2, **options)
        plain, packed = plain_of(ds, seeds, **options), gz.PackedDataset(ds, out, seeds)
        assert len(packed) == len(plain)
        expected = {epoch: rows_of(plain, epoch) for epoch in (2, 3, 4)}
        for epoch, of in ((2, 2), (3, 3), (5, 2), (7, 4), (0, 3), (302, 2)):
            assert packed.sampled_epoch(epoch) == of
            assert rows_of(packed, epoch) == expected[of]
            assert packed.epoch == epoch + 1  # the next pass is the next epoch
        del plain, packed


# --- a larger graph, whose batches are many pages


NODES, DIM = 6000, 64  # 256 bytes a row
MANY = np.random.default_rng(3).integers(0, NODES, 150)
LARGER = {**SAMPLING, "batch_size": 32}
# less than rows, topology and batches take, and an iteration itself
MEMORY = io_plan.ITERATION_BYTES + 1_400_000


@pytest.fixture(scope="module")
def larger(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("packed") / "data"
    rows = np.random.default_rng(0).standard_normal((NODES, DIM)).astype(np.float32)
    files.write_dataset(
        folder, files.random_edges(NODES, 60_000), NODES, features=rows, order="hot"
    )
    with gz.open(folder) as ds:
        yield ds


def test_features_beside_a_graph_in_another_order(larger: Any, tmp_path: Path) -> None:
    """An .npy, whose head is not that of the graph's order."""
    np.save(tmp_path / "x.npy", larger.features[:])
    ds = gz.Dataset(larger.graph, gz.FeatureStore(tmp_path / "x.npy"))
    out = make(ds, tmp_path / "p.gd", MANY, resident=0.2, **LARGER)
    batches = gz.PackedDataset(ds, out, MANY, prefetch=gz.Prefetch("pread"))
    assert rows_of(batches, 1) == rows_of(plain_of(ds, MANY, **LARGER), 1)
