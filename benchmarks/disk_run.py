"""Runs a contestant of the out-of-core benchmark: cold files, a limit, its own process."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from benchmarks.contestants import GRAPHZERO02, PYG
from benchmarks.disk_contestants import PACKED, RAM, Contestant, Host, host_of, train_host
from benchmarks.disk_inputs import DiskInputs
from benchmarks.machine import drop_cached, resident_share
from benchmarks.meter import Plan
from benchmarks.peers import PeerError, Worker, install
from benchmarks.saved_batches import load_batches
from graphzero.report.tuning.limited_memory import MemoryGroup, memory_group

__all__ = ["Runner", "Training"]

PROBE = Plan(warm_up=0, runs=1, batches=1, checked=0)
MOST_CACHED = 0.01
DROP_ATTEMPTS = 4


@dataclass(frozen=True)
class Training:
    """How a session trains, apart from its prefetch options."""

    fanouts: Sequence[int]
    batch_size: int
    hidden: int
    epochs: int
    batches: int


@dataclass
class Runner:
    """Starts processes under the limit, one after another.

    Attributes
    ----------
    inputs : DiskInputs
    datasets, batches : dict of str to path
        By order.
    pyg_graph : dict of str to str
        PyG's topology.
    limit : int
        Bytes. The limit of each process is this plus its own anonymous memory.
    threads : int
    plan : Plan
    training : Training
    peer_dir, scratch : pathlib.Path
    own : dict of str to int
        Anonymous bytes by kind of process, measured at first use.
    notes : dict of str to str
        What went wrong, by contestant.
    versions : dict of str to str
        Of peers.
    kind : str
        Of the memory groups.
    """

    inputs: DiskInputs
    datasets: dict[str, Path]
    batches: dict[str, str]
    pyg_graph: dict[str, str]
    limit: int
    threads: int
    plan: Plan
    training: Training
    peer_dir: Path
    scratch: Path
    own: dict[str, int] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    kind: str = ""

    @cached_property
    def rows_of_batch(self) -> float:
        """Rows of a batch, on average."""
        saved = load_batches(next(iter(self.batches.values())), self.plan.total)
        return statistics.fmean(nodes.size for nodes, _, _ in saved)

    def rows(
        self, contestant: Contestant, order: str
    ) -> tuple[dict[str, Any], dict[str, int]] | None:
        """Reads rows under the limit; the answer and the charged memory, or None on failure."""
        host, kind = host_of(contestant), contestant.operation
        request = self._rows_request(contestant, order)
        label = _label(contestant.name, order)
        if contestant.parts > 1:
            self.notes[label] = f"scaled up from 1/{contestant.parts} of each batch"
        try:
            if kind not in self.own:
                probe = self._probe_request(contestant, order)
                self.own[kind] = self._call(host, probe)["peak_anonymous"]
                # The saved node ids belong to the benchmark, not to a contestant.
                self.own[kind] += os.path.getsize(self.batches[order])
            return self._limited(host, request, self.own[kind], label)
        except PeerError as error:
            self._note(label, str(error))
            return None

    def train(
        self, contestant: Contestant, order: str
    ) -> tuple[dict[str, Any], dict[str, int]] | None:
        """Trains under the limit (RAM: without it), after packing if needed."""
        host = train_host()
        label = _label(contestant.name, order)
        if contestant.sleep_ms is not None:
            label += f", {contestant.step}"
        kind = "training" if contestant.sleep_ms is None else "sleep"
        request = self._train_request(contestant, order)
        try:
            if contestant.name == RAM:
                for path in self._files():
                    _read(path)
                return self._call(host, request), {}
            if kind not in self.own:
                # Without lookahead, and for a whole epoch: the heap still grows by fragmentation
                # long after the model has its full size.
                probe = request | {"prefetch": {"strategy": "none", "lookahead": 0}, "epochs": 1}
                self.own[kind] = self._call(host, probe)["peak_anonymous"]
            with ExitStack() as stack:
                if contestant.name == PACKED:
                    request["pack"] = stack.enter_context(self._packed(host, order, label))
                return self._limited(host, request, self.own[kind], label)
        except PeerError as error:
            self._note(label, str(error))
            return None

    @contextmanager
    def _packed(self, host: Host, order: str, label: str) -> Iterator[str]:
        """Path of a pack of the training batches, with a quarter of the limit resident."""
        out = self.inputs.path(f"pack-{order}.gd")
        training = self.training
        try:
            done = self._call(
                host,
                {
                    "op": "pack",
                    "dataset": str(self.datasets[order]),
                    "out": str(out),
                    "fanouts": training.fanouts,
                    "batch_size": training.batch_size,
                    "epochs": training.epochs,
                    "batches": training.batches,
                    "resident": self.limit // 4,
                },
            )
            self.notes[label] = (
                f"packed in {done['packing']:.1f} s without the limit, "
                f"{done['bytes'] / 2**20:,.0f} MiB for {training.epochs} epochs"
            )
            yield str(out)
        finally:
            out.unlink(missing_ok=True)

    def _note(self, label: str, what: str) -> None:
        self.notes[label] = what
        print(f"{label}: {what}", file=sys.stderr)

    def _limited(
        self, host: Host, request: dict[str, Any], own: int, label: str
    ) -> tuple[dict[str, Any], dict[str, int]]:
        cached = self._drop_all()
        if cached > MOST_CACHED:
            self._note(label, f"{cached:.0%} of the files' pages stayed in the cache at the start")
        with memory_group(self.limit + own) as group:
            self.kind = group.kind
            return self._call_in(host, request, group)

    def _call_in(
        self, host: Host, request: dict[str, Any], group: MemoryGroup
    ) -> tuple[dict[str, Any], dict[str, int]]:
        try:
            with ExitStack() as stack:
                worker = stack.enter_context(self._start(host, group.prefix))
                return worker.call(**request), group.usage()
        except PeerError as error:
            if group.kills():
                raise PeerError(f"killed: it needs more memory than the limit ({error})") from None
            raise

    def _call(self, host: Host, request: dict[str, Any]) -> dict[str, Any]:
        with self._start(host, ()) as worker:
            answer = worker.call(**request)
        self.versions |= answer.get("versions", {}) if host.installed else {}
        return answer

    def _start(self, host: Host, prefix: Sequence[str]) -> Worker:
        python = install(host.peer, self.peer_dir) if host.installed else sys.executable
        log = self.scratch / f"{host.peer.name}.log"
        return Worker(
            host.peer,
            python,
            log=log,
            threads=self.threads,
            prefix=prefix,
            isolated=host.installed,
            environment=host.variables,
        )

    def _drop_all(self) -> float:
        """Drops the files from the page cache; returns the share that stayed, if known."""
        files = self._files()
        for attempt in range(DROP_ATTEMPTS):
            time.sleep(attempt)  # pages that are being read cannot be dropped
            drop_cached(files)
            cached = resident_share(files) or 0.0
            if cached <= MOST_CACHED:
                break
        return cached

    def _files(self) -> list[Path]:
        return [path for path in Path(self.inputs.folder).rglob("*") if path.is_file()]

    def _rows_request(
        self, contestant: Contestant, order: str, plan: Plan | None = None
    ) -> dict[str, Any]:
        features, folder = str(self.inputs.path("features.npy")), str(self.datasets[order])
        request: dict[str, Any] = {"op": "rows", "plan": vars(plan or self.plan)}
        if contestant.operation == GRAPHZERO02:
            features02 = str(self.inputs.path("features02.gd"))
            return request | {"features": features02, "batches": self.batches[order]}
        request["threads"] = self.threads
        if contestant.operation == PYG:
            return request | {
                "features": features,
                **self.pyg_graph,
                "seeds": str(self.inputs.path("train.npy")),
                "fanouts": list(self.training.fanouts),
                "batch_size": max(1, self.training.batch_size // contestant.parts),
                "random": contestant.random,
            }
        request |= {"op": contestant.operation, "batches": self.batches[order]}
        if contestant.operation == "memmap":
            how = {"random": contestant.random, "parts": contestant.parts}
            return request | {"features": features, **how}
        request["dataset"] = folder
        if contestant.operation == "pipeline":
            request["prefetch"] = contestant.prefetch
        return request

    def _probe_request(self, contestant: Contestant, order: str) -> dict[str, Any]:
        """One batch, without a limit and without a resident prefix."""
        if contestant.operation == GRAPHZERO02:
            return {"op": "own"}
        request = self._rows_request(contestant, order, PROBE)
        if "prefetch" in request:
            request["prefetch"] = {"strategy": "none"}
        return request

    def _train_request(self, contestant: Contestant, order: str) -> dict[str, Any]:
        return {
            "op": "train",
            "dataset": str(self.datasets[order]),
            "prefetch": contestant.prefetch,
            "sleep_ms": contestant.sleep_ms,
            "threads": self.threads,
            **vars(self.training),
        }


def _label(name: str, order: str) -> str:
    return f"{name}, {order}"


def _read(path: Path) -> None:
    with open(path, "rb") as file:
        while file.read(1 << 22):
            pass
