"""The dataset of the tests of ranks."""

from __future__ import annotations

import files
import numpy as np

NODES, SEEDS, SIZE = 300, 97, 16  # 7 batches, of which 6 are full


def write_data(path):
    """Writes a dataset folder with three splits, and returns its path."""
    rng = np.random.default_rng(3)
    nodes = rng.permutation(NODES)
    files.write_dataset(
        path,
        files.random_edges(NODES, 3000),
        NODES,
        features=rng.standard_normal((NODES, 4)).astype(np.float32),
        labels=rng.integers(0, 3, NODES),
        splits={"train": nodes[:SEEDS], "val": nodes[100:177], "test": nodes[200:289]},
    )
    return path
