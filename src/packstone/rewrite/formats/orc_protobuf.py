"""Read and write protocol buffers without a schema: a message is the list of its fields, written in the same order.

ORC's footers are such messages. PyArrow exposes little of them and cannot write edited ones, so this small codec does;
unknown fields are kept. A field is (number, wire type, value): an int for a varint, bytes for everything else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

VARINT: Final = 0
FIXED64: Final = 1
BYTES: Final = 2
FIXED32: Final = 5

_FIXED_BYTES: Final = {FIXED64: 8, FIXED32: 4}
_MORE: Final = 0x80
_MAX_VARINT_BITS: Final = 70

Field: TypeAlias = tuple[int, int, int | bytes]
Message: TypeAlias = list[Field]


def read_message(data: bytes) -> Message:
    """Read all fields; ValueError if the bytes are not a message."""
    found: Message = []
    at, end = 0, len(data)
    while at < end:
        head, at = read_varint(data, at)
        number, wire = head >> 3, head & 7
        if wire == VARINT:
            value, at = read_varint(data, at)
            found.append((number, wire, value))
            continue
        size_bytes = _FIXED_BYTES.get(wire, 0)
        if wire == BYTES:
            size_bytes, at = read_varint(data, at)
        elif not size_bytes:
            raise ValueError(f"protocol buffers have no wire type {wire}")
        if at + size_bytes > end:
            raise ValueError("the bytes end within a message")
        found.append((number, wire, bytes(data[at : at + size_bytes])))
        at += size_bytes
    return found


def write_message(fields: Iterable[Field]) -> bytes:
    """The bytes of the fields, in the given order."""
    out = bytearray()
    for number, wire, value in fields:
        write_varint(out, number << 3 | wire)
        if isinstance(value, int):
            write_varint(out, value)
            continue
        if wire == BYTES:
            write_varint(out, len(value))
        out += value
    return bytes(out)


def change_field(data: bytes, number: int, change: Callable[[bytes], bytes]) -> bytes:
    """The message with each value of a bytes field changed."""
    return write_message(
        (field, wire, change(value) if field == number and isinstance(value, bytes) else value)
        for field, wire, value in read_message(data)
    )


def find_int(message: Message, number: int, default: int = 0) -> int:
    """The value of a varint field; the last one if there are several."""
    found = default
    for field, _, value in message:
        if field == number and isinstance(value, int):
            found = value
    return found


def find_all(message: Message, number: int) -> list[bytes]:
    """The values of a repeated field that is bytes, text or messages."""
    return [value for field, _, value in message if field == number and isinstance(value, bytes)]


def read_packed(data: bytes) -> list[int]:
    """Read consecutive varints."""
    found, at = [], 0
    while at < len(data):
        value, at = read_varint(data, at)
        found.append(value)
    return found


def write_packed(values: Iterable[int]) -> bytes:
    """The bytes of consecutive varints."""
    out = bytearray()
    for value in values:
        write_varint(out, value)
    return bytes(out)


def unzigzag(value: int) -> int:
    """Decode a signed number from its zig-zag varint."""
    return value >> 1 ^ -(value & 1)


def zigzag(value: int) -> int:
    """Encode a signed number for a varint."""
    return value << 1 if value >= 0 else (-value << 1) - 1


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Read one number; return it and the offset of its end."""
    value = shift = 0
    while True:
        if at >= len(data) or shift > _MAX_VARINT_BITS:
            raise ValueError("the bytes end within a number")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < _MORE:
            return value, at
        shift += 7


def write_varint(out: bytearray, value: int) -> None:
    """Write one number."""
    while value >= _MORE:
        out.append(value & 0x7F | _MORE)
        value >>= 7
    out.append(value)
