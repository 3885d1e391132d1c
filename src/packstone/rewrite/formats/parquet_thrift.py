"""Read and write Thrift's compact protocol without a schema, byte for byte, including unknown fields.

Parquet's footers and page headers are thrift structs. PyArrow exposes much of them but cannot write an edited one, so
this small codec does. A struct is a dict from field number to (wire type, value); field numbers ascend, as in all
writers. Values are ints, bytes, bools, structs, ``ThriftList`` and, for maps, tuples of pairs. Doubles stay eight
bytes, because they are never used as numbers here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

TRUE: Final = 1
FALSE: Final = 2
I8: Final = 3
I16: Final = 4
I32: Final = 5
I64: Final = 6
DOUBLE: Final = 7
BINARY: Final = 8
LIST: Final = 9
SET: Final = 10
MAP: Final = 11
STRUCT: Final = 12

_LONG_LIST: Final = 15
_VARINT_BITS: Final = 7
_MORE: Final = 0x80
_MAX_SHIFT: Final = 63
_MAX_NUMBER: Final = 0x7FFF
_DOUBLE_BYTES: Final = 8

_ONE_BYTE: Final = [bytes((value,)) for value in range(1 << 7)]

Struct = dict[int, tuple[int, Any]]


@dataclass(frozen=True, slots=True)
class ThriftList:
    """A list or set: the wire type of its items, and the items."""

    kind: int
    items: list[Any]


def read_struct(data: bytes | memoryview, at: int = 0) -> tuple[Struct, int]:
    """Read one struct; return it and the offset of its end. ValueError if the bytes are not a struct."""
    try:
        return _read_struct(data, at)
    except (IndexError, RecursionError) as error:
        raise ValueError("the bytes end within a thrift struct, or are not one") from error


def field_spans(data: bytes) -> dict[int, tuple[int, int]]:
    """Where each field of a struct that ``read_struct`` can read begins and ends, in the order of the fields."""
    found: dict[int, tuple[int, int]] = {}
    at = number = 0
    while head := data[at]:
        begin, kind, at = at, head & 15, at + 1
        if head >> 4:
            number += head >> 4
        else:
            number, at = _read_int(data, at)
        if kind > FALSE:
            _, at = _read_value(data, at, kind)
        found[number] = begin, at
    return found


def write_struct(struct: Struct) -> bytes:
    """The bytes of a struct."""
    out = bytearray()
    _write_struct(out, struct)
    return bytes(out)


def write_number(value: int) -> bytes:
    """The varint of a signed number, as in fields of the types I16, I32 and I64."""
    value = value << 1 if value >= 0 else ~(value << 1)
    if value < 1 << 7:
        return _ONE_BYTE[value]
    if value < 1 << 14:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if value < 1 << 21:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    out = bytearray()
    while value >= _MORE:
        out.append(value & 0x7F | _MORE)
        value >>= _VARINT_BITS
    out.append(value)
    return bytes(out)


def _read_struct(data: bytes | memoryview, at: int) -> tuple[Struct, int]:
    found: Struct = {}
    number = 0
    while head := data[at]:
        at += 1
        kind = head & 15
        if head >> 4:
            number += head >> 4
        else:
            number, at = _read_int(data, at)
        if not (kind and 0 < number <= _MAX_NUMBER):
            raise ValueError("a thrift struct has a field without a type or a number")
        if I16 <= kind <= I64:  # by far the most frequent kinds, so decoded inline
            value = data[at]
            at += 1
            if value >= _MORE:
                value, at = read_varint(data, at - 1)
            found[number] = kind, value >> 1 ^ -(value & 1)
        elif kind <= FALSE:
            found[number] = TRUE, kind == TRUE
        elif kind == STRUCT:
            inner, at = _read_struct(data, at)
            found[number] = kind, inner
        else:
            value, at = _read_value(data, at, kind)
            found[number] = kind, value
    return found, at + 1


def _read_value(data: bytes | memoryview, at: int, kind: int) -> tuple[Any, int]:
    if kind in (I32, I64, I16):
        return _read_int(data, at)
    if kind == BINARY:
        size_bytes, at = read_varint(data, at)
        return _read_bytes(data, at, size_bytes)
    if kind == STRUCT:
        return _read_struct(data, at)
    if kind in (LIST, SET):
        return _read_list(data, at)
    if kind in (TRUE, FALSE):  # in a list a bool is a separate byte
        return data[at] == TRUE, at + 1
    if kind == I8:
        return data[at], at + 1
    if kind == DOUBLE:
        return _read_bytes(data, at, _DOUBLE_BYTES)
    if kind == MAP:
        return _read_map(data, at)
    raise ValueError(f"thrift's compact protocol has no type {kind}")


def _read_bytes(data: bytes | memoryview, at: int, size_bytes: int) -> tuple[bytes, int]:
    if at + size_bytes > len(data):
        raise IndexError
    return bytes(data[at : at + size_bytes]), at + size_bytes


def _read_list(data: bytes | memoryview, at: int) -> tuple[ThriftList, int]:
    head = data[at]
    count, at = head >> 4, at + 1
    if count == _LONG_LIST:
        count, at = read_varint(data, at)
    kind = head & 15
    items: list[Any] = []
    if kind == STRUCT:
        for _ in range(count):
            item, at = _read_struct(data, at)
            items.append(item)
    elif I16 <= kind <= I64:
        for _ in range(count):
            value = data[at]
            at += 1
            if value >= _MORE:
                value, at = read_varint(data, at - 1)
            items.append(value >> 1 ^ -(value & 1))
    else:
        for _ in range(count):
            item, at = _read_value(data, at, kind)
            items.append(item)
    return ThriftList(kind, items), at


def _read_map(data: bytes | memoryview, at: int) -> tuple[tuple[int, list[tuple[Any, Any]]], int]:
    count, at = read_varint(data, at)
    if not count:
        return (0, []), at
    kinds, at = data[at], at + 1
    pairs = []
    for _ in range(count):
        key, at = _read_value(data, at, kinds >> 4)
        value, at = _read_value(data, at, kinds & 15)
        pairs.append((key, value))
    return (kinds, pairs), at


def _read_int(data: bytes | memoryview, at: int) -> tuple[int, int]:
    value = data[at]
    at += 1
    if value >= _MORE:
        value, at = read_varint(data, at - 1)
    return value >> 1 ^ -(value & 1), at


def read_varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """Read a number of seven bits a byte, least first; return it and the offset of its end."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < _MORE:
            return value, at
        shift += _VARINT_BITS
        if shift > _MAX_SHIFT:
            raise ValueError("a number has more than 64 bits")


def _write_struct(out: bytearray, struct: Struct) -> None:
    last = 0
    for number, (kind, value) in struct.items():
        wire = kind if kind > FALSE else TRUE if value else FALSE
        if 0 < number - last <= 15:  # the delta has four bits
            out.append((number - last) << 4 | wire)
        else:
            out.append(wire)
            _write_int(out, number)
        if kind > FALSE:
            _write_value(out, kind, value)
        last = number
    out.append(0)


def _write_value(out: bytearray, kind: int, value: Any) -> None:
    if kind in (I32, I64, I16):
        _write_int(out, value)
    elif kind == BINARY:
        _write_varint(out, len(value))
        out += value
    elif kind == STRUCT:
        _write_struct(out, value)
    elif kind in (LIST, SET):
        _write_list(out, value)
    elif kind in (TRUE, FALSE):
        out.append(TRUE if value else FALSE)
    elif kind == I8:
        out.append(value)
    elif kind == DOUBLE:
        out += value
    elif kind == MAP:
        _write_map(out, *value)
    else:
        raise ValueError(f"thrift's compact protocol has no type {kind}")


def _write_list(out: bytearray, items: ThriftList) -> None:
    if len(items.items) < _LONG_LIST:
        out.append(len(items.items) << 4 | items.kind)
    else:
        out.append(_LONG_LIST << 4 | items.kind)
        _write_varint(out, len(items.items))
    for item in items.items:
        _write_value(out, items.kind, item)


def _write_map(out: bytearray, kinds: int, pairs: list[tuple[Any, Any]]) -> None:
    _write_varint(out, len(pairs))
    if pairs:
        out.append(kinds)
    for key, value in pairs:
        _write_value(out, kinds >> 4, key)
        _write_value(out, kinds & 15, value)


def _write_int(out: bytearray, value: int) -> None:
    _write_varint(out, value << 1 if value >= 0 else (-value << 1) - 1)


def _write_varint(out: bytearray, value: int) -> None:
    while value >= _MORE:
        out.append(value & 0x7F | _MORE)
        value >>= _VARINT_BITS
    out.append(value)
