"""Visit counts: their order, what it saves, and how many pages they say will be missing."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import files
import numpy as np
import pytest

import graphzero as gz
from graphzero.store.atomic import is_staging_name
from graphzero.store.format import read_file
from graphzero.store.manifest import EDGES, Presampling, read_manifest

# Last, so that the uncompiled graphzero/ beside tests/ does not shadow the installed package.
sys.path.append(str(Path(__file__).parents[1]))


NODES = 1 << 15
DIM = 40  # rows of 160 bytes: some cross from one page into the next
SAMPLING = gz.Presample(fanouts=(10, 5), batch_size=128)  # 64 mini-batches


def visits_of(path: Path) -> np.ndarray[Any, Any]:
    """Counts by the user's ids."""
    with gz.FeatureStore(path / "visits.gd") as store:
        return store.gather(np.arange(store.num_nodes))


def test_counts_are_those_of_a_plain_loop(tmp_path: Path) -> None:
    seeds = np.array([5, 9, 5, 200, 31])
    presample = gz.Presample(fanouts=(4, 3), batch_size=2, epochs=3, min_batches=1, seed=7)
    files.write_dataset(tmp_path, files.random_edges(300, 3000), 300, order="hot")
    counts = np.zeros(300, np.uint32)
    done = []
    found = presample.count_visits(
        {EDGES: tmp_path / "graph.gl"}, None, {"": seeds}, {"": counts}, done.append
    )
    assert found == Presampling(6, 2, (4, 3), 5, 7)
    assert done == [1] * 6
    expected = np.zeros(300, int)
    with gz.Graph(tmp_path / "graph.gl") as graph:
        for epoch in range(3):
            sampler = gz.NeighborSampler(graph, [4, 3], seed=7)
            order = gz._core.permutation(5, gz._core.key("shuffle", 7, epoch, 0))
            for batch in range(2):  # the fifth seed would make a short one
                chosen = seeds[order[2 * batch : 2 * batch + 2]]
                nodes = sampler.sample(chosen, epoch=epoch, batch=batch).stored_id
                expected[np.unique(nodes)] += 1
    np.testing.assert_array_equal(counts, expected)


def test_often_visited_nodes_come_first(tmp_path: Path) -> None:
    edges = files.random_edges(400, 4000)
    ds = gz.build(
        tmp_path, edges, splits={"train": np.arange(300, 340)}, order="presample",
        presample=gz.Presample(fanouts=(3,), batch_size=8, min_batches=9),
    )  # fmt: skip
    ds.close()
    visits = visits_of(tmp_path).astype(int)
    listed = np.bincount(edges[:, 0], minlength=400)  # as a neighbour
    expected = sorted(range(400), key=lambda node: (-visits[node], -listed[node], node))
    _, arrays = read_file(tmp_path / "graph.gl")
    np.testing.assert_array_equal(arrays["node_ids"], expected)
    _, stored = read_file(tmp_path / "visits.gd")
    np.testing.assert_array_equal(stored["rows"], np.sort(visits)[::-1])
    assert stored["rows"].dtype == np.uint32
    assert visits.max() <= 10
    assert not [name for name in os.listdir(tmp_path) if is_staging_name(name)]
    assert (visits[300:340] >= 2).all(), "each epoch visits each seed"
    # Nodes that no seed reaches in one hop are not visited, however many their neighbours.
    reached = {*range(300, 340), *edges[(edges[:, 1] >= 300) & (edges[:, 1] < 340), 0].tolist()}
    assert set(np.flatnonzero(visits).tolist()) <= reached


def test_the_same_seed_gives_the_same_files(tmp_path: Path) -> None:
    edges = files.random_edges(400, 4000)

    def built(name: str, **options: Any) -> list[bytes]:
        path = tmp_path / name
        presample = gz.Presample(fanouts=(3, 3), batch_size=16, **options)
        gz.build(path, edges, order="presample", presample=presample).close()
        return [(path / file).read_bytes() for file in ("graph.gl", "visits.gd")]

    assert built("a") == built("b")
    assert built("a", seed=1) != built("b")


def test_defaults_are_used_and_noted(tmp_path: Path) -> None:
    gz.build(tmp_path, files.random_edges(400, 4000), order="presample").close()
    assert read_manifest(tmp_path).presampling == Presampling(64, 1024, (15, 10, 5), 400, 0)
    assert read_manifest(tmp_path).order == "presample"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fanouts": (3, 0)}, "fanout must be a positive integer"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"epochs": -1}, "epochs must be at least 1"),
        ({"min_batches": True}, "min_batches must be at least 1"),
        ({"max_batches": 1.5}, "max_batches must be an integer"),
        ({"seed": "x"}, "seed must be an integer"),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        gz.Presample(**options)


@pytest.mark.parametrize("change", [{"batches": 0}, {"fanouts": 3}, {"seed": None}])
def test_a_damaged_note_of_the_counts(tmp_path: Path, change: dict[str, Any]) -> None:
    gz.build(tmp_path, [[0, 1]], order="presample").close()
    content = json.loads((tmp_path / "dataset.json").read_text())
    content["presampling"] |= change
    (tmp_path / "dataset.json").write_text(json.dumps(content))
    with pytest.raises(gz.FormatError, match="is corrupt"):
        gz.open(tmp_path)


def test_a_manifest_without_visits_is_read(tmp_path: Path) -> None:
    gz.build(tmp_path, [[0, 1]]).close()
    content = json.loads((tmp_path / "dataset.json").read_text())
    del content["visits"], content["presampling"]
    (tmp_path / "dataset.json").write_text(json.dumps(content))
    gz.open(tmp_path).close()
