"""The header in C and in Python: the same bytes, the same refusals."""

from __future__ import annotations

import struct
import zlib
from dataclasses import astuple

import files
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import graphzero as gz
from graphzero import _core
from graphzero.store import format as gz_format
from graphzero.store.format import FileWriter

pytestmark = pytest.mark.core  # under AddressSanitizer, too

# on a machine of any speed
ANY_SPEED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
NAMES = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=16)


@st.composite
def headers(draw):
    kind = draw(st.sampled_from(["graph", "features"]))
    names = draw(st.lists(NAMES, unique=True, max_size=8))
    arrays = [
        (name, draw(st.sampled_from(list(gz_format.DTYPES.values()))), draw(st.integers(0, 10**12)))
        for name in names
    ]
    typed = kind == "graph" and draw(st.booleans())
    return gz_format.layout(
        kind,
        arrays,
        num_nodes=draw(st.integers(0, 2**63 - 1)),
        width=draw(st.integers(0, 2**63 - 1)),
        flags=draw(st.integers(0, 7)) | gz_format.FLAG_TYPED * typed,
        num_input_edges=draw(st.integers(0, 2**63 - 1)),
        num_neighbors=draw(st.integers(0, 2**64 - 1)) if typed else 0,
    )


def as_fields(header):
    fields = {**vars(header), "sections": [astuple(section) for section in header.sections]}
    del fields["kind"]
    return fields


@ANY_SPEED
@given(headers())
def test_c_reads_what_python_writes(header):
    page = gz_format.encode_header(header)
    assert _core.header_decode(page, header.file_bytes, header.kind) == as_fields(header)


@ANY_SPEED
@given(headers())
def test_python_reads_what_c_writes(header):
    page = _core.header_encode(as_fields(header), header.kind)
    assert page == gz_format.encode_header(header)
    assert gz_format.decode_header(page, header.file_bytes, header.kind) == header


def test_sixty_two_sections_fit():
    names = [f"section-{i:08}" for i in range(gz_format.MAX_SECTIONS)]  # 16 bytes
    header = gz_format.layout("graph", [(n, "u1", 0) for n in names], num_nodes=0, width=0)
    page = gz_format.encode_header(header)
    assert _core.header_decode(page, header.file_bytes, "graph") == as_fields(header)


def sealed(page):
    """The page with its checksum made right again: what a hostile writer would do."""
    return page[:4092] + struct.pack("<I", zlib.crc32(page[:4092]))


def both_refuse(page, file_bytes, kind="graph"):
    messages = []
    for decode in (_core.header_decode, gz_format.decode_header):
        with pytest.raises(gz.FormatError) as caught:
            decode(page, file_bytes, kind)
        messages.append(str(caught.value))
    return messages


@pytest.fixture
def page():
    header = gz_format.layout(
        "graph", [("indptr", "<u8", 5), ("indices", "<u4", 6)], num_nodes=4, width=6
    )
    return gz_format.encode_header(header), header.file_bytes


@given(at=st.integers(0, 4095), flip=st.integers(1, 255))
@settings(ANY_SPEED, max_examples=300)
def test_any_changed_byte_is_noticed(at, flip):
    header = gz_format.layout("graph", [("indptr", "<u8", 5)], num_nodes=4, width=0)
    page = bytearray(gz_format.encode_header(header))
    page[at] ^= flip
    both_refuse(bytes(page), header.file_bytes)


HOSTILE = {
    "newer version": (8, "<I", 2, "version 2"),
    "unknown flag": (12, "<I", 1 << 4, "flags"),
    "neighbours without their flag": (56, "<Q", 1, "1 neighbours, but not the flag"),
    "last flag": (12, "<I", 1 << 31, "flags"),
    "other size": (16, "<Q", 1 << 40, "truncated"),
    "too many sections": (48, "<I", 63, "sections"),
    "huge section count": (48, "<I", 0xFFFFFFFF, "sections"),
    "unknown dtype": (64 + 16, "<I", 99, "dtype"),
    "offset off a page": (64 + 24, "<Q", 4097, "page"),
    "offset in the header": (64 + 24, "<Q", 0, "page"),
    "offset beyond the end": (64 + 24, "<Q", (1 << 64) - 4096, "beyond the end"),
    "length that wraps": (64 + 40, "<Q", (1 << 64) - 8, "elements"),
    "count that wraps": (64 + 32, "<Q", (1 << 61) + 5, "elements"),
    "length and count that agree": (64 + 32, "<QQ", (1 << 60, 1 << 63), "beyond the end"),
    "overlapping sections": (128 + 24, "<Q", 4096, "page of its own"),
    "two sections of one name": (128, "16s", b"indptr", "two sections"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_fields_are_refused_even_under_a_right_checksum(page, name):
    content, file_bytes = page
    at, layout, value, part = HOSTILE[name]
    changed = bytearray(content)
    struct.pack_into(layout, changed, at, *(value if isinstance(value, tuple) else (value,)))
    for message in both_refuse(sealed(bytes(changed)), file_bytes):
        assert part in message


def test_rows_of_features_are_no_edge_type():
    header = gz_format.layout("features", [("rows", "<u8", 5)], num_nodes=5, width=1)
    page = bytearray(gz_format.encode_header(header))
    struct.pack_into("<I", page, 12, gz_format.FLAG_TYPED)
    for message in both_refuse(sealed(bytes(page)), header.file_bytes, "features"):
        assert "flag of an edge type, but no edges" in message


def test_writer_and_reader_agree_on_every_dtype(tmp_path):
    arrays = {str(code): np.arange(7).astype(dtype) for code, dtype in gz_format.DTYPES.items()}
    header = gz_format.layout(
        "features", [(n, a.dtype, a.size) for n, a in arrays.items()], num_nodes=0, width=0
    )
    with FileWriter(tmp_path / "all.gd", header) as writer:
        for name, values in reversed(arrays.items()):  # any interleaving
            writer.append(name, values[:3])
            writer.append(name, values[3:3])
            writer.append(name, values[3:])
    _, read = files.read_file(tmp_path / "all.gd")
    for name, values in arrays.items():
        assert read[name].dtype == values.dtype
        np.testing.assert_array_equal(read[name], values)


@pytest.mark.parametrize(("count", "message"), [(5, "more than 4"), (3, "not complete")])
def test_writer_refuses_too_much_and_too_little(tmp_path, count, message):
    header = gz_format.layout("features", [("rows", "<f4", 4)], num_nodes=4, width=1)
    with pytest.raises(ValueError, match=message), FileWriter(tmp_path / "a", header) as writer:
        writer.append("rows", np.zeros(count, np.float32))
    assert list(tmp_path.iterdir()) == []


def test_verify_names_the_corrupt_section(tmp_path):
    path = tmp_path / "g.gl"
    files.write_graph(path, files.random_edges(50, 300), 50)
    seen = []
    header = gz_format.verify_file(path, seen.append)
    assert sum(seen) == sum(section.length for section in header.sections)
    content = bytearray(path.read_bytes())
    content[header.find("indices").offset + 17] ^= 4
    path.write_bytes(content)
    with pytest.raises(gz.FormatError, match=r"g\.gl: section 'indices' is corrupt"):
        gz_format.verify_file(path)


def test_dtypes_that_cannot_be_stored_are_named():
    with pytest.raises(ValueError, match="complex64 cannot be stored"):
        gz_format.layout("features", [("rows", np.complex64, 1)], num_nodes=1, width=1)
