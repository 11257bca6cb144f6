"""Ids that would make files which are empty for the most part are refused, with the way out."""

from __future__ import annotations

import os

import numpy as np
import pytest
from id_files import table_of, write_csv

import graphzero as gz

pytestmark = pytest.mark.no_asan  # large, empty files of few edges

LIMIT = 1 << 22


def test_two_lines_with_a_large_id(tmp_path) -> None:
    edges = write_csv(tmp_path / "e.csv", "0,4000000000", "4000000000,1")
    with pytest.raises(
        ValueError, match=r"too sparse.*e\.csv, is 4,000,000,000, with only 4 ref.*ids='map'"
    ):
        gz.build(tmp_path / "d", edges)
    assert os.listdir(tmp_path / "d") == []
    with gz.build(tmp_path / "d", edges, ids="map") as ds:
        assert ds.node_ids.tolist() == [0, 1, 4_000_000_000]


@pytest.mark.parametrize(
    ("count", "ends", "refused"),
    [
        (LIMIT, 2, False),
        (LIMIT + 1, 2, True),
        (LIMIT + 16, LIMIT // 16, True),
        (LIMIT + 16, LIMIT // 16 + 2, False),
    ],
)
def test_both_sides_of_the_rule(tmp_path, count, ends, refused) -> None:
    edges = np.zeros((ends // 2, 2), np.int64)
    edges[-1] = count - 1, 0
    if not refused:
        with gz.build(tmp_path, edges, order="input") as ds:
            assert ds.num_nodes == count
        return
    with pytest.raises(ValueError, match=f"num_nodes={count} says that there are so many nodes"):
        gz.build(tmp_path, edges)
    with gz.build(tmp_path, edges, num_nodes=count, order="input") as ds:
        assert ds.num_nodes == count


def test_what_names_nodes_counts(tmp_path) -> None:
    features = np.zeros(LIMIT + 2, np.int8)
    with gz.build(tmp_path, [[0, LIMIT + 1]], features, order="input") as ds:
        assert ds.num_nodes == LIMIT + 2
    ids = [*range(LIMIT // 16), LIMIT + 1]
    rows = write_csv(tmp_path / "x.csv", "id,v", *(f"{i},1" for i in ids))
    with (
        pytest.warns(UserWarning, match="they get zeros"),
        gz.build(tmp_path / "d", [[0, 1]], features=rows, order="input") as ds,
    ):
        assert ds.num_nodes == LIMIT + 2
    few = table_of(tmp_path / "y.parquet", [5, LIMIT + 1], [1, 2])
    with pytest.raises(ValueError, match=r"too sparse: .*y\.parquet, is 4,194,305"):
        gz.build(tmp_path / "d", [[0, 1]], features=few)


def test_typed_graphs(tmp_path) -> None:
    edges = {("a", "to", "b"): np.array([[0], [LIMIT + 5]])}
    with pytest.raises(
        ValueError, match=r"node type 'b': .*in the edges of type .*'num_nodes': 4194310"
    ):
        gz.build(tmp_path, nodes={"a": {}, "b": {}}, edges=edges)
    with gz.build(tmp_path, nodes={"a": {}, "b": {"num_nodes": LIMIT + 6}}, edges=edges) as ds:
        assert ds["b"].num_nodes == LIMIT + 6


@pytest.mark.parametrize("number", [5_000_000_000, -1])
def test_ids_that_are_no_numbers_of_nodes_name_the_way_out(tmp_path, number) -> None:
    path = write_csv(tmp_path / "e.csv", "0,1", f"{number},1", "1,1")
    for edges, place in ((path, "line 2"), ([[0, 1], [number, 1], [1, 1]], "edge 1")):
        with pytest.raises(ValueError, match=f"{place}: .* not a source id .*ids='map' takes any"):
            gz.build(tmp_path / "d", edges)
