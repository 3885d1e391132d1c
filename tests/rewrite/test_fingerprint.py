from __future__ import annotations

import decimal
import itertools
import pickle
import random
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packstone.errors import InvalidInputError, RefusedError
from packstone.rewrite.proof import value_hash
from packstone.rewrite.proof.fingerprint import (
    Fingerprint,
    fingerprint_batch,
    fingerprint_batches,
    fingerprint_lines,
    hash_rows,
)
from packstone.rewrite.proof.value_hash import BLOCK_ROWS, NULL_HASH, BytesHasher, hash_values

# A deadline measures the machine, not the hash: the first call may import pandas for PyArrow.
relaxed = settings(deadline=None)

FIELDS = {
    "i": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "j": (pa.int64(), st.integers(0, 3)),
    "f": (pa.float64(), st.floats(allow_nan=False)),
    "s": (pa.string(), st.text(max_size=60)),
    "b": (pa.bool_(), st.booleans()),
    "l": (pa.list_(pa.list_(pa.int8())), st.lists(st.none() | st.lists(st.none() | st.integers(0, 9)))),
    "m": (pa.map_(pa.string(), pa.int8()), st.lists(st.tuples(st.text(max_size=2), st.integers(0, 9)))),
    "t": (
        pa.struct({"x": pa.int8(), "y": pa.binary()}),
        st.fixed_dictionaries({"x": st.none() | st.integers(0, 9), "y": st.none() | st.binary(max_size=9)}),
    ),
}
ROW_TYPE = pa.struct({name: kind for name, (kind, _) in FIELDS.items()})
ROW = st.fixed_dictionaries({name: st.none() | values for name, (_, values) in FIELDS.items()})
ROWS = st.lists(ROW, max_size=12)
SHUFFLER = st.randoms(use_true_random=False)

STRINGS = ["", None, "a", "abcdefgh", "abcdefghi", "x" * 13, "y" * 40, "z" * 41, "long" * 200, "a"]
LISTS = [[1, 2], None, [3, None], [0, 0], [2, 1]]
INTERVALS = [(1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, 0), (-1, 0, 0)]
MAP = pa.map_(pa.string(), pa.int64())


def batch_of(rows):
    """Make a batch of rows given as dictionaries."""
    return pa.RecordBatch.from_struct_array(pa.array(rows, ROW_TYPE))


def text_of(value):
    """Tell values apart as the hash should: -0.0 is not 0.0, the order of a dictionary's keys is nothing."""
    return str(sorted((key, text_of(item)) for key, item in value.items())) if isinstance(value, dict) else repr(value)


def column_batch(*columns):
    """Make a batch of columns."""
    return pa.record_batch(list(columns), names=[f"c{number}" for number in range(len(columns))])


def print_of(*columns):
    """Fingerprint a batch of columns."""
    return fingerprint_batch(column_batch(*columns))


def same(left, right):
    """Say whether two arrays have the same value hashes."""
    return hash_values(left).tolist() == hash_values(right).tolist()


# ---- the value ----


@relaxed
@given(st.integers(0, 2**60), st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_a_fingerprint_reads_back_from_its_text(rows, lo, hi):
    """``parse`` undoes ``str``, and a fingerprint travels by pickle."""
    one = Fingerprint(rows=rows, lo=lo, hi=hi)
    assert Fingerprint.parse(str(one)) == one
    assert pickle.loads(pickle.dumps(one)) == one  # noqa: S301 - our own bytes


def test_the_text_form_is_fixed():
    """The high lane stands first, both with leading zeros."""
    one = Fingerprint(rows=12345, lo=0x0123456789ABCDEF, hi=0xF)
    assert str(one) == "12345 rows 000000000000000f0123456789abcdef"


@pytest.mark.parametrize("text", ["", "5 rows", f"x rows {0:032x}", f"5 rows {0:031x}", f"5 rows {0:032x}\n"])
def test_a_damaged_text_is_refused(text):
    """Nothing that ``str`` did not write is taken for a fingerprint."""
    with pytest.raises(InvalidInputError, match="not a fingerprint"):
        Fingerprint.parse(text)


def test_sums_wrap_at_64_bits():
    """Lanes add modulo 2^64; zero adds nothing."""
    big = Fingerprint(rows=1, lo=2**64 - 1, hi=2**64 - 1)
    assert big + Fingerprint(rows=2, lo=1, hi=2) == Fingerprint(rows=3, lo=0, hi=1)
    assert big + Fingerprint.zero() == big


# ---- equal multisets have equal fingerprints ----


@relaxed
@given(ROWS, SHUFFLER)
def test_row_order_does_not_matter(rows, rng):
    """Permuted rows have the same fingerprint."""
    shuffled = rng.sample(rows, len(rows))
    assert fingerprint_batch(batch_of(shuffled)) == fingerprint_batch(batch_of(rows))


@relaxed
@given(ROWS, st.integers(0, 12))
def test_parts_add_up_to_the_whole(rows, cut):
    """Cut anywhere, sliced without copying or rebuilt, the parts sum to the whole."""
    whole = batch_of(rows)
    expected = fingerprint_batch(whole)
    assert fingerprint_batches([whole.slice(0, cut), whole.slice(cut)]) == expected
    assert fingerprint_batch(batch_of(rows[:cut])) + fingerprint_batch(batch_of(rows[cut:])) == expected
    assert expected.rows == len(rows)


def test_blocks_do_not_show():
    """A batch of several blocks equals its rows one block, or a few rows, at a time."""
    rows = 2 * BLOCK_ROWS + 77
    numbers = pa.array(np.arange(rows))
    words = pc.cast(numbers, pa.string())
    batch = column_batch(numbers, words, words.dictionary_encode(), pa.array([[n] for n in range(rows)]))
    slices = [batch.slice(start, 5000) for start in range(0, rows, 5000)]
    assert fingerprint_batches(slices) == fingerprint_batch(batch)
    assert sum(len(lo) for lo, _ in hash_rows(batch)) == rows


def test_no_rows_and_no_columns():
    """No rows are zero; rows without columns still count."""
    assert fingerprint_batch(batch_of([])) == Fingerprint.zero()
    assert fingerprint_batches([]) == Fingerprint.zero()
    bare = pa.RecordBatch.from_struct_array(pa.array([{}, {}], pa.struct([])))
    assert fingerprint_batch(bare).rows == 2


@pytest.mark.parametrize("name", ["large_string", "string_view", "binary", "large_binary", "binary_view", "dictionary"])
def test_strings_hash_by_content(name):
    """The Arrow type that holds a string does not show, sliced or not."""
    plain = pa.array(STRINGS)
    other = plain.dictionary_encode() if name == "dictionary" else plain.cast(getattr(pa, name)())
    assert same(plain, other)
    assert same(plain[3:9], other[3:9])


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_integers_hash_by_value_at_any_width(bits):
    """The width and the sign of an integer type do not show."""
    values = [0, 1, None, 100, 127, -1, -128]
    wide = pa.array(values, pa.int64())
    assert same(wide, pa.array(values, getattr(pa, f"int{bits}")()))
    assert same(wide[:5], pa.array(values[:5], getattr(pa, f"uint{bits}")()))
    assert same(wide, wide.dictionary_encode())


TEMPORAL = (pa.date32(), pa.date64(), pa.time32("s"), pa.time64("ns"), pa.timestamp("us"), pa.duration("ms"))
DECIMALS = (pa.decimal128(38, 4), pa.decimal256(70, 4))
SMALL_DECIMALS = (pa.decimal32(9, 2), pa.decimal64(18, 2)) if hasattr(pa, "decimal32") else ()  # PyArrow 19


@pytest.mark.parametrize("kind", TEMPORAL + DECIMALS + SMALL_DECIMALS, ids=str)
def test_temporal_and_decimal_values_hash_by_their_integer(kind):
    """Neither unit nor time zone nor scale is hashed, only the integer in the buffer."""
    per_value = max(1, kind.bit_width // 64)
    numbers = np.array([0, 1, -1, 86_399, -86_400_000], dtype="<i4" if kind.bit_width == 32 else "<i8")
    raw = np.stack([numbers] + [numbers >> 63] * (per_value - 1), axis=1)
    array = pa.Array.from_buffers(kind, 5, [None, pa.py_buffer(raw.tobytes())])
    assert same(array, pa.array(numbers, pa.int64()))


def test_wide_decimals_use_all_words():
    """Every word of a decimal counts, and its place among the words."""
    powers = [decimal.Decimal(2**shift * sign) for shift in range(0, 250, 5) for sign in (1, -1)]
    hashes = hash_values(pa.array(powers, pa.decimal256(76, 0)))
    assert len(set(hashes.tolist())) == len(powers)
    narrow = powers[:48]
    assert same(pa.array(narrow, pa.decimal128(38, 0)), pa.array(narrow, pa.decimal256(76, 0)))


@pytest.mark.parametrize("make", [pa.large_list, pa.list_view, pa.large_list_view, lambda item: pa.list_(item, 2)])
@pytest.mark.parametrize("item", [pa.int64(), pa.dictionary(pa.int8(), pa.int64())], ids=str)
def test_lists_hash_by_content(make, item):
    """The Arrow layout of a list does not show, sliced or not."""
    plain, other = pa.array(LISTS), pa.array(LISTS, make(item))
    assert same(plain, other)
    assert same(plain[1:4], other[1:4])


def test_a_map_hashes_as_the_list_of_its_entries():
    """A map is its entries in order, sliced or not."""
    pairs = [[("a", 1), ("b", None)], None, [], [("c", 3)]]
    entries = [None if row is None else [{"k": key, "v": value} for key, value in row] for row in pairs]
    lists = pa.array(entries, pa.list_(pa.struct({"k": pa.string(), "v": pa.int64()})))
    maps = pa.array(pairs, MAP)
    assert same(maps, lists)
    assert same(maps[1:], lists[1:])


def test_run_ends_decode():
    """Run-end encoded values hash like plain ones, at every slice."""
    plain = pa.array(["a", "a", None, None, "b", "a", "a"])
    runs = pc.run_end_encode(plain)
    for start, stop in itertools.combinations(range(8), 2):
        assert same(runs[start:stop], plain[start:stop])
        assert print_of(runs[start:stop]) == print_of(plain[start:stop])


def test_extension_types_hash_by_storage():
    """A UUID is its sixteen bytes."""
    raw = pa.array([b"0123456789abcdef", None], pa.binary(16))
    assert print_of(pa.ExtensionArray.from_storage(pa.uuid(), raw)) == print_of(raw)
    assert same(raw, pa.array([b"0123456789abcdef", None]))


def test_intervals_count_every_part():
    """Months, days and nanoseconds all show."""
    hashes = hash_values(pa.array(INTERVALS, pa.month_day_nano_interval()))
    assert len(set(hashes.tolist())) == len(INTERVALS)


@pytest.mark.parametrize("size", [3, 9, 16, 100])
def test_fixed_size_binary_hashes_as_binary(size):
    """Bytes are bytes, sliced or not."""
    rng = random.Random(size)
    values = [rng.randbytes(size) for _ in range(20)]
    assert same(pa.array(values, pa.binary(size))[3:], pa.array(values)[3:])


def test_nulls_in_a_dictionary_are_nulls():
    """A null code, a code of a null entry, and a plain null are one; so is an empty dictionary."""
    coded = pa.DictionaryArray.from_arrays(pa.array([0, None, 1, 2], pa.int8()), pa.array(["a", None, "b"]))
    assert same(coded, pa.array(["a", None, None, "b"]))
    empty = pa.DictionaryArray.from_arrays(pa.array([None, None], pa.int32()), pa.array([], pa.string()))
    assert hash_values(empty).tolist() == [NULL_HASH, NULL_HASH]
    assert print_of(pa.nulls(2)) == print_of(empty)
    assert print_of(coded) == print_of(pa.array(["a", None, None, "b"]))


def test_a_dictionary_longer_than_its_rows():
    """A slice that carries a big dictionary hashes like the plain slice."""
    words = pa.array([f"word {number}" for number in range(1000)] + [None])
    assert same(words.dictionary_encode()[990:], words[990:])


def test_unions_are_refused():
    """A type without a rule is refused by name rather than hashed wrong."""
    union = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])
    with pytest.raises(RefusedError, match="union"):
        print_of(union)


# ---- what is behind a null does not matter ----


@pytest.mark.parametrize("kind", [pa.int8(), pa.float64(), pa.decimal128(9), pa.binary(5), pa.timestamp("ns")], ids=str)
def test_garbage_behind_fixed_width_nulls(kind):
    """Two arrays that differ only behind nulls hash alike."""
    width = kind.bit_width // 8
    valid = pa.py_buffer(bytes([0b0101]))
    clean, dirty = bytes(4 * width), (bytes(width) + b"\xa5" * width) * 2
    left, right = (pa.Array.from_buffers(kind, 4, [valid, pa.py_buffer(raw)]) for raw in (clean, dirty))
    assert same(left, right)
    assert hash_values(left)[1] == NULL_HASH


def test_null_is_no_value_of_64_bits():
    """The integer that shares the 64-bit hash of null differs from it by the other lane."""
    twin = pa.array([value_hash.NULL_TWIN])
    assert same(twin, pa.nulls(1, pa.int64()))
    assert print_of(twin) != print_of(pa.nulls(1, pa.int64()))


def test_garbage_behind_null_strings_lists_structs_and_codes():
    """A null may own bytes, items, fields or a code out of range; none of it shows."""
    valid = pa.py_buffer(bytes([0b101]))
    offsets = pa.py_buffer(np.array([0, 2, 5, 7], dtype=np.int32))
    strings = pa.Array.from_buffers(pa.string(), 3, [valid, offsets, pa.py_buffer(b"ab???cd")])
    assert same(strings, pa.array(["ab", None, "cd"]))
    items = pa.array([1, 2, 9, 9, 9, 3, 4])
    lists = pa.Array.from_buffers(pa.list_(pa.int64()), 3, [valid, offsets], children=[items])
    assert same(lists, pa.array([[1, 2], None, [3, 4]]))
    fields = pa.struct({"x": pa.int64()})
    structs = pa.Array.from_buffers(fields, 3, [valid], children=[pa.array([1, 666, 2])])
    assert same(structs, pa.array([{"x": 1}, None, {"x": 2}], fields))
    codes = pa.Array.from_buffers(pa.int8(), 3, [valid, pa.py_buffer(bytes([0, 99, 1]))])
    coded = pa.DictionaryArray.from_arrays(codes, pa.array(["a", "b"]), safe=False)
    assert same(coded, pa.array(["a", None, "b"]))


@relaxed
@given(ROWS.filter(bool), st.data())
def test_deep_slices(rows, data):
    """A slice hashes like the same rows built afresh, at any depth of nesting."""
    nested = pa.list_(pa.struct({"r": pa.large_list(ROW_TYPE)}))
    values = [[{"r": [row]}, None, {"r": None}] for row in rows] + [None, []]
    start = data.draw(st.integers(0, len(values) - 1))
    assert same(pa.array(values, nested)[start:], pa.array(values[start:], nested))


# ---- different multisets have different fingerprints ----


@relaxed
@given(ROWS.filter(bool), st.data())
def test_a_changed_cell_shows(rows, data):
    """Changing any one cell changes the fingerprint."""
    row = data.draw(st.integers(0, len(rows) - 1))
    name = data.draw(st.sampled_from(list(rows[0])))
    other = data.draw(ROW)[name]
    changed = [*rows[:row], {**rows[row], name: other}, *rows[row + 1 :]]
    equal = text_of(rows[row][name]) == text_of(other)
    assert (fingerprint_batch(batch_of(rows)) == fingerprint_batch(batch_of(changed))) == equal


@relaxed
@given(ROWS.filter(bool), st.data())
def test_a_lost_or_doubled_row_shows(rows, data):
    """A row less or a row more changes the sums, not only the count."""
    row = data.draw(st.integers(0, len(rows) - 1))
    whole = fingerprint_batch(batch_of(rows))
    less = fingerprint_batch(batch_of(rows[:row] + rows[row + 1 :]))
    more = fingerprint_batch(batch_of([*rows, rows[row]]))
    assert len({(one.lo, one.hi) for one in (whole, less, more)}) == 3


@relaxed
@given(ROWS, ROWS)
def test_equal_fingerprints_mean_equal_multisets(left, right):
    """Two batches agree exactly if a Counter of their rows agrees."""
    equal = Counter(map(text_of, left)) == Counter(map(text_of, right))
    assert (fingerprint_batch(batch_of(left)) == fingerprint_batch(batch_of(right))) == equal


def test_one_row_for_another_with_the_same_count_shows():
    """Losing one row and doubling another leaves the count and changes the sums."""
    assert print_of(pa.array([1, 2, 3])) != print_of(pa.array([1, 3, 3]))
    assert print_of(pa.array([1, 1, 2, 2])) != print_of(pa.array([1, 1, 1, 1]))


def test_values_that_move_between_rows_or_columns_show():
    """Each column keeps its multiset of values, yet the rows are others."""
    one, two = pa.array([1, 2, 3, 4]), pa.array([5, 6, 7, 8])
    assert print_of(one, two) != print_of(one, pa.array([6, 5, 7, 8]))
    assert print_of(one, two) != print_of(two, one)
    assert print_of(one, pa.nulls(4)) != print_of(pa.nulls(4), one)


DEFAULTS = (
    *((pa.int64(), 0), (pa.bool_(), False), (pa.string(), ""), (pa.binary(4), bytes(4))),
    *((pa.float64(), 0.0), (pa.float64(), float("nan")), (pa.decimal128(9), decimal.Decimal(0))),
    *((pa.list_(pa.int64()), []), (pa.list_(pa.int64()), [None]), (pa.list_(pa.int64(), 1), [None])),
    *((MAP, []), (pa.struct({"x": pa.int64()}), {"x": None}), (pa.struct([]), {})),
)


@pytest.mark.parametrize(("kind", "default"), DEFAULTS, ids=str)
def test_null_is_no_default(kind, default):
    """Null differs from zero, from empty, and from a container of nulls."""
    assert print_of(pa.array([None], kind)) != print_of(pa.array([default], kind))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ([[[1], []]], [[[], [1]]]),
        ([[[1, 2]]], [[[1], [2]]]),
        ([["ab", "c"]], [["a", "bc"]]),
        ([["a", ""]], [["a"]]),
        ([[0]], [[0, 0]]),
        ([[None]], [[]]),
        ([{"x": 1, "y": 2}], [{"x": 2, "y": 1}]),
        ([{"x": {"y": None}}, {"x": {"y": 1}}], [{"x": None}, {"x": {"y": 1}}]),
        (["a\0"], ["a"]),
        (["\0"], [""]),
        (["\0" * 8], ["\0" * 16]),
        (["abcdefgh12345678"], ["12345678abcdefgh"]),
        (["x" * 48 + "abcdefgh12345678"], ["x" * 48 + "12345678abcdefgh"]),
    ],
    ids=repr,
)
def test_structure_shows(left, right):
    """The same leaves in another structure are another value."""
    assert print_of(pa.array(left)) != print_of(pa.array(right))


def test_map_order_shows():
    """Maps with the same entries in another order differ."""
    forward, backward = ([("a", 1), ("b", 2)], [("b", 2), ("a", 1)])
    assert print_of(pa.array([forward], MAP)) != print_of(pa.array([backward], MAP))


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_signed_zeros_and_nans(bits):
    """-0.0 differs from 0.0; all NaN, whatever their sign and payload, are equal."""
    dtype, kind = np.dtype(f"<u{bits // 8}"), getattr(pa, f"float{bits}")()
    fraction = {16: 10, 32: 23, 64: 52}[bits]
    infinity = ((1 << (bits - 1 - fraction)) - 1) << fraction
    sign = 1 << (bits - 1)
    nans = [infinity + 1, infinity + 5, infinity | sign | 1, infinity | 1 << fraction - 1]
    raw = np.array([*nans, 0, sign, infinity, infinity | sign], dtype=dtype)
    hashes = hash_values(pa.Array.from_buffers(kind, len(raw), [None, pa.py_buffer(raw)])).tolist()
    assert len(set(hashes[:4])) == 1
    assert len(set(hashes)) == 5


# ---- collisions and lanes ----

MILLION = 1_000_000
GRID = np.stack([np.arange(MILLION) % 1000, np.arange(MILLION) // 1000])


def digits():
    """A million numbers as text."""
    return pc.cast(pa.array(np.arange(MILLION)), pa.string())


NEAR_IDENTICAL = {
    "ints": lambda: pa.array(np.arange(MILLION)),
    "high ints": lambda: pa.array(np.arange(MILLION) << 40),
    "floats": lambda: pa.array(np.arange(MILLION, dtype=np.float64)),
    "digits": digits,
    "strings": lambda: pc.binary_join_element_wise("customer-00000000-", digits(), "-europe-", ""),
    "long strings": lambda: pc.binary_join_element_wise("x" * 60, digits(), "y" * 9, ""),
    "pairs": lambda: pa.FixedSizeListArray.from_arrays(pa.array(GRID.T.ravel()), 2),
    "structs": lambda: pa.StructArray.from_arrays([pa.array(GRID[0]), pa.array(GRID[1])], ["x", "y"]),
}


@pytest.mark.parametrize("name", NEAR_IDENTICAL)
@pytest.mark.sample(4)
def test_a_million_near_identical_values_do_not_collide(name):
    """Distinct values that differ in a digit or a bit have distinct 64-bit hashes."""
    assert len(np.unique(hash_values(NEAR_IDENTICAL[name]()))) == MILLION


def test_lanes_of_a_grid_of_rows():
    """On a million rows of small numbers each lane is collision-free, balanced, and unlike the other."""
    lanes = list(hash_rows(column_batch(pa.array(GRID[0]), pa.array(GRID[1]))))
    lo, hi = (np.concatenate(lane) for lane in zip(*lanes, strict=True))
    assert len(np.unique(lo)) == len(np.unique(hi)) == MILLION
    for bit in range(64):
        for lane in (lo, hi, lo ^ hi):
            ones = int(np.count_nonzero(lane & np.uint64(1 << bit)))
            assert abs(ones - MILLION // 2) < 5 * 500  # five standard deviations


def test_moving_small_amounts_between_rows_shows():
    """Sums of a column stay, pairs of rows change: every such exchange gives another fingerprint."""
    seen = {print_of(pa.array([1000 + step, 1000 - step]), pa.array([7, 7])) for step in range(500)}
    assert len(seen) == 500


# ---- the pieces of the byte hash agree ----


@relaxed
@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=5))
def test_streamed_bytes_hash_like_whole_ones(data, cuts):
    """A value fed in parts has the hash it has in an array."""
    hasher = BytesHasher()
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    for begin, end in itertools.pairwise(edges):
        hasher.update(np.frombuffer(data[begin:end], dtype=np.uint8))
    assert hasher.finish().tolist() == hash_values(pa.array([data])).tolist()


def test_neighbours_do_not_matter():
    """A value has one hash, alone or beside short, long and giant values."""
    rng = random.Random(1)
    edge = value_hash._BLOCK_BYTES
    sizes = [*range(60), 500, 5000, 100_000, edge - 1, edge + 1, 2_000_003]
    values = [rng.randbytes(size) for size in sizes]
    alone = [hash_values(pa.array([value]))[0] for value in values]
    assert hash_values(pa.array(values)).tolist() == alone
    assert hash_values(pa.array(values[::-1])).tolist() == alone[::-1]


def test_giant_lists_hash_like_small_ones():
    """Lists are cut by their items; where the cuts fall does not show."""
    sizes = [3, 0, 70_000, 2, 150_000, 1]
    lists = [list(range(size)) for size in sizes]
    alone = [hash_values(pa.array([one], pa.list_(pa.int64())))[0] for one in lists]
    assert hash_values(pa.array(lists)).tolist() == alone


# ---- lines ----


def lines_of(text):
    """Split the slow and obvious way."""
    lines = text.split(b"\n")
    return lines if lines[-1] else lines[:-1]


PARTS = (b"\n", b"\r", b"a", b"b", b"longer than eight", b"\0", b"x" * 50)
TEXT = st.lists(st.sampled_from(PARTS), max_size=40).map(b"".join)


def cut_at_random(text, rng):
    """Cut a text into chunks, some of them empty."""
    edges = sorted(rng.randint(0, len(text)) for _ in range(rng.randint(0, 8)))
    return [text[begin:end] for begin, end in itertools.pairwise([0, *edges, len(text)])]


@relaxed
@given(TEXT, TEXT, SHUFFLER)
def test_lines_agree_with_a_counter(left, right, rng):
    """Fingerprints over any chunking are equal exactly if the multisets of lines are."""
    truth = Counter(lines_of(left)) == Counter(lines_of(right))
    prints = [fingerprint_lines(cut_at_random(text, rng)) for text in (left, right)]
    assert (prints[0] == prints[1]) == truth


@relaxed
@given(TEXT, SHUFFLER)
def test_lines_are_rows_of_one_binary_column(text, rng):
    """The fingerprint of a text is that of its lines as a column; shuffled lines keep it."""
    lines = lines_of(text)
    expected = print_of(pa.array(lines, pa.binary()))
    assert fingerprint_lines(cut_at_random(text, rng)) == expected
    rng.shuffle(lines)
    assert fingerprint_lines([line + b"\n" for line in lines]) == expected


def test_a_line_over_many_chunks():
    """A line of three megabytes in chunks of odd sizes is one row."""
    line = random.Random(2).randbytes(3_000_000).replace(b"\n", b" ")
    text = b"short\n" + line + b"\nlast"
    chunks = [text[start : start + 70_001] for start in range(0, len(text), 70_001)]
    expected = print_of(pa.array([b"short", line, b"last"]))
    assert fingerprint_lines(chunks) == fingerprint_lines([text]) == expected


# ---- golden values: fingerprints are stored, so the hash must never change ----

GOLDEN = {
    "ints": ("4 rows 5b127a05237b078af28b54881d424e03", lambda: [pa.array([1, 2, None, -1])]),
    "floats": (
        "4 rows c89359a05d0e75b7cf07c06bf811401a",
        lambda: [pa.array([0.0, -0.0, float("nan"), None]), pa.array([1, 2, 3, 4], pa.float32())],
    ),
    "strings": (
        "10 rows fa83aa17896d9554517536217089cabc",
        lambda: [pa.array(STRINGS), pa.array(STRINGS[::-1]).dictionary_encode()],
    ),
    "lists": (
        "5 rows 73e881f77115e3d9c0b5ae609af31d43",
        lambda: [pa.array(LISTS), pa.array([[[1], []], [], None, [None], [[]]])],
    ),
    "structs": (
        "3 rows 20bba129021e99242ab7a99e11263783",
        lambda: [pa.array([{"x": 1, "y": "a"}, None, {"x": None, "y": ""}])],
    ),
    "maps": (
        "3 rows a4909d712b31d6bf7afbf5c5139f2dd4",
        lambda: [pa.array([[("a", 1), ("b", None)], [], None], MAP)],
    ),
    "decimals": (
        "2 rows 677fa81dcd4ae87ba8b6ed901195cfb0",
        lambda: [pa.array([decimal.Decimal(7), decimal.Decimal(10) ** 30], DECIMALS[1])],
    ),
    "bytes": ("2 rows d299772d229c9d33b91f34ad7ca90f8a", lambda: [pa.array([b"abc", None], pa.binary(3))]),
    "intervals": (
        "5 rows 143e28bfcc6fdec57f23e7d9e631d5a1",
        lambda: [pa.array(INTERVALS, pa.month_day_nano_interval())],
    ),
    "bools and nulls": (
        "3 rows 90dd095aa6ab09d33bc679d2627ec733",
        lambda: [pa.array([True, False, None]), pa.nulls(3)],
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_the_hash_never_changes(name):
    """Golden fingerprints; if one fails, the fingerprints that users have stored are worthless."""
    expected, columns = GOLDEN[name]
    assert str(print_of(*columns())) == expected


def test_the_hash_of_lines_never_changes():
    """A golden fingerprint of a text."""
    assert str(fingerprint_lines([b"a\r\n\nlast"])) == "3 rows bbadbd0ca50e1e7a72c03244eaf26ec5"


def mix(x, factors=(0xBF58476D1CE4E5B9, 0x94D049BB133111EB), shifts=(30, 27, 31)):
    """Scramble one number: the definition, without vectors."""
    x &= 2**64 - 1
    for factor, shift in zip(factors, shifts, strict=False):
        x = (x ^ x >> shift) * factor % 2**64
    return x ^ x >> shifts[-1]


@relaxed
@given(st.binary(max_size=100), st.integers(-(2**63), 2**63 - 1))
def test_the_definition_in_plain_python(data, number):
    """One row of bytes and an integer, hashed by the formulas in the module docstrings."""
    words = [int.from_bytes(data[at : at + 8], "little") for at in range(0, len(data), 8)]
    total = sum(mix(word + place * 0x9E3779B97F4A7C15) for place, word in enumerate(words, 1))
    lo, hi = 0x2D358DCCAA6C78A5, 0x8BB84B93962EACC9
    for value in (mix(total + len(data) * 0xD6E8FEB86659FD93), mix(number)):
        lo = (lo ^ value) * 0x9FB21C651E98DF25 % 2**64
        hi = (hi + value) * 0xC2B2AE3D27D4EB4F % 2**64
        lo, hi = lo ^ lo >> 32, hi ^ hi >> 29
    murmur = mix(hi, (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53), (33, 33, 33))
    assert print_of(pa.array([data]), pa.array([number])) == Fingerprint(rows=1, lo=mix(lo), hi=murmur)
