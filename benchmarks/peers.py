"""Peers: other libraries, each in its own virtual environment and process.

A peer's process runs ``serve.py``: it reads one JSON object per line from its standard input and
answers each with one on its standard output.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

__all__ = ["Peer", "PeerError", "Worker", "install"]


# Compiling the extensions of torch takes minutes on a fast machine, an hour on a slow one.
INSTALL_SECONDS = 7200


class PeerError(RuntimeError):
    """A peer cannot be installed, has died, or has answered with an error."""


@dataclass(frozen=True)
class Peer:
    """Libraries to compare with that share an environment.

    Attributes
    ----------
    name : str
        Its name on the command line and of its environment's folder.
    installs : tuple of tuple of str
        Arguments of one ``pip install`` each.
    script : str
        The file in this folder whose ``Session`` runs inside the environment.
    """

    name: str
    installs: tuple[tuple[str, ...], ...]
    script: str


def install(peer: Peer, folder: str | os.PathLike[str]) -> Path:
    """Makes a peer's virtual environment, unless an earlier call has made it.

    Returns
    -------
    pathlib.Path
        Its Python.

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
    """A peer's process, from start to `close`; a context manager.

    Parameters
    ----------
    peer : Peer
    python : path-like
        From `install`.
    log : path-like
        File for the standard error of the process.
    threads : int
        ``OMP_NUM_THREADS`` of the process.
    prefix : sequence of str
        A command that enters a group and runs the rest of the command line.
    isolated : bool
        Ignore the caller's environment variables for Python, and so its graphzero.
    environment : mapping of str to str, optional
        Further variables of the process.
    """

    def __init__(
        self,
        peer: Peer,
        python: str | os.PathLike[str],
        *,
        log: str | os.PathLike[str],
        threads: int,
        prefix: Sequence[str] = (),
        isolated: bool = True,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = peer.name
        self._log = Path(log)
        here = Path(__file__).parent
        served = [str(here / "serve.py"), str(here / peer.script)]
        with open(self._log, "wb") as errors:
            self._process = subprocess.Popen(
                [*prefix, str(python), *(["-I"] if isolated else []), *served],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, "OMP_NUM_THREADS": str(threads), **(environment or {})},
                text=True,
            )

    def call(self, op: str, **arguments: Any) -> dict[str, Any]:
        """Runs one operation in the peer.

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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
