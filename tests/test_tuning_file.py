"""tuning.json: when loaders use it, when they do not, and how they say so."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import files
import numpy as np
import pytest
from cli_program import run

import graphzero as gz
from graphzero.commands.tune_command import _require_replaceable
from graphzero.store.free_memory import available_memory
from graphzero.store.tuning_file import (
    TUNING_NAME,
    Machine,
    files_digest,
    machine_differences,
    read_tuning,
    this_machine,
    tuning_content,
)

# pure Python but for the loader, which other tests check
pytestmark = [pytest.mark.no_asan, pytest.mark.filterwarnings("error::UserWarning")]

CHOSEN = {"strategy": "pread", "lookahead": 2, "resident": 0.25}


def _build(folder: Path, seed: int = 0) -> Path:
    features = np.random.default_rng(seed).standard_normal((60, 4)).astype(np.float32)
    edges = files.random_edges(60, 300)
    gz.build(folder, edges=edges, features=features, directed=True).close()
    return folder


def _tune(folder: Path, **changes: Any) -> Path:
    with gz.open(folder) as ds:
        content = tuning_content(
            this_machine(folder),
            date="2026-11-22T10:00:00+00:00",
            prefetch=CHOSEN,
            memory_limit=None,
            available=available_memory(),
            dataset=files_digest(ds.mappings),
        )
    (folder / TUNING_NAME).write_text(json.dumps({**content, **changes}))
    return folder


@pytest.fixture
def tuned(tmp_path: Path) -> Path:
    """A dataset with a tuning of this machine."""
    return _tune(_build(tmp_path / "data"))


def _io(folder: Path, **options: Any) -> str:
    """What the first mini-batch of a loader says."""
    with gz.open(folder) as ds:
        batches = gz.NeighborDataset(ds, None, [2], batch_size=60, **options)
        (batch,) = map(gz.Collate(ds), batches)
        io: str = batch.stats.io
    return io


def test_loaders_use_what_was_tuned_and_say_so(tuned: Path) -> None:
    with gz.open(tuned) as ds:
        assert ds.tuning is not None
        assert ds.tuning.prefetch == CHOSEN
        with pytest.raises(AttributeError):
            ds.tuning.date = ""  # type: ignore[misc]
        expected = gz.Prefetch(**CHOSEN)
        assert gz.NeighborDataset(ds).prefetch == expected
        assert gz.LinkNeighborDataset(ds, np.zeros((2, 1), int)).prefetch == expected
        loader = gz.NeighborLoader(ds, [2], batch_size=60)
        assert loader._source.prefetch == expected
    io = _io(tuned)
    assert io.startswith("pread")
    assert ": as tuned on 2026-11-22 (tuning.json)" in io
    assert "as requested" not in io
    # options of the user win
    assert _io(tuned, prefetch=gz.Prefetch("none")).startswith("none: as requested")
    assert "tuned" not in _io(tuned, prefetch=gz.Prefetch())
    _tune(tuned, prefetch={"strategy": "auto", "lookahead": 2})
    assert "the dataset fits in memory; as tuned on 2026-11-22 (tuning.json)" in _io(tuned)
    assert run("verify", tuned) == 0


def test_typed_graphs_have_tunings_and_packs_have_none(tuned: Path, tmp_path: Path) -> None:
    gz.build(
        tmp_path / "typed",
        nodes={"a": {"x": np.ones((9, 2), np.float32)}, "b": {"x": np.ones((8, 2), np.float32)}},
        edges={("a", "to", "b"): np.zeros((2, 3), int)},
    ).close()
    with gz.open(_tune(tmp_path / "typed")) as ds:
        assert gz.NeighborDataset(ds, "b", [2]).prefetch == gz.Prefetch(**CHOSEN)
    with gz.open(tuned) as ds:
        pack = gz.pack(ds, tmp_path / "p.gd", np.arange(20), [2], epochs=1, batch_size=10)
        assert gz.PackedDataset(ds, pack, np.arange(20)).prefetch == gz.Prefetch()


def test_another_machine_is_silent_until_a_loader_runs(tuned: Path) -> None:
    _tune(tuned, machine=asdict(replace(this_machine(tuned), cpu="Abacus 1", cores=999)))
    io = _io(tuned)
    assert io.startswith("willneed")
    assert "tuning.json is not used: it is of another machine (cpu Abacus 1, not " in io
    assert "cores 999, not " in io


def test_another_machine_differs_in_what_is_known() -> None:
    here = Machine("cpu", 4, 8_000_000_000, "disk", "ext4")
    assert machine_differences(here, replace(here, memory=8_100_000_000)) == []
    assert machine_differences(here, replace(here, disk=None)) == []
    assert machine_differences(replace(here, file_system="xfs"), here) == [
        "file system xfs, not ext4"
    ]
    (text,) = machine_differences(replace(here, memory=16_000_000_000), here)
    assert text == "memory 16000000000, not 8000000000"


def test_a_copy_of_the_folder_matches_and_other_files_do_not(tuned: Path, tmp_path: Path) -> None:
    copied = tmp_path / "copied"
    shutil.copytree(tuned, copied)
    assert "as tuned" in _io(copied)
    # other features of the same size, in the same place
    other = _build(tmp_path / "other", seed=1)
    assert (other / "features.gd").stat().st_size == (copied / "features.gd").stat().st_size
    (copied / "features.gd").write_bytes((other / "features.gd").read_bytes())
    assert "tuning.json is not used: it is of other files: run graphzero tune" in _io(copied)
    with gz.open(copied) as ds:
        assert ds.tuning is None
        assert ds.tuning_mismatch == "it is of other files: run graphzero tune again"
        assert ds.any_tuning is not None
    with gz.open(tuned) as ds, gz.open(other) as never:
        assert (ds.tuning_mismatch, never.tuning_mismatch) == ("", None)


@pytest.mark.parametrize("change", [_build, lambda folder: gz.reorder(folder, "input").close()])
def test_what_changes_the_files_removes_their_tuning(tuned: Path, change: Any) -> None:
    change(tuned)
    assert not (tuned / TUNING_NAME).exists()


def test_files_of_others_stay(tuned: Path) -> None:
    path = tuned / TUNING_NAME
    _require_replaceable(path)
    path.write_text('{"mine": 1}')
    _build(tuned)
    with gz.open(tuned) as ds, pytest.warns(UserWarning, match="graphzero has not written it"):
        assert ds.tuning is None
    assert path.read_text() == '{"mine": 1}'
    with pytest.raises(FileExistsError):
        _require_replaceable(path)
    path.unlink()
    _require_replaceable(path)
    path.mkdir()  # or a pipe, whose writer would be waited for
    assert read_tuning(tuned, ()) is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text[:40], "Expecting|Unterminated|delimiter"),
        (lambda text: "[1]", "graphzero has not written it"),
        (lambda text: "\xff", "."),
        (lambda text: text.replace('"version": 1', '"version": 2'), "its version is 2, and not 1"),
        (lambda text: text.replace('"date": "', '"other": "'), "date is None"),
        (lambda text: text.replace('"available": ', '"available": true, "was": '), "is True"),
        (lambda text: text.replace('"memory": ', '"memory": "24GB", "was": '), "is '24GB'"),
        (lambda text: text.replace('"machine": ', '"machine": null, "was": '), "machine is None"),
        (lambda text: text.replace('"available": ', '"available": -5, "was": '), "is -5"),
        (lambda text: text.replace('"available": ', f'"available": {10**400}, "was": '), "is 1000"),
        (lambda text: text.replace('"date": "', '"date": "\\u001b[31m'), "Invalid isoformat"),
    ],
)
def test_what_cannot_be_read_is_ignored_with_a_warning(
    tuned: Path, change: Callable[[str], str], message: str
) -> None:
    path = tuned / TUNING_NAME
    path.write_text(change(path.read_text()), encoding="latin-1")
    with gz.open(tuned) as ds:
        with pytest.warns(UserWarning, match=message) as caught:
            assert ds.tuning is None
        assert gz.NeighborDataset(ds).prefetch == gz.Prefetch()
    assert str(caught[0].message).startswith(f"{path} is ignored: ")
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    "changes",
    [
        *({"machine": {"cpu": text}} for text in ("\x1b[31m", "\ud800", "\u202e")),
        {"prefetch": {"strategy": "\x1b[31m"}},
        {"prefetch": {"\x1b[31m": 1}},
    ],
)
def test_what_cannot_be_printed_is_refused(tuned: Path, changes: dict[str, Any]) -> None:
    _tune(tuned, **changes)
    with gz.open(tuned) as ds, pytest.warns(UserWarning, match="cannot be printed") as caught:
        assert ds.tuning is None
    assert str(caught[0].message).isprintable()


@pytest.mark.parametrize(
    "wrong",
    [
        {"strategy": "magic"},
        {"speed": 9},
        {"lookahead": -1},
        {"strategy": "pread", "threads": 10**5},
    ],
    ids=str,
)
def test_options_that_do_not_exist_are_ignored_with_a_warning_of_the_users_line(
    tuned: Path, wrong: dict[str, Any]
) -> None:
    _tune(tuned, prefetch=wrong)
    with gz.open(tuned) as ds, pytest.warns(UserWarning, match="tuning.json is ignored") as caught:
        assert gz.NeighborDataset(ds).prefetch == gz.Prefetch()
    assert [one.filename for one in caught] == [__file__]


def test_info_says_whether_it_is_used(tuned: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def lines() -> str:
        assert run("info", tuned) == 0
        _, heading, rest = capfd.readouterr().out.partition("  tuning: ")
        return heading + rest.partition("  files ")[0]

    found = lines()
    assert found.startswith("  tuning: date=2026-11-22")
    assert found.endswith("prefetch: strategy=pread, lookahead=2, resident=0.25\n")
    # the memory is plenty for this dataset, whatever loaders find available
    assert "least_available=" in found
    assert "most_available" not in found
    assert "not_used" not in found
    assert run("info", tuned, "--json") == 0
    assert json.loads(capfd.readouterr().out)["tuning"]["not_used"] is None
    machine = asdict(replace(this_machine(tuned), disk="Drum"))
    _tune(tuned, machine=machine)
    assert "not_used=it is of another machine (disk Drum, not " in lines()
    _tune(tuned, prefetch={"strategy": "magic"})
    assert "not_used=it is corrupt (strategy must be one of" in lines()
    # far less than this process has: a larger one may have as much
    _tune(tuned, available=10_000, memory_limit=30_000)
    assert "available=10 kB, least_available=7.5 kB, most_available=15 kB" in lines()
    assert "it is for 10 kB of memory, and" in _io(tuned)
    (tuned / TUNING_NAME).unlink()
    assert lines() == ""
