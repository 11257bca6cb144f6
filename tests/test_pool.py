"""Memory of arrays that comes back to the pool."""

from __future__ import annotations

import gc

import files
import numpy as np
import pytest

import graphzero as gz
from graphzero import _core


def test_memory_that_cannot_be_had_is_an_error():
    with pytest.raises(MemoryError, match="no memory for"):
        _core.empty(1 << 60, np.uint8)


def test_tensors_outlive_the_batches_after_them(tmp_path):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    features = rng.standard_normal((20_000, 64)).astype(np.float32)
    ds = gz.build(tmp_path / "data", files.random_edges(20_000, 60_000), features)
    gc.collect()
    blocks, _ = _core.pool_state()
    batches = gz.NeighborDataset(ds, None, [5], batch_size=2000)
    loader = torch.utils.data.DataLoader(batches, batch_size=None, collate_fn=gz.Collate(ds))
    kept = list(loader)  # all of them at once: none may share memory
    for batch in kept:
        np.testing.assert_array_equal(batch.x.numpy(), features[batch.n_id.numpy()])
    assert _core.pool_state()[0] > blocks
    del kept, batch
    gc.collect()
    assert _core.pool_state()[0] == blocks
    ds.close()
