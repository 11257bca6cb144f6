"""Fixtures that many tests share."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import threading
from pathlib import Path

import cli_program
import files
import numpy as np
import pytest

import graphzero as gz
from graphzero import _core

# A shell's background jobs ignore Ctrl-C, and those of nohup the end of their terminal. Tests and
# the programs that they start would inherit it.
if threading.current_thread() is threading.main_thread():
    for number, usual in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGHUP, signal.SIG_DFL),
    ):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)


# Files of which every test is an extended one: `tox -e extended` runs them, and `tox` does not.
EXTENDED = (
    "accelerate build_killed build_memory distribution examples huge_counts "
    "iterators_end loader_lightning memory_limit program_ends pyg_lightning "
    "pyg_properties pyg_scripts report_command "
    "sources_memory training truncated tune"
)
# Files that run the compiled core hard: AddressSanitizer watches them as well.
CORE = (
    "chosen_negatives direct direction edge_keys features find_texts format graph hostile links "
    "mapping narrow_rows node_ids rng row_io sampler text "
    "topology verify weighted"
)


def pytest_collection_modifyitems(items):
    """Marks the tests of whole files."""
    for item in items:
        name = item.path.stem.removeprefix("test_")
        if name in EXTENDED.split():
            item.add_marker(pytest.mark.extended)
        if name in CORE.split():
            item.add_marker(pytest.mark.core)


@pytest.fixture(autouse=True)
def no_mapping_is_left_behind():
    """Whatever a test opens must be gone when it has ended."""
    before = _core.open_mappings()
    yield
    if _core.open_mappings() > before:
        gc.collect()
    assert _core.open_mappings() <= before, "a mapped file was leaked"


@pytest.fixture(params=["input", "hot"])
def order(request):
    """Each order in which a file can keep its nodes."""
    return request.param  # a test may ask for one of them, indirectly


@pytest.fixture
def small(tmp_path, order):
    """A skewed graph of 300 nodes, as (Graph, naive adjacency lists, edge list)."""
    edges = files.random_edges(300, 4000)
    naive = files.write_graph(tmp_path / "small.gl", edges, 300, order=order)
    with gz.Graph(tmp_path / "small.gl") as graph:
        yield graph, naive, edges


@pytest.fixture
def dataset(tmp_path, order):
    """A dataset of 500 nodes with features, labels and splits, as (folder, features, labels)."""
    rng = np.random.default_rng(1)
    features = rng.standard_normal((500, 7)).astype(np.float32)
    labels = rng.integers(0, 4, 500)
    files.write_dataset(
        tmp_path / "data",
        files.random_edges(500, 6000, seed=2),
        500,
        features=features,
        labels=labels,
        splits={"train": rng.permutation(500)[:203], "val": np.arange(10)},
        order=order,
    )
    return tmp_path / "data", features, labels


@pytest.fixture
def ds(dataset):
    """The same, opened."""
    with gz.open(dataset[0]) as opened:
        yield opened


@pytest.fixture
def cold_store(tmp_path):
    """16 MiB of rows, none of them in the page cache."""
    path = tmp_path / "f.gd"
    files.write_rows(path, np.arange(32_768 * 128, dtype=np.float32).reshape(32_768, 128))
    with files.open_cold(gz.FeatureStore, path) as store:
        yield store


@pytest.fixture
def inputs(tmp_path):
    """Files for ``graphzero build``."""
    return cli_program.write_inputs(tmp_path / "in")


@pytest.fixture
def data(inputs, tmp_path, capfd):
    """The dataset that the command builds of them."""
    folder = cli_program.build_data(inputs, tmp_path / "data")
    capfd.readouterr()
    return folder


@pytest.fixture
def earlier(tmp_path_factory):
    """A folder with a dataset in it."""
    folder = tmp_path_factory.mktemp("earlier") / "data"
    edges = [[0, 1], [1, 2], [2, 0], [3, 1]]
    gz.build(folder, edges, np.ones((4, 2)), np.zeros(4, int), {"train": [0]}).close()
    return folder


@pytest.fixture
def refused(earlier):
    """Checks that a build over an earlier dataset fails in a certain way and changes nothing."""
    before = {path.name: path.read_bytes() for path in earlier.iterdir()}

    def check(message, *args, kind=ValueError, **options):
        with pytest.raises(kind, match=message):
            gz.build(earlier, *args, **options)
        assert {path.name: path.read_bytes() for path in earlier.iterdir()} == before

    return check


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 4 MiB."""
    path = tmp_path / "disk"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(path)]
    try:
        done = subprocess.run(mount, capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount command")
    if done.returncode != 0:
        pytest.skip("mounting a small file system needs root")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


@pytest.fixture(scope="session")
def real_data():
    """Folder of real graphs, from the environment."""
    folder = os.environ.get("GRAPHZERO_TEST_DATA")
    if not folder:
        pytest.skip("GRAPHZERO_TEST_DATA does not name the folder of real graphs")
    return Path(folder)
