"""What autocompletion offers, and what keeps working beside it."""

from __future__ import annotations

import builtins
import inspect
import re
import subprocess
import sys
from pathlib import Path

import files
import numpy as np
import pytest

import graphzero as gz
from graphzero.store.manifest import read_manifest

OF_02 = {"DataType", "convert_csv_to_gd", "convert_csv_to_gl"}
METHODS_OF_02 = {
    "batch_random_fanout",
    "batch_random_walk",
    "batch_random_walk_uniform",
    "get_degree",
    "get_neighbours",
    "get_weights",
    "has_weights",
    "sample_neighbours",
}


def test_names_of_02_are_not_listed_and_work() -> None:
    for name in OF_02:
        assert getattr(gz, name).__doc__
    listed = set(dir(gz))
    assert not listed & OF_02  # not even once they have been imported
    assert {*gz.__all__, "open", "__version__"} <= listed
    assert not listed & {"annotations", "importlib", "Any"}


def test_methods_of_02_are_not_listed_and_work(tmp_path: Path) -> None:
    files.write_graph(tmp_path / "g.gl", [[0, 1], [1, 2]], 3)
    with gz.Graph(tmp_path / "g.gl") as graph:
        for listed in (set(dir(gz.Graph)), set(dir(graph))):
            assert not listed & METHODS_OF_02
            assert {"neighbors", "close", "_view", "__class__"} <= listed
        for name in METHODS_OF_02:
            assert getattr(gz.Graph, name).__doc__
            assert hasattr(graph, name)
        assert "_mapping" in dir(graph)
        assert "extra" in dir(type("Mine", (gz.Graph,), {"extra": 1}))


def test_arguments_of_02_are_not_in_signatures_and_work(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.eye(3))
    for kind in (gz.Graph, gz.FeatureStore):
        assert list(inspect.signature(kind).parameters) == ["path"]
    assert list(inspect.signature(gz.FeatureStore.get_data).parameters) == ["self", "node"]
    with gz.FeatureStore(filename=tmp_path / "x.npy") as store:
        assert store.get_data(node_id=1).tolist() == [0, 1, 0]
    with pytest.raises(TypeError, match="give path"):
        gz.FeatureStore(tmp_path / "x.npy", filename=tmp_path / "x.npy")


def test_a_star_import_hides_no_builtin_and_has_no_name_of_02(tmp_path: Path) -> None:
    code = "from graphzero import *; print(*[name for name in dir() if name[:2] != '__'])"
    command = [sys.executable, "-c", code]
    # elsewhere than in the source tree, whose uncompiled package would be imported
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    imported = set(done.stdout.split())
    assert imported == set(gz.__all__)
    assert {"build", "Graph", "NeighborDataset"} <= imported
    assert not imported & (OF_02 | set(dir(builtins)))


BUILD = (
    "path edges features=None labels=None splits=None * nodes=None edge_splits=None "
    "weight_attrs=None time_attrs=None num_nodes=None ids='dense' directed=True "
    "neighbors='in' order='hot' presample=None src=None dst=None weight=None timestamp=None "
    "header='auto' delimiter='auto' on_bad_rows='raise' edge_ids=False coalesce=False "
    "drop_self_loops=False reverse=False feature_dtype=None edge_attrs=None "
    "id_column=None memory_limit='2GB' progress=False"
)
REORDER = "path order='hot' * neighbors=None presample=None memory_limit='2GB' progress=False"


@pytest.mark.parametrize(("name", "expected"), [("build", BUILD), ("reorder", REORDER)])
def test_signatures_are_stable(name: str, expected: str) -> None:
    function = getattr(gz, name)
    found, star = [], False
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not star:
            found.append("*")
            star = True
        default = parameter.default
        has_default = default is not inspect.Parameter.empty
        found.append(f"{parameter.name}={default!r}" if has_default else parameter.name)
    assert found == expected.split()
    assert (function.__module__, function.__qualname__) == ("graphzero.api", name)
    names = inspect.signature(function).parameters
    assert all(
        re.search(rf"^    (.*, )?{name}(, .*)? : ", function.__doc__, re.M) for name in names
    )


def test_presampling_has_a_default(tmp_path: Path) -> None:
    edges = files.random_edges(50, 300)
    with gz.build(tmp_path, edges, order="presample") as ds:
        assert ds.num_edges == 300
    assert read_manifest(tmp_path).presampling.fanouts == gz.Presample().fanouts
    with gz.reorder(tmp_path, "hot"):
        assert read_manifest(tmp_path).order == "hot"
    for again in (gz.reorder(tmp_path, "presample"), gz.reorder(path=tmp_path, order="presample")):
        with again as ds:
            assert ds.num_nodes == 50
        assert read_manifest(tmp_path).presampling.batch_size == gz.Presample().batch_size
    with pytest.raises(ValueError, match="presample= is for order='presample'"):
        gz.reorder(tmp_path, "input", presample=gz.Presample())
