"""The pictures that are drawn from the out-of-core benchmark's results."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from mmap import PAGESIZE
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

pytest.importorskip("matplotlib")

# Last, so that the uncompiled graphzero/ beside tests/ does not shadow the installed package.
sys.path.append(str(Path(__file__).parents[1]))

from benchmarks import figures

pytestmark = pytest.mark.no_asan  # draws, with no C of ours
ROOT = Path(__file__).parents[1]
MIB = 1 << 20


def rows(contestant: str, order: str, *seconds: float, missed: float | None) -> dict[str, Any]:
    """With 5 pages read a batch."""
    return {
        "contestant": contestant,
        "order": order,
        "seconds": list(seconds),
        "median": sorted(seconds)[len(seconds) // 2],
        "read_bytes": 5.0 * PAGESIZE,
        "pages_missed": missed,
        "peak_anonymous": 60 * MIB,
        "charged": {"anonymous": 50 * MIB, "file": 30 * MIB},
    }


def trained(contestant: str, *seconds: float) -> dict[str, Any]:
    charged = {} if contestant == "ram" else {"anonymous": 70 * MIB, "file": 20 * MIB}
    return {
        "contestant": contestant,
        "order": "hot",
        "epochs": [{"seconds": one} for one in seconds],
        "peak_anonymous": 80 * MIB,
        "charged": charged,
    }


@pytest.fixture
def found() -> dict[str, Any]:
    """Made-up results."""
    return {
        "benchmark": "out_of_core",
        "machine": {
            "cpu": "Quick & Co <9>",
            "cores": 2,
            "memory_bytes": 8 << 30,
            "kernel": "Linux 6",
        },
        "disk": {"file_system": "ext4"},
        "graph": {"num_nodes": 4_194_304, "num_edges": 64_000_000},
        "memory": {
            "group": "cgroup version 2",
            "limit": 640 * MIB,
            "own_anonymous": {"pipeline": 100 * MIB, "memmap": 10 * MIB, "training": 300 * MIB},
            "features_bytes": 2048 * MIB,
        },
        "settings": {
            "batch_size": 1024,
            "fanouts": [15, 10, 5],
            "threads": 2,
            "epoch_batches": 20,
            "hidden": 256,
        },
        "versions": {"graphzero": "1.0"},
        "notes": {"memmap, input": "scaled up from 1/256 of each batch"},
        "disk_rate": 50.0,
        "rows": [
            rows("uring", "input", 0.5, 0.25, 0.125, missed=4.0),
            rows("uring", "hot", 0.1, 0.2, 0.1, missed=5.0),
            rows("memmap", "input", 8.0, missed=None),
            rows("memmap-random", "input", 4.0, 3.0, 5.0, missed=None),
        ],
        "training": [trained("ram", 9.0, 4.0, 6.0), trained("auto", 8.0, 5.5, 5.0)],
    }


def texts(path: Path) -> list[str]:
    """All words of a figure, which are kept as text."""
    root = ElementTree.parse(path).getroot()
    return [(one.text or "").strip() for one in root.iter("{http://www.w3.org/2000/svg}text")]


class TestDraw:
    def test_every_figure_has_title_units_and_what_it_was_measured_on(
        self, found: dict[str, Any], tmp_path: Path
    ) -> None:
        written, missing = figures.draw(found, tmp_path)
        assert [path.stem for path in written] == list(figures.FIGURES)
        assert missing == {}
        units = {
            "rows-seconds": "seconds a batch, logarithmic",
            "rows-pages-of-fio": "fio's 50 random 4 KiB reads a second",
            "rows-read-per-missing": "pages of 4 KiB read / pages missing",
            "training": "seconds",
            "memory": "MiB",
        }
        for path in written:
            words = texts(path)
            assert any(units[path.stem] in word for word in words), words
            caption = " ".join(words)
            for fact in ("Quick & Co <9>, 2 cores, 8.0 GiB", "limit 640 MiB by cgroup version 2"):
                assert fact in caption
            assert "4,194,304 nodes, 64,000,000 edges, 2,048 MiB of features" in caption
            assert path.stat().st_size < 100_000

    def test_the_same_results_give_the_same_bytes(
        self, found: dict[str, Any], tmp_path: Path
    ) -> None:
        once, _ = figures.draw(found, tmp_path / "once")
        again, _ = figures.draw(copy.deepcopy(found), tmp_path / "again")
        assert [path.read_bytes() for path in once] == [path.read_bytes() for path in again]
        found["rows"][0]["seconds"][0] = 0.3
        other, _ = figures.draw(found, tmp_path / "other")
        assert once[0].read_bytes() != other[0].read_bytes()

    def test_scaled_up_figures_are_marked(self, found: dict[str, Any], tmp_path: Path) -> None:
        figures.draw(found, tmp_path)
        words = texts(tmp_path / "rows-seconds.svg")
        assert {"uring", "memmap *", "memmap-random"} <= set(words)
        assert any(word.startswith("* read a part of each batch") for word in words)
        found["notes"] = {}
        figures.draw(found, tmp_path)
        assert "memmap" in texts(tmp_path / "rows-seconds.svg")

    @pytest.mark.parametrize(
        ("change", "left_out"),
        [
            ({"training": []}, {"training": "nothing was trained"}),
            ({"disk_rate": None}, {"rows-pages-of-fio": "fio has not told the disk's rate"}),
            (
                {"rows": []},
                {
                    "rows-seconds": "no rows were read",
                    "rows-pages-of-fio": "no rows were read",
                    "rows-read-per-missing": "no rows were read",
                },
            ),
        ],
    )
    def test_what_is_not_told_is_left_out_with_its_reason(
        self,
        found: dict[str, Any],
        tmp_path: Path,
        change: dict[str, Any],
        left_out: dict[str, str],
    ) -> None:
        written, missing = figures.draw(found | change, tmp_path)
        assert missing == left_out
        assert {path.stem for path in written} == set(figures.FIGURES) - set(left_out)


def middles(figure: Any) -> dict[tuple[str, str], list[float]]:
    """What is drawn as points in a figure's only panel, by contestant and order."""
    (axes,) = figure.axes
    names = [label.get_text() for label in axes.get_yticklabels()]
    order_of = {color: order for order, (color, _) in figures.ORDERS.items()}
    drawn: dict[tuple[str, str], list[float]] = {}
    for container in axes.containers:
        point = container.lines[0]
        (at,) = point.get_ydata()
        key = names[round(at)], order_of[point.get_color()]
        drawn.setdefault(key, []).append(pytest.approx(float(point.get_xdata()[0])))
    return drawn


def lines(figure: Any) -> dict[str, float]:
    """Upright lines by their labels."""
    (axes,) = figure.axes
    return {
        line.get_label(): line.get_xdata()[0]
        for line in axes.lines
        if not line.get_label().startswith("_") and len(line.get_xdata()) == 2
    }


class TestFigures:
    def test_seconds_are_medians_against_the_baseline(self, found: dict[str, Any]) -> None:
        figure = figures.seconds(found)
        assert middles(figure) == {
            ("uring", "input"): [0.25],
            ("uring", "hot"): [0.1],
            ("memmap *", "input"): [8.0],
            ("memmap-random", "input"): [4.0],
        }
        assert figure.axes[0].get_xscale() == "log"
        assert lines(figure) == {"memmap-random, the baseline": 4.0}

    def test_pages_are_a_share_of_fios(self, found: dict[str, Any]) -> None:
        figure = figures.pages_of_fio(found)
        drawn = middles(figure)
        assert drawn["uring", "input"] == [5 / 0.25 / 50]
        assert drawn["uring", "hot"] == [5 / 0.1 / 50]
        assert lines(figure) == {"goal, 0.9": 0.9, "fio": 1.0}

    def test_reads_are_held_against_missing_pages(self, found: dict[str, Any]) -> None:
        figure = figures.read_per_missing(found)
        assert middles(figure) == {("uring", "input"): [1.25], ("uring", "hot"): [1.0]}

    def test_epochs_are_held_against_memory(self, found: dict[str, Any]) -> None:
        figure = figures.training(found)
        # The first epoch of the contestant in memory is no cold one.
        assert middles(figure) == {("ram", "hot"): [5.0], ("auto", "hot"): [8.0, 5.25]}
        assert lines(figure) == pytest.approx(
            {"everything in RAM": 5.0, "0.95 of its speed": 5 / 0.95}
        )

    def test_memory_is_held_against_the_limit_of_its_group(self, found: dict[str, Any]) -> None:
        of_rows, of_training = figures.memory(found).axes
        runs = [label.get_text() for label in of_rows.get_yticklabels()]
        assert runs == ["uring, input", "uring, hot", "memmap, input", "memmap-random, input"]
        peaks, limits = (line.get_xdata() for line in of_rows.lines)
        assert list(peaks) == [60] * 4
        assert list(limits) == [740, 740, 650, 650]
        anonymous, file = of_rows.containers
        assert [bar.get_width() for bar in anonymous] == [50] * 4
        assert [(bar.get_x(), bar.get_width()) for bar in file] == [(50, 30)] * 4
        # What ran without a group has no limit.
        assert [label.get_text() for label in of_training.get_yticklabels()] == ["auto, hot"]
        assert list(of_training.lines[1].get_xdata()) == [940]


class TestCommandLine:
    def test_what_is_left_out_is_named(self, found: dict[str, Any], tmp_path: Path) -> None:
        (tmp_path / "results.json").write_text(json.dumps(found | {"training": []}))
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.figures", tmp_path / "results.json", tmp_path],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        written = {Path(line).stem for line in done.stdout.splitlines()}
        assert written == set(figures.FIGURES) - {"training"}
        assert done.stderr == "without training: nothing was trained\n"

    def test_other_results_are_refused(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "results.json").write_text('{"benchmark": "sampling"}')
        with pytest.raises(SystemExit):
            figures.main([str(tmp_path / "results.json"), str(tmp_path)])
        assert "is not of benchmarks.out_of_core" in capsys.readouterr().err
