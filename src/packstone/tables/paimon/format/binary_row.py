"""Paimon's serialised row: how keys, partitions and statistics are stored in a manifest.

::

    int32 big-endian  number of fields
    header            row kind (1 byte), then one bit per field that is null, padded to 8 bytes
    8 bytes per field the value little-endian; up to 7 bytes of text inline; else offset << 32 | length
    variable part     longer texts, large decimals, the milliseconds of fine timestamps, padded to 8 bytes

Values are as Arrow stores them: a DATE is the days since 1970, a TIME its milliseconds, a TIMESTAMP a number in the
unit of ``time_unit``, a DECIMAL a Decimal of the type's scale. ``encode_row`` also takes date, time and datetime
objects.
"""

from __future__ import annotations

import decimal
import struct
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Final, TypeAlias

from packstone.errors import CorruptionError, InvalidInputError
from packstone.tables.paimon.format.data_type import DataType, TypeRoot, time_unit

Value: TypeAlias = bool | int | float | str | bytes | Decimal | date | time | datetime | None

_WORD: Final = 8
_INLINE_BYTES: Final = 7  # a text of at most this many bytes is in the fixed part
_INLINE_MARK: Final = 0x80
_COMPACT_DECIMAL: Final = 18  # digits that fit a long
_COMPACT_TIMESTAMP: Final = 3  # fractional digits of milliseconds
_LARGE_DECIMAL_BYTES: Final = 16
_NANOS: Final = {"ms": 1_000_000, "us": 1_000, "ns": 1}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIXED: Final = {
    TypeRoot.BOOLEAN: struct.Struct("<?"),
    TypeRoot.TINYINT: struct.Struct("<b"),
    TypeRoot.SMALLINT: struct.Struct("<h"),
    TypeRoot.INT: struct.Struct("<i"),
    TypeRoot.DATE: struct.Struct("<i"),
    TypeRoot.TIME: struct.Struct("<i"),
    TypeRoot.BIGINT: struct.Struct("<q"),
    TypeRoot.FLOAT: struct.Struct("<f"),
    TypeRoot.DOUBLE: struct.Struct("<d"),
}
_WHOLE: Final = frozenset(_FIXED) - {TypeRoot.FLOAT, TypeRoot.DOUBLE}  # their order is that of their values
_LONG: Final = struct.Struct("<q")
_ARITY: Final = struct.Struct(">i")
_TEXT: Final = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR})
_BINARY: Final = frozenset({TypeRoot.BINARY, TypeRoot.VARBINARY})
_TIMESTAMPS: Final = frozenset({TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})


def encode_row(values: Sequence[Value], types: Sequence[DataType]) -> bytes:
    """Serialise one row byte for byte as Java does; InvalidInputError if a value does not fit its type."""
    if len(values) != len(types):
        raise InvalidInputError(f"A row of {len(types)} columns was given {len(values)} values.")
    header = _header_bytes(len(types))
    fixed = bytearray(header + _WORD * len(types))
    variable = bytearray()
    for index, (value, data_type) in enumerate(zip(values, types, strict=True)):
        if value is None:
            bit = index + _WORD
            fixed[bit // 8] |= 1 << (bit % 8)
        at = header + _WORD * index
        try:
            fixed[at : at + _WORD] = _encode_field(value, data_type, variable, fixed_bytes=len(fixed))
        except (struct.error, TypeError, ValueError, AttributeError, OverflowError, decimal.DecimalException) as error:
            raise InvalidInputError(f"{value!r} is not a value of {data_type}.", value=str(value)) from error
    return _ARITY.pack(len(types)) + bytes(fixed) + bytes(variable)


def decode_row(data: bytes, types: Sequence[DataType]) -> tuple[Value, ...]:
    """Read a serialised row; nested columns are returned as None, because their bytes are not decoded."""
    arity = row_arity(data)
    if arity != len(types):
        raise CorruptionError(f"A serialised row has {arity} fields where {len(types)} are expected.", row=data.hex())
    row = memoryview(data)[_ARITY.size :]
    header = _header_bytes(arity)
    try:
        return tuple(
            None if _is_null(row, index) else _decode_field(row, header + _WORD * index, data_type)
            for index, data_type in enumerate(types)
        )
    except (struct.error, IndexError, ValueError, OverflowError) as error:
        raise CorruptionError(f"A serialised row cannot be read: {error}.", row=data.hex()) from error


def row_arity(data: bytes) -> int:
    """Number of fields of a serialised row."""
    if len(data) < _ARITY.size:
        raise CorruptionError(f"A serialised row of {len(data)} bytes is too short.", row=data.hex())
    arity: int = _ARITY.unpack_from(data)[0]
    if arity < 0 or len(data) < _ARITY.size + _header_bytes(arity) + _WORD * arity:
        raise CorruptionError(f"A serialised row of {len(data)} bytes is cut off.", row=data.hex())
    return arity


def comparable_key(values: Sequence[Value], types: Sequence[DataType]) -> tuple[object, ...]:
    """Make a key whose ``<`` is Paimon's order: nulls first, then each type as Java compares it."""
    return tuple(
        (0,) if value is None else (1, _comparable(storage_value(value, data_type), data_type))
        for value, data_type in zip(values, types, strict=True)
    )


def key_reader(types: Sequence[DataType]) -> Callable[[bytes], tuple[object, ...]]:
    """Make the function that turns a serialised key into something with Paimon's order.

    Planning a million files calls it two million times, so keys of integers and texts without a null take a fast path:
    one check that the row begins as such a key must, then each field at its known offset.
    """
    kinds = tuple(types)

    def read(data: bytes) -> tuple[object, ...]:
        return comparable_key(decode_row(data, kinds), kinds)

    if not all(kind.root in _WHOLE or kind.root in _TEXT for kind in kinds):
        return read
    begin = _ARITY.pack(len(kinds)) + bytes(_header_bytes(len(kinds)))
    whole_bytes = len(begin) + _WORD * len(kinds)
    fields = tuple(_field_reader(kind, len(begin) + _WORD * at) for at, kind in enumerate(kinds))

    def read_plain(data: bytes) -> tuple[object, ...]:
        if len(data) < whole_bytes or not data.startswith(begin):
            return read(data)
        try:
            return tuple([(1, field(data)) for field in fields])
        except (struct.error, ValueError, IndexError):
            return read(data)  # raises an error that says what is wrong

    return read_plain


def _field_reader(data_type: DataType, at: int) -> Callable[[bytes], object]:
    """Return a function that reads one non-null field of a complete serialised row."""
    if data_type.root in _WHOLE:
        unpack = _FIXED[data_type.root].unpack_from
        return lambda data: unpack(data, at)[0]

    def read_text(data: bytes) -> str:
        length = data[at + _INLINE_BYTES]
        if length & _INLINE_MARK:
            return data[at : at + (length & 0x7F)].decode()
        return _slice(memoryview(data)[_ARITY.size :], _LONG.unpack_from(data, at)[0]).decode()

    return read_text


def storage_value(value: Value, data_type: DataType) -> Value:
    """Turn date, time and datetime objects into the numbers that Arrow stores; return other values unchanged."""
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=UTC)
        return (moment - _EPOCH) // timedelta(microseconds=1) * 1000 // _NANOS[time_unit(data_type)]
    if isinstance(value, date):
        return value.toordinal() - _EPOCH.toordinal()
    if isinstance(value, time):
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1000 + value.microsecond // 1000
    return value


def _header_bytes(arity: int) -> int:
    return (arity + 63 + _WORD) // 64 * _WORD


def _is_null(row: memoryview, index: int) -> bool:
    bit = index + _WORD
    return bool(row[bit // 8] >> (bit % 8) & 1)


def _encode_field(value: Value, data_type: DataType, variable: bytearray, *, fixed_bytes: int) -> bytes:
    """The eight bytes of the fixed part; longer values are appended to the variable part."""
    root, offset = data_type.root, fixed_bytes + len(variable)
    if root in _TIMESTAMPS and (data_type.precision or 0) > _COMPACT_TIMESTAMP:
        millis, nanos = divmod(_nanos(value, data_type), 1_000_000)
        variable += _LONG.pack(millis)  # Java reserves the space for a null too
        return _LONG.pack(offset << 32 | nanos)
    if root is TypeRoot.DECIMAL and (data_type.precision or 0) > _COMPACT_DECIMAL:
        digits = b"" if value is None else _signed_bytes(_unscaled(value, data_type))
        variable += digits.ljust(_LARGE_DECIMAL_BYTES, b"\0")
        return _LONG.pack(offset << 32 | len(digits))
    if value is None:
        return bytes(_WORD)
    if root in _FIXED:
        return _FIXED[root].pack(storage_value(value, data_type)).ljust(_WORD, b"\0")
    if root in _TIMESTAMPS:
        return _LONG.pack(_nanos(value, data_type) // 1_000_000)
    if root is TypeRoot.DECIMAL:
        return _LONG.pack(_unscaled(value, data_type))
    return _encode_bytes(_raw_bytes(value, data_type), variable, offset)


def _encode_bytes(raw: bytes, variable: bytearray, offset: int) -> bytes:
    if len(raw) <= _INLINE_BYTES:
        return raw.ljust(_INLINE_BYTES, b"\0") + bytes([_INLINE_MARK | len(raw)])
    variable += raw.ljust(-(-len(raw) // _WORD) * _WORD, b"\0")
    return _LONG.pack(offset << 32 | len(raw))


def _raw_bytes(value: Value, data_type: DataType) -> bytes:
    if data_type.root in _TEXT and isinstance(value, str):
        return value.encode()
    if data_type.root in _BINARY and isinstance(value, bytes):
        return value
    raise TypeError


def _nanos(value: Value, data_type: DataType) -> int:
    if value is None:
        return 0
    stored = storage_value(value, data_type)
    if not isinstance(stored, int):
        raise TypeError
    return stored * _NANOS[time_unit(data_type)]


def _unscaled(value: Value, data_type: DataType) -> int:
    """The exact unscaled integer of a decimal."""
    if not isinstance(value, Decimal | int):
        raise TypeError
    sign, digits, exponent = Decimal(value).as_tuple()
    shift = int(exponent) + (data_type.scale or 0)
    number = int("".join(map(str, digits)))
    whole, rest = (number * 10**shift, 0) if shift >= 0 else divmod(number, 10**-shift)
    if rest or whole >= 10 ** (data_type.precision or 0):
        raise ValueError
    return -whole if sign else whole


def _signed_bytes(number: int) -> bytes:
    bits = number.bit_length() if number >= 0 else (~number).bit_length()
    return number.to_bytes(bits // 8 + 1, "big", signed=True)


def _decode_field(row: memoryview, at: int, data_type: DataType) -> Value:
    root = data_type.root
    if root in _FIXED:
        value: Value = _FIXED[root].unpack_from(row, at)[0]
        return value
    word: int = _LONG.unpack_from(row, at)[0]
    if root in _TIMESTAMPS:
        if (data_type.precision or 0) <= _COMPACT_TIMESTAMP:
            return word
        nanos = _LONG.unpack_from(row, word >> 32)[0] * 1_000_000 + (word & 0xFFFFFFFF)
        return int(nanos // _NANOS[time_unit(data_type)])
    if root is TypeRoot.DECIMAL:
        large = (data_type.precision or 0) > _COMPACT_DECIMAL
        number = int.from_bytes(_slice(row, word), "big", signed=True) if large else word
        return Decimal(number).scaleb(-(data_type.scale or 0), _EXACT)
    if root in _TEXT or root in _BINARY:
        length = row[at + _INLINE_BYTES]
        raw = bytes(row[at : at + (length & 0x7F)]) if length & _INLINE_MARK else _slice(row, word)
        return raw.decode() if root in _TEXT else raw
    return None


_EXACT: Final = decimal.Context(prec=80)


def _slice(row: memoryview, word: int) -> bytes:
    start, length = word >> 32, word & 0xFFFFFFFF
    raw = bytes(row[start : start + length])
    if start < 0 or len(raw) != length:
        raise ValueError("a value reaches beyond the row")
    return raw


def _comparable(value: Value, data_type: DataType) -> object:
    if isinstance(value, float) or data_type.root in {TypeRoot.FLOAT, TypeRoot.DOUBLE}:
        return _java_float_order(float(value))  # type: ignore[arg-type]
    return value


def _java_float_order(value: float) -> int:
    """An integer that orders floats as Java's compare does: -0.0 before 0.0 and NaN after everything."""
    if value != value:  # noqa: PLR0124 - true for NaN only
        return 2**63
    bits: int = struct.unpack("<q", struct.pack("<d", value))[0]
    return bits if bits >= 0 else -(bits & 0x7FFF_FFFF_FFFF_FFFF) - 1
