"""Ids as the user has them, checked: integers of 64 bits, or texts."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["MOST_TEXT_BYTES", "BadId", "IdKind", "NotIntegers", "as_integers", "as_texts"]

# How ids are read: "map" takes integers, and texts of integers that say nothing else.
IdKind = Literal["map", "integer", "string"]
MOST_TEXT_BYTES = 4096
_TEXT_TYPES = (pa.types.is_string, pa.types.is_large_string, pa.types.is_dictionary)


class NotIntegers(Exception):
    """Ids that are texts, where integers were tried; with the position of one, and what it is."""

    def __init__(self, at: int, what: str) -> None:
        super().__init__(what)
        self.at = at


class BadId(Exception):
    """An id that cannot be stored; with its position, and what is wrong with it."""

    def __init__(self, at: int, what: str) -> None:
        super().__init__(what)
        self.at = at


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:60]}..."


def _arrow_texts(values: Any) -> pa.Array | None:
    """A column of texts in Arrow's memory; None if it has no texts."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if isinstance(values, pa.Array):
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        is_view = hasattr(pa.types, "is_string_view") and pa.types.is_string_view(values.type)
        if not is_view and not any(is_kind(values.type) for is_kind in _TEXT_TYPES):
            return None
        return values.cast(pa.large_string())
    if values.dtype.kind == "U":
        return pa.array(values.tolist(), pa.large_string())
    return None


def _objects(values: npt.NDArray[Any]) -> Any:
    """An array of objects as texts or as integers, whichever all of them are."""
    listed = values.tolist()
    for at, value in enumerate(listed):
        if isinstance(value, bool) or not isinstance(value, int | str | np.integer):
            raise BadId(at, f"{_shown(value)} is neither an integer nor a text")
        if isinstance(value, str) != isinstance(listed[0], str):
            raise BadId(at, f"{_shown(value)} is not of the kind of {_shown(listed[0])}")
    if listed and isinstance(listed[0], str):
        try:
            return pa.array(listed, pa.large_string())
        except UnicodeEncodeError as error:
            raise BadId(listed.index(error.object), "is no valid Unicode text") from None
    return _from_ints(listed)


def _from_ints(values: list[int]) -> npt.NDArray[Any]:
    """int64 where all of them fit, else uint64."""
    for at, value in enumerate(values):
        if not -(1 << 63) <= value < 1 << 64:
            raise BadId(at, f"{value} does not fit 64 bits")
    wide = any(value >= 1 << 63 for value in values)
    if wide and min(values) < 0:
        at = next(at for at, value in enumerate(values) if value >= 1 << 63)
        raise BadId(at, f"{values[at]} does not fit int64, and others are negative")
    return np.array(values, np.uint64 if wide else np.int64)


def _parsed(texts: pa.Array, *, strict: bool) -> npt.NDArray[Any]:
    """Integers of texts; `strict` refuses texts that are not how an integer is written."""
    numbers: npt.NDArray[Any]
    try:
        try:
            found = pc.cast(texts, pa.int64())
        except pa.ArrowInvalid:
            found = pc.cast(texts, pa.uint64())
        numbers = found.to_numpy(zero_copy_only=False)
        if not strict:
            return numbers
        same = pc.equal(pc.cast(found, pa.large_string()), texts)
        if pc.all(same).as_py() in (True, None):
            return numbers
    except pa.ArrowInvalid:
        pass
    values: list[int] = []
    for at, text in enumerate(texts.to_pylist()):
        digits = text.strip(" \t").removeprefix("-")
        if not (digits.isascii() and digits.isdigit()) or (strict and str(int(text)) != text):
            raise NotIntegers(at, _shown(text))
        if len(digits) > 20:
            raise NotIntegers(at, _shown(text)) if strict else BadId(at, "does not fit 64 bits")
        values.append(int(text))
    try:
        return _from_ints(values)
    except BadId as error:
        if strict:
            raise NotIntegers(error.at, _shown(texts[error.at].as_py())) from None
        raise


def as_integers(values: Any, kind: IdKind) -> npt.NDArray[Any]:
    """Ids of one chunk, int64 or uint64.

    Parameters
    ----------
    values : array
        A chunk of a column of `Column.raw`.
    kind : {"map", "integer"}
        With "map", the text of an integer must be how Python writes it: without leading zeros,
        blanks or a plus, so that different texts are different integers.

    Raises
    ------
    NotIntegers
        If there are texts that are none.
    BadId
        If an id is neither, or does not fit 64 bits.
    """
    texts = _arrow_texts(values)
    if texts is None and isinstance(values, np.ndarray) and values.dtype == object:
        found = _objects(values)
        texts, values = (found, values) if isinstance(found, pa.Array) else (None, found)
    if texts is not None:
        return _parsed(texts, strict=kind == "map")
    if isinstance(values, pa.Array) or values.dtype.kind not in "iu":
        dtype = values.type if isinstance(values, pa.Array) else values.dtype
        raise BadId(0, f"ids have type {dtype}; they must be integers or texts")
    wide = np.uint64 if values.dtype.kind == "u" else np.int64
    integers: npt.NDArray[Any] = values.astype(wide, copy=False)
    return integers


def as_texts(values: Any) -> pa.Array:
    """Ids of one chunk as a large_binary array of UTF-8.

    Raises
    ------
    BadId
        If an id is no text, empty, too long, or begins or ends with a blank.
    """
    if isinstance(values, np.ndarray) and values.dtype == object:
        values = _objects(values)
    texts = _arrow_texts(values)
    if texts is None:
        dtype = values.type if isinstance(values, pa.Array) else values.dtype
        raise BadId(
            0,
            f"its ids have type {dtype}, and others are texts: give all of them as one kind",
        )
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid as error:
        raise BadId(0, f"its ids are no valid UTF-8 ({error})") from None
    lengths = pc.binary_length(texts)
    for wrong, what in (
        (pc.equal(lengths, 0), "an empty text is no id"),
        (
            pc.greater(lengths, MOST_TEXT_BYTES),
            f"the id has more than {MOST_TEXT_BYTES} bytes of UTF-8",
        ),
        (
            pc.not_equal(pc.utf8_trim_whitespace(texts), texts),
            "the id begins or ends with a blank: 'a' and 'a ' would be two nodes; remove the blank",
        ),
    ):
        if pc.any(wrong).as_py():
            at = pc.index(wrong, True).as_py()
            raise BadId(at, f"{_shown(texts[at].as_py())}: {what}")
    return texts.cast(pa.large_binary())
