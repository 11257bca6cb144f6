"""GraphBolt's folders: built from their files and from plain arrays, byte for byte.

The layouts are those of DGL's ``ondisk-dataset-specification.rst``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import graphzero as gz
from graphzero.cli import main
from graphzero.ingest.datasets.graphbolt import find_graphbolt
from graphzero.ingest.datasets.task_labels import TaskLabels

yaml = pytest.importorskip("yaml")

# Python only: the C code below it is sanitized by other tests of the build.
pytestmark = pytest.mark.no_asan

NODES, EDGES = 30, 200
SETS = {"train_set": "train", "validation_set": "val", "test_set": "test"}


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.g[ld]")}


def plain(folder: Path, edges: Any, **more: Any) -> dict[str, bytes]:
    gz.build(folder, edges, **more).close()
    return files_of(folder)


class Folder:
    """A folder of GraphBolt that is being written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.content: dict[str, Any] = {"dataset_name": "test", "graph": {}}

    def save(self, name: str, array: Any, form: str) -> dict[str, Any]:
        """Writes an array; returns the format and the path for ``metadata.yaml``."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if form == "csv":
            np.savetxt(path.with_suffix(".csv"), np.asarray(array).T, fmt="%d", delimiter=",")
        elif form == "numpy":
            np.save(path.with_suffix(".npy"), array)
        else:
            torch.save(torch.as_tensor(array), path.with_suffix(".pt"))
        suffix = {"csv": ".csv", "numpy": ".npy", "torch": ".pt"}[form]
        return {"format": form, "path": f"{name}{suffix}"}

    def write(self) -> Path:
        (self.path / "metadata.yaml").write_text(yaml.safe_dump(self.content))
        return self.path


def node_data(seed: int = 2) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    order = rng.permutation(NODES)
    return {
        "edges": rng.integers(0, NODES, (2, EDGES)),
        "feat": rng.random((NODES, 4), np.float32),
        "year": rng.integers(1990, 2020, NODES),
        "edge_feat": rng.random((EDGES, 2), np.float32),
        "sets": {"train_set": order[:12], "validation_set": order[12:16], "test_set": order[16:20]},
        "labels": rng.integers(0, 5, NODES),
    }


def write_nodes(path: Path, data: dict[str, Any], edges: str, form: str) -> Folder:
    """A graph without types, and a task on nodes."""
    folder = Folder(path)
    folder.content["graph"] = {
        "nodes": [{"num": NODES}],
        "edges": [folder.save("edges/e", data["edges"], edges)],
        "feature_data": [
            {"domain": "node", "name": "year", **folder.save("y", data["year"], form)}
        ],
    }
    folder.content["feature_data"] = [
        {"domain": "node", "type": None, "name": "feat", "in_memory": False}
        | folder.save("data/feat", data["feat"], form),
        {"domain": "edge", "name": "feat", **folder.save("data/e", data["edge_feat"], form)},
    ]
    task: dict[str, Any] = {"name": "node_classification", "num_classes": 5}
    for name, ids in data["sets"].items():
        seeds = folder.save(f"set/{name}_seeds", ids, form)
        labels = folder.save(f"set/{name}_labels", data["labels"][ids], form)
        task[name] = [{"data": [{"name": "seeds", **seeds}, {"name": "labels", **labels}]}]
    folder.content["tasks"] = [task]
    return folder


def labels_of_seeds(data: dict[str, Any]) -> np.ndarray[Any, Any]:
    labels = np.full(NODES, -1)
    for ids in data["sets"].values():
        labels[ids] = data["labels"][ids]
    return labels


@pytest.mark.parametrize(("edges", "form"), [("csv", "numpy"), ("numpy", "torch")])
def test_a_graph_and_a_task_on_nodes(tmp_path: Path, edges: str, form: str) -> None:
    data = node_data()
    folder = write_nodes(tmp_path / "bolt", data, edges, form).write()
    expected = plain(
        tmp_path / "plain",
        {"edge_index": data["edges"], "edge_attr": data["edge_feat"]},
        nodes={"x": data["feat"], "y": labels_of_seeds(data), "year": data["year"]},
        splits={SETS[name]: ids for name, ids in data["sets"].items()},
    )
    for path in (folder, folder / "metadata.yaml"):
        with gz.from_graphbolt(path, tmp_path / "data") as ds:
            assert ds.num_classes == labels_of_seeds(data).max() + 1
            target = int(data["edges"][1, 0])  # sampled are the sources of incoming edges
            sources = data["edges"][0, data["edges"][1] == target]
            assert sorted(ds.graph.neighbors(target)) == sorted(sources)
        assert files_of(tmp_path / "data") == expected
    assert not (tmp_path / "data" / "links").exists()


WRITES, CITES = ("author", "writes", "paper"), ("paper", "cites", "paper")


def test_a_graph_with_types(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    counts = {"author": 12, "paper": 20}
    lists = {
        key: np.stack([rng.integers(0, counts[key[0]], 40), rng.integers(0, counts[key[2]], 40)])
        for key in (WRITES, CITES)
    }
    folder = Folder(tmp_path / "bolt")
    folder.content["graph"] = {
        "nodes": [{"type": name, "num": count} for name, count in counts.items()],
        "edges": [
            {"type": ":".join(key), **folder.save("edges/" + "-".join(key), pairs, form)}
            for form, (key, pairs) in zip(("csv", "numpy"), lists.items(), strict=True)
        ],
    }
    feat, weight = rng.random((20, 3), np.float32), rng.random(40, np.float32)
    folder.content["feature_data"] = [
        {"domain": "node", "type": "paper", "name": "feat", **folder.save("f", feat, "numpy")},
        {"domain": "edge", "type": ":".join(CITES), "name": "weight"}
        | folder.save("w", weight, "torch"),
    ]
    seeds = {name: rng.permutation(20)[:5] for name in SETS}
    labels = rng.integers(0, 3, 20)
    pairs = {name: rng.integers(0, 12, (6, 2)) for name in SETS}
    nodes_task: dict[str, Any] = {"name": "nodes"}
    links_task: dict[str, Any] = {"name": "links"}
    for name in SETS:
        of_seeds = folder.save(f"s/{name}", seeds[name], "numpy")
        of_labels = folder.save(f"l/{name}", labels[seeds[name]], "numpy")
        entry = [{"name": "seeds", **of_seeds}, {"name": "labels", **of_labels}]
        nodes_task[name] = [{"type": "paper", "data": entry}]
        of_pairs = {"name": "seeds", **folder.save(f"p/{name}", pairs[name], "numpy")}
        links_task[name] = [{"type": ":".join(WRITES), "data": [of_pairs]}]
    folder.content["tasks"] = [nodes_task, links_task]
    folder.write()
    all_labels = np.full(20, -1)
    for ids in seeds.values():
        all_labels[ids] = labels[ids]
    edges = {WRITES: lists[WRITES], CITES: {"edge_index": lists[CITES], "weight": weight}}
    nodes = {"author": {"num_nodes": 12}, "paper": {"num_nodes": 20, "x": feat}}
    without = plain(tmp_path / "plain", edges, nodes=nodes)
    with pytest.raises(ValueError, match=r"has the tasks \['nodes', 'links'\]: choose one"):
        gz.from_graphbolt(folder.path, tmp_path / "data")
    gz.from_graphbolt(folder.path, tmp_path / "data", task="links").close()
    assert files_of(tmp_path / "data") == without
    for name, split in SETS.items():
        path = tmp_path / "data" / "links" / split / "author__writes__paper" / "seeds.npy"
        assert np.array_equal(np.load(path), pairs[name])
    nodes["paper"]["y"] = all_labels
    splits = {split: {"paper": seeds[name]} for name, split in SETS.items()}
    expected = plain(tmp_path / "plain2", edges, nodes=nodes, splits=splits)
    gz.from_graphbolt(folder.path, tmp_path / "data", task=0).close()
    assert files_of(tmp_path / "data") == expected
    assert not (tmp_path / "data" / "links").exists()  # those of the other task


@pytest.mark.parametrize("name", ["seeds", "node_pairs"])  # today, and before DGL 2.2
def test_a_task_on_links(tmp_path: Path, name: str) -> None:
    data = node_data()
    folder = write_nodes(tmp_path / "bolt", data, "csv", "numpy")
    pairs = np.arange(20).reshape(10, 2)
    arrays = {name: pairs, "labels": np.arange(10) % 2, "indexes": np.arange(10) // 2}
    entry = [{"name": key, **folder.save(f"links/{key}", a, "numpy")} for key, a in arrays.items()]
    folder.content["tasks"] = [{"name": "links", **{key: [{"data": entry}] for key in SETS}}]
    gz.from_graphbolt(folder.write(), tmp_path / "data").close()
    for split in SETS.values():
        for key, array in arrays.items():
            path = tmp_path / "data" / "links" / split / f"{key}.npy"
            assert np.array_equal(np.load(path), array)


def test_names_and_what_is_not_stored(tmp_path: Path) -> None:
    data = node_data()
    folder = write_nodes(tmp_path / "bolt", data, "csv", "numpy")
    weird = {"domain": "node", "name": "title-embedding", **folder.save("t", data["feat"], "numpy")}
    whole = {"domain": "graph", "name": "density", **folder.save("d", [0.5], "numpy")}
    folder.content["feature_data"] += [weird, whole]
    for task in folder.content["tasks"]:
        task["train_set"][0]["data"].append(
            {"name": "hardness", **folder.save("h", np.zeros(12), "numpy")}
        )
    folder.write()
    with pytest.raises(ValueError, match="'title-embedding': the name must be a Python identifier"):
        gz.from_graphbolt(folder.path, tmp_path / "data")
    names = {"node:feat": "bag_of_words", "title-embedding": "x"}
    with pytest.warns(UserWarning, match="is not stored") as warned:
        ds = gz.from_graphbolt(folder.path, tmp_path / "data", names=names)
    assert "bag_of_words" in ds.attributes
    assert set(ds.edge_attributes) == {"edge_attr"}
    ds.close()
    texts = [str(one.message) for one in warned]
    assert any("'density' is of the whole graph, and is not stored" in text for text in texts)
    assert any("hardness, which is not stored" in text for text in texts)


def test_labels_of_the_task_and_of_feature_data(tmp_path: Path) -> None:
    folder = write_nodes(tmp_path / "bolt", node_data(), "csv", "numpy")
    of_all = {"domain": "node", "name": "y", **folder.save("all", np.arange(NODES), "numpy")}
    folder.content["feature_data"].append(of_all)
    with pytest.raises(ValueError, match="both feature_data and the task have labels"):
        gz.from_graphbolt(folder.write(), tmp_path / "data")
    with gz.from_graphbolt(folder.path, tmp_path / "data", names={"y": "label"}) as ds:
        assert "label" in ds.attributes


@pytest.mark.parametrize("pieces", [(1 << 25, 1 << 21), (16, 8)])
def test_labels_are_put_at_their_nodes(
    monkeypatch: pytest.MonkeyPatch, pieces: tuple[int, int]
) -> None:
    for name, size in zip(("_PIECE_BYTES", "_SEED_BYTES"), pieces, strict=True):
        monkeypatch.setattr(f"graphzero.ingest.datasets.task_labels.{name}", size)

    def parts(*pairs: Any) -> Any:
        return [(f"set {i}", np.array(a), np.array(b)) for i, (a, b) in enumerate(pairs)]

    def made(*pairs: Any) -> Any:
        return np.concatenate(list(TaskLabels(5, parts(*pairs))())).tolist()

    assert made(([3, 0], [7, 8]), ([1], [9])) == [8, 9, -1, 7, -1]
    assert made(([3, 0], [7, 8]), ([3], [7])) == [8, -1, -1, 7, -1]
    assert made(([2], [[1, 0]])) == [[-1, -1]] * 2 + [[1, 0]] + [[-1, -1]] * 2
    floats = np.concatenate(list(TaskLabels(3, parts(([1], [0.5])))()))
    assert floats.dtype == np.float64
    assert np.array_equal(floats, [np.nan, 0.5, np.nan], equal_nan=True)
    for pairs, message in (
        ([([3], [1]), ([3], [2])], "set 1: node 3 has two different labels"),
        ([([3, 3], [1, 2])], "set 0: node 3 has two different labels"),
        ([([5], [1])], "set 0 has seeds that are no nodes of 5"),
        ([([1, 2], [1])], "set 0 has 2 seeds"),
        ([([1], [1]), ([2], [0.5])], "they must be alike"),
    ):
        with pytest.raises(ValueError, match=message):
            made(*pairs)


def _changed(folder: Folder, change: Any) -> Path:
    change(folder.content)
    return folder.write()


BAD = {
    "is no YAML": lambda c: None,
    "graph must have nodes and edges": lambda c: c["graph"].pop("edges"),
    "num must be a number": lambda c: c["graph"]["nodes"][0].update(num="many"),
    "several nodes or edges, and none has a type": lambda c: c["graph"]["nodes"].append({"num": 2}),
    "has no path": lambda c: c["graph"]["edges"][0].pop("path"),
    "has format 'parquet'": lambda c: c["graph"]["edges"][0].update(format="parquet"),
    "must end in .npy": lambda c: c["feature_data"][0].update(path="edges/e.csv"),
    "is of type 'paper', and the graph has no types": lambda c: c["feature_data"][0].update(
        type="paper"
    ),
    "domain 'nodes'": lambda c: c["feature_data"][0].update(domain="nodes"),
    "would be a second 'x'": lambda c: c["feature_data"].append(c["feature_data"][0]),
    "tasks must be a list": lambda c: c.update(tasks={"name": "x"}),
    "has no name": lambda c: c["tasks"][0]["test_set"][0]["data"][0].pop("name"),
    "'seeds' is needed": lambda c: c["tasks"][0]["test_set"][0]["data"].pop(0),
    "train_set has type 'paper'": lambda c: c["tasks"][0]["train_set"][0].update(type="paper"),
}


@pytest.mark.parametrize("message", BAD)
def test_wrong_metadata_is_refused(tmp_path: Path, message: str) -> None:
    folder = write_nodes(tmp_path / "bolt", node_data(), "csv", "numpy")
    path = _changed(folder, BAD[message])
    if message == "is no YAML":
        (path / "metadata.yaml").write_text("graph: [")
    with pytest.raises(ValueError, match=message):
        gz.from_graphbolt(path, tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_edges_of_another_shape_are_refused(tmp_path: Path) -> None:
    folder = write_nodes(tmp_path / "bolt", node_data(), "numpy", "numpy")
    folder.save("edges/e", np.zeros((EDGES, 2), np.int64), "numpy")
    with pytest.raises(ValueError, match=r"edges of GraphBolt are \(2, E\)"):
        find_graphbolt(folder.write())


def test_folders_of_preprocessed_files_are_refused(tmp_path: Path) -> None:
    folder = write_nodes(tmp_path / "bolt", node_data(), "csv", "numpy").write()
    inside = folder / "preprocessed"
    inside.mkdir()
    topology = {"type": "FusedCSCSamplingGraph", "path": "preprocessed/graph.pt"}
    (inside / "metadata.yaml").write_text(yaml.safe_dump({"graph_topology": topology}))
    find_graphbolt(folder)  # the files beside it are read
    with pytest.raises(ValueError, match=r"preprocessed, which only DGL reads: give the folder"):
        find_graphbolt(inside)
    (folder / "metadata.yaml").unlink()
    with pytest.raises(FileNotFoundError, match="there is no metadata.yaml; preprocessed/ has"):
        find_graphbolt(folder)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    folder = write_nodes(tmp_path / "bolt", node_data(), "csv", "numpy").write()
    (folder / "data" / "feat.npy").unlink()
    with pytest.raises(
        FileNotFoundError, match=r"names this file of feature_data 'feat'.*feat.npy"
    ):
        gz.from_graphbolt(folder, tmp_path / "data")


def test_without_pyyaml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_nodes(tmp_path / "bolt", node_data(), "csv", "numpy").write()
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(ImportError, match="needs PyYAML: pip install pyyaml"):
        gz.from_graphbolt(folder, tmp_path / "data")


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_nodes(tmp_path / "bolt", node_data(), "csv", "numpy").write()
    gz.from_graphbolt(
        folder, tmp_path / "expected", names={"year": "published"}, task="node_classification"
    ).close()
    command = ["import", "graphbolt", str(folder), str(tmp_path / "data")]
    assert main([*command, "--rename", "year=published", "--task", "node_classification"]) == 0
    assert files_of(tmp_path / "data") == files_of(tmp_path / "expected")
    assert "30 nodes, 200 edges, directed" in capsys.readouterr().out
    assert main([*command, "--task", "3"]) == 1
    assert "choose one with task=" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*command, "--rename", "year"])
