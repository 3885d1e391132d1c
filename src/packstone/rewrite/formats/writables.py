"""Check the lengths of values in SequenceFiles and RCFiles, and read the values in the headers of Hadoop's files.

Hadoop's own classes (writables) are identified by their name. Numbers have a fixed size; ``Text`` and
``BytesWritable`` begin with the length of the rest, which must fill the value exactly, because readers rely on it.
Values of other classes may hold anything.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from packstone.rewrite.formats.block_format import ByteSource


Lengths: TypeAlias = npt.NDArray[np.int64]
WritableCheck: TypeAlias = Callable[[bytes, Lengths], None]  # concatenated values, and the length of each

_PACKAGE: Final = "org.apache.hadoop.io."
_SIZES: Final = {
    "NullWritable": 0,
    "BooleanWritable": 1,
    "ByteWritable": 1,
    "ShortWritable": 2,
    "IntWritable": 4,
    "FloatWritable": 4,
    "LongWritable": 8,
    "DoubleWritable": 8,
    "MD5Hash": 16,
}
_INT: Final = struct.Struct(">i")
_LEAST_ONE_BYTE: Final = -112  # a byte of at least this value is a whole number
_AT_ONCE: Final = 4096  # values whose text is collected before it is decoded


def parse_vlongs(data: bytes) -> Lengths:
    """Parse concatenated numbers of variable length; ValueError if the last one is cut off."""
    single = np.frombuffer(data, dtype=np.int8)
    if (single >= _LEAST_ONE_BYTE).all():
        return single.astype(np.int64)
    numbers, at = [], 0
    while at < len(data):
        end = at + vlong_size(data[at])
        numbers.append(parse_vlong(data[at:end]))
        at = end
    if at != len(data):
        raise ValueError("a number is cut off")
    try:
        return np.array(numbers, dtype=np.int64)
    except OverflowError:
        raise ValueError("a number is longer than 8 bytes") from None


def parse_lengths(data: bytes, *, count: int, total: int) -> Lengths:
    """Parse ``count`` lengths of values; ValueError if there are more or fewer, or their sum is not ``total``."""
    lengths = parse_vlongs(data)
    if len(lengths) != count:
        raise ValueError(f"it has the lengths of {len(lengths)} records instead of {count}")
    _check_sum(lengths, total)
    return lengths


def check_runs(data: bytes, *, count: int, total: int) -> None:
    """Check the lengths of a column of an RCFile, in which ``~n`` means n more of the previous length."""
    numbers = parse_vlongs(data)
    is_run = numbers < 0
    if len(numbers) and is_run[0]:
        raise ValueError("a run of lengths repeats nothing")
    times = np.where(is_run, ~numbers, 1)
    before = np.maximum.accumulate(np.where(is_run, 0, np.arange(len(numbers))))  # the number that each run repeats
    if times.sum(dtype=object) != count:
        raise ValueError(f"a column has {times.sum(dtype=object)} values instead of {count}")
    lengths = numbers[before]
    _check_sum(lengths, total, times=times)


def writable_check(class_name: str, *, text: bool) -> WritableCheck:
    """The function that checks values of a class; its ValueError says what is wrong with one."""
    name = class_name.removeprefix(_PACKAGE) if class_name.startswith(_PACKAGE) else ""
    if name in _SIZES:
        return partial(_check_sizes, size=_SIZES[name])
    match name:
        case "Text":
            return partial(_check_texts, text=text)
        case "BytesWritable":
            return _check_bytes
        case "VIntWritable" | "VLongWritable":
            return _check_numbers
        case _:
            return lambda _values, _lengths: None


def _check_sum(lengths: Lengths, total: int, *, times: Lengths | None = None) -> None:
    if len(lengths) and lengths.min() < 0:
        raise ValueError("a length is negative")
    # Summed as Python's numbers, which do not overflow.
    many = lengths if times is None else lengths.astype(object) * times
    if (many.sum(dtype=object) if len(lengths) else 0) != total:
        raise ValueError("its lengths do not add up to its size")


def _check_sizes(_values: bytes, lengths: Lengths, *, size: int) -> None:
    if (lengths != size).any():
        raise ValueError(f"a value does not have {size} bytes")


def _check_texts(values: bytes, lengths: Lengths, *, text: bool) -> None:
    end, parts = 0, []
    for length in lengths.tolist():
        at, end = end, end + length
        if not length:
            raise ValueError("a text has no length")
        begin = at + vlong_size(values[at])
        if begin > end or parse_vlong(values[at:begin]) != end - begin:
            raise ValueError("a text has another length than its value")
        if text:
            parts.append(values[begin:end])
            if len(parts) >= _AT_ONCE:
                _decode(parts)
                parts = []
    _decode(parts)


def _decode(parts: list[bytes]) -> None:
    try:
        b"\n".join(parts).decode()  # a newline breaks a truncated character, so each text must be valid
    except UnicodeDecodeError:
        raise ValueError("a text is not UTF-8; --set accept-invalid-text=true accepts it") from None


def _check_bytes(values: bytes, lengths: Lengths) -> None:
    at = 0
    for length in lengths.tolist():
        if length < _INT.size or _INT.unpack_from(values, at)[0] != length - _INT.size:
            raise ValueError("bytes have another length than their value")
        at += length


def _check_numbers(values: bytes, lengths: Lengths) -> None:
    at = 0
    for length in lengths.tolist():
        if not length or vlong_size(values[at]) != length:
            raise ValueError("a number has another length than its value")
        at += length


# ---- values in headers ----

SYNC_ESCAPE = b"\xff\xff\xff\xff"  # a length of -1: a marker follows instead of a record

_LENGTH = struct.Struct(">i")
_MAX_TEXT_BYTES = 1 << 20
_MAX_METADATA = 10_000
_ONE_BYTE = -112  # a first byte of at least this value is a whole number
_NEGATIVE = -120  # a first byte below this value starts a negative number


def read_int(source: ByteSource) -> int:
    """Read a number of four bytes, big-endian."""
    return int(_LENGTH.unpack(source.take(_LENGTH.size))[0])


def vlong_size(first: int) -> int:
    """The size in bytes of a number of variable length, by its first byte (0 to 255), which is included."""
    signed = first - 256 if first > 127 else first  # Java's bytes have signs
    if signed >= _ONE_BYTE:
        return 1
    return _ONE_BYTE - signed + 1 if signed >= _NEGATIVE else _NEGATIVE - signed + 1


def parse_vlong(written: bytes) -> int:
    """Parse a number of variable length from exactly its bytes."""
    first = written[0] - 256 if written[0] > 127 else written[0]  # Java's bytes have signs
    if len(written) == 1:
        return first
    value = int.from_bytes(written[1:], "big")
    return ~value if first < _NEGATIVE else value


def read_vlong(source: ByteSource) -> tuple[int, bytes]:
    """Read a number of variable length; return it and its bytes."""
    written = source.take(vlong_size(source.window()[0]))
    return parse_vlong(written), written


def read_text(source: ByteSource) -> str:
    """Read a text that is preceded by its length."""
    size, _ = read_vlong(source)
    if not 0 <= size <= _MAX_TEXT_BYTES:
        raise source.damaged("its header cannot be read")
    return source.take(size).decode("utf-8", "replace")


def read_flag(source: ByteSource) -> bool:
    """Read a flag: one byte, 0 or 1."""
    flag = source.take(1)
    if flag not in (b"\0", b"\1"):
        raise source.damaged("its header cannot be read")
    return flag == b"\1"


def read_metadata(source: ByteSource) -> dict[str, str]:
    """Read pairs of texts, preceded by their number."""
    count = read_int(source)
    if not 0 <= count <= _MAX_METADATA:
        raise source.damaged("its header cannot be read")
    pairs = ((read_text(source), read_text(source)) for _ in range(count))
    return dict(pairs)
