"""The files of a report that cannot be written when the run has ended."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import graphzero as gz

pytestmark = pytest.mark.no_asan  # observes this process


def test_an_exception_of_the_block_is_worth_more_than_its_files(tmp_path: Path) -> None:
    for name in ("gone", "gone too"):
        (tmp_path / name).mkdir()
    path, page = tmp_path / "gone" / "r.json", tmp_path / "gone too" / "r.html"
    monitor = gz.Monitor(json=path, html=page)

    def run() -> None:
        with monitor:
            shutil.rmtree(path.parent)
            shutil.rmtree(page.parent)
            raise KeyError("mine")

    with pytest.warns(UserWarning, match="was not written") as warned:  # noqa: SIM117
        with pytest.raises(KeyError, match="mine"):
            run()
    assert [str(each.message).partition(";")[0] for each in warned] == [
        f"{path}: its folder is gone: json was not written",
        f"{page}: its folder is gone: html was not written",
    ]
    assert {each.filename for each in warned} == {__file__}
    assert monitor.recording.readings


def test_if_both_fail_one_is_raised_and_one_is_a_warning(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    monitor = gz.Monitor(json=folder / "r.json", html=folder / "r.html")

    def run() -> None:
        with monitor:
            folder.rmdir()

    with pytest.warns(UserWarning, match="json was not written"):  # noqa: SIM117
        with pytest.raises(FileNotFoundError, match="html was not written"):
            run()


def test_a_file_that_cannot_be_written_is_named_as_it_was_given(tmp_path: Path) -> None:
    path = tmp_path / "gone" / "r.json"
    path.parent.mkdir()
    with pytest.raises(FileNotFoundError) as caught, gz.Monitor(json=path) as monitor:
        path.parent.rmdir()
    assert caught.value.filename == str(path)
    assert "json was not written; keep the folder until the end" in caught.value.strerror
    with pytest.raises(FileNotFoundError) as caught:
        monitor.write_json(path)
    assert caught.value.filename == str(path)


def test_a_link_is_kept_and_its_file_written(tmp_path: Path) -> None:
    links = [tmp_path / "link.json", tmp_path / "link.html"]
    (tmp_path / "files").mkdir()
    for link in links:
        link.symlink_to(tmp_path / "files" / link.name)
    with gz.Monitor(json=links[0], html=links[1]):
        pass
    for link in links:
        assert link.is_symlink()
        assert (tmp_path / "files" / link.name).stat().st_size > 0
