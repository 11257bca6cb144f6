"""Files that become shorter while they are open: an error that names them, and no SIGBUS."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import graphzero as gz
from graphzero.errors import FormatError

NODES = 4000

# In a process of its own: without the checks it dies.
SCRIPT = """
import os, sys
import numpy as np
import torch
from torch.utils.data import DataLoader
import graphzero as gz

folder, name, call = sys.argv[1:]
ds = gz.open(folder)
nodes = np.arange(ds.num_nodes)[::-1].copy()
edges = np.stack([nodes, nodes[::-1]])
path = os.path.join(folder, name)
whole = open(path, "rb").read()

def shorten():
    os.truncate(path, 4096)

def restore():
    with open(path, "r+b") as file:
        file.write(whole)

def batches(**options):
    prefetch = gz.Prefetch(**options.pop("prefetch", {}))
    return gz.NeighborDataset(ds, nodes, [3, 2], batch_size=50, prefetch=prefetch, **options)

def pack():
    gz.pack(ds, folder + "/p.gd", nodes, [3, 2], epochs=1, batch_size=50, overwrite=True)
    return gz.PackedDataset(ds, folder + "/p.gd", nodes)

def loader(source, workers=0):
    return DataLoader(source, batch_size=None, collate_fn=gz.Collate(ds), num_workers=workers)

try:
    exec(call)
except Exception as error:
    print(type(error).__name__, str(error))
else:
    print("nothing was raised")
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("truncated") / "d"
    rng = np.random.default_rng(0)
    edges = rng.integers(0, NODES, (8 * NODES, 2))
    rows = rng.standard_normal((NODES, 64)).astype(np.float32)
    splits = {"train": np.arange(NODES)}
    gz.build(folder, edges, rows, np.arange(NODES) % 4, splits, edge_ids=True).close()
    return folder


@pytest.fixture
def folder(built, tmp_path):
    (tmp_path / "d").mkdir()
    for path in built.iterdir():
        (tmp_path / "d" / path.name).write_bytes(path.read_bytes())
    return tmp_path / "d"


def outcome(folder, name, call):
    found = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(folder), name, call],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert found.returncode == 0, (found.returncode, found.stdout, found.stderr[-800:])
    return found.stdout


def is_named(said, folder, name):
    size = 4096
    return (
        "FormatError" in said
        and str(folder / name) in said
        and (f"bytes when it was opened and is {size} now" in said or "is truncated" in said)
        and "open it again" in said
    )


STRATEGIES = ("none", "willneed", "pread", "uring", "auto")
FILES = ("graph.gl", "features.gd", "labels.gd", "split_train.gd")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_an_iteration_does_not_begin(folder, name, strategy):
    call = f"source = batches(prefetch={{'strategy': {strategy!r}}})\nshorten()\nnext(iter(source))"
    assert is_named(outcome(folder, name, call), folder, name)


@pytest.mark.parametrize("name", FILES[:3])
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("resident", [None, 0, 0.2])
def test_an_iteration_that_has_begun_ends_in_an_error(folder, name, strategy, resident):
    """Between two mini-batches; nothing can protect those that are under way."""
    options = {"strategy": strategy, "resident": resident, "lookahead": 0}
    call = f"running = iter(batches(prefetch={options}))\nnext(running)\nshorten()\n"
    call += "for _ in running: pass"
    assert is_named(outcome(folder, name, call), folder, name)


@pytest.mark.parametrize("name", FILES[:2])
def test_workers_say_it_too(folder, name):
    call = "shown = loader(batches(), 2)\nshorten()\nfor _ in shown: pass"
    said = outcome(folder, name, call)
    assert is_named(said, folder, name)
    assert "shared memory" not in said


def test_a_restored_file_is_used_again(folder):
    call = """
first = next(iter(loader(batches())))
shorten()
try:
    next(iter(loader(batches())))
except gz.FormatError:
    restore()
again = next(iter(loader(batches())))
assert torch.equal(first.x, again.x) and torch.equal(first.edge_index, again.edge_index)
"""
    assert outcome(folder, "features.gd", call) == "nothing was raised\n"


def test_a_pack_is_checked_too(folder):
    (folder / "p.gd").write_bytes(b"")  # the script reads it first
    call = "source = pack()\nshorten()\nfor _ in loader(source): pass"
    assert is_named(outcome(folder, "p.gd", call), folder, "p.gd")


def test_link_batches_are_checked_too(folder):
    call = """
source = gz.LinkNeighborDataset(ds, edges, [3], neg_sampling="binary", batch_size=300)
shorten()
next(iter(source))
"""
    assert is_named(outcome(folder, "graph.gl", call), folder, "graph.gl")


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("features.gd", "ds.features.gather(nodes)"),
        ("features.gd", "ds.features.get_tensor(stored_order=True)"),
        ("features.gd", "ds.features.gather(nodes, num_threads=1)"),
        ("labels.gd", "ds.labels.gather(nodes)"),
        ("split_train.gd", "ds.splits['train']"),
        ("graph.gl", "ds.graph.sample_neighbors(nodes, 3)"),
        ("graph.gl", "ds.graph.sample_neighbors(nodes, 3, num_threads=1)"),
        ("graph.gl", "ds.graph.random_walk(nodes, 3)"),
        ("graph.gl", "ds.graph.random_walk(nodes, 3, p=0.5)"),
        ("graph.gl", "ds.graph.degree(nodes)"),
        ("graph.gl", "ds.graph.batch_random_fanout(nodes, 3)"),
        ("graph.gl", "gz.NeighborSampler(ds.graph, [3, 2]).sample(nodes)"),
        ("graph.gl", "ds.graph.indices"),
    ],
)
def test_single_large_calls_and_new_views_are_checked(folder, name, call):
    assert is_named(outcome(folder, name, f"shorten()\n{call}"), folder, name)


def test_a_file_that_grew_or_was_replaced_is_no_error(folder, tmp_path):
    rows = gz.FeatureStore(folder / "features.gd")
    before = rows.gather(np.arange(NODES))
    with open(folder / "features.gd", "ab") as file:
        file.write(b"more")
    np.testing.assert_array_equal(rows.gather(np.arange(NODES)), before)
    (tmp_path / "short").write_bytes(b"short")
    (tmp_path / "short").replace(folder / "features.gd")
    np.testing.assert_array_equal(rows.gather(np.arange(NODES)), before)
    rows.mapping.check_size()


def test_the_error_says_both_sizes_and_what_to_do(folder):
    rows = gz.FeatureStore(folder / "features.gd")
    size = rows.mapping.size
    with open(folder / "features.gd", "r+b") as file:
        file.truncate(size - 1)
    with pytest.raises(FormatError) as caught:
        rows.mapping.check_size()
    assert str(caught.value) == (
        f"{folder / 'features.gd'} was {size} bytes when it was opened and is {size - 1} now: "
        f"restore or rebuild it, and open it again"
    )
