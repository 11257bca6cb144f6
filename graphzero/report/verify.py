"""`verify`: reads files through, and finds every fault that their formats let it find.

Files are read in blocks: threads check the entries of a block while its checksums are taken. At
most one fault a section is found: its first faulty entry, or its wrong checksum.
"""

from __future__ import annotations

import mmap
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
from tqdm.auto import tqdm

from graphzero import _core
from graphzero.errors import FormatError
from graphzero.graph.dataset import open_dataset
from graphzero.graph.features import FeatureStore, SplitRows, StoredIds
from graphzero.graph.graph import EdgeTypeGraph, Graph
from graphzero.graph.user_input import as_threads
from graphzero.packs.pack_file import OFFSETS, OPTIONS, Pack
from graphzero.store.format import DTYPES, FLAG_TYPED, PAGE_BYTES, Header, read_header
from graphzero.store.id_table import BY_ID, TEXT, IdTable
from graphzero.store.manifest import MANIFEST_NAME, FileEntry, Manifest, read_manifest
from graphzero.units import printable

_BLOCK_BYTES = 4 << 20  # of each thread
_AGAIN = "build the file again"
_CORRUPT = "is corrupt (checksum mismatch)"
_BY_EDGE = ("indices", "weights", "cum_weights", "times", "time_order", "edge_ids")

_OPENED = {"split": SplitRows, "ids": StoredIds, "id_table": IdTable}  # by the kind of a role

Array = npt.NDArray[Any]  # of any dtype that a section may have
Fault = Callable[[int, int], int]  # first faulty entry of a range [begin, end), or -1


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
    files : dict of str to int
        Bytes of the files that were checked, by path.
    findings : list of Finding
        Of all files, and of the folder as a whole.
    """

    files: dict[str, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)


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
    """`verify`, with the files that were checked."""
    root, result = Path(path), Verification()
    try:
        roles = _roles_in(root)
    except FormatError as error:
        result.findings.append(_finding_of(str(root / MANIFEST_NAME), error))
        return result
    threads = as_threads(num_threads)
    with (
        tqdm(
            desc=printable(root.name),
            total=sum(file.stat().st_size for file in roles if file.exists()),
            unit="B",
            unit_scale=True,
            leave=False,
            disable=not progress,
        ) as bar,
        ThreadPoolExecutor(threads, "verify") as pool,
    ):
        for file, role in roles.items():
            if file.exists() or file == root:
                result.files[str(file)] = file.stat().st_size
                result.findings += _check_file(str(file), role, _Reading(pool, threads, bar))
            else:
                missing = f"is missing, but {MANIFEST_NAME} or a pack names it: build again"
                result.findings.append(Finding(str(file), None, 0, missing))
    if root.is_dir() and not result.findings:  # intact files may not belong together
        try:
            open_dataset(root).close()
        except FormatError as error:
            result.findings.append(_finding_of(str(root), error))
    return result


def _roles_in(root: Path) -> dict[Path, Role]:
    """The files to check: those of a dataset or a pack, or a single one."""
    if root.is_dir():
        roles = _roles_of(read_manifest(root))
        return {entry.resolve(root): replace(role, entry=entry) for entry, role in roles.items()}
    files = [root]
    with suppress(FormatError):  # which the check of the file reports
        if read_header(root).find(OPTIONS) is not None:
            files = Pack(root).files
    return dict.fromkeys(files, Role())


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
    """What a manifest says of the rows of a file; a file that is checked alone has the default.

    Whether counts, dtypes, directions and orders of intact files fit is checked as a dataset is
    opened.

    Attributes
    ----------
    kind : str
        "graph", "split", "ids" (the user's ids of the stored nodes of a type) or "id_table" (ids
        of any kind, of ``ids="map"``); empty for anything else.
    limit : int or None
        Of a split, labels and counts of visits: all rows are below it. Of a graph: input edges.
    entry : FileEntry or None
        What tells the file from those of other versions of the dataset.
    """

    kind: str = ""
    limit: int | None = None
    entry: FileEntry | None = None


def _roles_of(manifest: Manifest) -> dict[FileEntry, Role]:
    """What a manifest says of every file."""
    roles: list[tuple[FileEntry | None, Role]] = []
    for nodes in manifest.nodes.values():
        roles += [(entry, Role("split", nodes.num_nodes)) for entry in nodes.splits.values()]
        roles += [(nodes.ids, Role("ids")), (nodes.id_map, Role("id_table"))]
        if nodes.num_classes is not None:
            roles.append((nodes.attributes["y"], Role(limit=nodes.num_classes)))
        if manifest.presampling is not None:
            roles.append((nodes.visits, Role(limit=manifest.presampling.batches + 1)))
    for edges in manifest.edges.values():
        graph = Role("graph", edges.num_input_edges)
        roles += [(edges.graph, graph), (manifest.out_graph, graph)]
        roles += [(entry, Role("split", edges.num_input_edges)) for entry in edges.splits.values()]
    files = dict.fromkeys(manifest.entries(), Role())
    return files | {entry: role for entry, role in roles if entry is not None}


# --- files and their sections


@dataclass(frozen=True)
class _Check:
    """A check of the entries of a section.

    Attributes
    ----------
    section : str
    first_fault : callable
    reason : str
        Why the entry is faulty.
    needs : str
        Another section that it reads. Where that one is faulty, its result counts for nothing.
    """

    section: str
    first_fault: Fault
    reason: str
    needs: str = ""


# Sections of equally many entries that are read through together, and what is checked meanwhile.
_Group = tuple[Iterable[str], Sequence[_Check]]


@dataclass(frozen=True)
class _Reading:
    """What the checks of all files share."""

    pool: ThreadPoolExecutor
    threads: int
    bar: tqdm[Any]


def _check_file(path: str, role: Role, reading: _Reading) -> list[Finding]:
    """The faults of a file, in the order of its sections."""
    try:
        header = read_header(path)
    except FormatError as error:
        finding = _finding_of(path, error)
        if "truncated" in finding.message:  # the first byte that is not there
            finding = replace(finding, offset=os.path.getsize(path))
        return [finding]
    with open(path, "rb") as file:
        checked = _File(path, header, role, file, reading)
        groups: Iterable[_Group] = []
        try:
            _refuse(path, header, role)
            of_kind = _groups_of_graph if header.kind == "graph" else _groups_of_rows
            groups = of_kind(checked)
        except FormatError as error:
            checked.refuse(error)
        try:
            checked.read(groups)
        except FormatError as error:  # of a pack, or truncated meanwhile
            checked.refuse(error)
    sections = ("", *checked.arrays)
    return [checked.findings[name] for name in sections if name in checked.findings]


def _refuse(path: str, header: Header, role: Role) -> None:
    """Raises the error with which a reader refuses a file."""
    if role.entry is not None:
        with open(path, "rb") as file:
            role.entry.require_described(file.read(PAGE_BYTES), path)
    if header.kind == "graph":
        opened = EdgeTypeGraph if header.flags & FLAG_TYPED else Graph
        opened(path).close()
        if role.kind == "graph" and role.limit != header.num_input_edges:
            raise FormatError(
                f"{path} has {header.num_input_edges} input edges, but {MANIFEST_NAME} says "
                f"{role.limit}: {_AGAIN}"
            )
        return
    FeatureStore(path).close()
    if role.kind in _OPENED:
        _OPENED[role.kind](path).close()


def _first_not_ascending(rows: Array, most: float, begin: int, end: int) -> int:
    """First of the entries [begin, end) that is not above the entry before, or above `most`."""
    first = max(begin, 1)
    wrong = rows[begin:end] > most
    wrong[first - begin :] |= rows[first:end] <= rows[first - 1 : end - 1]
    return begin + int(wrong.argmax()) if wrong.any() else -1


def _first_not_found(table: IdTable, begin: int, end: int) -> int:
    """First of the nodes [begin, end) that is not the one that has its id; -1 if all are."""
    try:
        if table.is_text:
            nodes = -1 - table.places(table, begin, end)
        else:
            nodes = table.find_integers(table.rows[begin:end])
    except FormatError:
        return begin
    wrong = np.flatnonzero(nodes != np.arange(begin, end))
    return begin + int(wrong[0]) if len(wrong) else -1


class _File:
    """A file whose header is intact, mapped while it is checked.

    Attributes
    ----------
    arrays : dict of str to array
        By section.
    findings : dict of str to Finding
        By section.
    """

    def __init__(
        self, path: str, header: Header, role: Role, file: BinaryIO, reading: _Reading
    ) -> None:
        self.path, self.header, self.role = path, header, role
        self.findings: dict[str, Finding] = {}
        self._file, self._reading = file, reading
        self._map = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        self._map.madvise(mmap.MADV_SEQUENTIAL)
        self.arrays: dict[str, Array] = {}
        for section in header.sections:
            dtype = DTYPES[section.dtype]
            self.arrays[section.name] = (
                np.frombuffer(self._map, dtype, section.count, section.offset)
                if section.count
                else np.empty(0, dtype)
            )

    def add(self, name: str, entry: int, message: str) -> None:
        """Adds a fault of an entry of a section."""
        offset = self._offset(name, entry)
        self.findings[name] = Finding(self.path, name, offset, f"{message}: {_AGAIN}")

    def refuse(self, error: FormatError) -> None:
        """Adds the error of a reader."""
        finding = _finding_of(self.path, error, self.header)
        self.findings.setdefault(finding.section or "", finding)

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

    def read(self, groups: Iterable[_Group]) -> None:
        """Reads groups of sections, and then those that are in none."""
        rest = dict.fromkeys(self.arrays)
        for names, checks in groups:
            present = [name for name in names if name in rest]
            self._read_together(present, checks)
            rest = {name: None for name in rest if name not in present}
        for name in rest:
            self._read_together([name], [])

    def _read_together(self, names: Iterable[str], checks: Sequence[_Check]) -> None:
        """Takes the checksums of sections, and has threads check their entries."""
        arrays = {name: self.arrays[name] for name in names}
        count = max(map(len, arrays.values()), default=0)
        entry_bytes = max(1, sum(array.itemsize for array in arrays.values()))
        crcs = dict.fromkeys(arrays, 0)
        faults: dict[str, int] = {}
        step = max(1, _BLOCK_BYTES // entry_bytes)
        for begin in range(0, count, step * self._reading.threads):
            end = min(begin + step * self._reading.threads, count)
            self.check_size()
            running = [
                (check.section, self._reading.pool.submit(check.first_fault, i, min(i + step, end)))
                for check in checks
                for i in range(begin, end, step)
            ]
            for name, array in arrays.items():
                crcs[name] = zlib.crc32(array[begin:end].view(np.uint8).data, crcs[name])
            for name, future in running:
                if future.result() >= 0:
                    faults.setdefault(name, future.result())
            for name, array in arrays.items():  # a damaged file has fewer entries in some
                self._forget(name, min(begin, len(array)), min(end, len(array)))
            self._reading.bar.update((end - begin) * entry_bytes)
        stored = {section.name: section.crc for section in self.header.sections}
        corrupt = [name for name, crc in crcs.items() if stored[name] != crc]
        for name in corrupt:
            self.add(name, 0, f"section '{name}' {_CORRUPT}")
        for check in (check for check in checks if check.section in faults):
            is_corrupt, entry = check.section in corrupt, faults[check.section]
            if is_corrupt or check.needs not in self.findings:
                lead = f"section '{check.section}' {_CORRUPT}, and " if is_corrupt else ""
                text = self.text_of(check.section, entry)
                self.add(check.section, entry, f"{lead}{text}, {check.reason}")

    def _forget(self, name: str, begin: int, end: int) -> None:
        """Unmaps pages of entries, which stay in the page cache, so that memory stays small."""
        first = self._offset(name, begin) // mmap.PAGESIZE * mmap.PAGESIZE
        length = self._offset(name, end) - first
        if length > 0:
            self._map.madvise(mmap.MADV_DONTNEED, first, length)


def _groups_of_graph(file: _File) -> Iterator[_Group]:
    """A ``.gl`` file: what its sections say of each other."""
    header, arrays, none = file.header, file.arrays, np.empty(0)
    descent = partial(_core.first_descent, arrays["indptr"], header.width)
    reason = f"below the entry before or above {header.width} edges: lists overlap"
    yield ["indptr"], [_Check("indptr", descent, reason)]
    checks = []
    if not file.findings:  # lists that overlap cannot be checked
        is_typed = header.flags & FLAG_TYPED
        count = header.num_neighbors if is_typed else header.num_nodes
        by_edge = {name: arrays[name] for name in ("indptr", *_BY_EDGE) if name in arrays}
        lists = _core.EdgeLists(count, by_edge)
        bad_weight = partial(_core.first_bad_weight, arrays.get("weights", none))
        num_input = header.num_input_edges
        bad_id = partial(_core.first_beyond, arrays.get("edge_ids", none), num_input)
        in_range = f"not in ascending order, or out of range for {count} nodes"
        checks = [
            _Check("indices", lists.first_unsorted, in_range),
            _Check("weights", bad_weight, "negative or not finite"),
            _Check("cum_weights", lists.first_bad_sum, "not the sum of 'weights'", "weights"),
            _Check("time_order", lists.first_untimely, "not in order of 'times'", "times"),
            _Check("edge_ids", bad_id, f"out of range for {num_input} input edges"),
        ]
    present = arrays.keys()
    yield (
        _BY_EDGE,
        [check for check in checks if {check.section, check.needs or "indices"} <= present],
    )
    if "node_ids" in arrays and "node_rank" in arrays:
        yield _inverse_tables(file, "node_ids", "the stored order of nodes")


def _groups_of_rows(file: _File) -> Iterator[_Group]:
    """A ``.gd`` file: its rows against what they are for."""
    role, arrays = file.role, file.arrays
    rows, ranks = arrays["rows"], arrays.get("node_rank")
    if role.kind == "ids" and ranks is not None:
        yield _inverse_tables(file, "rows", "the user's ids of the stored nodes")
    elif ranks is not None:
        beyond = partial(_core.first_beyond, ranks, len(ranks))
        reason = f"out of range for {len(ranks)} (the stored order of rows)"
        yield ["node_rank"], [_Check("node_rank", beyond, reason)]
    checks = _checks_of_rows(role, rows, len(arrays[TEXT]) if TEXT in arrays else np.inf)
    if role.kind == "id_table" and BY_ID in arrays:
        lost = partial(_first_not_found, IdTable(file.path))
        if TEXT not in arrays:  # numbers are not in order
            checks = []
        checks.append(_Check("rows", lost, "and 'by_id' does not lead to its id", BY_ID))
    yield ["rows", BY_ID], checks
    if OPTIONS in arrays:
        yield [OFFSETS, OPTIONS], []
        if not file.findings:
            Pack(file.path)


def _inverse_tables(file: _File, ids: str, what: str) -> _Group:
    """Checks that a table of ids and "node_rank" lead to each other, each number once."""
    # the fault of one shows in the other as well
    return (ids, "node_rank"), [
        _Check(
            name,
            partial(_core.first_not_inverse, file.arrays[name], file.arrays[other]),
            f"and '{other}' does not lead back from there ({what})",
            other,
        )
        for name, other in ((ids, "node_rank"), ("node_rank", ids))
    ]


def _checks_of_rows(role: Role, rows: Array, most: float) -> list[_Check]:
    limit = role.limit
    if role.kind == "id_table":
        first_fault = partial(_first_not_ascending, rows, most)
        return [_Check("rows", first_fault, "not above the entry before, or beyond the texts")]
    if limit is None or rows.dtype.kind not in "iub":
        return []

    def fault(begin: int, end: int) -> int:
        bad = rows[begin:end] >= limit
        if role.kind == "split":
            bad |= rows[begin:end] < 0
        return begin + int(bad.argmax()) if bad.any() else -1

    return [_Check("rows", fault, f"out of range for {limit}")]
