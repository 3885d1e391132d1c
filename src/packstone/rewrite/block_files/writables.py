"""What the values of SequenceFiles and RCFiles say of their own lengths: Hadoop's writables and numbers.

A class is known by its name. Numbers have one size; ``Text`` and ``BytesWritable`` begin with the length of the rest,
which must fill the value exactly, because a reader goes by it. Classes of other people may hold anything.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from packstone.rewrite.block_files.hadoop_values import parse_vlong, vlong_size

Lengths: TypeAlias = npt.NDArray[np.int64]
WritableCheck: TypeAlias = Callable[[bytes, Lengths], None]  # values behind each other, and how long each is

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
_LEAST_ONE_BYTE: Final = -112  # a byte that is not below is a number by itself
_AT_ONCE: Final = 4096  # values whose text is held before it is decoded


def parse_vlongs(data: bytes) -> Lengths:
    """Numbers of variable length that follow each other; ValueError if the last one is cut off."""
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
    """The lengths of values; ValueError if they are not this many, or the values would not fill their part."""
    lengths = parse_vlongs(data)
    if len(lengths) != count:
        raise ValueError(f"it has the lengths of {len(lengths)} records instead of {count}")
    _check_sum(lengths, total)
    return lengths


def check_runs(data: bytes, *, count: int, total: int) -> None:
    """Check the lengths of a column of an RCFile, in which ``~n`` stands for n more of the length before it."""
    numbers = parse_vlongs(data)
    is_run = numbers < 0
    if len(numbers) and is_run[0]:
        raise ValueError("a run of lengths repeats nothing")
    times = np.where(is_run, ~numbers, 1)
    before = np.maximum.accumulate(np.where(is_run, 0, np.arange(len(numbers))))  # of each run, what it repeats
    if times.sum(dtype=object) != count:
        raise ValueError(f"a column has {times.sum(dtype=object)} values instead of {count}")
    lengths = numbers[before]
    _check_sum(lengths, total, times=times)


def writable_check(class_name: str, *, text: bool) -> WritableCheck:
    """How values of a class are checked; ValueError says what is wrong with one."""
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
    # In Python's numbers, which do not overflow, unless they are too small to.
    many = lengths if times is None else lengths.astype(object) * times
    if (many.sum(dtype=object) if len(lengths) else 0) != total:
        raise ValueError("its lengths do not add up to what it holds")


def _check_sizes(_values: bytes, lengths: Lengths, *, size: int) -> None:
    if (lengths != size).any():
        raise ValueError(f"a value has not {size} bytes")


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
        b"\n".join(parts).decode()  # a newline ends any character that is cut off, so each must be whole
    except UnicodeDecodeError:
        raise ValueError("a text is not UTF-8; --accept-invalid-text accepts it") from None


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
