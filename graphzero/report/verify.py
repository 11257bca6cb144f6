"""`verify`: reads files through, and finds every fault that their formats let it find."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tqdm import tqdm

from graphzero.errors import FormatError
from graphzero.graph.features import FeatureStore
from graphzero.graph.graph import Graph
from graphzero.graph.ids import as_threads
from graphzero.graph.opening import open_dataset
from graphzero.packs.pack_file import OPTIONS, open_pack
from graphzero.packs.pack_parts import pack_files
from graphzero.report.checks.blocks import CORRUPT, CheckedFile, Group, Workers, run_group
from graphzero.report.checks.edge_counts import EdgeTotals
from graphzero.report.checks.finding import Finding, finding_of_error
from graphzero.report.checks.graph_file import PAYLOAD, check_graph
from graphzero.report.checks.roles import (
    GraphRole,
    Role,
    RowsRole,
    find_difference,
    roles_of,
)
from graphzero.report.checks.rows_file import check_rows
from graphzero.store.atomic import is_staging_name
from graphzero.store.format import DTYPES, FLAG_TYPED, Header, read_header
from graphzero.store.manifest import MANIFEST_NAME, read_manifest
from graphzero.store.tuning_file import TUNING_NAME

__all__ = ["FileReport", "Verification", "verify", "verify_path"]


@dataclass(frozen=True)
class FileReport:
    """What the check of one file gave.

    Attributes
    ----------
    path : str
    num_bytes : int
    findings : tuple of Finding
    totals : EdgeTotals or None
        Hashes of its edges.
    """

    path: str
    num_bytes: int
    findings: tuple[Finding, ...]
    totals: EdgeTotals | None = None


@dataclass
class Verification:
    """What the check of a file or a folder gave.

    Attributes
    ----------
    path : str
    files : list of FileReport
    findings : list of Finding
        Of all files, and of the folder as a whole.
    notes : list of str
        What is no fault, but may surprise.
    num_bytes : int
        Bytes of sections that were read.
    seconds : float
    """

    path: str
    files: list[FileReport] = field(default_factory=list)
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
    with bar, Workers(as_threads(num_threads), bar.update) as workers:
        if Path(path).is_dir():
            _check_folder(Path(path), found, workers, bar)
        else:
            first, *others = _with_parts(Path(path))
            bar.reset(first.stat().st_size)
            _note(found, _check_file(os.fspath(first), None, workers))
            for file in others:
                _check_part(file, found, workers)
        found.num_bytes = workers.num_bytes
    found.seconds = time.perf_counter() - start
    return found


def _note(found: Verification, report: FileReport) -> None:
    found.files.append(report)
    found.findings += report.findings


# ---- one file


def _with_parts(path: Path) -> list[Path]:
    """All files of a pack, from its first; else the file alone."""
    try:
        return pack_files(path) if read_header(path).find(OPTIONS) is not None else [path]
    except FormatError:  # which the check of the file says
        return [path]


def _check_part(path: Path, found: Verification, workers: Workers) -> None:
    """A file that may be missing, because another one names it."""
    if path.exists():
        _note(found, _check_file(os.fspath(path), None, workers))
    else:
        message = f"is missing, but {found.path} names it: pack the dataset again"
        found.findings.append(Finding(os.fspath(path), None, 0, message))


def _check_file(
    path: str, role: Role | None, workers: Workers, payload: Sequence[str] = PAYLOAD
) -> FileReport:
    size = os.stat(path).st_size
    try:
        header = read_header(path)
    except FormatError as error:
        finding = finding_of_error(path, error)
        if "truncated" in finding.message:  # the first byte that is not there
            finding = Finding(path, None, size, finding.message)
        return FileReport(path, size, (finding,))
    findings = list(_against(path, header, role))
    file = CheckedFile(path, header)
    totals = None
    try:
        refusal = _refusal(path, header)
        if refusal is not None:
            findings += _refused(file, refusal, workers)
        elif header.kind == "graph":
            result = check_graph(file, workers, payload, has_twin=_has_twin(role))
            findings += result.findings
            totals = result.totals
        else:
            rows = role if isinstance(role, RowsRole) else RowsRole()
            findings += check_rows(file, rows, workers)
            findings += _check_pack(path, header) if not findings else ()
    except FormatError as error:  # truncated meanwhile
        findings.append(finding_of_error(path, error))
    finally:
        file.close()
    return FileReport(path, size, tuple(findings), totals)


def _against(path: str, header: Header, role: Role | None) -> Iterator[Finding]:
    """Differences between a header and the manifest."""
    if role is None:
        return
    kind = "graph" if isinstance(role, GraphRole) else "features"
    if header.kind != kind:
        yield Finding(path, None, 0, f"is a {header.kind} file, not a {kind} file: build it again")
        return
    difference = find_difference(header, role)
    if difference is not None:
        yield Finding(path, None, *difference)


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
        found = finding_of_error(path, error, header)
        offset = found.offset
        if found.section == "indptr" and "does not start at 0" in found.message:
            offset = _wrong_end(path, header)
        return replace(found, offset=offset)
    return None


def _refused(file: CheckedFile, refusal: Finding, workers: Workers) -> Iterator[Finding]:
    """What a reader refuses, and the checksums of all sections."""
    whole = True
    for section in file.header.sections:
        for finding in run_group(file, Group([section.name]), workers).findings.values():
            if section.name == refusal.section:
                text = f"section '{section.name}' {CORRUPT}, and {refusal.message}"
                yield replace(refusal, message=text)
                whole = False
            else:
                yield finding
    if whole:
        yield refusal


def _wrong_end(path: str, header: Header) -> int:
    """First byte of the first entry of 'indptr', if this is not 0; else of the last."""
    section = header.find("indptr")
    assert section is not None
    width = DTYPES[section.dtype].itemsize
    with open(path, "rb") as file:
        file.seek(section.offset)
        first = file.read(width)
    return section.offset + (0 if any(first) else section.length - width)


def _check_pack(path: str, header: Header) -> tuple[Finding, ...]:
    if header.find(OPTIONS) is None:
        return ()
    try:
        open_pack(path).store.close()
    except FormatError as error:
        return (finding_of_error(path, error, header),)
    return ()


# ---- a folder


def _check_folder(folder: Path, found: Verification, workers: Workers, bar: tqdm[object]) -> None:
    try:
        manifest = read_manifest(folder)
    except FormatError as error:
        found.findings.append(finding_of_error(str(folder / MANIFEST_NAME), error))
        return
    files = [(entry.resolve(folder), role) for entry, role in roles_of(manifest)]
    bar.reset(sum(path.stat().st_size for path, _ in files if path.exists()))
    common = _common_payload([path for path, role in files if _has_twin(role)])
    pair: list[FileReport] = []
    for path, role in files:
        if not path.exists():
            message = f"is missing, but {MANIFEST_NAME} names it: build the dataset again"
            found.findings.append(Finding(str(path), None, 0, message))
            continue
        payload: Sequence[str] = role.payload if isinstance(role, GraphRole) else ()
        payload = [name for name in payload if name in common or not _has_twin(role)]
        report = _check_file(str(path), role, workers, payload)
        _note(found, report)
        if _has_twin(role):
            pair.append(report)
    _compare_directions(found, pair)
    if not found.findings:
        try:
            open_dataset(folder).close()  # also finds intact files that do not belong together
        except FormatError as error:
            found.findings.append(finding_of_error(str(folder), error))
    _note_others(folder, {path.name for path, _ in files}, found)


def _has_twin(role: Role | None) -> bool:
    return isinstance(role, GraphRole) and role.has_twin


def _common_payload(paths: list[Path]) -> set[str]:
    """Names of the sections that both of two graph files have."""
    try:
        headers = [read_header(path) for path in paths]
    except (OSError, FormatError):
        return set()  # the check of the file reports it
    names = [{section.name for section in header.sections} for header in headers]
    return set.intersection(*names) if names else set()


def _compare_directions(found: Verification, pair: list[FileReport]) -> None:
    """Both files must have the same edges: in the one, owners of lists are targets."""
    if len(pair) != 2 or any(report.totals is None or report.findings for report in pair):
        return
    incoming, outgoing = pair
    assert incoming.totals is not None
    assert outgoing.totals is not None
    if incoming.totals.backward != outgoing.totals.forward:
        header = read_header(outgoing.path)
        section = header.find("indices")
        assert section is not None
        message = (
            f"{incoming.path} and {outgoing.path} are not of the same edges: build the dataset "
            f"again"
        )
        found.findings.append(Finding(outgoing.path, "indices", section.offset, message))


def _note_others(folder: Path, names: set[str], found: Verification) -> None:
    for path in sorted(folder.iterdir()):
        if path.name in names or path.name in (MANIFEST_NAME, TUNING_NAME):
            continue
        if is_staging_name(path.name):
            found.notes.append(f"{path} is left from an interrupted build: the next removes it")
        else:
            found.notes.append(f"{path} is not checked: {MANIFEST_NAME} does not name it")
