"""The contestants of the out-of-core benchmark, which read rows and train, and their processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.contestants import GRAPHZERO02, PYG, known_peers
from benchmarks.peers import Peer

__all__ = [
    "BASELINE",
    "PACKED",
    "RAM",
    "Contestant",
    "Host",
    "all_names",
    "baselines",
    "chosen",
    "host_of",
    "strategies",
    "train_host",
]

STRATEGIES = ("none", "willneed", "pread", "uring", "auto")
RAM = "ram"
PACKED = "packed"
# The faster of the two mapped arrays: a kernel setting should not inflate the ratios.
BASELINE = "memmap-random"
PARTS = 256


@dataclass(frozen=True)
class Contestant:
    """One way of reading rows.

    Attributes
    ----------
    name : str
    operation : str
        The session's operation: pipeline, packed, gather or memmap; or the name of a peer.
    prefetch : dict
        Fields of `gz.Prefetch`, if it uses them.
    any_order : bool
        Whether it reads graphzero's files in any order; otherwise it reads ``features.npy``.
    random : bool
        Whether MADV_RANDOM is set on the mapped array.
    parts : int
        It reads 1/parts of each batch, and its figures are scaled up by the number of rows: if the
        kernel reads megabytes at each fault, a whole batch takes many minutes.
    sleep_ms : int or None
        It sleeps that long for each batch instead of training a model on the processors.
    """

    name: str
    operation: str
    prefetch: dict[str, Any] = field(default_factory=dict)
    any_order: bool = False
    random: bool = False
    parts: int = 1
    sleep_ms: int | None = None

    @property
    def step(self) -> str:
        """What it does with a batch, where it trains."""
        return "GraphSAGE" if self.sleep_ms is None else f"sleep {self.sleep_ms} ms"

    @property
    def peer(self) -> str | None:
        """The peer in whose environment it runs."""
        return self.operation if self.operation in (GRAPHZERO02, PYG) else None


@dataclass(frozen=True)
class Host:
    """The process of a contestant.

    Attributes
    ----------
    peer : Peer
        What it runs.
    installed : bool
        Whether it needs its own environment.
    variables : dict of str to str
        Environment variables.
    """

    peer: Peer
    installed: bool
    variables: dict[str, str] = field(default_factory=dict)


def strategies(resident: float, fields: dict[str, Any]) -> tuple[list[Contestant], dict[str, str]]:
    """Every strategy that this graphzero accepts, without and with a resident prefix.

    Parameters
    ----------
    resident : float
        Share of the rows in the resident prefix.
    fields : dict
        Further fields of `gz.Prefetch`, for all of them.

    Returns
    -------
    list of Contestant
    dict of str to str
        Why others are missing.
    """
    import graphzero as gz

    found, missing = [], {}
    for strategy in STRATEGIES:
        kinds: list[tuple[str, dict[str, Any]]] = [(strategy, {})]
        if strategy != "none":
            kinds.append((f"{strategy}+resident", {"resident": resident}))
        for name, more in kinds:
            prefetch = {"strategy": strategy, **more, **fields}
            try:
                gz.Prefetch(**prefetch)
            except (TypeError, ValueError) as error:
                missing[name] = str(error)
            else:
                found.append(Contestant(name, "pipeline", prefetch, any_order=True))
    return found, missing


def baselines() -> list[Contestant]:
    """What other libraries do, and plain page faults."""
    return [
        Contestant("memmap", "memmap", parts=PARTS),
        Contestant(BASELINE, "memmap", random=True),
        Contestant("gather", "gather", any_order=True),
        Contestant(GRAPHZERO02, GRAPHZERO02),
        Contestant(PYG, PYG, parts=PARTS),
        Contestant(f"{PYG}-random", PYG, random=True),
    ]


def all_names() -> list[str]:
    """All names that can be chosen."""
    with_resident = [f"{name}+resident" for name in STRATEGIES[1:]]
    return [*STRATEGIES, *with_resident, *(one.name for one in baselines()), RAM, PACKED]


def host_of(contestant: Contestant) -> Host:
    """The process that reads a contestant's rows."""
    if contestant.peer is None:
        return Host(Peer(contestant.name, (), "session_rows.py"), installed=False)
    installs = known_peers()[contestant.peer].installs
    return Host(Peer(contestant.peer, installs, f"peer_{contestant.peer}_rows.py"), installed=True)


def train_host() -> Host:
    """The process that trains.

    OpenMP's threads sleep while they wait, as in ``graphzero train``. Otherwise they would take
    processor time from the threads that prepare mini-batches.
    """
    peer = Peer("training", (), "session_train.py")
    return Host(peer, installed=False, variables={"OMP_WAIT_POLICY": "passive"})


def chosen(contestants: Sequence[Contestant], only: Sequence[str]) -> list[Contestant]:
    """The contestants with these names; all if there are no names."""
    return [one for one in contestants if not only or one.name in only]
