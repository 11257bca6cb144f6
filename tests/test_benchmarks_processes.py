"""The processes of the benchmarks' peers, and the machine that they run on."""

from __future__ import annotations

import argparse
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

# Last, so that the uncompiled graphzero/ beside tests/ does not shadow the installed package.
sys.path.append(str(Path(__file__).parents[1]))

from benchmarks import machine, peers, sampling, serve
from benchmarks.inputs import Inputs, prepare

SCALE = 8


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    return prepare(tmp_path_factory.mktemp("inputs"), scale=SCALE, num_edges=4_000, dim=3)


class TestPeers:
    def test_what_cannot_be_installed_is_named(self, tmp_path: Path) -> None:
        peer = peers.Peer("broken", (("--no-index", "no-such-package-anywhere"),), "none.py")
        with pytest.raises(peers.PeerError, match="no-such-package-anywhere"):
            peers.install(peer, tmp_path)
        assert not (tmp_path / "broken" / "installed.json").exists()

    def test_a_worker_answers_fails_and_dies_by_name(self, tmp_path: Path) -> None:
        script = tmp_path / "peer.py"
        script.write_text(
            "import os, sys\n"
            "class Session:\n"
            "    def __init__(self, stopwatch):\n"
            "        self.stopwatch = stopwatch\n"
            "    def ask(self, what):\n"
            "        print('not an answer')\n"
            "        return {what: os.environ['OMP_NUM_THREADS']}\n"
            "    def fail(self):\n"
            "        raise ValueError('no')\n"
            "    def die(self):\n"
            "        print('last words', file=sys.stderr, flush=True)\n"
            "        os._exit(3)\n"
        )
        peer = peers.Peer("echo", (), str(script))
        with peers.Worker(peer, sys.executable, log=tmp_path / "log", threads=3) as worker:
            assert worker.call("ask", what="threads")["threads"] == "3"
            with pytest.raises(peers.PeerError, match="echo in 'fail': ValueError: no"):
                worker.call("fail")
            assert worker.call("ask", what="threads")["threads"] == "3"
            for _ in range(2):
                with pytest.raises(peers.PeerError, match="exit status 3 last words"):
                    worker.call("die")

    def test_the_stopwatch_of_a_session_is_in_its_answer(self, tmp_path: Path) -> None:
        script = tmp_path / "peer.py"
        script.write_text(
            "import time\n"
            "class Session:\n"
            "    def __init__(self, stopwatch):\n"
            "        self.stopwatch = stopwatch\n"
            "    def rest(self, seconds):\n"
            "        time.sleep(seconds)\n"
            "        with self.stopwatch:\n"
            "            time.sleep(seconds)\n"
            "        return {}\n"
        )
        peer = peers.Peer("idle", (), str(script))
        with peers.Worker(peer, sys.executable, log=tmp_path / "log", threads=1) as worker:
            begin = time.perf_counter()
            answer = worker.call("rest", seconds=0.2)
            passed = time.perf_counter() - begin
        assert 0.2 <= answer["seconds"] <= passed - 0.2
        assert answer["processor_seconds"] < answer["seconds"] / 2

    def test_a_peer_that_cannot_be_had_is_named_and_left_out(
        self,
        inputs: Inputs,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        broken = peers.Peer("broken", (("--no-index", "no-such-package-anywhere"),), "none.py")
        monkeypatch.setattr(sampling, "known_peers", lambda: {"broken": broken})
        options = argparse.Namespace(peers=["broken"], peer_dir=tmp_path, threads=1)
        with ExitStack() as stack:
            workers, about = sampling.start_peers(stack, options, inputs, tmp_path)
        assert workers == {}
        assert "no-such-package-anywhere" in about["broken"]["missing"]
        assert "without broken: " in capsys.readouterr().err

    def test_peers_are_chosen_by_name(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert sampling.parse(["--peers", "pyg"]).peers == ["pyg"]
        assert sampling.parse(["--peers", ""]).peers == []
        assert sampling.parse([]).peers == ["graphzero02", "pyg"]
        with pytest.raises(SystemExit):
            sampling.parse(["--peers", "pyg,dgl"])
        assert "there is no peer dgl" in capsys.readouterr().err


class TestStopwatch:
    def test_it_counts_the_work_of_other_threads(self) -> None:
        def work() -> None:
            end = time.thread_time() + 0.1
            while time.thread_time() < end:
                sum(range(1000))

        with serve.Stopwatch() as watch:
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        assert watch.processor_seconds >= 0.1
        assert watch.reading == {
            "seconds": watch.seconds,
            "processor_seconds": watch.processor_seconds,
        }


class TestMachine:
    def test_resident_share_of_what_was_just_written(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(bytes(1 << 20))
        assert machine.resident_share([tmp_path / "file"]) in (1.0, None)
        assert machine.resident_share([]) is None

    @pytest.mark.skipif(not Path("/proc/self").exists(), reason="no /proc here")
    def test_the_innermost_mount_of_a_folder_is_found(self) -> None:
        assert machine.describe_disk("/proc/self")["file_system"] == "proc"

    def test_what_others_took_is_all_but_our_own(self) -> None:
        before, after = machine.Usage(0.0, 100.0, 5.0), machine.Usage(20.0, 130.0, 25.0)
        assert machine.others_share(before, after, 2) == pytest.approx(10 / 40)
        # Clock ticks are coarse: the difference may come out below nothing.
        assert machine.others_share(before, machine.Usage(20.0, 119.9, 25.0), 2) == 0

    def test_own_work_is_read_as_own(self) -> None:
        before = machine.read_usage()
        end = time.process_time() + 0.3
        while time.process_time() < end:
            sum(range(10_000))
        after = machine.read_usage()
        assert after.own - before.own == pytest.approx(0.3, abs=0.2)
        assert after.clock > before.clock

    def test_versions(self) -> None:
        found = machine.versions(["numpy", "no-such-package-anywhere"])
        assert found == {"numpy": np.__version__, "no-such-package-anywhere": None}
