"""DataLoader workers whose batches do not fit in the shared memory."""

from __future__ import annotations

import errno
import os

import files
import numpy as np
import pytest
from torch.utils.data import DataLoader

import graphzero as gz
from graphzero.io import shared_memory
from graphzero.io.shared_memory import check_shared_memory, shared_memory_bytes
from graphzero.loader import planning

MB = 1 << 20


@pytest.fixture
def small(monkeypatch):
    """A function that pretends that the shared memory has so many bytes."""

    def be(num_bytes):
        monkeypatch.setattr(shared_memory, "shared_memory_bytes", lambda *_: num_bytes)
        monkeypatch.setattr(planning, "shared_memory_bytes", lambda *_: num_bytes)

    return be


def test_batches_on_their_way_and_one_in_use_must_fit(small):
    small(64 * MB)
    check_shared_memory(12 * MB, 2)
    with pytest.raises(OSError, match="num_workers=0") as refused:
        check_shared_memory(13 * MB, 2)
    assert refused.value.errno == errno.ENOSPC
    assert refused.value.filename == "/dev/shm"
    assert "2 DataLoader workers need 68 MB" in str(refused.value)


def test_without_such_a_file_system_nothing_is_refused(tmp_path):
    assert shared_memory_bytes(tmp_path / "none") is None
    check_shared_memory(1 << 60, 2, tmp_path / "none")


def test_its_size_is_that_of_the_file_system():
    if not os.path.exists("/dev/shm"):
        pytest.skip("no /dev/shm")
    assert shared_memory_bytes() == pytest.approx(
        os.statvfs("/dev/shm").f_blocks * os.statvfs("/dev/shm").f_bsize
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shared") / "data"
    rng = np.random.default_rng(0)
    files.write_dataset(
        folder,
        files.random_edges(20_000, 100_000),
        20_000,
        features=rng.standard_normal((20_000, 64)).astype(np.float32),
    )
    return folder


@pytest.mark.parametrize("memory_limit", [None, 4 * MB])
def test_it_is_found_before_the_first_batch(folder, small, memory_limit):
    with gz.open(folder) as ds:
        prefetch = gz.Prefetch(memory_limit=memory_limit)
        batches = gz.NeighborDataset(ds, fanouts=[5, 5], batch_size=1024, prefetch=prefetch)
        loader = DataLoader(batches, batch_size=None, collate_fn=gz.Collate(ds), num_workers=2)
        small(4 * MB)
        with pytest.raises(OSError, match="use num_workers=0"):
            next(iter(loader))
        alone = DataLoader(batches, batch_size=None, collate_fn=gz.Collate(ds))
        assert next(iter(alone)).batch_size == 1024
        small(64 * MB)
        assert next(iter(loader)).batch_size == 1024
