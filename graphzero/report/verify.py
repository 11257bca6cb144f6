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
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
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
from graphzero.store.id_table import TEXT, first_bad_text, first_not_ascending
from graphzero.store.manifest import MANIFEST_NAME, FileEntry, Manifest, read_manifest
from graphzero.store.tuning_file import TUNING_NAME

_BLOCK_BYTES = 4 << 20
_STEP = 1 << 20  # entries
_TEXTS = 1 << 12  # that are compared at a time: at most 16 MiB
_MOST_COUNTS = 64 << 20  # bytes: edge ids that are counted in one pass
_AGAIN = "build the file again"
_CORRUPT = "is corrupt (checksum mismatch)"
_BY_EDGE = ("indices", "weights", "cum_weights", "times", "time_order", "edge_ids")
_FLAGS = FLAG_DIRECTED | FLAG_INCOMING | FLAG_TYPED
# First bytes of the fields of a header, as in docs/format.md.
_AT = {"flags": 12, "num_nodes": 24, "width": 32, "num_input_edges": 40, "num_neighbors": 56}
_IDS = ("<u4", "<u8")

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
        The first faulty byte of the file. Where only a checksum tells that a section is faulty,
        the first byte of the section.
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
    """What the check of a file or a folder gave.

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
    sums and times as their order say; that tables of ids are inverse to each other; that edges are
    the same in both directions and each is there as often as it must; and that counts of rows,
    dtypes and splits are those of ``dataset.json``. Memory stays below 100 MB, whatever the size.

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
            first, *others = _with_parts(Path(path))
            bar.reset(first.stat().st_size)
            _check_file(os.fspath(first), Role(), found, workers)
            for file in others:
                if file.exists():
                    _check_file(os.fspath(file), Role(), found, workers)
                else:
                    text = f"is missing, but {found.path} names it: pack the dataset again"
                    found.findings.append(Finding(os.fspath(file), None, 0, text))
        found.num_bytes = workers.num_bytes
    found.seconds = time.perf_counter() - start
    return found


def _with_parts(path: Path) -> list[Path]:
    """All files of a pack, from its first; else the file alone."""
    try:
        return pack_files(path) if read_header(path).find(OPTIONS) is not None else [path]
    except FormatError:  # which the check of the file says
        return [path]


def _finding_of(path: str, error: Exception, header: Header | None = None) -> Finding:
    """What a reader refuses, as a finding: of the section that the message names, if it does."""
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
    has_twin : bool
        It is one of the two files of a directed graph, which have the same edges.
    payload : tuple of str
        Of a graph: sections that are the same wherever an edge is stored. Times are, too, if they
        are the edges' own and not those of the neighbours, which a file alone does not tell.
    limit : int or None
        The rows are int64 ids below it.
    num_classes : int or None
        Integers, if the rows are a vector of them, are below it.
    most : int or None
        The rows are counts of at most this.
    descending : bool
        The counts descend.
    ids_of : str or None
        The rows are the user's ids of the stored nodes of this type.
    is_id_table : bool
        The rows are the ids of any kind that the build took to the numbers of the nodes.
    """

    kind: str = ""
    header: dict[str, int] = field(default_factory=dict)
    has_twin: bool = False
    payload: tuple[str, ...] = ("edge_ids", "weights")
    limit: int | None = None
    num_classes: int | None = None
    most: int | None = None
    descending: bool = False
    ids_of: str | None = None
    is_id_table: bool = False


def roles_of(manifest: Manifest) -> list[tuple[FileEntry, Role]]:
    """Every file of a manifest, with what the manifest says of it."""
    found: list[tuple[FileEntry | None, Role]] = []
    counted = manifest.presampling
    for name, nodes in manifest.nodes.items():
        rows = Role("features", {"num_nodes": nodes.num_nodes})
        for attribute, entry in nodes.attributes.items():
            classes = nodes.num_classes if attribute == "y" else None
            found.append((entry, replace(rows, num_classes=classes)))
        split = Role("features", limit=nodes.num_nodes)
        found += [(entry, split) for entry in nodes.splits.values()]
        found.append((nodes.ids, replace(rows, ids_of=name)))
        found.append((nodes.id_map, replace(rows, is_id_table=True)))
        most = None if counted is None else counted.batches
        visits = replace(rows, most=most, descending=manifest.order == "presample")
        found.append((nodes.visits, visits))
    for (source, _, target), edges in manifest.edges.items():
        ends = [manifest.nodes[source].num_nodes, manifest.nodes[target].num_nodes]
        owner, neighbor = ends[::-1] if manifest.incoming else ends
        flags = FLAG_DIRECTED * manifest.directed | FLAG_TYPED * manifest.is_typed
        out = {
            **{"num_nodes": owner, "width": edges.num_edges, "flags": flags},
            "num_input_edges": edges.num_input_edges,
            "num_neighbors": neighbor if manifest.is_typed else 0,
        }
        # the time of a node is that of the edges to it, which differs by direction
        payload = ("edge_ids", "weights", *(["times"] if edges.time_level == "edge" else []))
        graph = Role("graph", out, manifest.out_graph is not None, payload)
        incoming = {**out, "flags": flags | FLAG_INCOMING * manifest.incoming}
        found.append((edges.graph, replace(graph, header=incoming)))
        found.append((manifest.out_graph, graph))
        rows = Role("features", {"num_nodes": edges.num_edges})
        found += [(entry, rows) for entry in edges.attributes.values()]
        split = Role("features", limit=edges.num_input_edges)
        found += [(entry, split) for entry in edges.splits.values()]
    return [(entry, role) for entry, role in found if entry is not None]


def _check_folder(folder: Path, found: Verification, workers: _Workers) -> None:
    try:
        manifest = read_manifest(folder)
    except FormatError as error:
        found.findings.append(_finding_of(str(folder / MANIFEST_NAME), error))
        return
    files = [(entry.resolve(folder), role) for entry, role in roles_of(manifest)]
    workers.bar.reset(sum(path.stat().st_size for path, _ in files if path.exists()))
    common = _common_sections([path for path, role in files if role.has_twin])
    pair: list[tuple[str, _Sums | None]] = []
    for path, role in files:
        if not path.exists():
            message = f"is missing, but {MANIFEST_NAME} names it: build the dataset again"
            found.findings.append(Finding(str(path), None, 0, message))
            continue
        payload = tuple(name for name in role.payload if name in common or not role.has_twin)
        sums = _check_file(str(path), replace(role, payload=payload), found, workers)
        if role.has_twin:
            pair.append((str(path), sums))
    if len(pair) == 2:
        (incoming, backward), (outgoing, forward) = pair  # in the one, owners of lists are targets
        if backward is not None and forward is not None and backward[1] != forward[0]:
            section = read_header(outgoing).find("indices")
            assert section is not None
            message = (
                f"{incoming} and {outgoing} are not of the same edges: build the dataset again"
            )
            message += ": build the dataset again"
            found.findings.append(Finding(outgoing, "indices", section.offset, message))
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


def _common_sections(paths: list[Path]) -> set[str]:
    """Names of the sections that both of two graph files have."""
    try:
        headers = [read_header(path) for path in paths]
    except (OSError, FormatError):
        return set()  # the check of the file reports it
    names = [{section.name for section in header.sections} for header in headers]
    return set.intersection(*names) if names else set()


# --- one file

_Sums = tuple[int, int, int, int]  # over all stored edges, see `graphzero._core.EdgeLists.sums`


def _check_file(path: str, role: Role, found: Verification, workers: _Workers) -> _Sums | None:
    """Adds the faults of a file; sums over its edges if they can be compared with its twin's."""
    size = os.stat(path).st_size
    found.files[path] = size
    try:
        header = read_header(path)
    except FormatError as error:
        finding = _finding_of(path, error)
        if "truncated" in finding.message:  # the first byte that is not there
            finding = replace(finding, offset=size)
        found.findings.append(finding)
        return None
    count = len(found.findings)
    found.findings += _against(path, header, role)
    file = (
        _GraphFile(path, header, role, workers)
        if header.kind == "graph"
        else _RowsFile(path, header, role, workers)
    )
    try:
        refusal = _refusal(path, header)
        if refusal is None:
            file.check()
        else:
            file.check_refused(refusal)
        found.findings += file.sorted_findings()
    except FormatError as error:  # truncated meanwhile
        found.findings.append(_finding_of(path, error))
    finally:
        file.close()
    return file.sums if len(found.findings) == count else None


def _against(path: str, header: Header, role: Role) -> Iterator[Finding]:
    """The first difference between a header and the manifest."""
    if role.kind not in ("", header.kind):
        message = f"is a {header.kind} file, not a {role.kind} file: build it again"
        yield Finding(path, None, 0, message)
        return
    for name in (name for name in _AT if name in role.header):
        told = role.header[name]
        value = getattr(header, name) & (_FLAGS if name == "flags" else -1)
        if value != told:
            message = f"has {name} {value}, but dataset.json says {told}: build the dataset again"
            yield Finding(path, None, _AT[name], message)
            return


def _refusal(path: str, header: Header) -> Finding | None:
    """What a reader refuses at open."""
    try:
        if header.kind == "features":
            FeatureStore(path).close()
        elif header.flags & FLAG_TYPED:
            Graph._open_typed(path).close()
        else:
            Graph(path).close()
    except FormatError as error:
        found = _finding_of(path, error, header)
        section = header.find("indptr")
        if section is not None and "does not start at 0" in found.message:
            width = DTYPES[section.dtype].itemsize
            with open(path, "rb") as file:
                file.seek(section.offset)
                is_first = any(file.read(width))  # else it is the last entry
            offset = section.offset + (0 if is_first else section.length - width)
            return replace(found, offset=offset)
        return found
    return None


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
        while running:
            first, last, future = running.popleft()
            yield first, last, future.result()

    def first(self, fault: Fault, count: int, step: int = _STEP) -> int:
        """First faulty entry of all, or -1."""
        found = self.in_order(fault, count, step)
        return next((entry for _, _, entry in found if entry >= 0), -1)

    def add_bytes(self, count: int) -> None:
        """So many bytes have been checked."""
        self.num_bytes += count
        self.bar.update(count)


@dataclass(frozen=True)
class _Check:
    """A check of the entries of a section; `needs` are others that it reads.

    Where one of these is faulty, so is its result.
    """

    section: str
    first_fault: Fault
    message: Callable[[int], str]
    needs: tuple[str, ...] = ()


class _File:
    """A file whose header is intact, mapped while it is checked.

    Attributes
    ----------
    found : dict of str to Finding
        By section.
    sums : tuple of int or None
    """

    def __init__(self, path: str, header: Header, role: Role, workers: _Workers) -> None:
        self.path, self.header, self.role, self.workers = path, header, role, workers
        self.found: dict[str, Finding] = {}
        self.sums: _Sums | None = None
        self._file = open(path, "rb")  # noqa: SIM115
        self._map = mmap.mmap(self._file.fileno(), 0, prot=mmap.PROT_READ)
        if hasattr(mmap, "MADV_SEQUENTIAL"):
            self._map.madvise(mmap.MADV_SEQUENTIAL)

    def check(self) -> None:
        """Checks every section."""
        raise NotImplementedError

    def check_refused(self, refusal: Finding) -> None:
        """Checks the checksums of all sections of a file that readers refuse."""
        for section in self.header.sections:
            self.run([section.name])
        name = refusal.section or ""
        if name in self.found:
            refusal = replace(
                refusal, message=f"section '{name}' {_CORRUPT}, and {refusal.message}"
            )
        self.found[name] = refusal

    def sorted_findings(self) -> list[Finding]:
        """In the order of the sections."""
        order = ["", *(section.name for section in self.header.sections)]
        return [self.found[name] for name in order if name in self.found]

    def close(self) -> None:
        """Closes the file, which is unmapped with the last array over it."""
        del self._map
        self._file.close()

    def arrays(self, names: Sequence[str]) -> dict[str, Array]:
        """Views of those of these sections that the file has."""
        found: dict[str, Array] = {}
        for section in map(self.header.find, names):
            if section is not None:
                dtype = DTYPES[section.dtype]
                found[section.name] = (
                    np.frombuffer(self._map, dtype, section.count, section.offset)
                    if section.count
                    else np.empty(0, dtype)
                )
        return found

    def add(self, name: str, entry: int, message: str, lead: str = "") -> None:
        """A fault of an entry of a section."""
        offset = self._offset(name, entry)
        self.found[name] = Finding(self.path, name, offset, f"{lead}{message}: {_AGAIN}")

    def _offset(self, name: str, entry: int) -> int:
        section = self.header.find(name)
        assert section is not None
        return section.offset + entry * DTYPES[section.dtype].itemsize

    def check_size(self) -> None:
        """Raises FormatError if the file has become shorter: to read on would be a SIGBUS."""
        if os.fstat(self._file.fileno()).st_size < self.header.file_bytes:
            raise FormatError(f"{self.path} was truncated while it was being checked")

    def run(
        self,
        names: Sequence[str],
        checks: Sequence[_Check] = (),
        totals: Callable[[int, int], tuple[int, ...]] = lambda begin, end: (),
    ) -> tuple[int, ...]:
        """Reads sections of equally many entries through together.

        Parameters
        ----------
        names : sequence of str
        checks : sequence of _Check
            Each section has at most one.
        totals : callable, optional
            Numbers of a range of entries. Their sums over all ranges, modulo 2^64, are returned.
        """
        arrays = self.arrays(names)
        count = max(map(len, arrays.values()), default=0)
        entry_bytes = max(1, sum(array.itemsize for array in arrays.values()))
        crcs = dict.fromkeys(arrays, 0)
        faults: list[int] = [-1] * len(checks)
        sums: tuple[int, ...] = totals(0, 0)

        def block(begin: int, end: int) -> tuple[list[int], tuple[int, ...]]:
            self.check_size()
            return [check.first_fault(begin, end) for check in checks], totals(begin, end)

        step = max(1, _BLOCK_BYTES // entry_bytes)
        for begin, end, found in self.workers.in_order(block, count, step):
            self.check_size()
            for name, array in arrays.items():
                crcs[name] = zlib.crc32(array[begin:end].view(np.uint8).data, crcs[name])
                self._forget(name, begin, end)
            faults = [new if old < 0 else old for old, new in zip(faults, found[0], strict=True)]
            sums = tuple((a + b) % 2**64 for a, b in zip(sums, found[1], strict=True))
            self.workers.add_bytes((end - begin) * entry_bytes)
        stored = {section.name: section.crc for section in self.header.sections}
        corrupt = [name for name, crc in crcs.items() if stored[name] != crc]
        for name in corrupt:
            self.add(name, 0, f"section '{name}' {_CORRUPT}")
        for check, entry in zip(checks, faults, strict=True):
            is_corrupt = check.section in corrupt
            if entry >= 0 and (is_corrupt or not any(name in self.found for name in check.needs)):
                lead = f"section '{check.section}' {_CORRUPT}, and " if is_corrupt else ""
                self.add(check.section, entry, check.message(entry), lead)
        return sums

    def _forget(self, name: str, begin: int, end: int) -> None:
        """Unmaps pages of entries, which stay in the page cache, so that memory stays small."""
        if hasattr(mmap, "MADV_DONTNEED"):
            first = self._offset(name, begin) // mmap.PAGESIZE * mmap.PAGESIZE
            length = self._offset(name, end) - first
            if length > 0:
                self._map.madvise(mmap.MADV_DONTNEED, first, length)

    def check_tables(self, names: Sequence[str], what: str) -> None:
        """Checks that a table of ids and one of ranks lead to each other, each number once.

        Which of the two is wrong is known where only one of them has each number once. If there is
        only one of them, it is checked alone.
        """
        tables = list(self.arrays(names).items())
        if not tables:
            return
        count, checks = len(tables[0][1]), []
        for (name, table), (other, inverse) in zip(tables, tables[::-1], strict=True):
            if len(tables) == 1:
                fault, how = partial(_core.first_beyond, table, count), f"out of range for {count}"
                text = f"{what}: entry {{}} of '{name}' is {{}}, {how}"
            else:
                fault = partial(_core.first_not_inverse, table, inverse)
                how = f"and '{other}' does not lead back from there"
                text = f"{what}: entry {{}} of '{name}' is {{}}, {how}"
            checks.append(_Check(name, fault, partial(_entry_text, text, table)))

        def totals(begin: int, end: int) -> tuple[int, ...]:
            sums = tuple(_core.sum_ids(table, begin, end) for _, table in tables)
            return (*sums, _core.sum_numbers(begin, end))

        before = set(self.found)
        *sums, numbers = self.run([name for name, _ in tables], checks, totals)
        wrong = {name for (name, _), sum_ in zip(tables, sums, strict=True) if sum_ != numbers}
        if len(tables) == 1:
            ((name, table),) = tables
            if name in wrong and name not in self.found:
                message = f"{what}: '{name}' has a number twice"
                self.add(name, _first_twice(table), message)
            return
        new = {name: self.found[name] for name in self.found if name not in before}
        corrupt = {name for name, finding in new.items() if "checksum" in finding.message}
        keep = corrupt or wrong or {tables[1][0]}
        for name in new.keys() - keep:
            del self.found[name]


def _entry_text(text: str, table: Array, entry: int) -> str:
    return text.format(entry, table[entry])


def _first_twice(table: Array) -> int:
    """First entry with a number that an earlier entry has; takes a byte for each number."""
    seen = np.zeros(len(table), np.bool_)
    for begin in range(0, len(table), _STEP):
        part = table[begin : begin + _STEP]
        firsts = np.zeros(len(part), np.bool_)
        firsts[np.unique(part, return_index=True)[1]] = True
        again = np.flatnonzero(seen[part] | ~firsts)
        if len(again):
            return begin + int(again[0])
        seen[part] = True
    return 0


class _GraphFile(_File):
    """A ``.gl`` file: what its sections say of each other."""

    def check(self) -> None:
        header = self.header
        is_typed = bool(header.flags & FLAG_TYPED)
        self.num_edges, self.num_input = header.width, header.num_input_edges
        self.is_directed = bool(header.flags & FLAG_DIRECTED)
        self.num_neighbors = header.num_neighbors if is_typed else header.num_nodes
        self.per_loop = 1 if self.is_directed else 2  # how often each input edge counts
        self.indptr = indptr = self.arrays(["indptr"])["indptr"]
        self.by_edge = self.arrays(_BY_EDGE)
        self.payload = [name for name in self.role.payload if name in self.by_edge]
        num_edges = self.num_edges

        def overlap(entry: int) -> str:
            return (
                f"the neighbour list of stored node {max(entry - 1, 0)} does not end after its "
                f"beginning, and within {num_edges} edges: 'indptr' has {indptr[entry]} for its end"
            )

        descent = partial(_core.first_descent, indptr, num_edges)
        self.run(["indptr"], [_Check("indptr", descent, overlap)])
        if self.found:  # lists that overlap cannot be checked
            self.run(_BY_EDGE)
        else:
            self._check_edges()
        self.check_tables(["node_ids", "node_rank"], "the stored order of nodes")
        for section in header.sections:
            if section.name not in ("indptr", *_BY_EDGE, "node_ids", "node_rank"):
                self.run([section.name])

    def _lists(self, names: Sequence[str]) -> _core.EdgeLists:
        arrays = {name: self.by_edge[name] for name in names if name in self.by_edge}
        return _core.EdgeLists(self.num_neighbors, {"indptr": self.indptr, **arrays}, self.per_loop)

    def _check_edges(self) -> None:
        is_compared = self.role.has_twin or not self.is_directed
        # what hashes of the edges are of, if there is anything to compare them with
        hashed = None
        if is_compared or "edge_ids" in self.by_edge:
            names = self.payload if is_compared else ["edge_ids"]
            hashed = self._lists(["indices", *names])
        # of a file with a twin, the sums that do not depend on whose ends the lists belong to
        is_incoming = bool(self.header.flags & FLAG_INCOMING)
        forward = is_compared and not (self.is_directed and is_incoming)
        backward = is_compared and not (self.is_directed and not is_incoming)

        def sums(begin: int, end: int) -> tuple[int, ...]:
            return () if hashed is None else hashed.sums(begin, end, forward, backward)

        lists = self._lists(_BY_EDGE)
        totals = self.run(_BY_EDGE, list(self._edge_checks(lists)), sums)
        if hashed is None or any(name in self.found for name in ("indices", *self.payload)):
            return
        self.sums = (totals[0], totals[1], totals[2], totals[3])
        if not self.is_directed and totals[0] != totals[1]:
            self._not_mirrored(lists)
        elif "edge_ids" in self.by_edge:
            if is_compared and "edge_ids" not in self.payload:  # the twin has none
                totals = self._sums_of(self._lists(["indices", "edge_ids"]))
            self._check_edge_ids(totals[2], totals[3])

    def _sums_of(self, lists: _core.EdgeLists) -> tuple[int, ...]:
        found = [sums for _, _, sums in self.workers.in_order(lists.sums, self.num_edges)]
        return tuple(sum(column) % 2**64 for column in zip((0, 0, 0, 0), *found, strict=True))

    def _edge_checks(self, lists: _core.EdgeLists) -> Iterator[_Check]:
        yield _Check("indices", lists.first_unsorted, self._bad_neighbor)
        if "weights" in self.by_edge:
            weights = self.by_edge["weights"]
            text = "the weight of stored edge {} is {}, which is negative or not finite"
            message = partial(_entry_text, text, weights)
            yield _Check("weights", partial(_core.first_bad_weight, weights), message)
            if "cum_weights" in self.by_edge:
                yield _Check("cum_weights", lists.first_bad_sum, self._bad_sum, ("weights",))
        if "time_order" in self.by_edge:
            yield _Check("time_order", lists.first_untimely, self._bad_order, ("times",))
        if "edge_ids" in self.by_edge:
            ids, limit = self.by_edge["edge_ids"], self.num_input
            text = f"stored edge {{}} has the edge id {{}}, out of range for {limit} input edges"
            fault = partial(_core.first_beyond, ids, limit)
            yield _Check("edge_ids", fault, partial(_entry_text, text, ids))

    def _list_of(self, entry: int) -> int:
        return int(np.searchsorted(self.indptr, entry, "right")) - 1

    def _bad_neighbor(self, entry: int) -> str:
        bad = int(self.by_edge["indices"][entry])
        outside = f"has an id out of range for {self.num_neighbors}: {bad}"
        how = outside if bad >= self.num_neighbors else "is not sorted by id"
        return f"the neighbour list of stored node {self._list_of(entry)} {how}"

    def _bad_sum(self, entry: int) -> str:
        return (
            f"'cum_weights' of stored edge {entry} is not the sum of 'weights' in the list of "
            f"stored node {self._list_of(entry)} up to it"
        )

    def _bad_order(self, entry: int) -> str:
        node = self._list_of(entry)
        ids = self.arrays(["node_ids"]).get("node_ids")
        user = node if ids is None else int(ids[node])
        return f"section 'time_order' does not put the edges of node {user} in order of time"

    def _not_mirrored(self, lists: _core.EdgeLists) -> None:
        """The graph is undirected, and both directions of its edges differ."""
        entry = self.workers.first(lists.first_unmirrored, self.num_edges)
        if entry >= 0:
            neighbor = self.by_edge["indices"][entry]
            message = (
                f"stored node {self._list_of(entry)} and its neighbour {neighbor} are not equally "
                f"often in each other's lists, but the graph is undirected"
            )
            self.add("indices", entry, message)
        else:
            names = ", ".join(self.payload)
            message = f"the two directions of an undirected edge differ in one of {names}"
            self.add(self.payload[0], 0, message)

    def _check_edge_ids(self, sum_of_ids: int, loops: int) -> None:
        """Each input edge is there once; undirected twice, and as a self-loop counts twice."""
        count, num_input, often = self.num_edges, self.num_input, self.per_loop
        numbers = self.workers.in_order(_core.sum_numbers, num_input)
        expected = often * sum(sums for _, _, sums in numbers) % 2**64
        if count + (often - 1) * loops == often * num_input and expected == sum_of_ids:
            return
        lists, first = self._lists(["indices", "edge_ids"]), -1
        for low in range(0, num_input, _MOST_COUNTS):  # in bounded memory
            counts = np.zeros(min(_MOST_COUNTS, num_input - low), np.uint8)
            for begin in range(0, count, _STEP):
                lists.count_edge_ids(counts, low, begin, min(begin + _STEP, count))
            if counts.max(initial=0) > often:
                entry = self.workers.first(partial(lists.first_repeated, counts, low, often), count)
                first = entry if first < 0 or 0 <= entry < first else first
        if first >= 0:
            edge, times = self.by_edge["edge_ids"][first], "twice" if often == 2 else "once"
            message = f"the edge id {edge} of stored edge {first} is there more than {times}"
            self.add("edge_ids", first, message)


class _RowsFile(_File):
    """A ``.gd`` file: its rows against what they are for."""

    def check(self) -> None:
        names = [section.name for section in self.header.sections]
        if self.role.is_id_table:
            self._check_id_table(names)
            return
        is_wrong = self._has_wrong_dtype()
        rest = [name for name in names if name not in ("rows", "node_rank")]
        if self.role.ids_of is not None and not is_wrong and "node_rank" in names:
            of = f"the ids of node type {self.role.ids_of!r}"
            self.check_tables(
                ["rows", "node_rank"], f"{of} are not in the order that 'node_rank' says"
            )
        else:
            self.check_tables(["node_rank"], "the stored order of rows")
            self.run(["rows"], [] if is_wrong else [*self._checks_of_rows()])
        for name in rest:
            self.run([name], [*self._checks_of_offsets()] if name == OFFSETS else [])
        if self.header.find(OPTIONS) is not None and not self.found:
            try:
                open_pack(self.path).store.close()
            except FormatError as error:
                finding = _finding_of(self.path, error, self.header)
                self.found[finding.section or ""] = finding

    def _has_wrong_dtype(self) -> bool:
        """Finds rows that cannot be what they are for."""
        role, section = self.role, self.header.find("rows")
        assert section is not None  # a reader has accepted the file
        dtype, is_vector = DTYPES[section.dtype], self.header.flags & FLAG_VECTOR
        wanted: tuple[str, ...] = _IDS if role.ids_of is not None else ()
        wanted = ("<u4",) if role.most is not None or role.descending else wanted
        wanted = ("<i8",) if role.limit is not None else wanted
        if not wanted or (dtype.str in wanted and is_vector):
            return False
        names = " or ".join(dtype_name(np.dtype(name)) for name in wanted)
        shape = "a vector" if is_vector else "rows"
        message = f"has {shape} of {dtype_name(dtype)}, not a vector of {names}: build it again"
        self.found[""] = Finding(self.path, "rows", section.offset, message)
        return True

    def _checks_of_rows(self) -> Iterator[_Check]:
        role, rows = self.role, self.arrays(["rows"])["rows"]
        if role.limit is not None:  # negative ids become large
            fault: Fault = partial(_core.first_beyond, rows.view("<u8"), role.limit)
            text = f"entry {{}} is {{}}, out of range for {role.limit}"
        elif role.most is not None or role.descending:
            most = 2**32 - 1 if role.most is None else role.most
            fault = partial(_first_wrong_count, rows, most, role.descending)
            text = (
                f"entry {{}} counts {{}} visits, more than the entry before or than the {most} "
                f"mini-batches"
            )
        elif (
            role.num_classes is not None
            and rows.dtype.kind in "iu"
            and (self.header.flags & FLAG_VECTOR)
        ):
            classes = role.num_classes
            fault = lambda i, j: _first_of(i, rows[i:j] >= classes)  # noqa: E731
            text = f"entry {{}} has the label {{}}, but there are {classes} classes"
        else:
            return
        yield _Check("rows", fault, partial(_entry_text, text, rows))

    def _checks_of_offsets(self) -> Iterator[_Check]:
        """Of a pack: where batches begin."""
        offsets, num_rows = self.arrays([OFFSETS])[OFFSETS], self.header.num_nodes
        if offsets.dtype.str in _IDS:  # `open_pack` refuses others
            how = f"below the entry before or above {num_rows} rows"
            text = f"entry {{}} of '{OFFSETS}' is {{}}, {how}"
            fault = partial(_core.first_descent, offsets, num_rows)
            yield _Check(OFFSETS, fault, partial(_entry_text, text, offsets))

    def _check_id_table(self, names: Sequence[str]) -> None:
        """Ids ascend, texts are valid UTF-8, and none is empty: what binary searches need."""
        is_text = TEXT in names
        wanted = {"rows": ("<u8",) if is_text else ("<i8", "<u8")}
        wanted |= {TEXT: ("|u1",)} if is_text else {}
        arrays = self.arrays(names)
        wrong = next(
            (name for name, of in wanted.items() if arrays[name].dtype.str not in of), None
        )
        checks: list[_Check] = []
        if wrong is None and self.header.flags & FLAG_VECTOR:
            rows, what = arrays["rows"], "the end of a text" if is_text else "an id"
            text = f"entry {{}}, {what}, is {{}}, which does not follow the entry before"
            fault = partial(first_not_ascending, rows)
            checks = [_Check("rows", fault, partial(_entry_text, text, rows))]
        for name in names:
            self.run([name], checks if name == "rows" else [])
        if wrong is not None:
            dtypes = " or ".join(dtype_name(np.dtype(one)) for one in wanted[wrong])
            found = dtype_name(arrays[wrong].dtype)
            message = f"has ids of {found}, not of {dtypes}: build it again"
            self.found[""] = Finding(self.path, wrong, self._offset(wrong, 0), message)
        elif not checks:
            message = "has no vector of ids: build it again"
            self.found[""] = Finding(self.path, "rows", 0, message)
        elif is_text and not self.found:
            self._check_texts(rows, arrays[TEXT])

    def _check_texts(self, ends: Array, text: Array) -> None:
        """The first fault of the texts, where their ends ascend."""
        count, total = len(ends), len(text)
        last = int(ends[-1]) if count else 0
        if last != total or (count and int(ends[0]) == 0):
            entry = max(0, count - 1) if last != total else 0
            value = ends[entry] if count else 0
            message = f"entry {entry} is {value}: the texts have {total} bytes, and none is empty"
            self.add("rows", entry, message)
            return

        def fault(begin: int, end: int) -> int:
            self.check_size()
            return first_bad_text(ends, text, begin, end)

        node = self.workers.first(fault, count, _TEXTS)
        if node >= 0:
            message = f"the text of node {node} is no valid UTF-8, or not above that of node"
            self.add(TEXT, int(ends[node - 1]) if node else 0, f"{message} {node - 1}")


def _first_of(begin: int, bad: npt.NDArray[np.bool_]) -> int:
    return begin + int(bad.argmax()) if bad.any() else -1


def _first_wrong_count(rows: Array, most: int, descending: bool, begin: int, end: int) -> int:
    bad = rows[begin:end] > most
    if descending:
        first = max(begin, 1)
        bad[first - begin :] |= rows[first:end] > rows[first - 1 : end - 1]
    return _first_of(begin, bad)
