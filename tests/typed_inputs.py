"""A small typed graph for `gz.build`, and what all folders of typed graphs hold."""

from __future__ import annotations

import numpy as np

from graphzero.store import format as gz_format
from graphzero.store.manifest import read_manifest

WRITES, CITES = ("author", "writes", "paper"), ("paper", "cites", "paper")


def small(**more):
    """Arguments for a small graph of papers and authors."""
    return {
        "nodes": {"paper": {"x": np.arange(8.0).reshape(4, 2), "y": [0, 2, -1, 1]}, "author": {}},
        "edges": {WRITES: {"edge_index": [[0, 0, 2], [1, 2, 1]]}, CITES: [[0, 1], [2, 1]]},
        **more,
    }


def check_files(folder, neighbors):
    manifest = read_manifest(folder)
    names = {entry.name for entry in manifest.entries()}
    assert {path.name for path in folder.iterdir()} == {*names, "dataset.json"}
    for name in names:
        gz_format.verify_file(folder / name)
        if name.endswith(".gl"):
            incoming = gz_format.FLAG_INCOMING * (neighbors == "in")
            flags = gz_format.FLAG_TYPED | gz_format.FLAG_DIRECTED | incoming
            header = gz_format.read_header(folder / name)
            assert header.flags == flags
            assert header.find("node_ids") is None
