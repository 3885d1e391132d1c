"""Keys of every type are merged in Java's order, wherever the windows are cut, and broken order is found."""

from __future__ import annotations

import dataclasses
import itertools
import math
from decimal import Decimal

import plain_model as model
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from make_runs import FOLDER, make_file, make_io, make_schema, make_spec, merge, read_back, sort_run, with_keys

from packstone.errors import CorruptionError
from packstone.rewrite.merge_tree.spec import KeyRange, MergeSpec, OutputSpec, pack_schema, pack_value

LONG_TEXTS = st.builds(
    lambda head, tail: head + tail,
    st.sampled_from(["", "customer-0000-0000-", "x" * 300, "ä"]),
    st.text(alphabet="ab\0é", max_size=10),
)
KEY_TYPES = {
    "int8": (pa.int8(), st.integers(-128, 127)),
    "int32": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "int64": (pa.int64(), st.sampled_from([-(2**63), 2**63 - 1, 0]) | st.integers(-5, 5)),
    "float": (pa.float32(), st.floats(width=32)),
    "double": (pa.float64(), st.sampled_from([0.0, -0.0, math.nan, -math.inf]) | st.floats()),
    "text": (pa.string(), LONG_TEXTS),
    "binary": (pa.binary(), st.binary(max_size=20)),
    "decimal": (pa.decimal128(9, 2), st.decimals(-99999, 99999, places=2)),
    "big decimal": (pa.decimal128(38, 0), st.integers(-(10**37), 10**37).map(Decimal)),
    "date": (pa.date32(), st.dates()),
    "time": (
        pa.time32("ms"),
        st.times().map(lambda time: time.replace(microsecond=time.microsecond // 1000 * 1000)),
    ),
    "timestamp": (pa.timestamp("us"), st.datetimes()),
    "boolean": (pa.bool_(), st.booleans()),
}


@st.composite
def keyed_runs(draw):
    """Runs with one to three key columns of drawn types, some with nulls."""
    kinds = draw(st.lists(st.sampled_from(sorted(KEY_TYPES)), min_size=1, max_size=3))
    names = [f"k{at}" for at in range(len(kinds))]
    has_nulls = draw(st.booleans())
    values = [st.none() | KEY_TYPES[kind][1] if has_nulls else KEY_TYPES[kind][1] for kind in kinds]
    pool = draw(st.lists(st.tuples(*values), min_size=1, max_size=12))
    runs, sequence = [], 0
    for _ in range(draw(st.integers(1, 5))):
        records = []
        for key in draw(st.lists(st.sampled_from(pool), max_size=10)):
            sequence += 1
            row = {**dict(zip(names, key, strict=True)), "_SEQUENCE_NUMBER": sequence, "_VALUE_KIND": 0, "v": sequence}
            records.append(with_keys(row, names))
        runs.append(sort_run(records, names))
    schema = make_schema(
        [(name, KEY_TYPES[kind][0]) for name, kind in zip(names, kinds, strict=True)], [("v", pa.int64())]
    )
    return schema, names, runs


@settings(max_examples=250, deadline=None)
@given(drawn=keyed_runs(), rows=st.sampled_from([None, 1, 2, 5]))
def test_keys_of_every_type(drawn, rows):
    """The newest record of each key, in the order of keys, also with nulls, NaN, zeros and long common beginnings."""
    schema, names, runs = drawn
    io = make_io()
    result = merge(io, make_spec(io, runs, schema, row_group_rows=rows))
    found = read_back(io, result.files, schema)
    expected = model.merge_runs(runs, keys=names, merge=model.deduplicate)
    assert [row["v"] for row in found] == [row["v"] for row in expected]


def numbered(keys, sequence=0, **more):
    """Records with these keys."""
    return [
        with_keys({"k": key, "_SEQUENCE_NUMBER": sequence + at, "_VALUE_KIND": 0, "v": str(key), **more}, ["k"])
        for at, key in enumerate(keys)
    ]


LONG_KEYS = make_schema([("k", pa.int64())], [("v", pa.string())])
TEXT_KEYS = make_schema([("k", pa.string())], [("v", pa.string())])


@pytest.mark.parametrize("rows", [1, 3, 7, 1000])
def test_windows_of_any_size_give_the_same(rows):
    """Runs of different density; the cut of the windows does not show."""
    io = make_io()
    runs = [
        numbered(range(1000), 0),
        numbered(range(500, 510), 1000),
        numbered(range(0, 1000, 50), 2000),
        numbered([999, 1000, 2000], 3000),
        [],
    ]
    result = merge(io, make_spec(io, runs, LONG_KEYS, row_group_rows=rows))
    found = read_back(io, result.files, LONG_KEYS)
    assert [row["k"] for row in found] == [*range(1000), 1000, 2000]
    assert found[505]["_SEQUENCE_NUMBER"] == 1005
    assert found[550]["_SEQUENCE_NUMBER"] == 2011


@pytest.mark.parametrize("schema", [LONG_KEYS, TEXT_KEYS], ids=["long", "text"])
@pytest.mark.parametrize("wrong", [[1, 2, 2, 3], [1, 3, 2, 4], [5, 1, 2, 3], [1, 2, 3, 0]])
@pytest.mark.parametrize("rows", [1, 2, 10])
@pytest.mark.parametrize("others", [0, 1])
def test_an_unsorted_run_is_named(schema, wrong, rows, others):
    """A key twice in a run, or a smaller one behind a larger, is corruption, and no file stays."""
    io = make_io()
    as_key = str if schema is TEXT_KEYS else int
    runs = [numbered([as_key(key) for key in wrong], 10), *[numbered([as_key(k) for k in (0, 2, 6)])] * others]
    with pytest.raises(CorruptionError, match=r"run-0\.parquet is not sorted") as caught:
        merge(io, make_spec(io, runs, schema, row_group_rows=rows))
    assert caught.value.facts["file"] == f"{FOLDER}/run-0.parquet"
    assert not [entry.name for entry in io.list_dir(FOLDER) if entry.name.startswith("out")]


def test_unsorted_texts_that_hide_behind_their_beginnings():
    """Ends that rise do not make up for beginnings that fall."""
    io = make_io()
    runs = [numbered(["a1", "b2", "a3"], 10), numbered(["a0", "a4"])]
    with pytest.raises(CorruptionError, match=r"run-0\.parquet is not sorted"):
        merge(io, make_spec(io, runs, TEXT_KEYS))


def test_sections_that_overlap_are_found():
    """Each section is in order, but the second begins before the first ends."""
    io = make_io()
    files = [make_file(io, f"run-{at}", numbered(keys, at), LONG_KEYS) for at, keys in enumerate([[1, 5], [4, 6]])]
    spec = MergeSpec(
        sections=(((files[0],),), ((files[1],),)),
        arrow_schema=pack_schema(LONG_KEYS),
        key_columns=("_KEY_k",),
        drop_deletes=False,
        output=OutputSpec(directory=FOLDER),
    )
    with pytest.raises(CorruptionError, match="Sections overlap"):
        merge(io, spec)


def test_a_run_of_several_files_and_several_sections():
    """Files of a run follow each other; sections are glued into one output."""
    io = make_io()
    a, b, c = (
        make_file(io, name, numbered(keys, at), LONG_KEYS)
        for name, keys, at in [("a", [1, 2], 0), ("b", [3, 4], 10), ("c", [2, 3], 20)]
    )
    d = make_file(io, "d", numbered([7, 8], 30), LONG_KEYS)
    spec = MergeSpec(
        sections=(((a, b), (c,)), ((d,),)),
        arrow_schema=pack_schema(LONG_KEYS),
        key_columns=("_KEY_k",),
        drop_deletes=False,
        output=OutputSpec(directory=FOLDER),
    )
    result = merge(io, spec)
    found = read_back(io, result.files, LONG_KEYS)
    assert [(row["k"], row["_SEQUENCE_NUMBER"]) for row in found] == [
        (1, 0),
        (2, 20),
        (3, 21),
        (4, 11),
        (7, 30),
        (8, 31),
    ]
    (file,) = result.files
    assert (file.first_key, file.last_key, file.min_sequence, file.max_sequence) == ((1,), (8,), 0, 31)


@settings(max_examples=60, deadline=None)
@given(
    drawn=keyed_runs(),
    cuts=st.lists(st.integers(0, 11), min_size=1, max_size=3, unique=True),
    rows=st.sampled_from([None, 1, 3]),
)
def test_key_ranges_share_a_bucket_out(drawn, cuts, rows):
    """Tasks that take [lower, upper) each give together what one task gives."""
    schema, names, runs = drawn
    values = [record[names[0]] for run in runs for record in run if record[names[0]] is not None]
    bounds = sorted({model.java_key(value): value for value in values}.items())
    bounds = [value for at, (_, value) in enumerate(bounds) if at in cuts]
    packed = [None, *(pack_value(pa.scalar(value, schema.field(names[0]).type)) for value in bounds), None]
    io = make_io()
    spec = make_spec(io, runs, schema, row_group_rows=rows)
    whole = read_back(io, merge(io, spec).files, schema)
    parts = []
    for at, (lower, upper) in enumerate(itertools.pairwise(packed)):
        part = dataclasses.replace(spec, key_range=KeyRange(lower=lower, upper=upper))
        part = dataclasses.replace(part, output=dataclasses.replace(part.output, directory=f"{FOLDER}/{at}"))
        io.make_dirs(f"{FOLDER}/{at}")
        parts.extend(read_back(io, merge(io, part).files, schema))
    assert [row["v"] for row in parts] == [row["v"] for row in whole]
