"""Search in sort keys: the order of keys is the order of bytes, and every blocklet that can hold a key is found."""

import math
from bisect import bisect_left, bisect_right
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from blocklet_model import POOL, SCHEMA, filters, leaves, own_index, scalar, slow_index, sort_order, truth, values_of
from hypothesis import given, settings
from hypothesis import strategies as st

from packstone.query.filter.expression import And
from packstone.query.filter.key_bytes import HIGHEST, LOWEST, MAX_STRING_BYTES, find_layout, next_prefix
from packstone.query.filter.key_search import FAN_OUT, KeyTree, SortKeyRange, build_sorted_keys, find_key_ranges


def keys_of(numbers):
    """Numbers as keys."""
    column = pa.array(numbers, pa.int64())
    return find_layout([[column]]).encode([column])


@st.composite
def keyed_rows(draw):
    """Sort columns, and rows of them in order."""
    names = draw(st.lists(st.sampled_from(SCHEMA.names), min_size=1, max_size=3, unique=True))
    row = st.fixed_dictionaries({name: values_of(name) for name in names})
    rows = draw(st.lists(row, min_size=1, max_size=12))
    return names, sorted(rows, key=lambda row: [sort_order(row[name]) for name in names])


@settings(max_examples=200, deadline=None)
@given(keyed=keyed_rows())
def test_bytes_are_in_the_order_of_rows(keyed):
    """Keys of sorted rows ascend, and are equal where rows are, unless strings were cut."""
    names, rows = keyed
    columns = [pa.array([row[name] for row in rows], SCHEMA.field(name).type) for name in names]
    layout = find_layout([[column] for column in columns])
    keys = layout.encode(columns)
    assert (keys[:-1] <= keys[1:]).all()
    if len(layout.columns) == len(names) and not any(how.is_cut for how in layout.columns):
        same = [all(sort_order(a[name]) == sort_order(b[name]) for name in names) for a, b in pairwise(rows)]
        assert (keys[:-1] == keys[1:]).tolist() == same


@pytest.mark.parametrize("name", SCHEMA.names)
def test_all_values_of_a_type_are_distinguished(name):
    """Every pair of different values has different keys, in order; of a slice of a longer array too."""
    values = sorted({repr(value): value for value in [None, *POOL[name]]}.values(), key=sort_order)
    values = [value for value in values if not isinstance(value, str | bytes) or len(value) <= MAX_STRING_BYTES]
    column = pa.array([None, values[-1], *values], SCHEMA.field(name).type).slice(2)
    keys = find_layout([[column]]).encode([column])
    assert (keys[:-1] < keys[1:]).all()


def test_a_key_ends_behind_a_string_that_was_cut():
    """Else the next column would overrule the bytes that are gone."""
    strings, numbers = pa.array(["x" * 64 + "a", "x" * 64 + "b"]), pa.array([2, 1])
    layout = find_layout([[strings], [numbers]])
    assert len(layout.columns) == 1
    keys = layout.encode([strings, numbers])
    assert keys[0] == keys[1]


def test_a_type_without_an_order_ends_the_key():
    """Nested columns are not searched; a first one makes a key of nothing, which is none."""
    nested, number = pa.array([[1]]), pa.array([1])
    assert find_layout([[nested], [number]]) is None
    assert len(find_layout([[number], [nested]]).columns) == 1


def test_every_nan_is_the_same_and_the_greatest():
    """Also a negative one with other bits."""
    odd = np.array([0xFFF8000000000001, 0x7FF8000000000000, 0x7FF0000000000000], dtype=np.uint64).view(np.float64)
    column = pa.Array.from_buffers(pa.float64(), 3, [None, pa.py_buffer(odd)])
    keys = find_layout([[column]]).encode([column])
    assert keys[0] == keys[1] > keys[2]


@pytest.mark.parametrize(
    ("prefix", "behind"),
    [(b"a", b"b"), (b"a\xff", b"b"), (b"\xff", None), (b"", None), (b"\xff\xfe\xff", b"\xff\xff"), (b"\0", b"\1")],
)
def test_the_next_prefix(prefix, behind):
    """Trailing highest bytes carry over; where all are highest there is nothing behind."""
    assert next_prefix(prefix) == behind


@pytest.mark.parametrize("count", [1, 2, FAN_OUT, FAN_OUT + 1, 2 * FAN_OUT, FAN_OUT**2, FAN_OUT**2 + 1, 33_000])
def test_a_tree_finds_what_a_plain_search_finds(count):
    """Whatever its height, inside and at both ends."""
    starts = [10 * at for at in range(count)]
    ends = [10 * at + 5 for at in range(count)]
    tree = KeyTree(keys_of(starts), keys_of(ends))
    middle = 10 * (count // 2)
    for low in (-1, 0, 3, 5, 6, 9, middle - 5, middle - 4, middle, middle + 5, 10 * count - 5, 10 * count - 4):
        for width in (0, 4, 10, 500):
            found = tree.find(keys_of([low]), keys_of([low + width]))
            first, last = bisect_left(ends, low), bisect_right(starts, low + width)
            assert found == (first, max(first, last)), (low, width)


@settings(max_examples=150, deadline=None)
@given(numbers=st.lists(st.integers(0, 8), min_size=2, max_size=300), low=st.integers(-1, 9), width=st.integers(0, 4))
def test_a_tree_finds_all_of_many_equal_keys(numbers, low, width):
    """Blocklets that begin and end alike, over many nodes: exactly those that overlap are found."""
    numbers = sorted(numbers)[: len(numbers) // 2 * 2]
    starts, ends = numbers[::2], numbers[1::2]
    first, last = KeyTree(keys_of(starts), keys_of(ends)).find(keys_of([low]), keys_of([low + width]))
    inside = [at for at in range(len(starts)) if starts[at] <= low + width and ends[at] >= low]
    assert inside == list(range(first, last))


@st.composite
def sorted_segments(draw):
    """Sort columns and the blocklets of one to three runs, each run sorted and cut anywhere."""
    names = draw(st.lists(st.sampled_from(SCHEMA.names), min_size=1, max_size=3, unique=True))
    blocklets = []
    row = st.fixed_dictionaries({name: values_of(name) for name in names})
    for _ in range(draw(st.integers(1, 3))):
        rows = draw(st.lists(row, min_size=1, max_size=16))
        rows.sort(key=lambda row: [sort_order(row[name]) for name in names])
        cuts = sorted({0, len(rows), *draw(st.lists(st.integers(0, len(rows)), max_size=6))})
        blocklets += [rows[begin:end] for begin, end in pairwise(cuts)]
    return names, blocklets


@settings(max_examples=150, deadline=None)
@given(segment=sorted_segments(), most=st.integers(1, 5), data=st.data())
def test_a_search_never_misses_a_matching_row(segment, most, data):
    """All types, composite keys, nulls, several runs: rows that are TRUE are in blocklets that were found."""
    names, blocklets = segment
    index = data.draw(st.sampled_from([slow_index, own_index]))(blocklets, sort_columns=names)
    keys = build_sorted_keys(index, names)
    some = st.lists(leaves(names), min_size=2, max_size=4).map(lambda parts: And(parts=tuple(parts)))
    for _ in range(3):
        node = data.draw(some | filters(names))
        ranges = find_key_ranges(node, keys.columns, max_ranges=most)
        if ranges is None:
            continue
        assert len(ranges) <= max(most, 1)
        found = {at for wanted in ranges for begin, end in keys.find(wanted) for at in range(begin, end)}
        for at, rows in enumerate(blocklets):
            assert at in found or not any(truth(node, row) is True for row in rows), (str(node), rows, ranges)


def index_of(*columns, **edges):
    """An index with these first and last keys."""
    return pa.table({f"{end}.{name}": pa.array(values) for name in columns for end, values in edges[name].items()})


def test_a_prefix_of_a_composite_key_is_searched():
    """(1, 2), (1, 5), (2, 1): the first column alone, both, and a range on the second."""
    index = index_of(
        "a", "b", a={"start": [1, 1, 1, 2], "end": [1, 1, 1, 2]}, b={"start": [0, 3, 6, 0], "end": [2, 5, 9, 9]}
    )
    keys = build_sorted_keys(index, ("a", "b"))
    one, two, five = (pa.scalar(number, pa.int64()) for number in (1, 2, 5))
    assert keys.find(SortKeyRange(equal=(one,))) == [(0, 3)]
    assert keys.find(SortKeyRange(equal=(two,))) == [(3, 4)]
    assert keys.find(SortKeyRange(equal=(one, five))) == [(1, 2)]
    assert keys.find(SortKeyRange(equal=(one,), low=five)) == [(1, 3)]
    assert keys.find(SortKeyRange(equal=(one,), high=two)) == [(0, 1)]
    assert keys.find(SortKeyRange(low=two)) == [(3, 4)]


def test_nulls_come_first_and_are_found_apart():
    """A search for null finds the blocklets with nulls; a range without a lower bound does not."""
    index = index_of("a", a={"start": [None, None, 5], "end": [None, 4, 9]})
    keys = build_sorted_keys(index, ("a",))
    assert keys.find(SortKeyRange(equal=(None,))) == [(0, 2)]
    assert keys.find(SortKeyRange(high=pa.scalar(1, pa.int64()), skip_nulls=True)) == [(1, 2)]
    assert keys.find(SortKeyRange(high=pa.scalar(1, pa.int64()))) == [(0, 2)]
    assert keys.find(SortKeyRange(skip_nulls=True)) == [(1, 3)]


def test_both_zeros_are_one_to_a_search():
    """A bound of 0.0 reaches -0.0 and the other way round; NaN is the last key."""
    index = index_of("f", f={"start": [-1.0, -0.0, 0.0, 1.0], "end": [-0.5, -0.0, 0.0, math.nan]})
    keys = build_sorted_keys(index, ("f",))
    for zero in (0.0, -0.0):
        assert keys.find(SortKeyRange(equal=(scalar("f", zero),))) == [(1, 3)]
        assert keys.find(SortKeyRange(low=scalar("f", zero))) == [(1, 4)]
        assert keys.find(SortKeyRange(high=scalar("f", zero), skip_nulls=True)) == [(0, 3)]
    assert keys.find(SortKeyRange(equal=(scalar("f", math.nan),))) == [(3, 4)]


def test_runs_are_found_in_the_keys():
    """Where keys fall a new run begins; each has its tree."""
    index = index_of("a", a={"start": [0, 5, 2, 7, 1], "end": [4, 9, 6, 8, 9]})
    keys = build_sorted_keys(index, ("a",))
    assert keys.run_count == 3
    assert keys.find(SortKeyRange(equal=(pa.scalar(3, pa.int64()),))) == [(0, 1), (2, 3), (4, 5)]
    assert keys.nbytes > 0


def test_an_index_that_cannot_be_sorted_so_has_no_trees():
    """A first key after the last one, no keys at all, no blocklets, no sort columns."""
    assert build_sorted_keys(index_of("a", a={"start": [5], "end": [4]}), ("a",)) is None
    assert build_sorted_keys(pa.table({"rows": [1]}), ("a",)) is None
    assert build_sorted_keys(index_of("a", a={"start": [5], "end": [6]}).slice(0, 0), ("a",)) is None
    assert build_sorted_keys(index_of("a", a={"start": [5], "end": [6]}), ()) is None


def test_bounds_longer_than_the_key_are_cut():
    """More values than the layout has columns do no harm."""
    layout = find_layout([[pa.array([1])]])
    one = pa.scalar(1, pa.int64())
    for fill in (LOWEST, HIGHEST):
        assert len(layout.encode_bound([one, one], fill=fill, skip_nulls=True).tobytes()) == layout.width
