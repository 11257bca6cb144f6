"""`verify`: reads files through, and finds every fault that their formats let it find.

A file is read in blocks: threads check the entries of a block while the checksum of an earlier one
is taken. At most one fault a section is found: its first faulty entry, or its wrong checksum.
"""

from __future__ import annotations

import mmap
import os
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from graphzero import _core
from graphzero.errors import FormatError
from graphzero.graph.dataset import open_dataset
from graphzero.graph.features import FeatureStore
from graphzero.graph.graph import Graph
from graphzero.graph.ids import as_threads
from graphzero.packs.pack_file import OFFSETS, OPTIONS, open_pack, pack_files
from graphzero.store.atomic import is_staging_name
from graphzero.store.format import (
    DTYPES,
    FLAG_DIRECTED,
    FLAG_INCOMING,
    FLAG_TYPED,
    FLAG_VECTOR,
    Header,
    dtype_name,
    read_header,
)
from graphzero.store.id_table import TEXT, IdTable, first_bad_text, first_not_ascending
from graphzero.store.manifest import MANIFEST_NAME, FileEntry, Manifest, read_manifest
from graphzero.store.tuning_file import TUNING_NAME

_BLOCK_BYTES = 4 << 20
_STEP = 1 << 20  # entries
_TEXTS = 1 << 12  # that are compared at a time: at most 16 MiB
_AGAIN = "build the file again"
_CORRUPT = "is corrupt (checksum mismatch)"
_BY_EDGE = ("indices", "weights", "cum_weights", "times", "time_order", "edge_ids")
_FLAGS = FLAG_DIRECTED | FLAG_INCOMING | FLAG_TYPED
# First bytes of the fields of a header, as in docs/format.md.
_AT = {"flags": 12, "num_nodes": 24, "width": 32, "num_input_edges": 40, "num_neighbors": 56}
# Dtypes of vectors, by what the rows are for.
_DTYPES = {"split": ("<i8",), "visits": ("<u4",), "ids": ("<u4", "<u8")}

Array = npt.NDArray[Any]
Fault = Callable[[int, int], int]  # first faulty entry of a range [begin, end), or -1
_T = TypeVar("_T")


@dataclass(frozen=True)
class Finding:
    """A fault of a file, found by `verify`.

    Attributes
    ----------
    path : str
    section : str or None
        The faulty section; None for the header page, a whole file or the manifest.
    offset : int
        The first faulty byte of the file. Where only a sum tells that a section is faulty, the
        first byte of the section.
    message : str
        What is wrong, and what to do.
    """

    path: str
    section: str | None
    offset: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message} (byte {self.offset})"


@dataclass
class Verification:
    """Result of the check of a file or a folder.

    Attributes
    ----------
    path : str
    files : dict of str to int
        Bytes of the files that were checked, by path.
    findings : list of Finding
        Of all files, and of the folder as a whole.
    notes : list of str
        What is no fault, but may surprise.
    num_bytes : int
        Bytes of sections that were read.
    seconds : float
    """

    path: str
    files: dict[str, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    num_bytes: int = 0
    seconds: float = 0.0


def verify(
    path: str | os.PathLike[str], *, num_threads: int | None = None, progress: bool = False
) -> list[Finding]:
    """Checks a dataset, or one of its files, byte by byte.

    Checks the header and every checksum; that lists are sorted, ids in range, weights as their
    sums and times as their order say; that tables of ids are inverse to each other; and that counts
    of rows, dtypes and splits are those of ``dataset.json``. Memory stays below 100 MB, whatever
    the size.

    Parameters
    ----------
    path : path-like
        A dataset folder, a ``.gl`` or a ``.gd`` file (also a pack).
    num_threads : int, optional
        Default: all processors available to the process.
    progress : bool
        Show a progress bar on stderr.

    Returns
    -------
    list of Finding
        Empty if no fault was found. At most one for each section of a file.

    Raises
    ------
    FileNotFoundError
        If there is no such file, or the folder has no dataset.
    OSError
        If a file cannot be read.
    """
    return verify_path(path, num_threads=num_threads, progress=progress).findings


def verify_path(
    path: str | os.PathLike[str], *, num_threads: int | None = None, progress: bool = False
) -> Verification:
    """`verify`, with more in the result."""
    start = time.perf_counter()
    found = Verification(os.fspath(path))
    bar = tqdm(desc=Path(path).name, unit="B", unit_scale=True, leave=False, disable=not progress)
    with bar, ThreadPoolExecutor(as_threads(num_threads), "verify") as pool:
        workers = _Workers(pool, 2 * as_threads(num_threads), bar)
        if Path(path).is_dir():
            _check_folder(Path(path), found, workers)
        else:
            missing = f"is missing, but {found.path} names it: pack the dataset again"
            parts = [(file, Role()) for file in _pack_parts(Path(path))]
            _check_files([(Path(path), Role()), *parts], missing, found, workers)
        found.num_bytes = workers.num_bytes
    found.seconds = time.perf_counter() - start
    return found


def _pack_parts(path: Path) -> list[Path]:
    """The other files of a pack; none of what is no pack."""
    try:
        return pack_files(path)[1:] if read_header(path).find(OPTIONS) is not None else []
    except FormatError:  # the check of the file reports it
        return []


def _finding_of(path: str, error: Exception, header: Header | None = None) -> Finding:
    """The error of a reader as a finding, in the section that the message names, if any."""
    message = str(error)
    for name in (path, os.path.abspath(path)):
        message = message.removeprefix(f"{name}: ").removeprefix(f"{name} ")
    for section in header.sections if header is not None else ():
        if f"'{section.name}'" in message:
            return Finding(path, section.name, section.offset, message)
    return Finding(path, None, 0, message)


# --- what a manifest says


@dataclass(frozen=True)
class Role:
    """What a manifest says of a file; a file that is checked alone has the default.

    Attributes
    ----------
    kind : str
        "graph" or "features"; empty if it is unknown.
    header : dict of str to int
        Fields of its header.
    rows : str
        What the rows are, if more is known of them: "split" (ids), "labels", "visits", "ids" (the
        user's ids of the stored nodes of a type) or "id_table" (ids of any kind, of ``ids="map"``).
    limit : int
        Ids of a split, labels and counts of visits are below it.
    """

    kind: str = ""
    header: dict[str, int] = field(default_factory=dict)
    rows: str = ""
    limit: int = 2**32


def roles_of(manifest: Manifest) -> list[tuple[FileEntry, Role]]:
    """Every file of a manifest, with what the manifest says of it."""
    found: list[tuple[FileEntry | None, Role]] = []
    counted = manifest.presampling
    for nodes in manifest.nodes.values():
        rows = Role("features", {"num_nodes": nodes.num_nodes})
        labels = rows
        if nodes.num_classes is not None:
            labels = replace(rows, rows="labels", limit=nodes.num_classes)
        for name, entry in nodes.attributes.items():
            found.append((entry, labels if name == "y" else rows))
        split = Role("features", rows="split", limit=nodes.num_nodes)
        found += [(entry, split) for entry in nodes.splits.values()]
        found.append((nodes.ids, replace(rows, rows="ids")))
        found.append((nodes.id_map, replace(rows, rows="id_table")))
        most = 2**32 if counted is None else counted.batches + 1
        found.append((nodes.visits, replace(rows, rows="visits", limit=most)))
    for (source, _, target), edges in manifest.edges.items():
        ends = [manifest.nodes[source].num_nodes, manifest.nodes[target].num_nodes]
        owner, neighbor = ends[::-1] if manifest.incoming else ends
        flags = FLAG_DIRECTED * manifest.directed | FLAG_TYPED * manifest.is_typed
        out = {
            **{"num_nodes": owner, "width": edges.num_edges, "flags": flags},
            "num_input_edges": edges.num_input_edges,
            "num_neighbors": neighbor if manifest.is_typed else 0,
        }
        incoming = {**out, "flags": flags | FLAG_INCOMING * manifest.incoming}
        found.append((edges.graph, Role("graph", incoming)))
        found.append((manifest.out_graph, Role("graph", out)))
        rows = Role("features", {"num_nodes": edges.num_edges})
        found += [(entry, rows) for entry in edges.attributes.values()]
        split = Role("features", rows="split", limit=edges.num_input_edges)
        found += [(entry, split) for entry in edges.splits.values()]
    return [(entry, role) for entry, role in found if entry is not None]


def _check_folder(folder: Path, found: Verification, workers: _Workers) -> None:
    try:
        manifest = read_manifest(folder)
    except FormatError as error:
        found.findings.append(_finding_of(str(folder / MANIFEST_NAME), error))
        return
    files = [(entry.resolve(folder), role) for entry, role in roles_of(manifest)]
    missing = f"is missing, but {MANIFEST_NAME} names it: build the dataset again"
    _check_files(files, missing, found, workers)
    if not found.findings:
        try:
            open_dataset(folder).close()  # also finds intact files that do not belong together
        except FormatError as error:
            found.findings.append(_finding_of(str(folder), error))
    names = {path.name for path, _ in files} | {MANIFEST_NAME, TUNING_NAME}
    for path in sorted(each for each in folder.iterdir() if each.name not in names):
        note = f"is not checked: {MANIFEST_NAME} does not name it"
        if is_staging_name(path.name):
            note = "is left from an interrupted build: the next removes it"
        found.notes.append(f"{path} {note}")


# --- files and their sections


def _check_files(
    files: Sequence[tuple[Path, Role]], missing: str, found: Verification, workers: _Workers
) -> None:
    """Adds the faults of files."""
    workers.bar.reset(sum(path.stat().st_size for path, _ in files if path.exists()))
    for path, role in files:
        if path.exists() or path == Path(found.path):
            found.findings += _check_file(str(path), role, found.files, workers)
        else:
            found.findings.append(Finding(str(path), None, 0, missing))


def _check_file(path: str, role: Role, sizes: dict[str, int], workers: _Workers) -> list[Finding]:
    """The faults of a file."""
    size = sizes[path] = os.stat(path).st_size
    try:
        header = read_header(path)
    except FormatError as error:
        finding = _finding_of(path, error)
        if "truncated" in finding.message:  # the first byte that is not there
            finding = replace(finding, offset=size)
        return [finding]
    found = list(_against_manifest(path, header, role))
    kind = _GraphFile if header.kind == "graph" else _RowsFile
    with closing(kind(path, header, role, workers)) as file:
        try:
            refusal = _refusal(path, header, role)
            if refusal is None:
                file.check()
            else:
                file.check_refused(refusal)
            found += file.sorted_findings()
        except FormatError as error:  # truncated meanwhile
            found.append(_finding_of(path, error))
        return found


def _against_manifest(path: str, header: Header, role: Role) -> Iterator[Finding]:
    """The first difference between a header and the manifest."""
    if role.kind not in ("", header.kind):
        message = f"is a {header.kind} file, not a {role.kind} file: build it again"
        yield Finding(path, None, 0, message)
        return
    for name in (name for name in _AT if name in role.header):
        wanted = role.header[name]
        value = getattr(header, name) & (_FLAGS if name == "flags" else -1)
        if value != wanted:
            message = f"has {name} {value}, but dataset.json says {wanted}: build the dataset again"
            yield Finding(path, None, _AT[name], message)
            return


def _refusal(path: str, header: Header, role: Role) -> Finding | None:
    """The error with which a reader refuses a file, and rows that cannot be what they are for."""
    try:
        if header.kind == "graph":
            opened = Graph._open_typed(path) if header.flags & FLAG_TYPED else Graph(path)
            opened.close()
            return None
        FeatureStore(path).close()
        if role.rows == "id_table":
            IdTable(path).close()
    except FormatError as error:
        return _finding_of(path, error, header)
    section = header.find("rows")
    assert section is not None  # the reader has accepted the file
    dtype, is_vector = DTYPES[section.dtype], header.flags & FLAG_VECTOR
    wanted = _DTYPES.get(role.rows, ())
    if not wanted or (dtype.str in wanted and is_vector):
        return None
    names = " or ".join(dtype_name(np.dtype(name)) for name in wanted)
    shape = "a vector" if is_vector else "rows"
    message = f"has {shape} of {dtype_name(dtype)}, not a vector of {names}: build it again"
    return Finding(path, "rows", section.offset, message)


class _Workers:
    """Threads that check blocks, and the progress of the whole."""

    def __init__(self, pool: ThreadPoolExecutor, most: int, bar: tqdm[Any]) -> None:
        self._pool = pool
        self._most = most
        self.bar = bar
        self.num_bytes = 0

    def in_order(
        self, do: Callable[[int, int], _T], count: int, step: int = _STEP
    ) -> Iterator[tuple[int, int, _T]]:
        """Calls ``do(begin, end)`` for ranges of [0, count); yields the results in order."""
        running: deque[tuple[int, int, Future[_T]]] = deque()
        for begin in range(0, count, step):
            end = min(begin + step, count)
            running.append((begin, end, self._pool.submit(do, begin, end)))
            if len(running) > self._most:
                first, last, future = running.popleft()
                yield first, last, future.result()
        for first, last, future in running:
            yield first, last, future.result()

    def first(self, fault: Fault, count: int, step: int = _STEP) -> int:
        """First faulty entry of all, or -1."""
        found = self.in_order(fault, count, step)
        return next((entry for _, _, entry in found if entry >= 0), -1)

    def add_bytes(self, count: int) -> None:
        """Counts bytes that have been checked."""
        self.num_bytes += count
        self.bar.update(count)


@dataclass(frozen=True)
class _Check:
    """A check of the entries of a section.

    Attributes
    ----------
    section : str
    first_fault : callable
    reason : str
        Why the entry is faulty.
    needs : tuple of str
        Other sections that it reads. Where one of these is faulty, its result counts for nothing.
    """

    section: str
    first_fault: Fault
    reason: str
    needs: tuple[str, ...] = ()


class _File:
    """A file whose header is intact, mapped while it is checked.

    Attributes
    ----------
    found : dict of str to Finding
        By section.
    """

    def __init__(self, path: str, header: Header, role: Role, workers: _Workers) -> None:
        self.path, self.header, self.role, self.workers = path, header, role, workers
        self.found: dict[str, Finding] = {}
        self._file = open(path, "rb")  # noqa: SIM115
        self._map = mmap.mmap(self._file.fileno(), 0, prot=mmap.PROT_READ)
        if hasattr(mmap, "MADV_SEQUENTIAL"):
            self._map.madvise(mmap.MADV_SEQUENTIAL)
        self.arrays = {
            section.name: np.frombuffer(self._map, dtype, section.count, section.offset)
            if section.count
            else np.empty(0, dtype)
            for section in header.sections
            for dtype in [DTYPES[section.dtype]]
        }

    def check(self) -> None:
        """Checks every section."""
        raise NotImplementedError

    def check_refused(self, refusal: Finding) -> None:
        """Checks only the checksums of a file that readers refuse."""
        self.run_each(self.arrays)
        self.found.setdefault(refusal.section or "", refusal)

    def sorted_findings(self) -> list[Finding]:
        """In the order of the sections."""
        return [self.found[name] for name in ("", *self.arrays) if name in self.found]

    def close(self) -> None:
        """Closes the file, which is unmapped with the last array over it."""
        del self._map
        self._file.close()

    def add(self, name: str, entry: int, message: str) -> None:
        """Adds a fault of an entry of a section."""
        offset = self._offset(name, entry)
        self.found[name] = Finding(self.path, name, offset, f"{message}: {_AGAIN}")

    def text_of(self, name: str, entry: int) -> str:
        """An entry in words."""
        return f"entry {entry} of '{name}' is {self.arrays[name][entry]}"

    def _offset(self, name: str, entry: int) -> int:
        section = self.header.find(name)
        assert section is not None
        return section.offset + entry * DTYPES[section.dtype].itemsize

    def check_size(self) -> None:
        """Raises FormatError if the file has become shorter: to read on would be a SIGBUS."""
        if os.fstat(self._file.fileno()).st_size < self.header.file_bytes:
            raise FormatError(f"{self.path} was truncated while it was being checked")

    def run(self, names: Iterable[str], checks: Sequence[_Check] = ()) -> None:
        """Reads sections of equally many entries through together.

        Parameters
        ----------
        names : iterable of str
            Those that the file does not have are left out.
        checks : sequence of _Check
            Each section has at most one.
        """
        arrays = {name: self.arrays[name] for name in names if name in self.arrays}
        count = max(map(len, arrays.values()), default=0)
        entry_bytes = max(1, sum(array.itemsize for array in arrays.values()))
        crcs = dict.fromkeys(arrays, 0)
        faults: list[int] = [-1] * len(checks)

        def block(begin: int, end: int) -> list[int]:
            self.check_size()
            return [check.first_fault(begin, end) for check in checks]

        step = max(1, _BLOCK_BYTES // entry_bytes)
        for begin, end, found in self.workers.in_order(block, count, step):
            self.check_size()
            for name, array in arrays.items():
                crcs[name] = zlib.crc32(array[begin:end].view(np.uint8).data, crcs[name])
                self._forget(name, begin, end)
            faults = [new if old < 0 else old for old, new in zip(faults, found, strict=True)]
            self.workers.add_bytes((end - begin) * entry_bytes)
        stored = {section.name: section.crc for section in self.header.sections}
        corrupt = [name for name, crc in crcs.items() if stored[name] != crc]
        for name in corrupt:
            self.add(name, 0, f"section '{name}' {_CORRUPT}")
        for check, entry in zip(checks, faults, strict=True):
            is_corrupt = check.section in corrupt
            if entry >= 0 and (is_corrupt or not any(name in self.found for name in check.needs)):
                lead = f"section '{check.section}' {_CORRUPT}, and " if is_corrupt else ""
                text = self.text_of(check.section, entry)
                self.add(check.section, entry, f"{lead}{text}, {check.reason}")

    def run_each(self, names: Iterable[str]) -> None:
        """Checks the checksums of sections, one after the other."""
        for name in names:
            self.run([name])

    def _forget(self, name: str, begin: int, end: int) -> None:
        """Unmaps pages of entries, which stay in the page cache, so that memory stays small."""
        if hasattr(mmap, "MADV_DONTNEED"):
            first = self._offset(name, begin) // mmap.PAGESIZE * mmap.PAGESIZE
            length = self._offset(name, end) - first
            if length > 0:
                self._map.madvise(mmap.MADV_DONTNEED, first, length)

    def check_tables(self, what: str, *names: str) -> None:
        """Checks that a table of ids and one of ranks lead to each other, each number once.

        A table of ranks without one of ids is checked alone, for its range.
        """
        tables = {name: self.arrays[name] for name in names if name in self.arrays}
        checks = []
        for name, other in zip(tables, reversed(tables), strict=True):
            fault = partial(_core.first_not_inverse, tables[name], tables[other])
            reason = f"and '{other}' does not lead back from there"
            if len(tables) == 1:
                count = len(tables[name])
                fault = partial(_core.first_beyond, tables[name], count)
                reason = f"out of range for {count}"
            # the fault of one shows in the other as well
            checks.append(_Check(name, fault, f"{reason} ({what})", tuple({*tables} - {name})))
        self.run(tables, checks)


class _GraphFile(_File):
    """A ``.gl`` file: what its sections say of each other."""

    def check(self) -> None:
        arrays, num_edges = self.arrays, self.header.width
        descent = partial(_core.first_descent, arrays["indptr"], num_edges)
        reason = f"below the entry before or above {num_edges} edges: lists overlap"
        self.run(["indptr"], [_Check("indptr", descent, reason)])
        if self.found:  # lists that overlap cannot be checked
            self.run(_BY_EDGE)
        else:
            self.run(_BY_EDGE, self._edge_checks())
        self.check_tables("the stored order of nodes", "node_ids", "node_rank")
        self.run_each(arrays.keys() - {"indptr", *_BY_EDGE, "node_ids", "node_rank"})

    def text_of(self, name: str, entry: int) -> str:
        if name not in _BY_EDGE:
            return super().text_of(name, entry)
        owner = int(np.searchsorted(self.arrays["indptr"], entry, "right")) - 1
        return f"{super().text_of(name, entry)}, in the list of stored node {owner}"

    def _edge_checks(self) -> list[_Check]:
        header, arrays, num_input = self.header, self.arrays, self.header.num_input_edges
        count = header.num_neighbors if header.flags & FLAG_TYPED else header.num_nodes
        by_edge = {name: arrays[name] for name in ("indptr", *_BY_EDGE) if name in arrays}
        lists = _core.EdgeLists(count, by_edge)
        none: Array = np.empty(0)
        bad_weight = partial(_core.first_bad_weight, arrays.get("weights", none))
        bad_id = partial(_core.first_beyond, arrays.get("edge_ids", none), num_input)
        in_range = f"not in ascending order, or out of range for {count} nodes"
        checks = [
            _Check("indices", lists.first_unsorted, in_range),
            _Check("weights", bad_weight, "negative or not finite"),
            _Check("cum_weights", lists.first_bad_sum, "not the sum of 'weights'", ("weights",)),
            _Check("time_order", lists.first_untimely, "not in order of 'times'", ("times",)),
            _Check("edge_ids", bad_id, f"out of range for {num_input} input edges"),
        ]
        return [check for check in checks if {check.section, *check.needs} <= arrays.keys()]


class _RowsFile(_File):
    """A ``.gd`` file: its rows against what they are for."""

    def check(self) -> None:
        role, arrays = self.role, self.arrays
        rest = [name for name in arrays if name not in ("rows", "node_rank", OFFSETS)]
        if role.rows == "ids" and "node_rank" in arrays:
            self.check_tables("the user's ids of the stored nodes", "rows", "node_rank")
        else:
            if "node_rank" in arrays:
                self.check_tables("the stored order of rows", "node_rank")
            self.run(["rows"], self._checks_of_rows(arrays["rows"]))
        self.run_each(rest)
        if role.rows == "id_table" and TEXT in arrays and not self.found:
            self._check_texts(arrays["rows"], arrays[TEXT])
        offsets, checks = arrays.get(OFFSETS), []
        if offsets is not None and offsets.dtype.str in ("<u4", "<u8"):  # `open_pack` refuses other
            num_rows = self.header.num_nodes
            fault = partial(_core.first_descent, offsets, num_rows)
            reason = f"below the entry before or above {num_rows} rows"
            checks = [_Check(OFFSETS, fault, reason)]
        self.run([OFFSETS], checks)
        if OPTIONS in arrays and not self.found:
            try:
                open_pack(self.path).store.close()
            except FormatError as error:
                finding = _finding_of(self.path, error, self.header)
                self.found[finding.section or ""] = finding

    def _checks_of_rows(self, rows: Array) -> list[_Check]:
        limit = self.role.limit
        faults: dict[str, tuple[Fault, str]] = {
            "split": (
                lambda i, j: _core.first_beyond(rows.view("<u8"), limit, i, j),  # also negative ids
                f"out of range for {limit}",
            ),
            "labels": (
                lambda i, j: _first_of(i, rows[i:j] >= limit),
                f"but there are {limit} classes",
            ),
            "visits": (
                lambda i, j: _first_of(i, rows[i:j] >= limit),
                f"more visits than the {limit - 1} mini-batches",
            ),
            "id_table": (partial(first_not_ascending, rows), "not above the entry before"),
        }
        is_number = rows.dtype.kind in "iu" and self.header.flags & FLAG_VECTOR
        if self.role.rows not in faults or (self.role.rows == "labels" and not is_number):
            return []
        return [_Check("rows", *faults[self.role.rows])]

    def _check_texts(self, ends: Array, text: Array) -> None:
        """Adds the first fault of texts, whose ends ascend: none is empty, and all are UTF-8."""
        total = len(text)
        for entry, is_wrong in ((0, ends[:1] == 0), (len(ends) - 1, ends[-1:] != total)):
            if is_wrong.any():
                message = f"{self.text_of('rows', entry)}: the texts have {total} bytes, and none"
                self.add("rows", entry, f"{message} is empty")
                return

        def fault(begin: int, end: int) -> int:
            self.check_size()
            return first_bad_text(ends, text, begin, end)

        node = self.workers.first(fault, len(ends), _TEXTS)
        if node >= 0:
            message = f"the text of node {node} is no valid UTF-8, or not above that of node"
            self.add(TEXT, int(ends[node - 1]) if node else 0, f"{message} {node - 1}")


def _first_of(begin: int, bad: npt.NDArray[np.bool_]) -> int:
    return begin + int(bad.argmax()) if bad.any() else -1
