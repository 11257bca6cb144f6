"""Ranks that share an epoch compare what each of them makes of it, when a pass begins.

The first rank to begin a pass posts what its mini-batches follow from in the store of
torch.distributed; those that come later compare. Nobody waits: a rank may be alone with a pass,
break it off, or begin the next one long before the others.

A loader is known on other ranks by the line of the program that made it, and by how many loaders of
this line have begun a pass before; a pass by how often what it follows from has changed, so that a
rank may repeat a pass alone. Where ranks run different lines, there is nothing to compare with.
"""

from __future__ import annotations

import json
import weakref
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch

from graphzero.errors import user_place

_KEPT = 64  # passes that stay in the store

Facts = Mapping[str, Mapping[str, object]]


@dataclass
class _Posts:
    """What this process has compared by one store.

    Attributes
    ----------
    store : callable
        The torch.distributed.Store while it is there: its threads end with its group, and must not
        be kept until the interpreter ends.
    number : int
        Of the store, of those that this process has used.
    has_failed : bool
        Whether the store has ended, or cannot do it: then it is not asked again.
    loaders : Counter
        How many have begun a pass, by the lines that made them.
    keys : deque of str
        In the store, the oldest first.
    """

    store: Callable[[], object] = lambda: None
    number: int = 0
    has_failed: bool = False
    loaders: Counter[str] = field(default_factory=Counter)
    keys: deque[str] = field(default_factory=deque)


_posts = _Posts()


class SharedPasses:
    """The passes over a loader whose epochs ranks share; made where the user makes the loader."""

    def __init__(self) -> None:
        self._line = user_place()
        self._store = 0  # its number
        self._loader = self._pass = 0
        self._last = ""

    def compare(self, rank: int, facts: Facts) -> None:
        """Refuses a pass that differs from the same pass on another rank.

        Parameters
        ----------
        rank : int
        facts : mapping
            What the mini-batches of the pass follow from, in plain values by name: "options", all
            of which are compared, and "dataset", with a checksum of each file, of which those are
            compared that both ranks read.

        Raises
        ------
        ValueError
            Naming what differs.
        """
        global _posts
        try:
            store = torch.distributed.distributed_c10d._get_default_store()
        except ValueError:  # there is no group
            return
        if store is not _posts.store():
            _posts = _Posts(weakref.ref(store), _posts.number + 1)
        if _posts.has_failed:
            return
        if self._store != _posts.number:
            _posts.loaders[self._line] += 1
            self._store, self._loader = _posts.number, _posts.loaders[self._line]
            self._pass, self._last = 0, ""
        mine = json.dumps(facts, default=str)
        if mine != self._last:
            self._pass, self._last = self._pass + 1, mine
        loader = f"{self._line}, loader {self._loader}"
        key = f"graphzero/pass/{self._store}/{loader}/{self._pass}"
        posted = json.dumps({"rank": rank, **facts}, default=str)
        try:
            first = store.compare_set(key, "", posted) or posted
            if key not in _posts.keys:
                _posts.keys.append(key)
            if len(_posts.keys) > _KEPT:
                store.delete_key(_posts.keys.popleft())
        except (RuntimeError, AttributeError):  # also of a backend without a store
            _posts.has_failed = True
            return
        other = json.loads(first)
        _require_same_pass(loader, rank, json.loads(mine), other["rank"], other)


def _require_same_pass(loader: str, rank: int, mine: Facts, other_rank: int, other: Facts) -> None:
    before, now = other["options"], mine["options"]
    differing = [
        f"{name} ({before.get(name)!r} on rank {other_rank}, {now.get(name)!r} on rank {rank})"
        for name in sorted({*before, *now})
        if before.get(name) != now.get(name)
    ]
    common = other["dataset"].keys() & mine["dataset"].keys()
    files = sorted(name for name in common if other["dataset"][name] != mine["dataset"][name])
    if files:
        differing.append(f"the content of the dataset ({', '.join(files)})")
    if differing:
        raise ValueError(
            f"ranks {other_rank} and {rank} share the epochs of a loader ({loader}), and begin a "
            f"pass over it that differs: {'; '.join(differing)}. Ranks that share an epoch need "
            f"the same dataset and arguments, the same seed= included, and the same epoch: call "
            f"set_epoch or load_state_dict on all of them. Where each rank has seeds of its own, "
            f"or only some make this loader, give it distributed=False"
        )
