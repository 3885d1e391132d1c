"""Dictionaries and codes of Parquet: merge dictionary pages, give the codes of a page new numbers.

A dictionary page lists values; data pages refer to them by position (their *code*). One column chunk has one
dictionary, so chunks with dictionaries are joined by merging these in order of first appearance, and by replacing the
codes of every page. No code is turned into its value::

    a.parquet  dictionary [x y]    codes 0 1 0          dictionary [x y z]    codes 0 1 0
    b.parquet  dictionary [y z]    codes 0 1 1    ->                          codes 1 2 2

**Codes** are stored as one byte with their width in bits, then runs. The header of a run is a varint: if it is odd,
``header >> 1`` groups of eight codes follow, packed with the least bit first; if it is even, one code follows that
counts ``header >> 1`` times. Runs, and so the number of codes, stay as they are; only the last group of a page may hold
more codes than there are values, and what it pads with is arbitrary.

**Entries** are merged by PyArrow. Entries of a fixed width are compared as bytes, so that NaN and both zeros keep their
bits. The body of a dictionary page of strings is that of a plain data page, so PyArrow reads all of them as one column
whose dictionary it keeps: cutting them apart by their lengths in Python takes three times as long.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from packstone.rewrite.formats.parquet_checks import MAGIC
from packstone.rewrite.formats.parquet_thrift import (
    BINARY,
    I32,
    I64,
    LIST,
    STRUCT,
    Struct,
    ThriftList,
    read_varint,
    write_struct,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Codes = np.ndarray[Any, np.dtype[Any]]  # integers

_GROUP: Final = 8  # codes that are packed together
_MAX_BITS: Final = 32
_WORD_BITS: Final = 64
_INTEGERS: Final = {4: pa.int32(), 8: pa.int64()}
_BYTE_ARRAY: Final = 6  # the number of the physical type
_MORE: Final = 0x80
_SHORT: Final = tuple(bytes((length << 1,)) for length in range(_MORE // 2))  # headers of short runs
_ODD_OR_LONG: Final = 0x81  # a header that is packed, or longer than a byte


@dataclass(frozen=True, slots=True)
class MergedDictionary:
    """One dictionary for several pages; ``codes[i][c]`` is the new code of the code ``c`` of the page ``i``."""

    entries: pa.Array
    plain: bytes
    codes: tuple[Codes, ...]

    @property
    def bits(self) -> int:
        """The width of any code."""
        return max(0, len(self.entries) - 1).bit_length()

    def bits_of(self, page: int) -> int:
        """The width that the new codes of a page need: the first ones are short."""
        new = self.codes[page]
        return int(new.max()).bit_length() if len(new) else 0


def merge_dictionaries(pages: Sequence[tuple[bytes, int]], *, width_bytes: int) -> MergedDictionary:
    """Merge dictionary pages, each with its number of entries; ``width_bytes`` is 0 for strings.

    ValueError if a page does not hold the number of entries that it states.
    """
    entries = sum(count for _, count in pages)
    found = _encode_fixed(pages, entries, width_bytes) if width_bytes else _encode_strings(pages, entries)
    if len(found) != entries:
        raise ValueError(f"dictionaries hold {len(found)} entries, not {entries}")
    codes = _indices(found)
    plain = _fixed_bytes(found.dictionary, width_bytes) if width_bytes else _string_bytes(found.dictionary)
    if not width_bytes:
        _check_lengths(pages, found.dictionary, codes)
    ends = np.cumsum([count for _, count in pages])[:-1]
    return MergedDictionary(found.dictionary, plain, tuple(np.split(codes, ends)))


def _encode_fixed(pages: Sequence[tuple[bytes, int]], entries: int, width_bytes: int) -> pa.DictionaryArray:
    if any(len(page) != count * width_bytes for page, count in pages):
        raise ValueError("a dictionary page does not hold the number of entries that it states")
    data = pa.py_buffer(b"".join(page for page, _ in pages))
    kind = _INTEGERS.get(width_bytes, pa.binary(width_bytes))
    return pa.Array.from_buffers(kind, entries, [None, data]).dictionary_encode()


def _encode_strings(pages: Sequence[tuple[bytes, int]], entries: int) -> pa.DictionaryArray:
    if not entries:
        return pa.array([], pa.binary()).dictionary_encode()
    with pq.ParquetFile(pa.BufferReader(_as_file(pages, entries)), read_dictionary=["x"]) as file:
        column = file.read(use_threads=False).column(0)
    return column.chunk(0) if column.num_chunks == 1 else column.unify_dictionaries().combine_chunks()


def _as_file(pages: Sequence[tuple[bytes, int]], entries: int) -> bytes:
    """Write dictionary pages of strings as the data pages of a file with one required column."""
    parts = [MAGIC]
    for page, count in pages:
        if count:
            values: Struct = {1: (I32, count), 2: (I32, 0), 3: (I32, 3), 4: (I32, 3)}
            size = I32, len(page)
            parts += write_struct({1: (I32, 0), 2: size, 3: size, 5: (STRUCT, values)}), page
    size_bytes = sum(map(len, parts)) - len(MAGIC)
    chunk: Struct = {
        1: (I32, _BYTE_ARRAY),
        2: (LIST, ThriftList(I32, [0])),
        3: (LIST, ThriftList(BINARY, [b"x"])),
        4: (I32, 0),
        5: (I64, entries),
        6: (I64, size_bytes),
        7: (I64, size_bytes),
        9: (I64, len(MAGIC)),
    }
    columns = ThriftList(STRUCT, [{2: (I64, 0), 3: (STRUCT, chunk)}])
    group: Struct = {1: (LIST, columns), 2: (I64, size_bytes), 3: (I64, entries)}
    schema = [{4: (BINARY, b"s"), 5: (I32, 1)}, {1: (I32, _BYTE_ARRAY), 3: (I32, 0), 4: (BINARY, b"x")}]
    footer: Struct = {
        1: (I32, 1),
        2: (LIST, ThriftList(STRUCT, schema)),
        3: (I64, entries),
        4: (LIST, ThriftList(STRUCT, [group])),
    }
    tail = write_struct(footer)
    return b"".join((*parts, tail, len(tail).to_bytes(4, "little"), MAGIC))


def _fixed_bytes(entries: pa.Array, width_bytes: int) -> bytes:
    if not len(entries):
        return b""
    return memoryview(entries.buffers()[1])[
        entries.offset * width_bytes : (entries.offset + len(entries)) * width_bytes
    ].tobytes()


def _string_bytes(entries: pa.Array) -> bytes:
    """Write each entry as four bytes of length and its bytes."""
    count = len(entries)
    if not count:
        return b""
    ends = np.frombuffer(entries.buffers()[1], np.int32)[entries.offset : entries.offset + count + 1].astype(np.int64)
    begin, end = int(ends[0]), int(ends[-1])
    out = np.empty(end - begin + 4 * count, np.uint8)
    is_text = np.ones(len(out), bool)
    places = ends[:-1] - begin + 4 * np.arange(count)
    lengths = np.diff(ends).astype("<u4").view(np.uint8).reshape(count, 4)
    for at in range(4):
        out[places + at] = lengths[:, at]
        is_text[places + at] = False
    if end > begin:
        out[is_text] = np.frombuffer(entries.buffers()[2], np.uint8)[begin:end]
    return out.tobytes()


def _indices(found: pa.DictionaryArray) -> Codes:
    indices = found.indices
    if not len(indices):
        return np.empty(0, np.uint64)
    # Not by ``to_numpy``, which imports pandas where it is installed.
    return np.frombuffer(indices.buffers()[1], np.int32)[indices.offset : indices.offset + len(indices)].astype(
        np.uint64
    )


def _check_lengths(pages: Sequence[tuple[bytes, int]], entries: pa.Array, codes: Codes) -> None:
    """Raise ValueError if the pages hold other bytes than those of their entries."""
    if not len(codes):
        return
    ends = np.frombuffer(entries.buffers()[1], np.int32)[entries.offset : entries.offset + len(entries) + 1]
    lengths = np.diff(ends).astype(np.int64)[codes.view(np.int64)]
    if sum(len(page) for page, _ in pages) != int(lengths.sum()) + 4 * len(codes):
        raise ValueError("a dictionary page holds more than its entries")


# ---- codes of a page ----


def recode(data: bytes, at: int, new: Codes, *, bits: int, count: Callable[[], int]) -> bytes:
    """Replace the codes at the end of a page's data by their new ones, of ``bits`` width; keep what is before ``at``.

    ``count`` says how many codes are values. ValueError if one of them is not in the dictionary.
    """
    old_bits, begin, end = data[at], at + 1, len(data)
    if old_bits > _MAX_BITS:
        raise ValueError(f"a page has codes of {old_bits} bits")
    head = data[:at] + bytes((bits,))
    if begin == end:
        return head
    short = _recode_short_runs(data, begin, new, old_bits=old_bits, bits=bits)
    if short is not None:
        return head + short
    runs, packed = _read_runs(data, begin, old_bits)
    groups = -sum(length for length, _ in runs if length < 0)
    fresh = b""
    if groups:
        codes = unpack(b"".join(packed), old_bits, groups)
        fresh = pack(_translate(codes, new, runs, count=count), bits)
    if len(runs) == 1 and groups:
        return b"".join((head, _varint(groups << 1 | 1), fresh))
    return head + _join_runs(runs, fresh, new, bits=bits)


def find_codes(data: bytes, at: int, *, count: int) -> Codes:
    """The different codes of the ``count`` values of a page, whose codes begin at ``at``."""
    bits = data[at]
    if bits > _MAX_BITS:
        raise ValueError(f"a page has codes of {bits} bits")
    runs, packed = _read_runs(data, at + 1, bits)
    codes = unpack(b"".join(packed), bits, -sum(length for length, _ in runs if length < 0))
    found = [np.empty(0, np.uint64)]
    begin = 0
    for length, code in runs:
        take = min(count, length if length > 0 else -length * _GROUP)  # the last group may be longer than the values
        count -= take
        if length < 0:
            found.append(codes[begin : begin + take].astype(np.uint64))
            begin -= length * _GROUP
        elif take:
            found.append(np.array([code], np.uint64))
    return np.unique(np.concatenate(found))


def _read_runs(data: bytes, at: int, bits: int) -> tuple[list[tuple[int, int]], list[bytes]]:
    """List the runs as (length, code), or (-groups, 0) for packed ones, adjacent ones as one; and what was packed."""
    runs: list[tuple[int, int]] = []
    packed: list[bytes] = []
    end, code_bytes, groups = len(data), (bits + 7) // 8, 0
    while at < end:
        header = data[at]
        at += 1
        if header >= _MORE:
            header, at = read_varint(data, at - 1)
        if header & 1:
            groups += header >> 1
            size_bytes = (header >> 1) * bits
            part = data[at : at + size_bytes]
            at += size_bytes
            if len(part) < size_bytes:  # some writers do not store the whole last group
                if size_bytes - len(part) >= bits:
                    raise ValueError("a page ends within its codes")
                part += bytes(size_bytes - len(part))
            packed.append(part)
        else:
            if groups:
                runs.append((-groups, 0))
                groups = 0
            if at + code_bytes > end:
                raise ValueError("a page ends within its codes")
            runs.append((header >> 1, int.from_bytes(data[at : at + code_bytes], "little")))
            at += code_bytes
    if groups:
        runs.append((-groups, 0))
    return runs, packed


def _translate(codes: Codes, new: Codes, runs: list[tuple[int, int]], *, count: Callable[[], int]) -> Codes:
    try:
        return new.take(codes if codes.dtype.itemsize < 8 else codes.view(np.int64))
    except IndexError:
        pass
    # Codes beyond the dictionary may only stand where the last group has more codes than there are values.
    left = count() - sum(length for length, _ in runs if length > 0)
    if runs[-1][0] > 0 or left < 0 or not 0 <= len(codes) - left < _GROUP or bool((codes[:left] >= len(new)).any()):
        raise ValueError("a code is beyond the end of the dictionary")
    found = np.zeros(len(codes), new.dtype)
    found[:left] = new.take(codes[:left].astype(np.int64))
    return found


def _join_runs(runs: list[tuple[int, int]], packed: bytes, new: Codes, *, bits: int) -> bytes:
    code_bytes, entries = (bits + 7) // 8, len(new)
    known: dict[int, bytes] = {}  # the bytes of a new code, by the old one
    out: list[bytes] = []
    at = 0
    for length, code in runs:
        if length < 0:
            end = at - length * bits
            out += _varint(-length << 1 | 1), packed[at:end]
            at = end
            continue
        stored = known.get(code)
        if stored is None:
            if code >= entries:
                raise ValueError("a code is beyond the end of the dictionary")
            stored = known[code] = int(new[code]).to_bytes(code_bytes, "little")
        out += _SHORT[length] if length < len(_SHORT) else _varint(length << 1), stored
    return b"".join(out)


def _recode_short_runs(data: bytes, at: int, new: Codes, *, old_bits: int, bits: int) -> bytes | None:
    """Replace the codes of a page that consists of short runs of one code, as sorted columns have; None for others.

    All runs have the same length in bytes, so the header of each one is checked at once.
    """
    old_bytes, code_bytes = (old_bits + 7) // 8, (bits + 7) // 8
    size_bytes = 1 + old_bytes
    if not old_bytes or not code_bytes or (len(data) - at) % size_bytes or data[at] & _ODD_OR_LONG:
        return None
    runs = np.frombuffer(data, np.uint8, len(data) - at, at).reshape(-1, size_bytes)
    if bool((runs[:, 0] & _ODD_OR_LONG).any()):
        return None
    codes = np.zeros((len(runs), 4), np.uint8)
    codes[:, :old_bytes] = runs[:, 1:]
    try:
        found = new.take(codes.view("<u4").ravel())
    except IndexError:
        return None
    out = np.empty((len(runs), 1 + code_bytes), np.uint8)
    out[:, 0] = runs[:, 0]
    out[:, 1:] = found.astype("<u4").view(np.uint8).reshape(-1, 4)[:, :code_bytes]
    return out.tobytes()


def count_level(data: bytes | memoryview, wanted: int, *, bits: int, values: int) -> int:
    """Count how many of the first ``values`` levels, stored in runs of this width, are ``wanted``."""
    whole = bytes(data)
    runs, packed = _read_runs(whole, 0, bits)
    groups = -sum(length for length, _ in runs if length < 0)
    levels = unpack(b"".join(packed), bits, groups)
    found = seen = at = 0
    for length, level in runs:
        take = min(values - seen, length if length > 0 else -length * _GROUP)
        if length > 0:
            found += take if level == wanted else 0
        else:
            found += int((levels[at : at + take] == wanted).sum())
            at -= length * _GROUP
        seen += take
    if seen < values:
        raise ValueError("a page has fewer levels than values")
    return found


def unpack(packed: bytes, bits: int, groups: int) -> Codes:
    """The codes of some groups of eight."""
    if bits == 0:
        return np.zeros(groups * _GROUP, np.uint64)
    if bits == 1:
        return np.unpackbits(np.frombuffer(packed, np.uint8), bitorder="little")
    if bits in (8, 16, 32):
        return np.frombuffer(packed, f"<u{bits // 8}")
    # A code lies within the word that begins with its first byte; short words are faster.
    word = np.dtype("<u2" if bits <= 9 else "<u4" if bits <= 25 else "<u8")
    raw = np.frombuffer(packed + bytes(word.itemsize), np.uint8)
    codes = np.empty((groups, _GROUP), word)
    for at in range(_GROUP):
        begin = at * bits
        words = np.ndarray((groups,), word, raw, begin >> 3, (bits,))
        np.right_shift(words, begin & 7, out=codes[:, at])
    codes &= word.type((1 << bits) - 1)
    return codes.ravel()


def pack(codes: Codes, bits: int) -> bytes:
    """Pack codes, a multiple of eight of them."""
    if bits == 0:
        return b""
    if bits in (8, 16, 32):
        return codes.astype(f"<u{bits // 8}").tobytes()
    if bits > 16:
        return _pack_wide(codes.astype("<u8").reshape(-1, _GROUP), bits)
    # Two, four and eight codes in a word, each twice as long as the previous.
    words = codes.astype("<u2" if bits < _GROUP else "<u4").reshape(-1, _GROUP)
    pairs = words[:, 0::2] | (words[:, 1::2] << bits)
    pairs = pairs.astype("<u4" if bits < _GROUP else "<u8")
    halves = pairs[:, 0::2] | (pairs[:, 1::2] << (2 * bits))
    if bits < _GROUP:
        halves = halves.astype("<u8")
        whole = halves[:, 0] | (halves[:, 1] << (4 * bits))
        return whole.view(np.uint8).reshape(-1, 8)[:, :bits].tobytes()
    out = np.empty((len(words), 2), "<u8")
    out[:, 0] = halves[:, 0] | (halves[:, 1] << (4 * bits))
    out[:, 1] = halves[:, 1] >> (_WORD_BITS - 4 * bits)
    return out.view(np.uint8).reshape(-1, 16)[:, :bits].tobytes()


def _pack_wide(groups: Codes, bits: int) -> bytes:
    out = np.zeros((len(groups), 4), "<u8")  # eight codes take up to four words, and a code lies in one or two of them
    for at in range(_GROUP):
        word, bit = divmod(at * bits, _WORD_BITS)
        out[:, word] |= groups[:, at] << np.uint64(bit)
        if bit + bits > _WORD_BITS:
            out[:, word + 1] |= groups[:, at] >> np.uint64(_WORD_BITS - bit)
    return out.view(np.uint8).reshape(-1, 32)[:, :bits].tobytes()


def _varint(value: int) -> bytes:
    if value < _MORE:
        return bytes((value,))
    out = bytearray()
    while value >= _MORE:
        out.append(value & 0x7F | _MORE)
        value >>= 7
    out.append(value)
    return bytes(out)
