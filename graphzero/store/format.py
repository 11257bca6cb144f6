"""The ``.gl`` and ``.gd`` formats in pure Python: the twin of ``src/format.c``.

``docs/format.md`` is the table that both implement. `FileWriter` writes the files; C reads them at
run time, `decode_header` and `verify_file` where files change, are copied or verified.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from graphzero.errors import FormatError
from graphzero.store.atomic import StagedFile

Dtype: TypeAlias = np.dtype[Any]

VERSION = 1
# Alignment in files, on every machine; the page size of this machine is mmap.PAGESIZE.
PAGE_BYTES = 4096
MAX_SECTIONS = 62
NAME_BYTES = 16
FLAG_DIRECTED = 1
FLAG_VECTOR = 2
FLAG_INCOMING = 4
FLAG_TYPED = 8
_KNOWN_FLAGS = FLAG_DIRECTED | FLAG_VECTOR | FLAG_INCOMING | FLAG_TYPED
MAGIC = {"graph": b"\x89GZL\r\n\x1a\n", "features": b"\x89GZD\r\n\x1a\n"}
# NumPy has no bfloat16: this dtype holds its bits. ``ml_dtypes`` and torch can compute with it.
BFLOAT16 = np.dtype([("bfloat16", "<u2")])
# By their codes, from 1.
_DTYPES: tuple[npt.DTypeLike, ...] = (
    "<i1",
    "<u1",
    "<i2",
    "<u2",
    "<i4",
    "<u4",
    "<i8",
    "<u8",
    "<f2",
    BFLOAT16,
    "<f4",
    "<f8",
    "?",
)
DTYPES: dict[int, Dtype] = {code: np.dtype(dtype) for code, dtype in enumerate(_DTYPES, start=1)}
_CODES = {dtype: code for code, dtype in DTYPES.items()}
_FIXED = struct.Struct("<8sIIQQQQI4xQ")
_SECTION = struct.Struct("<16sI4xQQQI12x")
_SECTIONS_AT = 64
_CRC_AT = PAGE_BYTES - 4
CHUNK_BYTES = 1 << 20

Progress = Callable[[int], object]


def id_dtype(count: int) -> Dtype:
    """The narrowest id dtype for ids below count: uint32 up to 2^32, else uint64."""
    return np.dtype("<u4") if count <= 1 << 32 else np.dtype("<u8")


def dtype_name(dtype: Dtype) -> str:
    """Name of a dtype for messages, such as "float32" or "bfloat16"."""
    return "bfloat16" if dtype == BFLOAT16 else str(dtype)


def as_dtype(value: npt.DTypeLike) -> Dtype:
    """A dtype of the format, from anything that NumPy takes as a dtype, or the name "bfloat16".

    Raises
    ------
    ValueError
        If the format has no such dtype.
    """
    try:
        dtype = BFLOAT16 if isinstance(value, str) and value == "bfloat16" else np.dtype(value)
    except TypeError:
        raise ValueError(f"{value!r} is not a dtype; use one of {_dtype_names()}") from None
    return DTYPES[dtype_code(BFLOAT16 if dtype.name == "bfloat16" else dtype)]


def _dtype_names() -> str:
    return ", ".join(dtype_name(dtype) for dtype in DTYPES.values())


def dtype_code(dtype: npt.DTypeLike) -> int:
    """Code of a dtype in the section table.

    Raises
    ------
    ValueError
        If the format has no such dtype.
    """
    little = np.dtype(dtype).newbyteorder("<")
    if little not in _CODES:
        raise ValueError(f"dtype {np.dtype(dtype)} cannot be stored; use one of {_dtype_names()}")
    return _CODES[little]


@dataclass(frozen=True)
class Section:
    """One array in a file.

    Attributes
    ----------
    name : str
    dtype : int
        Code of the table in ``docs/format.md``.
    offset, count, length : int
        First byte, elements, bytes.
    crc : int
        CRC-32 of the bytes.
    """

    name: str
    dtype: int
    offset: int
    count: int
    length: int
    crc: int = 0


@dataclass(frozen=True)
class Header:
    """The content of a file's first page.

    Attributes
    ----------
    kind : {"graph", "features"}
    flags : int
    file_bytes, num_nodes : int
    width : int
        Stored edges of a graph, columns of a feature file.
    num_input_edges : int
        Edges of the edge list that a graph was built from.
    sections : tuple of Section
        By ascending offset.
    num_neighbors : int
        With FLAG_TYPED: nodes of the set to which the neighbours belong; else 0.
    """

    kind: str
    file_bytes: int
    sections: tuple[Section, ...]
    num_nodes: int
    width: int
    flags: int = 0
    num_input_edges: int = 0
    num_neighbors: int = 0

    def find(self, name: str) -> Section | None:
        """The section of this name, or None."""
        return next((section for section in self.sections if section.name == name), None)


def encode_header(header: Header) -> bytes:
    """The header page, 4096 bytes, checksum included."""
    if len(header.sections) > MAX_SECTIONS:
        raise ValueError(f"a file has at most {MAX_SECTIONS} sections")
    page = bytearray(PAGE_BYTES)
    _FIXED.pack_into(
        page,
        0,
        MAGIC[header.kind],
        VERSION,
        header.flags,
        header.file_bytes,
        header.num_nodes,
        header.width,
        header.num_input_edges,
        len(header.sections),
        header.num_neighbors,
    )
    for i, section in enumerate(header.sections):
        name = section.name.encode("latin-1")
        if not 0 < len(name) <= NAME_BYTES:
            raise ValueError(f"section name {section.name!r} is not 1 to {NAME_BYTES} bytes long")
        _SECTION.pack_into(
            page,
            _SECTIONS_AT + i * _SECTION.size,
            name,
            section.dtype,
            section.offset,
            section.count,
            section.length,
            section.crc,
        )
    struct.pack_into("<I", page, _CRC_AT, zlib.crc32(page[:_CRC_AT]))
    return bytes(page)


def _check_section(section: Section, lowest_offset: int, file_bytes: int) -> None:
    dtype = DTYPES.get(section.dtype)
    if dtype is None or not section.name:
        raise FormatError("has a section without a known name or dtype")
    if section.length != section.count * dtype.itemsize:
        raise FormatError(
            f"section '{section.name}': {section.length} bytes are not {section.count} elements "
            f"of {dtype.itemsize} bytes"
        )
    if section.offset % PAGE_BYTES or section.offset < lowest_offset:
        raise FormatError(
            f"section '{section.name}' starts at byte {section.offset}, not on a page of its own"
        )
    if section.offset + section.length > file_bytes:
        raise FormatError(f"section '{section.name}' reaches beyond the end of the file")


def decode_header(page: bytes, file_bytes: int | None, kind: str) -> Header:
    """Header from the first page of a file of file_bytes bytes; None if this is not known.

    Raises
    ------
    FormatError
        As the C reader: for all that can be checked without reading the sections.
    """
    if len(page) < PAGE_BYTES:
        raise FormatError("is truncated: it has no whole header page")
    (
        magic,
        version,
        flags,
        size,
        num_nodes,
        width,
        num_input_edges,
        num_sections,
        num_neighbors,
    ) = _FIXED.unpack_from(page)
    if magic != MAGIC[kind]:
        raise FormatError(f"is not a graphzero {kind} file (wrong magic bytes)")
    if version != VERSION:
        raise FormatError(f"has format version {version}, this graphzero reads version {VERSION}")
    if struct.unpack_from("<I", page, _CRC_AT)[0] != zlib.crc32(page[:_CRC_AT]):
        raise FormatError("has a corrupt header (checksum mismatch)")
    if flags & ~_KNOWN_FLAGS:
        raise FormatError("has flags that this graphzero does not know")
    if flags & FLAG_TYPED and kind != "graph":
        raise FormatError("has the flag of an edge type, but no edges")
    if num_neighbors and not flags & FLAG_TYPED:
        raise FormatError(f"has {num_neighbors} neighbours, but not the flag of an edge type")
    if file_bytes is not None and size != file_bytes:
        state = "truncated" if file_bytes < size else "too long"
        raise FormatError(f"is {state}: its header says {size} bytes, it has {file_bytes}")
    if num_sections > MAX_SECTIONS:
        raise FormatError(f"has {num_sections} sections, more than {MAX_SECTIONS}")
    sections: list[Section] = []
    lowest_offset = PAGE_BYTES
    for i in range(num_sections):
        at = _SECTIONS_AT + i * _SECTION.size
        name, dtype, offset, count, length, crc = _SECTION.unpack_from(page, at)
        text = name.split(b"\0")[0].decode("latin-1")
        section = Section(text, dtype, offset, count, length, crc)
        _check_section(section, lowest_offset, size)
        if any(section.name == other.name for other in sections):
            raise FormatError(f"has two sections named '{section.name}'")
        sections.append(section)
        lowest_offset = section.offset + section.length
    return Header(
        kind, size, tuple(sections), num_nodes, width, flags, num_input_edges, num_neighbors
    )


def layout(
    kind: str,
    arrays: Iterable[tuple[str, npt.DTypeLike, int]],
    *,
    num_nodes: int,
    width: int,
    flags: int = 0,
    num_input_edges: int = 0,
    num_neighbors: int = 0,
) -> Header:
    """Header of a file with these arrays (name, dtype, elements); each starts on a new page.

    The other parameters are attributes of `Header`; `num_neighbors` needs FLAG_TYPED.
    """
    sections: list[Section] = []
    end = PAGE_BYTES
    for name, dtype, count in arrays:
        offset = -(-end // PAGE_BYTES) * PAGE_BYTES
        length = count * np.dtype(dtype).itemsize
        sections.append(Section(name, dtype_code(dtype), offset, count, length))
        end = offset + length
    return Header(
        kind, end, tuple(sections), num_nodes, width, flags, num_input_edges, num_neighbors
    )


def vector_layout(count: int, dtypes: Mapping[str, npt.DTypeLike]) -> Header:
    """Header of a ``.gd`` file with vectors of one length, by name: "rows", and others."""
    arrays = [(name, dtype, count) for name, dtype in dtypes.items()]
    return layout("features", arrays, num_nodes=count, width=1, flags=FLAG_VECTOR)


def header_checksum(page: bytes | memoryview) -> int | None:
    """The checksum that a file has of its header page; None if the page is not whole."""
    if len(page) < PAGE_BYTES:
        return None
    checksum: int = struct.unpack_from("<I", page, _CRC_AT)[0]
    return checksum


def read_header(path: str | os.PathLike[str]) -> Header:
    """Header of a ``.gl`` or ``.gd`` file.

    Raises
    ------
    FormatError
        With the path, what is wrong, and where.
    OSError
        If the file cannot be read.
    """
    with open(path, "rb") as file:
        page, size = file.read(PAGE_BYTES), os.fstat(file.fileno()).st_size
    try:
        return decode_header(page, size, "graph" if page[:8] == MAGIC["graph"] else "features")
    except FormatError as error:
        raise FormatError(f"{os.fspath(path)} {error}") from None


def corrupt_sections(
    path: str | os.PathLike[str], header: Header, progress: Progress = lambda _: None
) -> Iterator[Section]:
    """The sections of a file that do not have their checksums.

    Parameters
    ----------
    path : path-like
    header : Header
    progress : callable, optional
        Called with the number of bytes after each piece.
    """
    with open(path, "rb") as file:
        for section in header.sections:
            file.seek(section.offset)
            crc = 0
            for at in range(0, section.length, CHUNK_BYTES):
                chunk = file.read(min(CHUNK_BYTES, section.length - at))
                crc = zlib.crc32(chunk, crc)
                progress(len(chunk))
            if crc != section.crc:
                yield section


def verify_file(path: str | os.PathLike[str], progress: Progress = lambda _: None) -> Header:
    """Reads a whole file and checks the checksum of every section.

    Parameters
    ----------
    path : path-like
    progress : callable, optional
        Called with the number of bytes after each piece.

    Returns
    -------
    Header

    Raises
    ------
    FormatError
        Naming the first section whose checksum does not match.
    """
    header = read_header(path)
    for section in corrupt_sections(path, header, progress):
        raise FormatError(
            f"{path}: section '{section.name}' is corrupt (checksum mismatch): build the file again"
        )
    return header


class FileWriter(StagedFile):
    """Writes a file of a known layout, section by section, in any interleaving.

    Callers that publish several files together use `seal` and `publish`.

    Parameters
    ----------
    path : path-like
    header : Header
        From `graphzero.store.format.layout`.

    Raises
    ------
    OSError
        With errno and path; a full disk is detected here, before anything is written.
    """

    def __init__(self, path: str | os.PathLike[str], header: Header) -> None:
        self.header = header
        self._written = dict.fromkeys((section.name for section in header.sections), 0)
        self._crc = dict(self._written)
        super().__init__(path, header.file_bytes)

    def append(self, name: str, array: npt.ArrayLike) -> None:
        """Appends elements to a section, converting them to its dtype.

        Raises
        ------
        ValueError
            If there are more than the layout has.
        """
        at, section = self._written[name], self.header.find(name)
        assert section is not None
        data = np.ascontiguousarray(array, dtype=DTYPES[section.dtype]).reshape(-1)
        if data.nbytes > section.length - at:
            raise ValueError(f"more than {section.count} elements for section '{name}'")
        view = data.view(np.uint8)
        for begin in range(0, data.nbytes, CHUNK_BYTES):
            chunk = view[begin : begin + CHUNK_BYTES].data
            self._crc[name] = zlib.crc32(chunk, self._crc[name])
            self.write(chunk, section.offset + at + begin)
        self._written[name] += data.nbytes

    def resize(self, num_nodes: int) -> None:
        """Changes the number of rows of a feature file, for writers that do not know it beforehand.

        "rows" must be the last section, and must not be written beyond its new end.
        """
        header, rows = self.header, self.header.sections[-1]
        count = num_nodes * header.width
        length = count * DTYPES[rows.dtype].itemsize
        self.header = replace(
            header,
            num_nodes=num_nodes,
            file_bytes=rows.offset + length,
            sections=(*header.sections[:-1], replace(rows, count=count, length=length)),
        )

    def seal(self) -> None:
        """Writes the header and flushes everything, still under the temporary name.

        Raises
        ------
        ValueError
            If a section is not complete.
        """
        sections = []
        for section in self.header.sections:
            if self._written[section.name] != section.length:
                raise ValueError(f"section '{section.name}' is not complete")
            sections.append(replace(section, crc=self._crc[section.name]))
        self.header = replace(self.header, sections=tuple(sections))
        self.write(encode_header(self.header), 0)
        os.ftruncate(self.fd, self.header.file_bytes)
        super().seal()


@contextmanager
def sealed_file(path: str | os.PathLike[str], header: Header) -> Iterator[FileWriter]:
    """A file that is sealed, not published, when the block ends, and removed if the block raises.

    Parameters
    ----------
    path : path-like
    header : Header
        From `graphzero.store.format.layout`.
    """
    file = FileWriter(path, header)
    try:
        yield file
        file.seal()
    except BaseException:
        file.discard()
        raise
