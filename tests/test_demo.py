"""The made-up graph, and ``graphzero demo`` at a small size."""

from __future__ import annotations

import json
import tempfile

import numpy as np
import pytest

import graphzero as gz
from graphzero.cli import main
from graphzero.training.demo_graph import write_demo

SMALL = ["--nodes", "600", "--edges", "5000", "--dim", "8", "--classes", "3"]


@pytest.fixture(autouse=True)
def torch_has_a_folder_of_its_own(tmp_path_factory, monkeypatch):
    """Torch makes a cache in the temporary folder when its optimizers are first used."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path_factory.mktemp("inductor")))


def read(files):
    edges = np.loadtxt(files.edges, dtype=np.int64, delimiter=",", skiprows=1)
    return edges, np.load(files.features), np.load(files.labels)


def test_files_are_what_was_requested(tmp_path):
    seen = []
    files = write_demo(
        tmp_path, num_nodes=900, num_edges=70_000, dim=5, num_classes=6, advance=seen.append
    )
    edges, features, labels = read(files)
    assert files.edges.read_text().startswith("src,dst\n")
    assert edges.shape == (70_000, 2)
    assert sum(seen) == 70_000
    assert 0 <= edges.min() <= edges.max() < 900
    assert (features.shape, features.dtype) == ((900, 5), np.float32)
    assert np.bincount(labels).tolist() == [150] * 6
    splits = {name: np.load(path) for name, path in files.splits.items()}
    assert {name: len(nodes) for name, nodes in splits.items()} == {
        "train": 540,
        "val": 180,
        "test": 180,
    }
    assert np.array_equal(np.sort(np.concatenate(list(splits.values()))), np.arange(900))


def test_edges_stay_in_communities_and_degrees_are_skewed(tmp_path):
    edges, _, labels = read(write_demo(tmp_path, num_nodes=5000, num_edges=60_000, dim=1))
    inside = (labels[edges[:, 0]] == labels[edges[:, 1]]).mean()
    assert inside == pytest.approx(0.7 + 0.3 / 16, abs=0.02)
    degrees = np.sort(np.bincount(edges.ravel(), minlength=5000))
    assert degrees[-50:].sum() > 5 * degrees[2475:2525].sum()


def test_the_same_seed_gives_the_same_files(tmp_path):
    sizes = {"num_nodes": 200, "num_edges": 1000, "dim": 3, "num_classes": 4}
    one, same, other = (
        read(write_demo(tmp_path / name, seed=seed, **sizes))
        for name, seed in (("one", 1), ("same", 1), ("other", 2))
    )
    assert all(map(np.array_equal, one, same))
    assert not any(map(np.array_equal, one, other))


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"num_nodes": 0}, "num_nodes must be positive, not 0"),
        ({"num_edges": -1}, "num_edges must be positive"),
        ({"dim": 0}, "dim must be positive"),
        ({"num_nodes": 3, "num_classes": 4}, "2 to 3 classes, not 4"),
        ({"num_classes": 1}, "classes, not 1"),
    ],
)
def test_sizes_out_of_range(tmp_path, sizes, message):
    with pytest.raises(ValueError, match=message):
        write_demo(tmp_path, **sizes)


def test_demo_runs_and_leaves_nothing(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert main(["demo", *SMALL]) == 0
    out, err = capfd.readouterr()
    assert "training on 600 nodes" in out
    assert out.count("epoch ") == 2 + 1  # one line each, and the one that says which was best
    assert "test  accuracy 0." in out
    assert out.splitlines()[-1].startswith("memory")
    assert err == ""
    assert list(tmp_path.iterdir()) == []


def test_demo_keeps_what_it_is_told_to(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert main(["-q", "demo", *SMALL, "--epochs", "1", "--keep"]) == 0
    out = capfd.readouterr().out
    (kept,) = tmp_path.iterdir()
    assert f"files kept in {kept}" in out
    assert "epoch   1" not in out
    assert main(["demo", *SMALL, "--epochs", "1", "--dir", str(tmp_path / "mine")]) == 0
    with gz.open(tmp_path / "mine" / "dataset") as ds:
        assert (ds.num_nodes, ds.num_classes, set(ds.splits)) == (600, 3, {"train", "val", "test"})
        assert ds.graph.num_input_edges == 5000


def test_demo_checks_its_outputs_before_it_begins(tmp_path, monkeypatch, capfd):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    kept = tmp_path / "kept"
    for words, message in (
        (["--json", tmp_path / "no" / "r.json"], "the folder"),
        (["--predictions", tmp_path / "p.txt"], "written as .npz or .csv"),
        (["--save", tmp_path / "x", "--json", tmp_path / "x"], "are the same file"),
        (["--dir", kept, "--json", kept / "edges.csv"], "would replace"),
    ):
        assert main(["demo", *SMALL, *map(str, words)]) == 1
        out, err = capfd.readouterr()
        assert out == ""
        assert message in err
    assert list((tmp_path / "temporary").iterdir()) == []
    assert list(kept.iterdir()) == []


def test_demo_writes_its_outputs(tmp_path, capfd):
    kept = tmp_path / "made"
    words = ["--dir", kept, "--json", kept / "r.json", "--save", kept / "m.pt"]
    more = ["--predictions", kept / "p.npz", "--epochs", "1"]
    assert main(["demo", *SMALL, *map(str, words), *map(str, more)]) == 0
    assert json.loads((kept / "r.json").read_text())["best_epoch"] == 1
    assert gz.GraphSAGE.from_saved(kept / "m.pt").arguments["num_classes"] == 3
    with np.load(kept / "p.npz") as found:
        assert sorted(found["node_id"]) == list(range(600))
    words = ["--dir", kept, "--json", kept / "dataset" / "graph.gl"]
    before = (kept / "dataset" / "graph.gl").stat().st_size
    assert main(["demo", *SMALL, *map(str, words)]) == 1
    assert (kept / "dataset" / "graph.gl").stat().st_size == before


def test_a_failed_demo_leaves_nothing_either(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert main(["demo", *SMALL, "--epochs", "0"]) == 1
    assert "epochs must be at least 1" in capfd.readouterr().err
    assert list(tmp_path.iterdir()) == []
