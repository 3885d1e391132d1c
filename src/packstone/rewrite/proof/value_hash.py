"""A 64-bit hash of every value of an Arrow array, vectorised with numpy.

The hash is part of what Packstone stores on disk (see ``fingerprint``): every constant and every
step below is frozen, and golden values in the tests fail if one changes.

What is equal, what is not
    The hash follows the *logical* value. A string hashes alike as ``string``, ``large_string``,
    ``string_view``, dictionary or run-end encoded; a list alike as ``list``, ``large_list``,
    ``list_view`` or ``fixed_size_list``; an integer, a date, a decimal by its (unscaled) integer
    at any width, because readers differ in the widths they choose. Names, precision, scale, unit
    and time zone are not hashed: schemas are compared as schemas.
    All NaN are equal, -0.0 and 0.0 differ, null equals only null, and bytes in the slot of a null never
    count.

How strong it is
    Integers, floats, and byte strings of one length up to 8 bytes never collide: every step is a
    bijection of 64 bits. Everything longer collides like a random 64-bit function. This is a proof
    against accidents, not against an adversary who picks values to make it fail.

Byte strings and lists share one shape, ``mix(sum_k mix(item_k + (k + 1) * STEP) + length * key)``,
where the items are 8-byte words or element hashes. A sum has no order of evaluation, so it can be
taken over columns of words (fast for short strings), over runs (fast for long ones) or over a
stream with the same result: the hash does not depend on how a batch was split.

Numbers are read as the machine stores them: little endian, as in all of Arrow on Parquet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import pyarrow as pa
from pyarrow import types

from packstone.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

U64: TypeAlias = "NDArray[np.uint64]"
I64: TypeAlias = "NDArray[np.int64]"
Bytes: TypeAlias = "NDArray[np.uint8]"

# Work arrays of 8 bytes per row stay below glibc's 128 KiB mmap threshold, so that they are recycled
# from the heap, warm in the L2 cache. Twice the rows cost twice the time *per row* in page faults.
BLOCK_ROWS: Final = 12_288
# Lists and strings are split by their content, not by their count; a single giant one is streamed.
_BLOCK_ITEMS: Final = 4 * BLOCK_ROWS
_BLOCK_BYTES: Final = 64 * BLOCK_ROWS
# Words of a string hashed column by column; the rest of longer ones is hashed run by run. Measured: columns
# cost 13 ns per word, runs 20 ns per word and 50 ns per string. Five words hold a UUID in text form.
_WORD_COLUMNS: Final = 5

_WRAP: Final = (1 << 64) - 1
_WORD: Final = 8
_STEP: Final = 0x9E37_79B9_7F4A_7C15  # 2^64 / golden ratio, as in splitmix64
_BYTES_KEY: Final = np.uint64(0xD6E8_FEB8_6659_FD93)
_ITEMS_KEY: Final = np.uint64(0xA076_1D64_78BD_642F)
_FIELD_KEY: Final = np.uint64(0xE703_7ED1_A0B4_28DB)
_STRUCT_SEED: Final = np.uint64(0x8EBC_6AF0_9C88_C6E3)
_DECIMAL_KEYS: Final = tuple(
    map(np.uint64, (0x5899_65CC_7537_4CC3, 0x1D8E_4E27_C47D_124F, 0xEB44_ACCA_B455_D165)),
)
_NAN_BITS: Final = np.uint64(0x7FF8_0000_0000_0000)

_SHIFTS: Final = tuple(map(np.uint64, (30, 27, 31)))
_FACTORS: Final = tuple(map(np.uint64, (0xBF58_476D_1CE4_E5B9, 0x94D0_49BB_1331_11EB)))
_FOLD: Final = np.uint64(32)
# _TAIL_MASKS[n] keeps the first n bytes of a word.
_TAIL_MASKS: Final = np.array([(1 << 8 * n) - 1 for n in range(_WORD + 1)], dtype=np.uint64)


def mix(x: U64) -> U64:
    """Scramble in place with the finalizer of splitmix64, a bijection that maps 0 to 0."""
    spare = np.right_shift(x, _SHIFTS[0])
    np.bitwise_xor(x, spare, out=x)
    np.multiply(x, _FACTORS[0], out=x)
    np.right_shift(x, _SHIFTS[1], out=spare)
    np.bitwise_xor(x, spare, out=x)
    np.multiply(x, _FACTORS[1], out=x)
    np.right_shift(x, _SHIFTS[2], out=spare)
    np.bitwise_xor(x, spare, out=x)
    return x


# 2^64 integers and a null do not fit 64 bits, so one integer must share the hash of null: this one. As a
# double it is a NaN that is not canonical, so no float shares it, nor a narrower integer. ``row_hash`` distinguishes
# the two in its second lane; inside lists and structs they collide, like any two values with a chance of 2^-64.
NULL_TWIN: Final = 0x7FFB_5EED_0000_0000
NULL_HASH: Final = mix(np.array([NULL_TWIN], dtype=np.uint64))[0]


def hash_values(array: pa.Array) -> U64:
    """Hash each value of an array; a null gets ``NULL_HASH``."""
    rows = len(array)
    if rows == 0:
        return np.empty(0, dtype=np.uint64)
    # A dictionary array is not split, because its dictionary would be hashed once per block.
    if rows > BLOCK_ROWS and not types.is_dictionary(array.type):
        cuts = range(0, rows, BLOCK_ROWS)
        return np.concatenate([hash_values(array.slice(cut, BLOCK_ROWS)) for cut in cuts])
    hashes = _rule_for(array.type)(array)
    # Nulls are set last, because their slots hold undefined values.
    hashes[_find_own_nulls(array)] = NULL_HASH
    return hashes


def find_nulls(array: pa.Array) -> I64:
    """Return the positions of the logical nulls, in order, including those that an encoding hides."""
    kind = array.type
    if types.is_null(kind):
        return np.arange(len(array))
    if types.is_dictionary(kind):
        return _find_coded_nulls(array, find_nulls(array.dictionary))
    if types.is_run_end_encoded(kind):
        return np.flatnonzero(np.isin(_find_runs(array), find_nulls(array.values)))
    return find_nulls(array.storage) if _is_extension(kind) else _find_own_nulls(array)


def _find_coded_nulls(array: pa.DictionaryArray, null_entries: I64) -> I64:
    own = _find_own_nulls(array)
    if not len(null_entries):
        return own
    codes = _read_integers(array.indices)
    codes[own] = null_entries[0]
    return np.flatnonzero(np.isin(codes, null_entries))


def _find_own_nulls(array: pa.Array) -> I64:
    validity = array.buffers()[0] if array.null_count else None
    if validity is None:
        return np.empty(0, dtype=np.int64)
    return np.flatnonzero(_read_bits(validity, array) == 0)


def hash_slices(padded: Bytes, starts: I64, lengths: I64) -> U64:
    """Hash ``padded[start : start + length]`` for each pair; 8 spare bytes follow the last one."""
    words = np.ndarray((len(padded) - _WORD + 1,), dtype="<u8", buffer=padded, strides=(1,))
    hashes = lengths.astype(np.uint64)
    np.multiply(hashes, _BYTES_KEY, out=hashes)
    rows = np.arange(len(lengths))
    for column in range(_WORD_COLUMNS):
        live = np.flatnonzero(lengths > 0)
        if len(live) < len(rows):
            rows, starts, lengths = rows[live], starts[live], lengths[live]
        if not len(rows):
            break
        column_words = words[starts]
        np.bitwise_and(column_words, _TAIL_MASKS.take(lengths, mode="clip"), out=column_words)
        np.add(column_words, np.uint64((column + 1) * _STEP & _WRAP), out=column_words)
        _add_at(hashes, rows, mix(column_words))
        starts, lengths = starts + _WORD, lengths - _WORD
    live = np.flatnonzero(lengths > 0)
    if len(live):
        hashes[rows[live]] += _sum_long_slices(words, starts[live], lengths[live])
    return mix(hashes)


def _add_at(sums: U64, rows: I64, terms: U64) -> None:
    """Add to distinct rows; if they are all rows, a plain sum is five times as fast."""
    if len(rows) == len(sums):
        np.add(sums, terms, out=sums)
    else:
        sums[rows] += terms


def _sum_long_slices(words: U64, starts: I64, lengths: I64) -> U64:
    """Sum the mixed words of each slice, from word number ``_WORD_COLUMNS`` on."""
    counts = (lengths + (_WORD - 1)) // _WORD
    ends = np.cumsum(counts)
    if ends[-1] > BLOCK_ROWS and len(counts) > 1:
        half = len(counts) // 2
        parts = (slice(half), slice(half, None))
        return np.concatenate([_sum_long_slices(words, starts[p], lengths[p]) for p in parts])
    # Word i of the concatenation is at starts[r] + 8 * (i - first word of slice r).
    places = np.repeat(starts - _WORD * (ends - counts), counts)
    places += np.arange(0, _WORD * len(places), _WORD)
    items = words[places]
    items[ends - 1] &= _TAIL_MASKS[lengths - _WORD * (counts - 1)]
    return _sum_runs(items, counts, first=_WORD_COLUMNS)


def _sum_runs(items: U64, counts: I64, *, first: int = 0) -> U64:
    """Sum each run of ``items``, mixed with its position in the run; overwrites ``items``."""
    ends = np.cumsum(counts)
    begins = ends - counts
    places = np.arange(1 + first, 1 + first + len(items))
    places -= np.repeat(begins, counts)
    np.add(items, np.multiply(places.view(np.uint64), np.uint64(_STEP)), out=items)
    mix(items)
    # reduceat gives a wrong result for an empty run, so it gets only the others.
    live = np.flatnonzero(counts)
    sums = np.zeros(len(counts), dtype=np.uint64)
    if len(live):
        sums[live] = np.add.reduceat(items, begins[live])
    return sums


class BytesHasher:
    """The hash of one byte string that arrives in parts, in constant memory."""

    __slots__ = ("_sum", "_tail", "_words")

    def __init__(self) -> None:
        """Start with no bytes."""
        self._sum = 0
        self._words = 0
        self._tail = b""

    def __bool__(self) -> bool:
        """Whether any byte has been added."""
        return bool(self._words or self._tail)

    def update(self, part: Bytes) -> None:
        """Append a part."""
        for cut in range(0, len(part), _BLOCK_BYTES):
            data = self._tail + part[cut : cut + _BLOCK_BYTES].tobytes()
            count = len(data) // _WORD
            self._tail = data[count * _WORD :]
            words = np.frombuffer(data, dtype="<u8", count=count).astype(np.uint64)
            self._sum += int(_sum_runs(words, np.array([count]), first=self._words)[0])
            self._words += count

    def finish(self) -> U64:
        """Return the hash, as an array of one."""
        length = self._words * _WORD + len(self._tail)
        total = self._sum + length * int(_BYTES_KEY)
        if self._tail:
            word = int.from_bytes(self._tail, "little") + (self._words + 1) * _STEP
            total += int(mix(np.array([word & _WRAP], dtype=np.uint64))[0])
        return mix(np.array([total & _WRAP], dtype=np.uint64))


def _hash_pieces(data: Bytes, offsets: I64) -> U64:
    """Hash ``data[offsets[i] : offsets[i + 1]]`` for each i."""
    count = len(offsets) - 1
    begin, end = int(offsets[0]), int(offsets[-1])
    if end - begin > _BLOCK_BYTES and count == 1:
        hasher = BytesHasher()
        hasher.update(data[begin:end])
        return hasher.finish()
    if end - begin > _BLOCK_BYTES:
        half = count // 2
        parts = (offsets[: half + 1], offsets[half:])
        return np.concatenate([_hash_pieces(data, part) for part in parts])
    # A copy, because a whole word is read at the last byte, where the buffer may end.
    padded = np.empty(end - begin + _WORD, dtype=np.uint8)
    padded[: end - begin] = data[begin:end]
    return hash_slices(padded, offsets[:-1] - begin, np.diff(offsets))


def _read_bits(bitmap: pa.Buffer, array: pa.Array) -> Bytes:
    """Unpack the array's range of a bitmap into zeros and ones."""
    begin, end = array.offset, array.offset + len(array)
    first_byte = begin // 8
    packed = np.frombuffer(bitmap, dtype=np.uint8)[first_byte : (end + 7) // 8]
    bits = np.unpackbits(packed, bitorder="little")
    return bits[begin - 8 * first_byte : end - 8 * first_byte]


def _read_fixed(array: pa.Array, dtype: str, *, per_value: int = 1) -> NDArray[np.generic]:
    """View the array's range of its data buffer."""
    skipped_bytes = array.offset * per_value * np.dtype(dtype).itemsize
    count = len(array) * per_value
    return np.frombuffer(array.buffers()[1], dtype=dtype, count=count, offset=skipped_bytes)


def _read_integers(array: pa.Array) -> I64:
    """Read integers of any width, widened to 64 bits (unsigned 64-bit ones keep their bits)."""
    width_bytes = array.type.bit_width // 8
    kind = "u" if types.is_unsigned_integer(array.type) else "i"
    return _read_fixed(array, f"<{kind}{width_bytes}").astype(np.int64)


def _hash_nulls(array: pa.NullArray) -> U64:
    return np.full(len(array), NULL_HASH)


def _hash_booleans(array: pa.BooleanArray) -> U64:
    return mix(_read_bits(array.buffers()[1], array).astype(np.uint64))


def _hash_integers(array: pa.Array) -> U64:
    return mix(_read_integers(array).view(np.uint64))


def _hash_floats(array: pa.Array) -> U64:
    width_bytes = array.type.bit_width // 8
    bits = _read_fixed(array, f"<u{width_bytes}").astype(np.uint64)
    not_numbers = np.isnan(_read_fixed(array, f"<f{width_bytes}"))
    if not_numbers.any():
        bits[not_numbers] = _NAN_BITS
    return mix(bits)


def _hash_decimals(array: pa.Array) -> U64:
    """Hash the unscaled integer, with the same result at 32, 64, 128 and 256 bits and as a plain integer.

    A higher word counts by its difference from the sign extension of the one below it, and mix(0) is 0:
    words that only repeat the sign add nothing.
    """
    count = array.type.bit_width // 64
    if count <= 1:
        return _hash_integers(array)
    words = _read_fixed(array, "<u8", per_value=count).reshape(-1, count).T.astype(np.uint64)
    extensions = (words.view(np.int64) >> np.int64(63)).view(np.uint64)
    hashes = mix(words[0].copy())
    for place in range(1, count):
        hashes += mix((words[place] ^ extensions[place - 1]) * _DECIMAL_KEYS[place - 1])
    return hashes


def _hash_strings(array: pa.Array) -> U64:
    data = array.buffers()[2]
    # In Arrow, a column without any bytes may have no data buffer.
    content = np.empty(0, dtype=np.uint8) if data is None else np.frombuffer(data, dtype=np.uint8)
    width_bytes = 8 if types.is_large_binary(array.type) or types.is_large_string(array.type) else 4
    skipped_bytes = array.offset * width_bytes
    offsets = np.frombuffer(array.buffers()[1], dtype=f"<i{width_bytes}", count=len(array) + 1, offset=skipped_bytes)
    return _hash_pieces(content, offsets.astype(np.int64))


def _hash_string_views(array: pa.Array) -> U64:
    return _hash_strings(array.cast(pa.large_binary()))


def _hash_fixed_bytes(array: pa.Array) -> U64:
    """Hash each value as a byte string; an interval (months, days, nanoseconds) has 16 bytes."""
    width_bytes = array.type.bit_width // 8
    offsets = np.arange(array.offset, array.offset + len(array) + 1) * width_bytes
    return _hash_pieces(np.frombuffer(array.buffers()[1], dtype=np.uint8), offsets)


def _hash_dictionary(array: pa.DictionaryArray) -> U64:
    values, codes = array.dictionary, array.indices
    # A small slice of a batch may carry a dictionary for millions of rows.
    if len(values) > len(array) and _rule_for(values.type) is _hash_strings:
        return hash_values(values.take(codes))
    # One more entry, so that an empty dictionary (all codes null) has something to point at;
    # codes of nulls are undefined, hence clipped.
    table = np.append(hash_values(values), NULL_HASH)
    return table.take(_read_integers(codes), mode="clip")


def _hash_run_ends(array: pa.RunEndEncodedArray) -> U64:
    runs = _find_runs(array)
    first, last = int(runs[0]), int(runs[-1])
    return hash_values(array.values.slice(first, last - first + 1))[runs - first]


def _find_runs(array: pa.RunEndEncodedArray) -> I64:
    """Return the number of the run that each row is in."""
    rows = np.arange(array.offset, array.offset + len(array))
    return np.searchsorted(_read_integers(array.run_ends), rows, side="right")


def _hash_structs(array: pa.StructArray) -> U64:
    """Chain the fields; each step is a bijection, so one changed field always changes the hash."""
    hashes = np.full(len(array), _STRUCT_SEED)
    for number in range(array.type.num_fields):
        np.bitwise_xor(hashes, hash_values(array.field(number)), out=hashes)
        np.multiply(hashes, _FIELD_KEY, out=hashes)
        np.bitwise_xor(hashes, np.right_shift(hashes, _FOLD), out=hashes)
    return mix(hashes)


def _hash_lists(array: pa.Array) -> U64:
    offsets = array.offsets.to_numpy().astype(np.int64)
    return _hash_runs(array.values, offsets)


def _hash_fixed_lists(array: pa.FixedSizeListArray) -> U64:
    offsets = np.arange(array.offset, array.offset + len(array) + 1) * array.type.list_size
    return _hash_runs(array.values, offsets)


def _hash_list_views(array: pa.Array) -> U64:
    # flatten() skips null lists, whose sizes are undefined.
    sizes = array.sizes.to_numpy().astype(np.int64)
    if array.null_count:
        sizes *= _read_bits(array.buffers()[0], array)
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    return _hash_runs(array.flatten(), offsets)


def _hash_runs(values: pa.Array, offsets: I64) -> U64:
    """Hash the lists ``values[offsets[i] : offsets[i + 1]]``; the hashes of null lists are not used."""
    count = len(offsets) - 1
    begin, end = int(offsets[0]), int(offsets[-1])
    if end - begin > _BLOCK_ITEMS and count > 1:
        half = count // 2
        parts = (offsets[: half + 1], offsets[half:])
        return np.concatenate([_hash_runs(values, part) for part in parts])
    lengths = np.diff(offsets)
    hashes = _sum_runs(hash_values(values.slice(begin, end - begin)), lengths)
    hashes += lengths.astype(np.uint64) * _ITEMS_KEY
    return mix(hashes)


def _hash_storage(array: pa.ExtensionArray) -> U64:
    return hash_values(array.storage)


def _is_extension(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.BaseExtensionType)


# The first rule that accepts the type hashes it; the common types are first.
_RULES: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], U64]], ...]] = (
    (types.is_integer, _hash_integers),
    (types.is_floating, _hash_floats),
    (types.is_string, _hash_strings),
    (types.is_interval, _hash_fixed_bytes),  # before is_temporal, which includes it
    (types.is_temporal, _hash_integers),
    (types.is_boolean, _hash_booleans),
    (types.is_decimal, _hash_decimals),
    (types.is_dictionary, _hash_dictionary),
    (types.is_struct, _hash_structs),
    (types.is_list, _hash_lists),
    (types.is_map, _hash_lists),
    (types.is_binary, _hash_strings),
    (types.is_fixed_size_binary, _hash_fixed_bytes),
    (types.is_large_string, _hash_strings),
    (types.is_large_binary, _hash_strings),
    (types.is_large_list, _hash_lists),
    (types.is_fixed_size_list, _hash_fixed_lists),
    (types.is_null, _hash_nulls),
    (types.is_string_view, _hash_string_views),
    (types.is_binary_view, _hash_string_views),
    (types.is_list_view, _hash_list_views),
    (types.is_large_list_view, _hash_list_views),
    (types.is_run_end_encoded, _hash_run_ends),
    (_is_extension, _hash_storage),
)


def _rule_for(kind: pa.DataType) -> Callable[[pa.Array], U64]:
    for accepts, rule in _RULES:
        if accepts(kind):
            return rule
    raise RefusedError(f"columns of type {kind} cannot be fingerprinted", type=str(kind))
