"""`from_plain`: dataclasses from the plain values of JSON, each checked against its annotation."""

from __future__ import annotations

import types
from dataclasses import MISSING, fields
from functools import cache
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

__all__ = ["from_plain"]

_T = TypeVar("_T")
_MOST = 2**63  # no figure is larger, and none is negative
_NAMES = {type(None): "null", bool: "true or false", list: "a list", dict: "an object"}


def from_plain(kind: type[_T], value: object, required: frozenset[str]) -> _T:
    """The dataclass that `asdict` has made plain values of, nested ones included.

    Parameters
    ----------
    kind : type
        A dataclass of texts, numbers, None, tuples, dicts and dataclasses.
    value : object
        As `json.loads` gives it.
    required : frozenset of str
        Fields that must be there although they have a default, as ``"Class.field"``.

    Raises
    ------
    ValueError
        If a value is not of its type, out of range, missing or unknown: its place, and why.
    """
    found: _T = _made(kind, value, "", required)
    return found


def _made(kind: Any, value: Any, where: str, required: frozenset[str]) -> Any:
    if kind in (str, bool):
        return _checked(kind, value, where)
    if kind in (int, float):
        return _number(kind, value, where)
    origin, parts = get_origin(kind), get_args(kind)
    if origin is types.UnionType:  # something or None
        return None if value is None else _made(parts[0], value, where, required)
    if origin is tuple:
        items = enumerate(_checked(list, value, where))
        return tuple(_made(parts[0], each, f"{where}[{i}]", required) for i, each in items)
    found = _checked(dict, value, where)
    if origin is dict:
        return {
            _key(parts[0], key, where): _made(parts[1], each, f"{where}[{key!r:.80}]", required)
            for key, each in found.items()
        }
    return _fields(kind, found, where, required)


def _fields(kind: Any, found: dict[str, Any], where: str, required: frozenset[str]) -> Any:
    kinds, optional = _fields_of(kind)
    lead = f"{where}." if where else ""
    for name in kinds:
        is_required = name not in optional or f"{kind.__name__}.{name}" in required
        if is_required and name not in found:
            raise ValueError(f"{lead}{name} is missing")
    for name in found:
        if name not in kinds:
            raise ValueError(f"{lead}{name!r:.80} is no field of it")
    return kind(
        **{name: _made(kinds[name], each, lead + name, required) for name, each in found.items()}
    )


@cache
def _fields_of(kind: Any) -> tuple[dict[str, Any], frozenset[str]]:
    """The annotations of a dataclass, and the fields that have a default."""
    defaults = (
        field.name
        for field in fields(kind)
        if field.default is not MISSING or field.default_factory is not MISSING
    )
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}, frozenset(defaults)


def _number(kind: type, value: Any, where: str) -> Any:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if not is_whole and (kind is int or not isinstance(value, float)):
        raise ValueError(_is(value, where, "a whole number" if kind is int else "a number"))
    if not 0 <= value <= _MOST:
        raise ValueError(f"{where} is out of range: {value!r:.80}")
    return value


def _checked(kind: type[_T], value: Any, where: str) -> _T:
    if not isinstance(value, kind):
        raise ValueError(_is(value, where, _NAMES.get(kind, "a text")))
    return value


def _key(kind: type, key: str, where: str) -> str | int:
    if kind is str:
        return key
    if not (key.isascii() and key.isdecimal() and len(key) < 20):
        raise ValueError(f"{where} has {key!r:.80} in place of a whole number")
    return int(key)


def _is(value: object, where: str, wanted: str) -> str:
    shown = _NAMES.get(type(value)) if value is None or isinstance(value, list | dict) else None
    return f"{where or 'it'} is {shown or f'{value!r:.80}'}, not {wanted}"
