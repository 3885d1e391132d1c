"""A digest of all rows in their order, at the speed of the machine's SHA instructions.

A merge that keeps the order of its rows can be proved by a digest that depends on the order: stronger than a multiset
fingerprint (it covers the order too) and three to four times as fast, because each column's bytes go through one native
hash in long runs instead of a dozen vector operations per value. Where rows are sorted again, ``fingerprint`` is used.

The digest must not depend on how the rows are split into batches, so only what is independent of it is hashed, for each
column (and each child of a nested one) with its own hashers:

- one byte for each row, 1 for a value and 0 for a null (nothing if the column has no nulls at all);
- the bytes of the values that are not null, one after another (bits of booleans as bytes);
- for strings, binaries, lists and maps the lengths, separately from their content: ["ab", "c"] is not ["a", "bc"].

Bytes in the slots of nulls never count. -0.0 and 0.0 differ, and so do two NaN of different bits: a rewrite keeps bits.
Types and names are compared elsewhere, as schemas.

``by_entry`` is a second definition, for columns that have a dictionary on one side at least, and for machines whose
CPU has no SHA instructions. There a string or binary counts as a *token* of 64 bits (``hash_entries``), so that an
array of codes needs one token for each dictionary entry and a lookup for each row, whatever the number of bytes. The
result does not depend on whether, or with which dictionary, a column was read. And bytes go through ``StreamDigest``
instead of SHA-256. A digest is comparable only with a digest of the same definition.

Files whose bytes are copied are proved by their bytes (``are_equal_parts``): those of the output are compared with
those of the inputs, which is exact, and one side is digested, for the record that a later check of the output needs.
"""

from __future__ import annotations

import hashlib
import itertools
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
from pyarrow import types

from packstone.errors import UnfaithfulError
from packstone.model.unit import Fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from packstone.rewrite.proof.value_hash import I64, U64

Part: TypeAlias = tuple["memoryview | bytes", int]  # bytes, and the rows that begin in them

_DIGEST_BYTES = 16
_BLOCK_ROWS: Final = 1 << 13  # tokens of a block fit the cache, and a block is too small for fresh pages of memory
_ALL_VALID: Final = np.ones(1 << 16, np.uint8)


def digest_batches(batches: Iterable[pa.RecordBatch]) -> Fingerprint:
    """Digest the rows of all batches, in order."""
    columns: list[ColumnDigest] = []
    rows = 0
    for batch in batches:
        if not columns:
            columns = [ColumnDigest() for _ in range(batch.num_columns)]
        for column, array in zip(columns, batch.columns, strict=True):
            column.update((array,))
        rows += batch.num_rows
    whole = hashlib.sha256(rows.to_bytes(8, "little"))
    # No rows, no columns: files without a single batch and files with empty ones must agree.
    for column in columns if rows else ():
        column.finish(whole)
    return _fingerprint_of(whole.digest(), rows=rows)


class PartsDigest:
    """Digests the parts that pass through it, with an object of ``hashlib``."""

    def __init__(self, digest: Any) -> None:
        self._rows, self._digest = 0, digest

    def update(self, parts: Iterable[Part]) -> Iterator[Part]:
        """Yield the parts that are given."""
        for part in parts:
            self._digest.update(part[0])
            self._rows += part[1]
            yield part

    def finish(self) -> Fingerprint:
        """Return the number of rows and the digest."""
        return _fingerprint_of(self._digest.digest(), rows=self._rows)


def digest_parts(parts: Iterable[Part], digest: Any) -> Fingerprint:
    """Digest bytes that arrive in parts, in order, with an object of ``hashlib``."""
    whole = PartsDigest(digest)
    for _ in whole.update(parts):
        pass
    return whole.finish()


def are_equal_parts(before: Iterable[Part], after: Iterable[Part]) -> bool:
    """Whether bytes that arrive in parts, cut in any way, are the same."""
    rest = iter(after)
    other, at = pa.py_buffer(b""), 0
    for data, _ in before:
        wanted, done = pa.py_buffer(data), 0
        while done < wanted.size:
            if at == other.size:
                found = next(rest, None)
                if found is None:
                    return False
                other, at = pa.py_buffer(found[0]), 0
                continue
            size = min(wanted.size - done, other.size - at)
            if not wanted.slice(done, size).equals(other.slice(at, size)):
                return False
            done, at = done + size, at + size
    return at == other.size and not any(len(data) for data, _ in rest)


def _fingerprint_of(digest: bytes, *, rows: int) -> Fingerprint:
    return Fingerprint(
        rows=rows, lo=int.from_bytes(digest[:8], "little"), hi=int.from_bytes(digest[8:_DIGEST_BYTES], "little")
    )


class ColumnDigest:
    """The hashers of one column, or of one child of a nested column."""

    __slots__ = ("_by_entry", "_children", "_lengths", "_nulls", "_rows", "_unseen", "_values")

    def __init__(self, *, by_entry: bool = False) -> None:
        self._by_entry = by_entry
        self._rows = self._unseen = 0  # _unseen: the last rows, which have no null and are not in ``_nulls`` yet
        new: Callable[[], Any] = StreamDigest if by_entry else hashlib.sha256
        self._nulls, self._values, self._lengths = new(), new(), new()
        self._children: list[ColumnDigest] = []

    @property
    def rows(self) -> int:
        """The number of values so far, with nulls."""
        return self._rows

    def update(self, arrays: Sequence[pa.Array]) -> None:
        """Add the next values; the more at once, the fewer dictionaries are hashed."""
        found = [_plain(array, keeps_codes=self._by_entry) for array in arrays if len(array)]
        if not found:
            return
        for array in found:
            self._add_nulls(array)
        kind = found[0].type
        if types.is_struct(kind):
            parts = [array.flatten() for array in found]
            self._pass_on([[part[at] for part in parts] for at in range(kind.num_fields)])
            return
        valid = [without_nulls(array) if array.null_count else array for array in found]
        self._take([array for array in valid if len(array)])

    def finish(self, whole: Any) -> None:
        """Add everything to one hash, in a fixed order."""
        whole.update(self._rows.to_bytes(8, "little"))
        if self._unseen < self._rows:
            self._add_valid(self._unseen)
        for part in (self._nulls, self._values, self._lengths):
            whole.update(part.digest())
        whole.update(len(self._children).to_bytes(4, "little"))
        for child in self._children:
            child.finish(whole)

    def _add_nulls(self, array: pa.Array) -> None:
        self._rows += len(array)
        if not array.null_count:
            self._unseen += len(array)
            return
        self._add_valid(self._unseen)
        self._unseen = 0
        if types.is_null(array.type):
            self._nulls.update(bytes(len(array)))
            return
        self._nulls.update(_bits(array.buffers()[0], array.offset, len(array)))

    def _add_valid(self, rows: int) -> None:
        for begin in range(0, rows, len(_ALL_VALID)):
            self._nulls.update(_ALL_VALID[: rows - begin].data)

    def _take(self, arrays: list[pa.Array]) -> None:
        """Hash values without nulls."""
        if not arrays or types.is_null(arrays[0].type):
            return
        kind = arrays[0].type
        if types.is_dictionary(kind) or (self._by_entry and _is_bytes(kind)):
            self._take_entries(arrays)
        elif types.is_map(kind):
            self._take_lists([(array.offsets, (array.keys, array.items)) for array in arrays])
        elif types.is_list(kind) or types.is_large_list(kind):
            self._take_lists([(array.offsets, (array.values,)) for array in arrays])
        elif types.is_fixed_size_list(kind):
            self._pass_on([[array.flatten() for array in arrays]])
        else:
            for array in arrays:
                self._take_values(array)

    def _take_values(self, array: pa.Array) -> None:
        kind = array.type
        if types.is_boolean(kind):
            self._values.update(_bits(array.buffers()[1], array.offset, len(array)))
        elif _is_bytes(kind):
            content, places = _content_of(array)
            self._lengths.update(np.diff(places).astype("<u4").tobytes())
            self._values.update(content[int(places[0]) : int(places[-1])])
        else:
            width_bytes = kind.bit_width // 8
            begin = array.offset * width_bytes
            self._values.update(memoryview(array.buffers()[1])[begin : begin + len(array) * width_bytes])

    def _take_lists(self, lists: list[tuple[pa.Array, tuple[pa.Array, ...]]]) -> None:
        parts = []
        for offsets, contents in lists:
            places = _integers(offsets)
            self._lengths.update(np.diff(places).astype("<u4").tobytes())
            begin, end = int(places[0]), int(places[-1])
            parts.append([content.slice(begin, end - begin) for content in contents])
        self._pass_on([[part[at] for part in parts] for at in range(len(parts[0]))])

    def _take_entries(self, arrays: list[pa.Array]) -> None:
        """Hash the token of each value: the tokens of all dictionaries at once, and a lookup for each code."""
        for is_coded, same in itertools.groupby(arrays, key=lambda array: types.is_dictionary(array.type)):
            if not is_coded:
                for array in same:
                    self._values.update(hash_entries((array,)))
                continue
            coded = list(same)
            used = [array.dictionary for array in coded]
            different = {_place_of(entries): entries for entries in used}  # batches of a row group often share one
            ends = np.cumsum([len(entries) for entries in different.values()])[:-1]
            tokens = dict(zip(different, np.split(hash_entries(list(different.values())), ends), strict=True))
            for array, entries in zip(coded, used, strict=True):
                mine, codes = tokens[_place_of(entries)], _integers(array.indices)
                for begin in range(0, len(codes), _BLOCK_ROWS):
                    self._values.update(mine.take(codes[begin : begin + _BLOCK_ROWS]))

    def _pass_on(self, children: list[list[pa.Array]]) -> None:
        if not self._children:
            self._children = [ColumnDigest(by_entry=self._by_entry) for _ in children]
        for child, arrays in zip(self._children, children, strict=True):
            child.update(arrays)


def _place_of(array: pa.Array) -> tuple[int, ...]:
    return (array.offset, len(array), *(0 if buffer is None else buffer.address for buffer in array.buffers()))


# ---- streams ----


class StreamDigest:
    """A digest of a stream of bytes: each block of 64 KiB is reduced to 16 bytes, and these are hashed by SHA-256.

    ::

        word of 8 bytes    w = word * odd; w ^= w >> 32         the same number only for the same word
        block              sum of w * key, for two lists of odd keys, modulo 2^64; a key for each place in the block

    If one word of a block differs, both sums do, for certain. Other changes, of any number of words, or of their
    places, escape with a chance of about 2^-64, unless somebody constructs them: two words whose mixed values both
    change in nothing but their highest bit escape for certain. That is enough against faults, not against a forger.
    Ten times as fast as SHA-256 on a CPU without instructions for it.
    """

    __slots__ = ("_block", "_blocks", "_size", "_used")

    def __init__(self) -> None:
        self._block: np.ndarray[Any, np.dtype[np.uint8]] | None = None
        self._blocks = hashlib.sha256()
        self._size = self._used = 0  # bytes in all, and in the block that is not full

    def update(self, data: Any) -> None:
        """Add the bytes of a buffer."""
        new = np.frombuffer(data, np.uint8) if len(data) else _NOTHING
        if self._block is None:
            self._block = np.empty(_BLOCK_BYTES, np.uint8)
        block, at = self._block, 0
        self._size += len(new)
        while at < len(new):
            part = new[at : at + _BLOCK_BYTES - self._used]
            block[self._used : self._used + len(part)] = part
            at += len(part)
            self._used += len(part)
            if self._used == _BLOCK_BYTES:
                self._close_block()

    def digest(self) -> bytes:
        """The digest; nothing can be added afterwards."""
        if self._used and self._block is not None:
            self._block[self._used :] = 0
            self._close_block()
        self._blocks.update(self._size.to_bytes(8, "little"))
        return self._blocks.digest()

    def _close_block(self) -> None:
        words = np.multiply(self._block.view("<u8"), _FACTOR)  # type: ignore[union-attr]
        words ^= words >> _HALF_WORD
        self._blocks.update(b"".join(int(np.dot(words, keys)).to_bytes(8, "little") for keys in _KEYS))
        self._used = 0


_BLOCK_BYTES: Final = 64 << 10  # fits the cache with its words and keys, and is too small for fresh pages of memory
_NOTHING: Final = np.empty(0, np.uint8)
_FACTOR: Final = np.uint64(0x9FB2_1C65_1E98_DF25)
_HALF_WORD: Final = np.uint64(32)


def _make_keys(seed: int) -> U64:
    """Odd numbers: the outputs of splitmix64."""
    with np.errstate(over="ignore"):
        keys = np.arange(1, _BLOCK_BYTES // 8 + 1, dtype=np.uint64) * np.uint64(0x9E37_79B9_7F4A_7C15) + np.uint64(seed)
        for shift, factor in ((30, 0xBF58_476D_1CE4_E5B9), (27, 0x94D0_49BB_1331_11EB)):
            keys = (keys ^ keys >> np.uint64(shift)) * np.uint64(factor)
    return (keys ^ keys >> np.uint64(31)) | np.uint64(1)


_KEYS: Final = (_make_keys(0), _make_keys(0xA076_1D64_78BD_642F))


# ---- tokens ----
# A token is a chain over the 8-byte words of a value, which begins with its length; each step maps word and chain one
# to one. So values of one length that differ in one word have different tokens for certain. Each step also spreads
# every bit of a word over the whole chain: the first product carries it upwards, the byte swap moves the top down, the
# second product carries it up again. So another word takes the difference back only by a chance of about 2^-64.
# Rejected: one product and a shift by half a word. They leave a change of the last byte of a word in two bytes, and
# values such as 2024000010100000 and 2024000910150005 had the same token. Long values are rare in dictionaries, and
# hashed one by one.

_MAX_WORDS: Final = 16
_SECOND_FACTOR: Final = np.uint64(0xC2B2_AE3D_27D4_EB4F)
_LENGTH_KEY: Final = np.uint64(0xD6E8_FEB8_6659_FD93)
_TAIL_MASKS: Final = np.array([(1 << 8 * size) - 1 for size in range(9)], dtype=np.uint64)


def hash_entries(arrays: Sequence[pa.Array]) -> U64:
    """Return a token of 8 bytes for each string or binary of some arrays, which have none that is null."""
    if len({array.type for array in arrays}) > 1:
        return np.concatenate([hash_entries((array,)) for array in arrays])
    content, places = _content_of(pa.concat_arrays(arrays) if len(arrays) > 1 else arrays[0])
    starts, lengths = places[:-1] - places[0], np.diff(places)
    size_bytes = int(places[-1] - places[0])
    padded = np.zeros(size_bytes + 8, np.uint8)
    padded[:size_bytes] = content[int(places[0]) : int(places[-1])]
    counts = (lengths + 7) >> 3  # of words
    sizes = np.flatnonzero(np.bincount(np.minimum(counts, _MAX_WORDS + 1))).tolist()
    words = np.ndarray((len(padded) - 7,), dtype="<u8", buffer=padded, strides=(1,))
    tokens = np.empty(len(lengths), np.uint64)
    for count in sizes:
        for begin in range(0, len(lengths), _BLOCK_ROWS):
            block = slice(begin, begin + _BLOCK_ROWS)
            some: Any = slice(None) if len(sizes) == 1 else np.flatnonzero(counts[block] == count)
            if count <= _MAX_WORDS:
                tokens[block][some] = _chain_words(words, starts[block][some], lengths[block][some], count=count)
    for at in np.flatnonzero(counts > _MAX_WORDS).tolist():
        long = hashlib.sha256(padded[int(starts[at]) : int(starts[at] + lengths[at])].data)
        tokens[at] = int.from_bytes(long.digest()[:8], "little")
    return tokens


def _chain_words(words: U64, starts: I64, lengths: I64, *, count: int) -> U64:
    """The chains of values of ``count`` words."""
    chains = lengths.astype(np.uint64) * _LENGTH_KEY
    for at in range(count):
        found = words[starts + 8 * at]
        if at == count - 1:
            found &= _TAIL_MASKS.take(lengths - 8 * at)
        chains ^= found
        chains *= _FACTOR
        chains.byteswap(inplace=True)
        chains *= _SECOND_FACTOR
    return chains


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(
        types.is_string(kind) or types.is_binary(kind) or types.is_large_string(kind) or types.is_large_binary(kind)
    )


def _content_of(array: pa.Array) -> tuple[memoryview, I64]:
    """Return the bytes behind an array of strings, and the places in them where its values begin, and the last ends."""
    is_large = types.is_large_string(array.type) or types.is_large_binary(array.type)
    _, offsets, data = array.buffers()
    width_bytes = 8 if is_large else 4
    places = np.frombuffer(offsets, dtype=f"<i{width_bytes}", count=len(array) + 1, offset=array.offset * width_bytes)
    return memoryview(b"" if data is None else data), places.astype(np.int64)


def _integers(array: pa.Array) -> np.ndarray[Any, np.dtype[Any]]:
    """The integers of an array without nulls. ``to_numpy`` would import pandas where it is installed: 0.4 s."""
    kind = array.type
    form = np.dtype(f"<{'i' if types.is_signed_integer(kind) else 'u'}{kind.bit_width // 8}")
    return np.frombuffer(array.buffers()[1] or b"", form)[array.offset : array.offset + len(array)]


def _bits(data: pa.Buffer, begin: int, count: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Some bits of a bitmap, as bytes."""
    bits = np.frombuffer(data, np.uint8)[begin // 8 : (begin + count + 7) // 8]
    return np.unpackbits(bits, bitorder="little")[begin % 8 : begin % 8 + count]


def without_nulls(array: pa.Array) -> pa.Array:
    """The array without its nulls; for values of four and eight bytes in a tenth of PyArrow's time."""
    kind = array.type
    if types.is_dictionary(kind):
        return pa.DictionaryArray.from_arrays(without_nulls(array.indices), array.dictionary, safe=False)
    if not (types.is_primitive(kind) and kind.bit_width in (32, 64)):
        return array.drop_null()
    begin, count = array.offset, len(array)
    values = np.frombuffer(array.buffers()[1], f"<u{kind.bit_width // 8}")[begin : begin + count]
    valid = _bits(array.buffers()[0], begin, count).view(np.bool_)
    kept = values[valid]
    return pa.Array.from_buffers(kind, len(kept), [None, pa.py_buffer(kept)])


def _plain(array: pa.Array, *, keeps_codes: bool) -> pa.Array:
    """Decode views, run-end encoding, extension types, and dictionaries unless their codes are of use."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return _plain(array.storage, keeps_codes=keeps_codes)
    if types.is_dictionary(kind):
        if keeps_codes and _is_bytes(kind.value_type) and not array.dictionary.null_count:
            return array
        return _plain(array.dictionary_decode(), keeps_codes=keeps_codes)
    if types.is_run_end_encoded(kind):
        return _plain(pa.compute.run_end_decode(array), keeps_codes=keeps_codes)
    if types.is_string_view(kind) or types.is_binary_view(kind):
        return array.cast(pa.large_binary())
    if types.is_list_view(kind) or types.is_large_list_view(kind):
        return array.cast(pa.large_list(kind.value_type))
    if types.is_union(kind):
        raise UnfaithfulError("it has a union column, which cannot be verified")
    return array
