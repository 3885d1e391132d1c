"""Data files of all formats are read and written alike; evolution, thin files, deletes and expiry are honoured."""

from __future__ import annotations

import dataclasses
import datetime as dt
from decimal import Decimal

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from make_runs import (
    FOLDER,
    make_file,
    make_io,
    make_schema,
    make_spec,
    merge,
    read_back,
    replace_output,
    with_keys,
    write_parquet,
)

from packstone.errors import CorruptionError, RefusedError, UnreadableFileError
from packstone.rewrite.data_files.parquet_rows import find_duplicate_columns
from packstone.rewrite.data_files.rows import read_rows
from packstone.rewrite.merge_tree.merge import run_append
from packstone.rewrite.merge_tree.spec import (
    AppendSpec,
    ColumnSource,
    DataFormat,
    Expiry,
    InputFile,
    OutputSpec,
    pack_positions,
    pack_schema,
    unpack_positions,
    unpack_schema,
)

FORMATS = [DataFormat.PARQUET, DataFormat.ORC, DataFormat.AVRO]
# ORC through PyArrow knows nanoseconds only, and those end in 2262.
# Without fractions of the last second before 1970, which ORC cannot store (test_orc_times.py).
NEAR = (st.integers(-(2**53), -(10**6)) | st.integers(0, 2**52)).map(
    lambda us: dt.datetime.fromtimestamp(0, dt.UTC).replace(tzinfo=None) + dt.timedelta(microseconds=us)
)
EVERY_TYPE = {
    "b": (pa.bool_(), st.booleans()),
    "i1": (pa.int8(), st.integers(-128, 127)),
    "i2": (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    "i4": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "i8": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "f4": (pa.float32(), st.floats(width=32, allow_nan=False)),
    "f8": (pa.float64(), st.floats(allow_nan=False)),
    "d9": (pa.decimal128(9, 2), st.decimals("-9999999.99", "9999999.99", places=2)),
    "d18": (pa.decimal128(18, 4), st.decimals(-(10**13), 10**13, places=4)),
    "d38": (pa.decimal128(38, 10), st.decimals(-(10**27), 10**27, places=10)),
    "s": (pa.string(), st.text(max_size=5)),
    "x": (pa.binary(), st.binary(max_size=5)),
    "day": (pa.date32(), st.dates()),
    "time": (pa.time32("ms"), st.times().map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000))),
    "ms": (
        pa.timestamp("ms"),
        NEAR.map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000)),
    ),
    "us": (pa.timestamp("us"), NEAR),
    "ltz": (
        pa.timestamp("us", tz="UTC"),
        NEAR.map(lambda time: time.replace(tzinfo=dt.UTC)),
    ),
    "list": (pa.list_(pa.int32()), st.lists(st.none() | st.integers(0, 9), max_size=3)),
    "map": (pa.map_(pa.string(), pa.int64()), st.dictionaries(st.text(max_size=3), st.integers(0, 9), max_size=3)),
    "row": (
        pa.struct([("p", pa.int32()), ("q", pa.string())]),
        st.fixed_dictionaries({"p": st.none() | st.integers(0, 9), "q": st.none() | st.text(max_size=3)}),
    ),
}
WIDE = make_schema([("k", pa.int64())], [(name, kind) for name, (kind, _) in EVERY_TYPE.items()])


def wide_record(key, values):
    """A record with a column of every type."""
    plain = {name: list(v.items()) if isinstance(v, dict) and name == "map" else v for name, v in values.items()}
    return with_keys({"k": key, "_SEQUENCE_NUMBER": key, "_VALUE_KIND": 0, **plain}, ["k"])


@pytest.mark.parametrize("file_format", FORMATS)
@settings(max_examples=40, deadline=None)
@given(
    rows=st.lists(
        st.fixed_dictionaries({name: st.none() | values for name, (_, values) in EVERY_TYPE.items()}),
        min_size=1,
        max_size=6,
    )
)
@pytest.mark.sample(3)
def test_every_type_survives_every_format(file_format, rows):
    """What was written is read back equal, nulls and nested values too, and once more when that is the input."""
    records = [wide_record(at, values) for at, values in enumerate(rows)]
    io = make_io()
    spec = replace_output(make_spec(io, [records], WIDE), file_format=file_format)
    first = merge(io, spec)
    found = read_back(io, first.files, WIDE, file_format=file_format)
    assert found == pa.Table.from_pylist(records, schema=WIDE).to_pylist()
    again = dataclasses.replace(
        spec,
        sections=(((_described(first.files[0], WIDE, file_format),),),),
        output=dataclasses.replace(spec.output, directory=f"{FOLDER}/again"),
    )
    io.make_dirs(f"{FOLDER}/again")
    assert read_back(io, merge(io, again).files, WIDE, file_format=file_format) == found


def _described(file, schema, file_format):
    columns = tuple(ColumnSource(target=name, source=name) for name in schema.names)
    return InputFile(
        path=file.path, file_format=file_format, size_bytes=file.size_bytes, rows=file.rows, columns=columns
    )


@pytest.mark.parametrize("file_format", FORMATS)
@settings(max_examples=30, deadline=None)
@given(
    rows=st.lists(
        st.fixed_dictionaries({name: st.none() | values for name, (_, values) in EVERY_TYPE.items()}),
        min_size=1,
        max_size=9,
    )
)
def test_facts_of_columns_are_exact(file_format, rows):
    """Smallest, largest and nulls of each column, from a footer or computed, are those of the rows."""
    records = [wide_record(at, values) for at, values in enumerate(rows)]
    io = make_io()
    (file,) = merge(io, replace_output(make_spec(io, [records], WIDE), file_format=file_format)).files
    table = pa.Table.from_pylist(records, schema=WIDE)
    for facts in file.columns:
        column = table.column(facts.name)
        assert facts.null_count == column.null_count
        if pa.types.is_nested(column.type):
            assert (facts.minimum, facts.maximum) == (None, None)
            continue
        stored = column.cast(_integer_of(column.type)) if pa.types.is_temporal(column.type) else column
        values = [value for value in stored.to_pylist() if value is not None]
        if pa.types.is_binary(column.type) and not b"".join(values).isascii():  # negative for Java Paimon up to 1.4
            values = []
        by_bytes = (lambda text: text.encode()) if pa.types.is_string(column.type) else None
        assert facts.minimum == min(values, key=by_bytes, default=None)
        assert facts.maximum == max(values, key=by_bytes, default=None)
        assert type(facts.minimum) in {type(value) for value in values} | {type(None)}


def _integer_of(kind):
    return pa.int32() if kind.bit_width == 32 else pa.int64()


def simple(keys, *, sequence=0, kind=0):
    """Records of a small table."""
    return [
        with_keys({"k": key, "_SEQUENCE_NUMBER": sequence + at, "_VALUE_KIND": kind, "v": f"v{key}"}, ["k"])
        for at, key in enumerate(keys)
    ]


SIMPLE = make_schema([("k", pa.int64())], [("v", pa.string())])


def test_facts_of_the_file():
    """Keys, sequences, deletes and size as metadata will state them."""
    io = make_io()
    runs = [simple([1, 2, 3]), simple([2, 9], sequence=10, kind=3)]
    (file,) = merge(io, make_spec(io, runs, SIMPLE)).files
    assert (file.rows, file.first_key, file.last_key) == (4, (1,), (9,))
    assert (file.min_sequence, file.max_sequence, file.delete_rows) == (0, 11, 2)
    assert file.size_bytes == io.stat(file.path).size_bytes


def test_long_values_have_exact_facts_too():
    """PyArrow leaves values of kilobytes out of the footer; the facts hold them whole."""
    io = make_io()
    rows = [{**row, "v": letter * 9000} for row, letter in zip(simple([1, 2, 3]), "bac", strict=True)]
    (file,) = merge(io, make_spec(io, [rows], SIMPLE)).files
    facts = next(facts for facts in file.columns if facts.name == "v")
    assert (facts.minimum, facts.maximum) == ("a" * 9000, "c" * 9000)


def test_nothing_left_gives_no_file():
    """All rows deleted: no file is created, no name is requested."""
    io = make_io()
    spec = make_spec(io, [simple([1, 2]), simple([1, 2], sequence=5, kind=3)], SIMPLE, drop_deletes=True)
    result = merge(io, spec)
    assert (result.files, result.rows_in, result.rows_out) == ((), 4, 0)


@pytest.mark.parametrize("file_format", FORMATS)
def test_files_roll_at_the_target_and_do_not_overlap(file_format):
    """Sizes come near the target; each file begins above the end of the one before; names are requested first."""
    io = make_io()
    rng = np.random.default_rng(1)
    rows = [{**row, "v": rng.bytes(50).hex()} for row in simple(range(20_000))]
    spec = make_spec(io, [rows[::2], rows[1::2]], SIMPLE)
    target = 200_000
    spec = replace_output(spec, file_format=file_format, target_bytes=target, block_bytes=150_000)
    result = merge(io, spec)
    assert len(result.files) > 3
    # Nothing of a first ORC file is on disk before its first stripe is full: it goes by the inputs' bytes per row.
    sized = result.files[1:-1] if file_format is DataFormat.ORC else result.files[:-1]
    assert all(0.7 * target < file.size_bytes < 1.4 * target for file in sized)
    for one, other in zip(result.files[:-1], result.files[1:], strict=True):
        assert one.last_key < other.first_key
    assert sum(file.rows for file in result.files) == 20_000
    assert [row["k"] for row in read_back(io, result.files, SIMPLE, file_format=file_format)] == list(range(20_000))


def test_thin_files_are_read_and_written():
    """Without _KEY_ columns in the file, the key comes from the value column; thin output leaves them out."""
    io = make_io()
    sources = tuple(ColumnSource(target=name, source=name.removeprefix("_KEY_")) for name in SIMPLE.names)
    sources = tuple(
        dataclasses.replace(one, source=one.target)
        if one.target.startswith("_S") or one.target.startswith("_V")
        else one
        for one in sources
    )
    spec = make_spec(io, [simple([1, 3]), simple([2, 3], sequence=9)], SIMPLE)
    thin = replace_output(spec, thin=True)
    (file,) = merge(io, thin).files
    assert pq.read_schema(pa.BufferReader(io.read_bytes(file.path))).names == [
        "_SEQUENCE_NUMBER",
        "_VALUE_KIND",
        "k",
        "v",
    ]
    assert [facts.name for facts in file.columns] == ["_SEQUENCE_NUMBER", "_VALUE_KIND", "k", "v"]
    assert (file.first_key, file.last_key) == ((1,), (3,))
    described = dataclasses.replace(_described(file, SIMPLE, DataFormat.PARQUET), columns=sources)
    rows = pa.Table.from_batches(read_rows(io, described, SIMPLE)).to_pylist()
    assert [(row["_KEY_k"], row["k"], row["_SEQUENCE_NUMBER"]) for row in rows] == [(1, 1, 0), (2, 2, 9), (3, 3, 10)]


def test_an_evolved_schema():
    """Renamed, widened, added and dropped columns of an older file."""
    io = make_io()
    old = make_schema([("k", pa.int32())], [("name", pa.string()), ("price", pa.float32()), ("gone", pa.int8())])
    new = make_schema(
        [("k", pa.int64())],
        [
            ("title", pa.string()),
            ("price", pa.float64()),
            ("extra", pa.list_(pa.int32())),
            ("total", pa.decimal128(12, 3)),
        ],
    )
    record = with_keys({"k": 1, "_SEQUENCE_NUMBER": 0, "_VALUE_KIND": 0, "name": "a", "price": 0.5, "gone": 1}, ["k"])
    renamed = {"title": "name", "extra": None, "total": "gone"}
    sources = tuple(ColumnSource(target=name, source=renamed.get(name, name)) for name in new.names)
    file = make_file(io, "old", [record], old, sources=sources)
    (row,) = pa.Table.from_batches(read_rows(io, file, new)).to_pylist()
    assert row == {
        **with_keys({"k": 1}, ["k"]),
        "_SEQUENCE_NUMBER": 0,
        "_VALUE_KIND": 0,
        "title": "a",
        "price": 0.5,
        "extra": None,
        "total": Decimal("1.000"),
    }


@pytest.mark.parametrize(
    ("old", "new", "value"),
    [
        (pa.string(), pa.int32(), "1"),
        (pa.int32(), pa.string(), 1),
        (pa.float64(), pa.int64(), 1.5),
        (pa.int64(), pa.int32(), 2**40),
        (pa.timestamp("us"), pa.timestamp("ms"), 1),
        (pa.decimal128(9, 2), pa.decimal128(9, 1), Decimal("1.25")),
    ],
)
def test_casts_that_engines_disagree_about_are_refused(old, new, value):
    """Parsing, formatting, rounding and overflow are never guessed."""
    io = make_io()
    schema = pa.schema([("v", old)])
    sources = (ColumnSource(target="v", source="v"),)
    file = make_file(io, "old", [{"v": value}], schema, sources=sources)
    with pytest.raises(RefusedError, match="column v"):
        list(read_rows(io, file, pa.schema([("v", new)])))


def test_the_sequence_of_a_file_may_be_overridden():
    """Snapshot ordering: the file's number counts, not the rows'."""
    io = make_io()
    spec = make_spec(io, [simple([1], sequence=100), simple([1, 2], sequence=0)], SIMPLE)
    (older,), (newer,) = spec.sections[0]
    section = ((dataclasses.replace(older, sequence_override=1),), (dataclasses.replace(newer, sequence_override=2),))
    result = merge(io, dataclasses.replace(spec, sections=(section,)))
    found = read_back(io, result.files, SIMPLE)
    assert [(row["k"], row["_SEQUENCE_NUMBER"]) for row in found] == [(1, 2), (2, 2)]


@given(st.sets(st.integers(0, 2**40), max_size=50))
def test_positions_survive_packing(positions):
    """As they came, ascending."""
    assert unpack_positions(pack_positions(np.array(sorted(positions), dtype=np.int64))).tolist() == sorted(positions)


@pytest.mark.parametrize("rows", [1, 4, 100])
def test_deleted_positions_are_left_out(rows):
    """Positions count rows of the file, over all its row groups."""
    io = make_io()
    file = make_file(io, "f", simple(range(20)), SIMPLE, row_group_rows=rows)
    gone = np.array([0, 3, 4, 19])
    file = dataclasses.replace(file, deleted=pack_positions(gone))
    found = pa.Table.from_batches(read_rows(io, file, SIMPLE)).column("k").to_pylist()
    assert found == [key for key in range(20) if key not in gone]


@pytest.mark.parametrize(
    ("kind", "values", "kept"),
    [
        (pa.int32(), [89, 90, None], [90, None]),
        (pa.int64(), [89, 90, 10**12 + 999, None], [90, 10**12 + 999, None]),
        (pa.timestamp("ms"), [89_999, 90_000, None], [90_000, None]),
        (pa.timestamp("us"), [89_999_999, 90_000_000], [90_000_000]),
        (pa.timestamp("ns", tz="UTC"), [89_999_999_999, 90_000_000_000], [90_000_000_000]),
    ],
)
def test_expired_rows_are_dropped_when_read(kind, values, kept):
    """Kept while now <= time + expiry; a row without a time is kept; a BIGINT may be milliseconds."""
    io = make_io()
    schema = make_schema([("k", pa.int64())], [("t", kind)])
    rows = [
        {
            "_KEY_k": at,
            "k": at,
            "_SEQUENCE_NUMBER": 0,
            "_VALUE_KIND": 0,
            "t": None if v is None else pa.scalar(v, kind).as_py(),
        }
        for at, v in enumerate(values)
    ]
    rows = pa.Table.from_pylist(rows, schema=schema)
    write_parquet(io, f"{FOLDER}/f.parquet", rows)
    spec = make_spec(io, [], schema, expiry=Expiry(column="t", now_seconds=100, expire_seconds=10))
    columns = tuple(ColumnSource(target=name, source=name) for name in schema.names)
    file = InputFile(
        path=f"{FOLDER}/f.parquet", file_format=DataFormat.PARQUET, size_bytes=1, rows=len(values), columns=columns
    )
    result = merge(io, dataclasses.replace(spec, sections=(((file,),),)))
    batches = [b for f in result.files for b in read_rows(io, _described(f, schema, DataFormat.PARQUET), schema)]
    found = pa.Table.from_batches(batches, schema=schema).column("t").cast(pa.int64()).to_pylist()
    assert found == kept


def test_nanoseconds_are_int96_as_java_writes_them():
    """Read from INT96 and written as INT96; a time that 64 bits of nanoseconds cannot hold is refused."""
    io = make_io()
    schema = make_schema([("k", pa.int64())], [("t", pa.timestamp("ns"))])
    table = pa.table(
        {
            "_KEY_k": [1],
            "_SEQUENCE_NUMBER": [1],
            "_VALUE_KIND": pa.array([0], pa.int8()),
            "k": [1],
            "t": pa.array([1234567890123456789], pa.timestamp("ns")),
        },
        schema=schema,
    )
    write_parquet(io, f"{FOLDER}/f.parquet", table, use_deprecated_int96_timestamps=True)
    spec = make_spec(io, [], schema)
    file = dataclasses.replace(_described_path("f", 1, schema))
    result = merge(io, dataclasses.replace(spec, sections=(((file,),),)))
    written = pq.ParquetFile(pa.BufferReader(io.read_bytes(result.files[0].path)))
    assert written.schema.column(4).physical_type == "INT96"
    assert written.read().column("t").cast(pa.int64()).to_pylist() == [1234567890123456789]
    assert [f.minimum for f in result.files[0].columns if f.name == "t"] == [1234567890123456789]
    far = table.set_column(4, "t", pa.array([253402300799000], pa.timestamp("ms")))
    write_parquet(io, f"{FOLDER}/far.parquet", far, use_deprecated_int96_timestamps=True)
    with pytest.raises(RefusedError, match="outside 1677-2262"):
        list(read_rows(io, _described_path("far", 1, schema), schema))


def _described_path(name, rows, schema):
    columns = tuple(ColumnSource(target=one, source=one) for one in schema.names)
    return InputFile(
        path=f"{FOLDER}/{name}.parquet", file_format=DataFormat.PARQUET, size_bytes=1, rows=rows, columns=columns
    )


def test_parquet_files_look_as_java_writes_them():
    """Decimals as integers, lists as list.element, required system columns, field ids, no Arrow schema, zstd."""
    io = make_io()
    schema = make_schema([("k", pa.int64())], [("d", pa.decimal128(9, 2)), ("l", pa.list_(pa.int32()))])
    schema = pa.schema([f.with_metadata({"PARQUET:field_id": str(at + 7)}) for at, f in enumerate(schema)])
    rows = [with_keys({"k": 1, "_SEQUENCE_NUMBER": 0, "_VALUE_KIND": 0, "d": Decimal("1.25"), "l": [1]}, ["k"])]
    (file,) = merge(io, make_spec(io, [rows], schema)).files
    written = pq.ParquetFile(pa.BufferReader(io.read_bytes(file.path)))
    text = str(written.schema)
    assert "required int64 field_id=8 _SEQUENCE_NUMBER" in text
    assert "optional int32 field_id=11 d (Decimal(precision=9, scale=2))" in text
    assert [written.schema.column(at).path for at in range(6)][-1] == "l.list.element"
    assert b"ARROW:schema" not in (written.metadata.metadata or {})
    assert written.metadata.row_group(0).column(0).compression == "ZSTD"


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
def test_avro_codecs(codec):
    """Files that other writers compressed, also in many small blocks."""
    io = make_io()
    schema = {
        "type": "record",
        "name": "r",
        "fields": [
            {"name": "k", "type": "long"},
            {"name": "t", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        ],
    }
    import io as pyio

    sink = pyio.BytesIO()
    fastavro.writer(sink, schema, [{"k": at, "t": at} for at in range(1000)], codec=codec, sync_interval=100)
    io.write_new(f"{FOLDER}/f.avro", sink.getvalue())
    target = pa.schema([("k", pa.int64()), ("t", pa.timestamp("us"))])
    columns = tuple(ColumnSource(target=name, source=name) for name in target.names)
    file = InputFile(path=f"{FOLDER}/f.avro", file_format=DataFormat.AVRO, size_bytes=1, rows=1000, columns=columns)
    found = pa.Table.from_batches(read_rows(io, file, target, batch_bytes=4000))
    assert found.column("t").cast(pa.int64()).to_pylist() == list(range(1000))


@pytest.mark.parametrize("compression", ["zstd", "snappy", "none", "deflate"])
def test_avro_codecs_that_we_write(compression):
    """Each is read back, by fastavro too where it can."""
    io = make_io()
    spec = replace_output(
        make_spec(io, [simple(range(100))], SIMPLE), file_format=DataFormat.AVRO, compression=compression
    )
    (file,) = merge(io, spec).files
    assert len(read_back(io, [file], SIMPLE, file_format=DataFormat.AVRO)) == 100
    if compression in {"none", "deflate"}:
        import io as pyio

        assert [row["k"] for row in fastavro.reader(pyio.BytesIO(io.read_bytes(file.path)))] == list(range(100))


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("harm", ["empty", "cut", "other"])
def test_a_broken_file_is_named(file_format, harm):
    """Truncated, empty or of another kind: UnreadableFileError with the path, never wrong rows."""
    io = make_io()
    spec = replace_output(make_spec(io, [simple(range(1000))], SIMPLE), file_format=file_format, compression="none")
    (file,) = merge(io, spec).files
    data = io.read_bytes(file.path)
    io.replace(file.path, {"empty": b"", "cut": data[: len(data) // 2], "other": b"hello" * 100}[harm])
    with pytest.raises(UnreadableFileError) as caught:
        list(read_rows(io, _described(file, SIMPLE, file_format), SIMPLE))
    assert caught.value.facts["file"] == file.path


def test_a_file_with_other_than_the_stated_rows_is_named():
    """Metadata and file must agree before the file is trusted."""
    io = make_io()
    file = dataclasses.replace(make_file(io, "f", simple([1, 2]), SIMPLE), rows=3)
    with pytest.raises(CorruptionError, match="holds 2 rows, its metadata say 3"):
        list(read_rows(io, file, SIMPLE))


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_only_equal_columns_are_taken_for_twins(codec):
    """Columns of equal size and type that differ in one value, or in their nulls, are decoded each for itself."""
    io = make_io()
    numbers = list(range(1000))
    table = pa.table(
        {
            "a": numbers,
            "twin": numbers,
            "near": [1, *numbers[1:]],
            "text": ["x", "y"] * 500,
            "text twin": ["x", "y"] * 500,
            "text near": ["y", "x"] * 500,
            "nulls": pa.array([None, *numbers[1:]], pa.int64()),
            "a.b": numbers,
            "nested": pa.array([{"b": n} for n in numbers]),
        }
    )
    write_parquet(io, f"{FOLDER}/f.parquet", table, compression=codec, row_group_size=400, use_dictionary=False)
    file = _described_path("f", 1000, table.schema)
    assert pa.Table.from_batches(read_rows(io, file, table.schema)).equals(table)
    parquet = pq.ParquetFile(pa.BufferReader(io.read_bytes(file.path)))
    twins = find_duplicate_columns(io.open_input(file.path), parquet, 0, schema=table.schema)
    assert twins == {"twin": "a", "a.b": "a", "text twin": "text"}


def test_append_keeps_the_order_of_files():
    """Rows of all files in their order, evolved, without deleted ones, rolled at the target."""
    io = make_io()
    old = pa.schema([("a", pa.int32())])
    new = pa.schema([("a", pa.int64()), ("b", pa.string())])
    first = make_file(
        io, "a", [{"a": at} for at in range(5)], old,
        sources=(ColumnSource(target="a", source="a"), ColumnSource(target="b", source=None)),
    )  # fmt: skip
    second = make_file(io, "b", [{"a": at, "b": "x"} for at in (3, 1, 2)], new)
    spec = AppendSpec(
        inputs=(dataclasses.replace(first, deleted=pack_positions(np.array([2]))), second),
        arrow_schema=pack_schema(new),
        output=OutputSpec(directory=FOLDER),
    )
    result = run_append(io, spec, name_file=lambda at: f"out-{at}.parquet")
    (file,) = result.files
    assert (result.rows_in, result.rows_out, file.first_key, file.min_sequence) == (7, 7, (), 0)
    assert [(row["a"], row["b"]) for row in read_back(io, [file], new)] == [
        (0, None), (1, None), (3, None), (4, None), (3, "x"), (1, "x"), (2, "x"),
    ]  # fmt: skip
    assert unpack_schema(spec.arrow_schema) == new
