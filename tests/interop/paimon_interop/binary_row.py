"""Paimon's binary rows, read by the rules of the format: keys, partitions and statistics in manifests.

Written for the tests alone, from the format's description, so that a mistake of Packstone's codec is not repeated here.
Values come in one comparable form: integers for everything that counts (dates in days, times in milliseconds,
timestamps in nanoseconds), ``Decimal``, ``bytes``, ``str``, ``float``, ``bool``.
"""

import re
import struct
from decimal import Decimal
from typing import Any

FIXED = {"BOOLEAN": "<?", "TINYINT": "<b", "SMALLINT": "<h", "INT": "<i", "INTEGER": "<i", "BIGINT": "<q"}
FIXED |= {"FLOAT": "<f", "DOUBLE": "<d", "DATE": "<i", "TIME": "<i"}
COMPACT_DECIMAL_DIGITS = 18
COMPACT_TIMESTAMP_DIGITS = 3
INLINE_FLAG = 0x80


def decode(data: bytes, types: list[str]) -> list[Any]:
    """The values of a serialised row; its first four bytes are the number of fields."""
    (arity,) = struct.unpack_from(">i", data)
    assert arity == len(types), f"a row of {arity} fields where {len(types)} were expected"
    row = data[4:]
    nulls = ((arity + 63 + 8) // 64) * 8
    return [None if is_null(row, at) else field(row, nulls + 8 * at, types[at]) for at in range(arity)]


def is_null(row: bytes, at: int) -> bool:
    """The first byte is the row's kind, then comes one bit for each field."""
    bit = at + 8
    return bool(row[bit // 8] & (1 << (bit % 8)))


def field(row: bytes, offset: int, sql_type: str) -> Any:
    """One field that is not null."""
    name, digits, scale = parse_type(sql_type)
    if name in FIXED:
        return struct.unpack_from(FIXED[name], row, offset)[0]
    if name == "DECIMAL":
        return decimal(row, offset, digits=digits, scale=scale)
    if name.startswith("TIMESTAMP"):
        return timestamp(row, offset, digits=digits)
    value = variable(row, offset)
    return value.decode() if name in {"STRING", "CHAR", "VARCHAR"} else value


def decimal(row: bytes, offset: int, *, digits: int, scale: int) -> Decimal:
    """A long of its digits, or, if they are too many, their bytes in the variable part."""
    if digits <= COMPACT_DECIMAL_DIGITS:
        (unscaled,) = struct.unpack_from("<q", row, offset)
    else:
        unscaled = int.from_bytes(pointed(row, offset), "big", signed=True)
    sign, figures, _ = Decimal(unscaled).as_tuple()
    return Decimal((sign, figures, -scale))  # exact; `scaleb` would round to 28 digits


def timestamp(row: bytes, offset: int, *, digits: int) -> int:
    """Milliseconds; with more digits they are in the variable part, and the nanoseconds where the length would."""
    (word,) = struct.unpack_from("<Q", row, offset)
    if digits <= COMPACT_TIMESTAMP_DIGITS:
        return struct.unpack_from("<q", row, offset)[0] * 10**6
    (millis,) = struct.unpack_from("<q", row, word >> 32)
    return millis * 10**6 + (word & 0xFFFFFFFF)


def variable(row: bytes, offset: int) -> bytes:
    """At most seven bytes stand inline, with the length and a flag in the last byte."""
    last = row[offset + 7]
    if last & INLINE_FLAG:
        return row[offset : offset + (last & 0x7F)]
    return pointed(row, offset)


def pointed(row: bytes, offset: int) -> bytes:
    """Bytes of the variable part, by offset and length."""
    (word,) = struct.unpack_from("<Q", row, offset)
    start, length = word >> 32, word & 0xFFFFFFFF
    return row[start : start + length]


def parse_type(sql_type: str) -> tuple[str, int, int]:
    """Name, precision and scale: ``DECIMAL(20, 2) NOT NULL`` gives DECIMAL, 20, 2."""
    found = re.match(r"(\w+)(?:\((\d+)(?:,\s*(\d+))?\))?", sql_type)
    assert found, sql_type
    name, digits, scale = found.groups()
    unset = {"DECIMAL": 10, "TIMESTAMP": 6, "TIMESTAMP_LTZ": 6}.get(name, 0)
    return name, int(digits) if digits is not None else unset, int(scale or 0)
