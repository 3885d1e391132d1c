"""The quick hash of rows: what is equal, what is not, and that cuts never show."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packstone.rewrite.proof.row_lanes import BLOCK_ROWS, QuickLanes, Scratch


def hash_columns(*columns: pa.Array) -> list[tuple[int, int]]:
    """The lanes of each row."""
    lanes = QuickLanes.start(len(columns[0]), scratch=Scratch())
    lanes.add_columns(columns)
    return list(zip(lanes.lo.tolist(), lanes.hi.tolist(), strict=True))


COLUMNS = {
    "int8": pa.array([None, 0, 1, -1, 127], pa.int8()),
    "int64": pa.array([None, 0, 1, -1, 2**63 - 1, -(2**63), 0x7FFB_5EED_0000_0000], pa.int64()),
    "float": pa.array([None, 0.0, -0.0, math.nan, 1.5, -1.5, math.inf, -math.inf], pa.float64()),
    "single": pa.array([None, 0.0, -0.0, math.nan, 1.5], pa.float32()),
    "bool": pa.array([None, False, True]),
    "string": pa.array(
        [None, "", "\0", "\0\0", "a", "b", "ab", "ba", "12345678", "123456789", "x" * 64, "x" * 65, "x" * 500]
    ),
    "large": pa.array([None, "", "a", "x" * 65], pa.large_string()),
    "binary": pa.array([None, b"", b"\0", b"\xff" * 8, b"\xff" * 9]),
    "fixed": pa.array([None, b"aaa", b"aab"], pa.binary(3)),
    "decimal": pa.array(
        [None, Decimal(0), Decimal(1), Decimal(-1), Decimal(2**64), Decimal(-(2**64))], pa.decimal128(38, 0)
    ),
    "date": pa.array([None, dt.date(1970, 1, 1), dt.date(2000, 1, 1)]),
    "list": pa.array([None, [], [None], [1], [1, 2], [2, 1]]),
    "struct": pa.array([None, {"a": 1, "b": None}, {"a": None, "b": 1}]),
    "map": pa.array([None, [], [("a", 1)], [("a", 2)]], pa.map_(pa.string(), pa.int64())),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_values_that_differ_hash_apart(name: str) -> None:
    """In both lanes; a null is like no value."""
    hashes = hash_columns(COLUMNS[name])
    for lane in (0, 1):
        assert len({pair[lane] for pair in hashes}) == len(hashes)


@pytest.mark.parametrize("name", COLUMNS)
def test_slices_of_a_column_hash_alike(name: str) -> None:
    """Where a value stands, and what stands before it, does not matter."""
    column = COLUMNS[name]
    whole = hash_columns(column)
    assert [hash_columns(column.slice(row, 1))[0] for row in range(len(column))] == whole
    assert hash_columns(pa.concat_arrays([column, column]).slice(len(column) - 1))[1:] == whole


def test_all_nan_are_equal() -> None:
    """Whatever their bits."""
    other = np.array([0x7FF8_0000_0000_0001, 0xFFF8_0000_0000_0000], dtype=np.uint64).view(np.float64)
    assert len(set(hash_columns(pa.array([math.nan, *other])))) == 1


def test_bytes_behind_nulls_do_not_matter() -> None:
    """A null is a null."""
    hidden = pa.array(np.array([1, 2]), mask=np.array([True, True]))
    assert hash_columns(hidden) == hash_columns(pa.nulls(2, pa.int64()))
    text = pa.StringArray.from_buffers(
        1, pa.py_buffer(np.array([0, 3], "i4")), pa.py_buffer(b"abc"), pa.py_buffer(b"\0")
    )
    assert hash_columns(text) == hash_columns(pa.nulls(1, pa.string()))


def test_codes_hash_as_their_values() -> None:
    """A dictionary only encodes; nulls may be in it or beside it."""
    column = COLUMNS["string"]
    assert hash_columns(column.dictionary_encode()) == hash_columns(column)
    inside = pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), pa.array(["a", None]))
    assert hash_columns(inside) == hash_columns(pa.array(["a", None, None]))


def test_columns_have_an_order() -> None:
    """Values and nulls that change places within a row change it."""
    a, b, none = pa.array([1]), pa.array([2]), pa.nulls(1, pa.int64())
    rows = [(a, b), (b, a), (a, none), (none, a), (none, none)]
    assert len({hash_columns(*row)[0] for row in rows}) == len(rows)


def test_more_columns_than_bits_of_a_word() -> None:
    """Nulls of seventy columns are distinguished."""
    none, value = pa.nulls(1, pa.int64()), pa.array([0])
    rows = [[none if at == place else value for at in range(70)] for place in range(70)]
    assert len({hash_columns(*row)[0] for row in rows}) == 70


def test_exchanged_ends_of_words_show() -> None:
    """Short strings that exchange their last characters, word by word: the weak spot of sums."""
    texts = [f"xxxxxxx{a}yyyyyyy{b}" for a in "0123456789abcdef" for b in "0123456789abcdef"]
    hashes = hash_columns(pa.array(texts))
    for lane in (0, 1):
        assert len({pair[lane] for pair in hashes}) == len(texts)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.none() | st.text(max_size=90), min_size=1, max_size=30), st.integers(0, 3))
def test_lengths_in_a_block_do_not_matter(texts: list[str | None], spare: int) -> None:
    """Strings hash alike alone and among longer and shorter ones."""
    column = pa.array(["x" * spare, *texts], pa.string()).slice(1)
    assert hash_columns(column) == [hash_columns(pa.array([text], pa.string()))[0] for text in texts]


def test_blocks_do_not_matter() -> None:
    """Rows hash alike in a batch of many blocks."""
    numbers = np.arange(3 * BLOCK_ROWS + 5)
    columns = [pa.array(numbers), pa.array([None if n % 7 == 0 else f"row {n}" for n in numbers.tolist()])]
    whole = hash_columns(*columns)
    assert len(set(whole)) == len(numbers)
    for row in (0, BLOCK_ROWS - 1, BLOCK_ROWS, 3 * BLOCK_ROWS + 4):
        assert hash_columns(*(column.slice(row, 1) for column in columns)) == [whole[row]]


def test_bits_of_lanes_are_balanced() -> None:
    """Of consecutive numbers and of multiples of powers of two every bit of both lanes is set about half the time."""
    for step in (1, 256, 1 << 40):
        lanes = QuickLanes.start(4096, scratch=Scratch())
        lanes.add_columns([pa.array(np.arange(4096) * step)])
        for lane in (lanes.lo, lanes.hi):
            ones = [int(np.count_nonzero(lane >> np.uint64(bit) & np.uint64(1))) for bit in range(64)]
            assert 1700 < min(ones) <= max(ones) < 2400
