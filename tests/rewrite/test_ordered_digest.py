"""The ordered digest: equal exactly when the rows are, in their order, however they were cut."""

from __future__ import annotations

import decimal
import hashlib
import itertools
import random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packstone.rewrite.proof.ordered_digest import ColumnDigest, StreamDigest, digest_batches, hash_entries

TYPES = {
    "int64": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "uint8": (pa.uint8(), st.integers(0, 255)),
    "bool": (pa.bool_(), st.booleans()),
    "double": (pa.float64(), st.floats(allow_nan=False)),
    "string": (pa.string(), st.text(max_size=12)),
    "large binary": (pa.large_binary(), st.binary(max_size=12)),
    "fixed": (pa.binary(3), st.binary(min_size=3, max_size=3)),
    "decimal": (pa.decimal128(20, 2), st.decimals(-(10**9), 10**9, places=2)),
    "date": (pa.date32(), st.dates()),
    "timestamp": (pa.timestamp("us"), st.datetimes()),
    "list": (pa.list_(pa.int32()), st.lists(st.none() | st.integers(-5, 5), max_size=4)),
    "deep list": (
        pa.list_(pa.list_(pa.string())),
        st.lists(st.none() | st.lists(st.text(max_size=2), max_size=3), max_size=3),
    ),
    "map": (
        pa.map_(pa.string(), pa.int32()),
        st.lists(st.tuples(st.text(max_size=2), st.none() | st.integers(0, 9)), max_size=3),
    ),
    "struct": (
        pa.struct([("a", pa.int16()), ("b", pa.list_(pa.string()))]),
        st.fixed_dictionaries(
            {"a": st.none() | st.integers(0, 9), "b": st.none() | st.lists(st.text(max_size=2), max_size=2)}
        ),
    ),
    "fixed list": (pa.list_(pa.int8(), 2), st.lists(st.integers(0, 9), min_size=2, max_size=2)),
    "null": (pa.null(), st.none()),
}


def table_of(kind: str, values: list) -> pa.Table:
    """One column of the kind beside one of numbers."""
    return pa.table({"v": pa.array(values, TYPES[kind][0]), "n": pa.array(range(len(values)), pa.int32())})


def digest_by_entry(arrays: list[pa.Array]) -> bytes:
    """The digest of one column, strings by their tokens."""
    column, whole = ColumnDigest(by_entry=True), hashlib.sha256()
    column.update(arrays)
    column.finish(whole)
    return whole.digest()


def cut(table: pa.Table, places: list[int]) -> list[pa.RecordBatch]:
    """The same rows in batches that begin at these places, as slices of one array."""
    bounds = sorted({0, table.num_rows, *(place % (table.num_rows + 1) for place in places)})
    whole = table.combine_chunks().to_batches()[0] if table.num_rows else None
    return [whole.slice(a, b - a) for a, b in itertools.pairwise(bounds)] if whole is not None else []


@pytest.mark.parametrize("kind", TYPES)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_independent_of_batches(kind, data):
    """However the rows are cut and sliced, the digest is the same."""
    values = data.draw(st.lists(st.none() | TYPES[kind][1], max_size=20))
    places = data.draw(st.lists(st.integers(0, 20), max_size=4))
    table = table_of(kind, values)
    assert digest_batches(cut(table, places)) == digest_batches(cut(table, []))


@pytest.mark.parametrize("kind", [kind for kind in TYPES if kind != "null"])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_equal_digests_mean_equal_rows(kind, data):
    """Two columns of values have one digest exactly when they hold the same values in the same order."""
    left = data.draw(st.lists(st.none() | TYPES[kind][1], max_size=6))
    right = data.draw(st.lists(st.none() | TYPES[kind][1], max_size=6) | st.permutations(left) | st.just(left))
    a, b = pa.array(left, TYPES[kind][0]), pa.array(right, TYPES[kind][0])
    same = a.equals(b) and (kind != "double" or np.array_equal(*(np.signbit(x.drop_null().to_numpy()) for x in (a, b))))
    digests = [digest_batches(pa.table({"v": x}).to_batches()) for x in (a, b)]
    assert (digests[0] == digests[1]) == same
    assert (digest_by_entry([a]) == digest_by_entry([b])) == same


@pytest.mark.parametrize("kind", TYPES)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_by_entry_independent_of_batches_and_calls(kind, data):
    """By entry, too, neither the cuts nor the number of arrays in a call count."""
    values = data.draw(st.lists(st.none() | TYPES[kind][1], max_size=20))
    whole = pa.array(values, TYPES[kind][0])
    bounds = sorted({0, len(whole), *data.draw(st.lists(st.integers(0, len(whole)), max_size=4))})
    arrays = [whole.slice(a, b - a) for a, b in itertools.pairwise(bounds)]
    column, joined = ColumnDigest(by_entry=True), hashlib.sha256()
    for array in arrays:
        column.update([array])
    column.finish(joined)
    assert digest_by_entry(arrays) == digest_by_entry([whole]) == joined.digest()


@settings(max_examples=100, deadline=None)
@given(
    values=st.lists(
        st.none() | st.text(max_size=40) | st.sampled_from(["", "a", "a\0", "b" * 127, "b" * 128, "b" * 129])
    ),
    ways=st.lists(st.integers(0, 4), max_size=5),
)
def test_by_entry_independent_of_dictionaries(values, ways):
    """Read as codes of any dictionary, in any order of its entries, or as plain strings: one digest."""
    arrays, step = [], len(values) // max(1, len(ways)) + 1
    for at, way in enumerate(ways or [0]):
        part = pa.array(values[at * step : (at + 1) * step], pa.string())
        if way == 1:
            part = part.dictionary_encode()
        elif way == 2:
            entries = pa.array([*sorted({v for v in part.to_pylist() if v is not None}, reverse=True), "never used"])
            part = pa.DictionaryArray.from_arrays(pc.index_in(part, entries), entries)
        elif way == 3:
            part = part.cast(pa.large_string())
        elif way == 4:
            part = part.cast(pa.string_view())
        arrays.append(part)
    rest = pa.array(values[len(arrays) * step :], pa.string())
    assert digest_by_entry([*arrays, rest]) == digest_by_entry([pa.array(values, pa.string())])


def test_tokens_differ():
    """Texts of every length, and those that differ in one byte only, have different tokens."""
    texts = ["x" * size for size in range(300)] + ["x" * at + "y" + "x" * (200 - at) for at in range(201)]
    texts += ["y" * at + "x" + "y" * (60 - at) for at in range(61)] + ["\0" * size for size in range(1, 20)]
    assert len(np.unique(hash_entries([pa.array(texts)]))) == len(texts)
    assert hash_entries([pa.array([text]) for text in texts]).tolist() == hash_entries([pa.array(texts)]).tolist()


@pytest.mark.parametrize("places", [(7, 11, 15), (15, 19, 23), (7, 15, 23), (0, 8, 16), (3, 7, 15), (4, 12, 20)])
def test_values_that_differ_in_the_same_places_have_different_tokens(places):
    """As times, identifiers and counters do: a change in one word is not taken back by a change in a later one."""
    value = bytearray(b"2024000010100000 2024010")
    values = []
    for bytes_there in itertools.product(range(0, 256, 9), repeat=3):
        for place, byte in zip(places, bytes_there, strict=True):
            value[place] = byte
        values.append(bytes(value))
    assert len(np.unique(hash_entries([pa.array(values, pa.binary())]))) == len(set(values))


def stream_digest(*parts: bytes) -> bytes:
    """The digest of a stream that comes in these parts."""
    stream = StreamDigest()
    for part in parts:
        stream.update(part)
    return stream.digest()


def test_a_stream_is_digested_whatever_its_parts():
    """Cut anywhere, within a word or a block, it has one digest; a longer or shorter one has another."""
    dice = random.Random(5)
    data = dice.randbytes(300_000) + bytes(70_000)
    whole = stream_digest(data)
    for _ in range(20):
        bounds = [0, *sorted(dice.choices(range(len(data)), k=dice.randrange(9))), len(data)]
        assert stream_digest(*(data[a:b] for a, b in itertools.pairwise(bounds))) == whole
    assert len({stream_digest(data[:end]) for end in range(len(data) - 70_000, len(data), 997)}) == 71


def test_a_stream_with_any_change_has_another_digest():
    """A bit, two words exchanged, a byte moved, doubled or lost: also where words have few bits or repeat."""
    dice = random.Random(6)
    for data in (
        dice.randbytes(200_000),
        bytes(dice.choice((0, 1)) for _ in range(100_000)),
        np.array([dice.choice((0.5, 1.0, 1.5, -0.0)) for _ in range(20_000)]).tobytes(),
        np.array([dice.randrange(40) << 56 for _ in range(20_000)]).astype("<u8").tobytes(),
    ):
        found = {stream_digest(data)}
        changed = set()
        for _ in range(300):
            new, at, other = bytearray(data), *(dice.randrange(len(data) // 8) * 8 for _ in range(2))
            match dice.randrange(4):
                case 0:
                    new[at] ^= 1 << dice.randrange(8)
                case 1:
                    new[at : at + 8], new[other : other + 8] = data[other : other + 8], data[at : at + 8]
                case 2:
                    new.insert(other, new.pop(at))
                case 3:
                    new[at + 7] ^= 0x80
                    new[other + 7] ^= 0x80
            if bytes(new) != data:
                changed.add(bytes(new))
        found |= {stream_digest(new) for new in changed}
        assert len(found) == len(changed) + 1


def test_bytes_behind_nulls_do_not_count():
    """Two arrays that differ only behind their nulls have one digest."""
    valid = pa.py_buffer(b"\x05")
    one, other = (
        pa.Array.from_buffers(pa.int64(), 3, [valid, pa.py_buffer(np.array([1, x, 3], dtype="<i8"))]) for x in (2, 9)
    )
    assert digest_batches([pa.record_batch({"v": one})]) == digest_batches([pa.record_batch({"v": other})])


def test_null_struct_is_no_struct_of_nulls():
    """A row that is null and a row whose fields are null differ, whatever lies in the children."""
    kind = pa.struct([("a", pa.int32())])
    one, other = pa.array([None, {"a": 1}], kind), pa.array([{"a": None}, {"a": 1}], kind)
    assert digest_batches([pa.record_batch({"v": one})]) != digest_batches([pa.record_batch({"v": other})])


@pytest.mark.parametrize(
    "encoded",
    [
        pa.array(["a", "b", None, "a"]).dictionary_encode(),
        pa.array(["a", "b", None, "a"], pa.large_string()),
        pa.array(["a", "b", None, "a"], pa.string_view()),
    ],
)
def test_encoding_does_not_count(encoded):
    """Dictionaries and views have the digest of the values they represent."""
    plain = pa.array(["a", "b", None, "a"])
    assert digest_batches([pa.record_batch({"v": encoded})]) == digest_batches([pa.record_batch({"v": plain})])
    assert digest_by_entry([encoded]) == digest_by_entry([plain])


def test_signed_zeros_and_lengths_count():
    """-0.0 is not 0.0, and where a string ends counts."""
    for left, right in (([0.0], [-0.0]), (["ab", "c"], ["a", "bc"]), ([[1], []], [[], [1]]), ([1, 1], [1])):
        a, b = (digest_batches([pa.record_batch({"v": pa.array(x)})]) for x in (left, right))
        assert a != b


def test_no_rows_agree_with_no_batches():
    """A file with an empty batch and one without any batch hold the same rows: none."""
    empty = pa.record_batch({"v": pa.array([], pa.int32())})
    assert digest_batches([]) == digest_batches([empty])


def test_golden_values():
    """The digest is stored on disk, so it must never change."""
    batch = pa.record_batch(
        {
            "i": pa.array([1, None, 3], pa.int64()),
            "s": pa.array(["a", "", None]),
            "d": pa.array([decimal.Decimal("1.50"), None, decimal.Decimal("-2.25")], pa.decimal128(9, 2)),
            "l": pa.array([[1], None, []], pa.list_(pa.int32())),
        }
    )
    assert str(digest_batches([batch])) == "3 rows 8223162ed6ea370c84e3ce0b42212ce9"
