"""Files that become shorter while they are open: an error that names them, and no SIGBUS."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import graphzero as gz
from graphzero.errors import FormatError

pytestmark = pytest.mark.core  # under AddressSanitizer, too

NODES = 4000

# In a process of its own: without the checks it dies.
SCRIPT = """
import json, os, sys
import numpy as np
import torch
from torch.utils.data import DataLoader
import graphzero as gz

folder, cases = sys.argv[1], json.loads(sys.argv[2])
ds = gz.open(folder)
nodes = np.arange(ds.num_nodes)[::-1].copy()
edges = np.stack([nodes, nodes[::-1]])

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

for name, call in cases:
    path = os.path.join(folder, name)
    whole = open(path, "rb").read()
    try:
        exec(call)
    except Exception as error:
        print(json.dumps(f"{type(error).__name__}: {error}"), flush=True)
    else:
        print(json.dumps("nothing was raised"), flush=True)
    running = source = shown = None
    restore()
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("truncated") / "d"
    rng = np.random.default_rng(0)
    edges = rng.integers(0, NODES, (8 * NODES, 2))
    rows = rng.standard_normal((NODES, 64)).astype(np.float32)
    splits = {"train": np.arange(NODES)}
    how = {"edge_ids": True, "neighbors": "out"}  # walks are cut off, too
    gz.build(folder, edges, rows, np.arange(NODES) % 4, splits, **how).close()
    return folder


@pytest.fixture
def folder(built, tmp_path):
    (tmp_path / "d").mkdir()
    for path in built.iterdir():
        (tmp_path / "d" / path.name).write_bytes(path.read_bytes())
    return tmp_path / "d"


def check_named(folder, cases):
    """Calls share a process, because starting one takes longest."""
    found = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(folder), json.dumps(cases)],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        cwd=folder,  # not in the source tree, whose uncompiled package would be imported
    )
    said = [json.loads(line) for line in found.stdout.splitlines()]
    assert found.returncode == 0, (found.returncode, cases[len(said)], found.stderr[-800:])
    for (name, call), text in zip(cases, said, strict=True):
        assert "FormatError" in text, (name, call, text)
        assert str(folder / name) in text, (name, call, text)
        assert "opened and is 4096 now" in text or "is truncated" in text, (name, call, text)
        assert "open it again" in text, (name, call, text)


STRATEGIES = ("none", "willneed", "uring", "auto")
FILES = ("graph.gl", "features.gd", "labels.gd", "split_train.gd")


def test_an_iteration_does_not_begin(folder):
    call = "source = batches(prefetch={{'strategy': {!r}}})\nshorten()\nnext(iter(source))"
    check_named(folder, [(name, call.format(s)) for name in FILES for s in STRATEGIES])


@pytest.mark.parametrize("resident", [None, 0, 0.2])
def test_an_iteration_that_has_begun_ends_in_an_error(folder, resident):
    """Between two mini-batches; nothing can protect those that are under way."""
    cases = []
    for strategy in STRATEGIES:
        options = {"strategy": strategy, "resident": resident, "lookahead": 0}
        call = f"running = iter(batches(prefetch={options}))\nnext(running)\nshorten()\n"
        cases += [(name, f"{call}for _ in running: pass") for name in FILES[:3]]
    check_named(folder, cases)


def test_workers_packs_and_links_say_it_too(folder):
    (folder / "p.gd").write_bytes(b"")
    links = "source = gz.LinkNeighborDataset(ds, edges, [3], neg_sampling='binary', batch_size=300)"
    workers = "shown = loader(batches(), 2)\nshorten()\nfor _ in shown: pass"
    check_named(
        folder,
        [
            ("graph.gl", workers),
            ("features.gd", workers),
            ("graph.gl", f"{links}\nshorten()\nnext(iter(source))"),
            ("p.gd", "source = pack()\nshorten()\nfor _ in loader(source): pass"),
        ],
    )


CALLS = [
    ("features.gd", "ds.features.gather(nodes)"),
    ("features.gd", "ds.features.get_tensor(stored_order=True)"),
    ("split_train.gd", "ds.splits['train']"),
    ("graph.gl", "ds.graph.sample_neighbors(nodes, 3)"),
    ("graph.gl", "ds.graph.random_walk(nodes, 3, p=0.5)"),
    ("graph.gl", "ds.graph.degree(nodes)"),
    ("graph.gl", "ds.graph.batch_random_fanout(nodes, 3)"),
    ("graph.gl", "gz.NeighborSampler(ds.graph, [3, 2]).sample(nodes)"),
    ("graph.gl", "ds.graph.indices"),
]


def test_single_large_calls_and_new_views_are_checked(folder):
    check_named(folder, [(name, f"shorten()\n{call}") for name, call in CALLS])


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
