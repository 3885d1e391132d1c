"""Sort keys as bytes of a fixed width whose order is the order of the keys, so that comparing them needs no types.

Each column gives a flag, 0 for null (nulls come first), and its value: integers and times in big-endian order with the
sign bit flipped, floats in Java's order (-0.0 before 0.0, NaN last), decimals as sixteen bytes, strings padded with
zeros and followed by their length, which distinguishes `a` from `a` and a zero byte.

Strings longer than 64 bytes are cut, and a key ends after a column with such strings; so the order of keys is kept, but
different keys may become equal. A search for "at least" and "at most" then finds too much, never too little.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

if TYPE_CHECKING:
    from collections.abc import Iterator

Keys = np.ndarray[Any, np.dtype[np.bytes_]]  # NumPy's bytes of a fixed width compare as unsigned bytes do
_Rows = np.ndarray[Any, np.dtype[np.uint8]]  # one row of bytes for each key

MAX_STRING_BYTES = 64
_LENGTH_BYTES = 4
_DECIMAL_BYTES = 16
_NOT_NULL = b"\x01"
LOWEST, HIGHEST = 0x00, 0xFF


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyColumn:
    """The encoding of one column: the bytes of its value, and for strings whether some are cut."""

    kind: pa.DataType
    width: int
    is_cut: bool = False

    @property
    def total_width(self) -> int:
        """Bytes including the flag and the length of a string."""
        return 1 + self.width + (_LENGTH_BYTES if is_bytes(self.kind) and not self.is_cut else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyLayout:
    """The encodings of the columns of a key, the most significant first; at least one."""

    columns: tuple[KeyColumn, ...]

    @property
    def width(self) -> int:
        """Bytes of a key."""
        return sum(column.total_width for column in self.columns)

    def encode(self, columns: Sequence[pa.Array]) -> Keys:
        """Encode the keys of rows; columns after those of the layout are ignored."""
        parts = [_encode(column, how) for column, how in zip(columns, self.columns, strict=False)]
        rows = np.ascontiguousarray(np.concatenate(parts, axis=1))
        return rows.view(f"S{self.width}").ravel()

    def encode_bound(self, values: Sequence[pa.Scalar | None], *, fill: int, skip_nulls: bool = False) -> Keys:
        """The smallest or largest key, as ``fill`` says, that begins with these values; None is a null.

        With ``skip_nulls``, the smallest one whose next column is not null.
        """
        parts = [
            _encode(_one(value, how, fill), how).tobytes() for value, how in zip(values, self.columns, strict=False)
        ]
        key = b"".join(parts) + (_NOT_NULL if skip_nulls else b"")
        return np.frombuffer(key[: self.width].ljust(self.width, bytes([fill])), dtype=f"S{self.width}")


def find_layout(columns: Sequence[Sequence[pa.Array]]) -> KeyLayout | None:
    """The layout of keys of these columns, each given as the arrays of its values; None if none can be encoded."""
    found = tuple(_columns(columns))
    return KeyLayout(columns=found) if found else None


def is_bytes(kind: pa.DataType) -> bool:
    """Whether values are strings or binaries of any length."""
    return bool(pt.is_string(kind) or pt.is_binary(kind) or pt.is_large_string(kind) or pt.is_large_binary(kind))


def next_prefix(prefix: bytes) -> bytes | None:
    """The smallest string above all with this prefix; None if the prefix is empty or has only the highest bytes."""
    kept = prefix.rstrip(bytes([HIGHEST]))
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None


def to_ordered(*columns: Any) -> list[np.ndarray[Any, Any]] | None:
    """Columns of one type, without nulls, as NumPy arrays in the order of the values; long strings may become equal.

    None for a type that cannot be encoded. 0.0 and -0.0 are equal here, as in a filter; in sort keys they differ.
    """
    arrays = [column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column for column in columns]
    kind = arrays[0].type
    if pt.is_floating(kind):
        arrays = [pc.add(array, pa.scalar(0.0, kind)) for array in arrays]
    layout = find_layout([arrays])
    if layout is None:
        return None
    if is_bytes(kind) or pt.is_decimal(kind):
        return [layout.encode([array]) for array in arrays]
    return [_to_numbers(array) for array in arrays]


def _columns(columns: Sequence[Sequence[pa.Array]]) -> Iterator[KeyColumn]:
    for arrays in columns:
        kind = arrays[0].type
        if is_bytes(kind):
            longest = max((pc.max(pc.binary_length(array)).as_py() or 0 for array in arrays), default=0)
            yield KeyColumn(kind=kind, width=min(longest, MAX_STRING_BYTES), is_cut=longest > MAX_STRING_BYTES)
            if longest > MAX_STRING_BYTES:
                return
        elif pt.is_decimal128(kind):
            yield KeyColumn(kind=kind, width=_DECIMAL_BYTES)
        elif pt.is_boolean(kind):
            yield KeyColumn(kind=kind, width=1)
        elif pt.is_signed_integer(kind) or pt.is_float32(kind) or pt.is_float64(kind) or _is_time(kind):
            yield KeyColumn(kind=kind, width=kind.bit_width // 8)
        else:
            return


def _is_time(kind: pa.DataType) -> bool:
    return bool(pt.is_date(kind) or pt.is_timestamp(kind) or pt.is_time(kind))


def _one(value: pa.Scalar | None, how: KeyColumn, fill: int) -> pa.Array:
    """A column of one value. 0.0 and -0.0 are equal in a filter, so a bound takes the outer one."""
    if value is None:
        return pa.nulls(1, how.kind)
    if pt.is_floating(how.kind) and value.as_py() == 0:
        value = pa.scalar(-0.0 if fill == LOWEST else 0.0, how.kind)
    return pa.repeat(value, 1)


def _encode(column: pa.Array, how: KeyColumn) -> _Rows:
    """Flag and value of each row; the bytes after the flag of a null are zeros, so that nulls are equal."""
    parts = [np.ones((len(column), 1), dtype=np.uint8)]
    if is_bytes(how.kind):
        parts += _string_bytes(column, how)
    elif pt.is_decimal(how.kind):
        parts.append(_decimal_bytes(column))
    else:
        parts.append(_number_bytes(column, how.width))
    rows = np.concatenate(parts, axis=1)
    if column.null_count:
        rows[column.is_null().to_numpy(zero_copy_only=False)] = 0
    return rows


def _number_bytes(column: pa.Array, width: int) -> _Rows:
    if pt.is_boolean(column.type):
        return _to_numbers(column).astype(np.uint8).reshape(-1, 1)
    values = _to_numbers(column)
    flipped = values.view(f"u{width}") ^ np.array(1 << (width * 8 - 1), dtype=f"u{width}")
    return flipped.astype(f">u{width}").view(np.uint8).reshape(-1, width)


def _to_numbers(column: pa.Array) -> np.ndarray[Any, Any]:
    """Numbers, times and booleans as signed integers in the same order; nulls have arbitrary values."""
    kind = column.type
    if pt.is_boolean(kind):
        return column.fill_null(fill_value=False).to_numpy(zero_copy_only=False).astype(np.int8)
    bits = kind.bit_width
    width = bits // 8
    values = np.frombuffer(column.buffers()[1] or b"", f"i{width}", count=len(column), offset=column.offset * width)
    if not pt.is_floating(kind):
        return values
    floats = values.view(f"f{width}")
    values = np.where(np.isnan(floats), np.array(np.nan, floats.dtype), floats).view(values.dtype)
    # The low bits of a negative float are its magnitude: the larger they are, the smaller the number, so flip them.
    return values ^ ((values >> (bits - 1)) & values.dtype.type((1 << (bits - 1)) - 1))


def _decimal_bytes(column: pa.Array) -> _Rows:
    size = _DECIMAL_BYTES
    raw = np.frombuffer(column.buffers()[1] or b"", np.uint8, count=len(column) * size, offset=column.offset * size)
    rows = raw.reshape(-1, size)[:, ::-1].copy()
    rows[:, 0] ^= 0x80
    return rows


def _string_bytes(column: pa.Array, how: KeyColumn) -> Iterator[_Rows]:
    is_large = pt.is_large_string(column.type) or pt.is_large_binary(column.type)
    binary = column.cast(pa.large_binary() if is_large else pa.binary()).fill_null(b"")
    if how.width:
        zeros = pa.scalar(bytes(how.width), binary.type)
        filled = pc.binary_join_element_wise(pc.binary_slice(binary, 0, how.width), zeros, pa.scalar(b"", binary.type))
        cut = pc.binary_slice(filled, 0, how.width)
        yield np.frombuffer(cut.buffers()[2], np.uint8, count=len(cut) * how.width).reshape(-1, how.width)
    if not how.is_cut:
        lengths = pc.binary_length(binary).to_numpy(zero_copy_only=False).astype(">u4")
        yield lengths.view(np.uint8).reshape(-1, _LENGTH_BYTES)
