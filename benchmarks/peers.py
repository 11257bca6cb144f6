"""Processes of contestants: other libraries, each in its own virtual environment, and graphzero."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks import machine
from graphzero.report.limited_memory import limited_group

# Compiling the extensions of torch takes minutes on a fast machine, an hour on a slow one.
INSTALL_SECONDS = 7200
SESSIONS = Path(__file__).with_name("sessions.py")


class PeerError(RuntimeError):
    """A peer cannot be installed, has died, or has answered with an error."""


@dataclass(frozen=True)
class Peer:
    """Libraries that share an environment; the arguments of one ``pip install`` each."""

    name: str
    installs: tuple[tuple[str, ...], ...]


GRAPHZERO02, PYG, DUCKDB = "graphzero02", "pyg", "duckdb"


def known_peers() -> dict[str, Peer]:
    """Every peer, by the name of its session."""
    # PyG's extensions are compiled against torch, so the peer gets the same torch as graphzero.
    torch = metadata.version("torch").partition("+")[0]
    extensions = ("torch-scatter", "torch-sparse", "torch-cluster")
    peers = [
        # It requires torch but does not import it.
        Peer(GRAPHZERO02, (("--no-deps", "graphzero==0.2.0"), ("numpy",))),
        Peer(
            PYG,
            (
                (f"torch=={torch}", "numpy", "setuptools<82", "wheel"),
                ("--no-build-isolation", *extensions),
                ("torch_geometric",),
            ),
        ),
        Peer(DUCKDB, (("duckdb",),)),
    ]
    return {peer.name: peer for peer in peers}


def install(peer: Peer, folder: str | os.PathLike[str]) -> Path:
    """The Python of a peer's virtual environment, which the first call makes.

    Raises
    ------
    PeerError
        The message says which step failed, and its last output.
    """
    home = Path(folder).resolve() / peer.name
    python, marker = home / "bin" / "python", home / "installed.json"
    wanted = json.dumps([sys.version_info[:2], peer.installs])
    if marker.exists() and marker.read_text() == wanted:
        return python
    home.parent.mkdir(parents=True, exist_ok=True)
    _step([sys.executable, "-m", "venv", "--clear", str(home)])
    for arguments in peer.installs:
        print(f"{peer.name}: pip install {' '.join(arguments)} ...", file=sys.stderr)
        # -I ignores the caller's environment, whose graphzero would replace the peer's.
        _step([str(python), "-I", "-m", "pip", "install", "--quiet", *arguments])
    marker.write_text(wanted)
    return python


def _step(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PeerError(f"{' '.join(command)}: {error}") from error
    if done.returncode != 0:
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines()[-3:]
        raise PeerError(f"{' '.join(command)} failed: {' '.join(lines)}")


class Worker:
    """A process that answers requests, one JSON object per line; a context manager.

    Parameters
    ----------
    name : str
        For messages.
    command : sequence of str
        Its command line.
    log : path-like
        File for its standard error.
    environment : mapping of str to str, optional
        Further environment variables.
    most_seconds : float, optional
        A call that takes longer ends the process.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        log: str | os.PathLike[str],
        environment: Mapping[str, str] | None = None,
        most_seconds: float | None = None,
    ) -> None:
        self.name, self.most_seconds = name, most_seconds
        self._log = Path(log)
        with open(self._log, "wb") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, **(environment or {})},
                text=True,
            )

    def call(self, op: str, **arguments: Any) -> dict[str, Any]:
        """Runs one operation in the process.

        Raises
        ------
        PeerError
            If it answers with an error, or not at all.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps({"op": op, **arguments}) + "\n")
            self._process.stdin.flush()
            if not select.select([self._process.stdout], [], [], self.most_seconds)[0]:
                self._process.kill()
                raise PeerError(f"{self.name} takes over {self.most_seconds:g} s in '{op}'")
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            code = self._process.wait()
            last = self._log.read_text(errors="replace").strip().splitlines()[-1:]
            raise PeerError(f"{self.name} died in '{op}' with exit status {code} {' '.join(last)}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise PeerError(f"{self.name} in '{op}': {answer['error']}")
        return answer

    def close(self) -> None:
        """Ends the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def start_peer(
    name: str,
    peer_dir: str | os.PathLike[str],
    *,
    folder: Path,
    threads: int,
    prefix: Sequence[str] = (),
    most_seconds: float | None = None,
) -> Worker:
    """Installs a peer and starts its session; its log goes to a folder.

    `prefix` is that of `start_own`, `most_seconds` that of `Worker`.

    Raises
    ------
    PeerError
    """
    python = install(known_peers()[name], peer_dir)
    command = [*prefix, str(python), "-I", str(SESSIONS), name]
    variables = {"OMP_NUM_THREADS": str(threads)}
    log = folder / f"{name}.log"
    return Worker(name, command, log=log, environment=variables, most_seconds=most_seconds)


def start_own(
    *,
    folder: Path,
    threads: int,
    prefix: Sequence[str] = (),
    tree: Path | None = None,
    name: str = "",
    most_seconds: float | None = None,
) -> Worker:
    """Starts the session of graphzero, of this environment or of a source tree.

    Parameters
    ----------
    folder : pathlib.Path
        For its log.
    threads : int
        ``OMP_NUM_THREADS``.
    prefix : sequence of str
        A command that runs the rest of the command line, such as one that enters a memory group.
    tree : pathlib.Path, optional
        A source folder with its built extension; default: the graphzero of this process.
    name : str
        Of the log and of messages; default "graphzero".
    most_seconds : float, optional
        As in `Worker`.
    """
    variables = {"OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "passive"}
    if tree is not None:
        variables["PYTHONPATH"] = str(tree)
    name = name or "graphzero"
    command = [*prefix, sys.executable, str(SESSIONS), "graphzero"]
    log = folder / f"{name}.log"
    return Worker(name, command, log=log, environment=variables, most_seconds=most_seconds)


@contextlib.contextmanager
def opened(
    dataset: Path, options: argparse.Namespace, prefix: Sequence[str] = (), huge: bool = False
) -> Iterator[Worker]:
    """A process that has opened a dataset."""
    how: dict[str, Any] = {"threads": options.threads, "most_seconds": 2 * options.most_seconds}
    with start_own(folder=dataset.parent, prefix=prefix, **how) as worker:
        worker.call("open", dataset=str(dataset), threads=options.threads, huge=huge)
        yield worker


def limited(
    dataset: Path,
    options: argparse.Namespace,
    requests: Sequence[dict[str, Any]],
    room: int,
    shorter: dict[str, Any] | None = None,
) -> tuple[list[dict[str, Any]], int]:
    """The answers of a process in limited memory, from a cold cache; and its limit in bytes.

    With `shorter`, the limit is the room beyond what the first request takes without one, where
    these arguments make it shorter.
    """
    if shorter is not None:
        with opened(dataset, options) as worker:
            room += worker.call(**{**requests[0], **shorter})["anonymous"]
    time.sleep(1.0)  # pages that are being read cannot be dropped
    machine.drop_cached(dataset.glob("*.g[ld]"))
    with limited_group(room) as group:
        try:
            with opened(dataset, options, group.prefix) as worker:
                return [worker.call(**request) for request in requests], room
        except PeerError as error:
            raise PeerError(f"{group.kills()} killed in {room >> 20:,} MiB: {error}") from error
