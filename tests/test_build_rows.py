"""Features, labels and splits, from every kind of input, in both orders; what a build shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from files import read_file

import graphzero as gz
from graphzero.ingest import build_dataset, dataset_files
from graphzero.store.format import FLAG_VECTOR, Header, verify_file

EDGES = np.array([[0, 3], [1, 3], [2, 3], [0, 1], [4, 1], [3, 4]])
NODES = 5


def rows_of(path: Path) -> tuple[Header, np.ndarray[Any, Any]]:
    """Header and rows, put back into the user's order."""
    verify_file(path)
    header, arrays = read_file(path)
    shape = (-1,) if header.flags & FLAG_VECTOR else (-1, header.width)
    rows = arrays["rows"].reshape(shape)
    return header, rows[arrays["node_rank"]] if "node_rank" in arrays else rows


def test_missing_rows_are_zeros_with_a_warning(tmp_path: Path, order: str) -> None:
    (tmp_path / "x.csv").write_text("3,1.5\n0,2\n7,1\n")
    with pytest.warns(UserWarning, match=r"x\.csv has no row for 5 of 8 nodes: they get zeros"):
        build_dataset(tmp_path / "d", EDGES, tmp_path / "x.csv", order=order, id_column=0)
    rows = rows_of(tmp_path / "d" / "features.gd")[1]
    np.testing.assert_array_equal(rows[:, 0], [2, 0, 0, 1.5, 0, 0, 0, 1])
    assert read_file(tmp_path / "d" / "graph.gl")[0].num_nodes == 8  # which features count as well


@pytest.mark.parametrize(
    ("text", "expected", "num_classes"),
    [
        ("label\n0\n2\n1\n-1\n0\n", [0, 2, 1, -1, 0], 3),
        ("id,label\n4,1\n0,5\n1,0\n2,0\n3,0\n", [5, 0, 0, 0, 1], 6),
        ("0.5\n1\n2\n3\n4\n", np.array([0.5, 1, 2, 3, 4]), None),
        ("-1\n" * 5, [-1] * 5, None),
        ("id,a,b\n4,1,0\n0,0,1\n1,0,0\n2,0,0\n3,0,0\n",
         [[0, 1], [0, 0], [0, 0], [0, 0], [1, 0]], None),
    ],
)  # fmt: skip
def test_csv_labels(
    tmp_path: Path, order: str, text: str, expected: Any, num_classes: int | None
) -> None:
    (tmp_path / "y.csv").write_text(text)
    manifest = build_dataset(tmp_path / "d", EDGES, labels=tmp_path / "y.csv", order=order)
    labels = rows_of(tmp_path / "d" / "labels.gd")[1]
    np.testing.assert_array_equal(labels, expected)
    assert labels.dtype == np.asarray(expected).dtype
    assert manifest.nodes[""].num_classes == num_classes


def test_splits(tmp_path: Path, order: str) -> None:
    ids, mask = [4, 0, 3, 0], np.isin(np.arange(NODES), [0, 3, 4])
    (tmp_path / "s.csv").write_text("\n".join(["node", *map(str, ids)]))
    pq.write_table(pa.table({"mask": mask}), tmp_path / "mask.parquet")
    splits = {"csv": tmp_path / "s.csv", "m-1": tmp_path / "mask.parquet"}
    splits |= {"mask": mask, "list": ids, "none": np.empty(0, np.float64)}
    build_dataset(tmp_path / "d", EDGES, splits=splits, order=order)
    for name in splits:
        expected = [] if name == "none" else [0, 3, 4] if "m" in name else ids
        header, stored = rows_of(tmp_path / "d" / f"split_{name}.gd")
        np.testing.assert_array_equal(stored, expected)
        assert (stored.dtype, header.width, header.flags) == ("<i8", 1, FLAG_VECTOR)


# --- labels among the features

CLASSES, POSITIONS = np.arange(40) % 4, np.arange(40)
NUMBERS = np.random.default_rng(0).random((40, 2), np.float32)
RING = np.stack([POSITIONS, (POSITIONS + 1) % 40], axis=1)


def features(**columns: Any) -> pa.Table:
    """A table of features, from the last node to the first."""
    columns = {"id": POSITIONS, "age": NUMBERS[:, 0], **columns}
    return pa.table({name: values[::-1] for name, values in columns.items()})


@pytest.mark.parametrize("name", ["label", "Y", "target", "class"])
def test_a_column_with_the_name_of_labels_is_no_feature(tmp_path: Path, name: str) -> None:
    table = features(**{name: NUMBERS[:, 1]})
    message = rf"column '{name}' is among the features.*columns=\[.*leave that one out"
    for x in (table, [gz.Source(table)]):
        with pytest.raises(ValueError, match=message):
            gz.build(tmp_path, RING, x, CLASSES)
    gz.build(tmp_path, RING, labels=CLASSES).close()
    with pytest.raises(ValueError, match=message):
        gz.set_attribute(tmp_path, "x", table)
    gz.set_attribute(tmp_path, "x", gz.Source(table, columns=["age", name])).close()
    gz.build(tmp_path, RING, table).close()  # without labels


@pytest.mark.parametrize("order", ["hot", "input"])
@pytest.mark.parametrize("ids", ["dense", "map"])
def test_a_column_that_equals_the_labels_is_no_feature(
    tmp_path: Path, order: str, ids: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dataset_files, "_PIECE_BYTES", 100)
    labels = pa.table({"id": POSITIONS, "team": CLASSES})
    options: Any = {"order": order, "ids": ids}
    with pytest.raises(ValueError, match="column 'group' equals the labels in every row"):
        gz.build(tmp_path, RING, features(group=CLASSES), labels, **options)
    almost = np.where(POSITIONS == 39, 5, CLASSES)
    gz.build(tmp_path, RING, features(group=almost), labels, **options).close()


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
@pytest.mark.parametrize(
    "classes", [CLASSES, CLASSES[:, np.newaxis], np.sqrt(CLASSES), CLASSES > 1]
)
def test_an_array_with_the_labels_has_no_features(tmp_path: Path, dtype: str, classes: Any) -> None:
    x, how = np.hstack([NUMBERS, classes.reshape(-1, 1)]), {"feature_dtype": dtype}
    of_paper = {"paper": {"x": x, "y": classes}}
    with pytest.raises(ValueError, match="equals the labels in every row"):
        gz.build(tmp_path, nodes=of_paper, edges={("paper", "cites", "paper"): RING}, **how)
    gz.build(tmp_path, RING, x, **how).close()
    with pytest.raises(ValueError, match="column . of x equals the labels"):
        gz.set_attribute(tmp_path, "y", classes)


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (np.zeros((40, 2)), np.zeros(40, int)),
        (np.eye(40), (POSITIONS == 3).astype(int)),
        (np.eye(3), [0, 0, 1]),
        (NUMBERS, NUMBERS),
        (features(x=NUMBERS[:, 0], y=NUMBERS[:, 1]), CLASSES),
    ],
)
def test_features_that_may_be_as_labels_are(tmp_path: Path, x: Any, y: Any) -> None:
    gz.build(tmp_path, RING[: len(y)] % len(y), x, y).close()


# --- the build


def test_no_edges_but_nodes(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("# nothing\nsrc,dst")
    with gz.build(tmp_path / "d", tmp_path / "e.csv", num_nodes=3, directed=False) as ds:
        assert (ds.num_nodes, ds.num_edges) == (3, 0)
        assert ds.graph.degree([0, 1, 2]).tolist() == [0, 0, 0]


def test_progress_is_one_line_a_phase(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "y.csv").write_text("id,y\n" + "".join(f"{i},{i}\n" for i in (2, 1, 4, 3, 0)))
    build_dataset(tmp_path / "d", EDGES, np.zeros((5, 2)), tmp_path / "y.csv", progress=True)
    lines = [line.rsplit("\r", 1)[-1] for line in capsys.readouterr().err.strip().split("\n")]
    labels = [line.split(":")[0].strip() for line in lines]
    of_graph = ["reading edges", "ordering nodes", "sorting edges", "writing graph"]
    # rows of an array are read in the stored order
    assert labels == [*of_graph, "writing features", "reading labels", "writing labels"]
    build_dataset(tmp_path / "d", EDGES)
    assert capsys.readouterr().err == ""
