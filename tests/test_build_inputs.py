"""Inputs that vanish, change or become shorter while a build reads them."""

from __future__ import annotations

import os

import numpy as np
import pytest
import small_memory
from files import contents
from id_files import write_csv

import graphzero as gz
from graphzero.ingest.sort import TempColumn

pytestmark = pytest.mark.no_asan  # pure Python

EDGES = np.random.default_rng(0).integers(0, 500, (200_000, 2))


def after_the_first_piece(monkeypatch, act):
    """Calls a function once, when the first piece of the edges is stored."""
    append, done = TempColumn.append, []

    def then_act(self, array):
        append(self, array)
        if not done:
            done.append(act())

    monkeypatch.setattr(TempColumn, "append", then_act)


def check_refused(earlier, message, *args, **options):
    before = contents(earlier)
    with pytest.raises(ValueError, match=message):
        small_memory.build(earlier, *args, **options)
    assert contents(earlier) == before


@pytest.mark.parametrize("ids", ["dense", "map"])
def test_a_mapped_file_becomes_shorter(earlier, tmp_path, monkeypatch, ids):
    path = tmp_path / "e.npy"
    np.save(path, EDGES)
    after_the_first_piece(monkeypatch, lambda: os.truncate(path, 4096))
    check_refused(earlier, r"e\.npy has become shorter while", path, ids=ids)


def test_rows_become_shorter(earlier, tmp_path, monkeypatch):
    path = tmp_path / "x.npy"
    np.save(path, np.zeros((500, 2000)))
    after_the_first_piece(monkeypatch, lambda: os.truncate(path, 4096))
    check_refused(earlier, r"x\.npy has become shorter while", EDGES, path)


@pytest.mark.parametrize("kind", ["longer", "other", "replaced"])
def test_a_file_changes(earlier, tmp_path, monkeypatch, kind):
    path = write_csv(tmp_path / "e.csv", *(f"{a},{b}" for a, b in EDGES[:60_000].tolist()))

    def change():
        if kind == "longer":
            with open(path, "a") as file:
                file.write("7,8\n")
        elif kind == "other":
            os.utime(path, (1, 1))
        else:
            os.replace(write_csv(tmp_path / "new.csv", "1,2"), path)

    after_the_first_piece(monkeypatch, change)
    check_refused(earlier, r"e\.csv has changed while the build read it", path)


@pytest.mark.parametrize("suffix", ["csv", "npy"])
def test_a_file_vanishes(earlier, tmp_path, monkeypatch, suffix):
    """What is open keeps its content; what must be opened again is an error that names it."""
    path = tmp_path / f"e.{suffix}"
    np.save(path, EDGES) if suffix == "npy" else np.savetxt(path, EDGES, "%d", ",")
    with monkeypatch.context() as patch:
        after_the_first_piece(patch, path.unlink)
        with gz.build(earlier, path) as ds:
            assert ds.num_edges == len(EDGES)
    with pytest.raises(FileNotFoundError, match=f"e.{suffix}"):
        gz.build(earlier, path)
    with gz.open(earlier) as ds:
        assert ds.num_edges == len(EDGES)
