"""Whatever a directory holds: other engines read the same rows before and after, and a second run has nothing to do."""

from __future__ import annotations

import decimal
import tempfile
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from random_parquet import CANNOT, WRITERS, duck, look, read_all, read_with_duckdb, read_with_polars, write_directory

from packstone import HiveOptions, Table

relaxed = settings(deadline=None, suppress_health_check=list(HealthCheck))

DAY = 86_400
FIRST_DAY, LAST_DAY = -719_162, 2_932_896  # 0001-01-01 and 9999-12-31
UNIT = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def instants(unit):
    """Counts of the unit since 1970: all of 0001 to 9999, or what 64 bits hold, and the ends themselves."""
    per_day = DAY * UNIT[unit]
    low, high = max(-(2**63) + 1, FIRST_DAY * per_day), min(2**63 - 1, (LAST_DAY + 1) * per_day - 1)
    return st.integers(low, high) | st.sampled_from([low, high, 0, -1, 1])


def decimals(precision, scale):
    """Decimals of all sizes that fit, the biggest of them often."""
    limit = 10**precision - 1
    unscaled = st.integers(-limit, limit) | st.sampled_from([limit, -limit, 0])
    return unscaled.map(lambda n: decimal.Decimal((n < 0, tuple(map(int, str(abs(n)))), -scale)))


def integers(kind):
    """Integers of a type, its ends often."""
    bits, signed = kind.bit_width, not pa.types.is_unsigned_integer(kind)
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return st.integers(low, high) | st.sampled_from([low, high])


TEXT = st.text(st.characters(codec="utf-8"), max_size=20) | st.sampled_from(["", "x" * 5000, "NULL", "-0.0", "😀"])
FLOATS = st.floats(width=32) | st.sampled_from([float("nan"), -0.0, 0.0, float("inf")])
LEAVES = st.sampled_from(
    [
        *[(kind, integers(kind)) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())],
        *[(kind, integers(kind)) for kind in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())],
        (pa.float32(), FLOATS),
        (pa.float64(), FLOATS | st.floats()),
        (pa.bool_(), st.booleans()),
        (pa.string(), TEXT),
        (pa.large_string(), TEXT),
        (pa.string(), st.sampled_from(["a", "b", "c"])),
        (pa.dictionary(pa.int32(), pa.string()), TEXT),
        (pa.binary(), st.binary(max_size=20)),
        (pa.binary(3), st.binary(min_size=3, max_size=3)),
        (pa.date32(), st.integers(FIRST_DAY, LAST_DAY) | st.sampled_from([FIRST_DAY, LAST_DAY])),
        (pa.time32("ms"), st.integers(0, DAY * 1000 - 1)),
        (pa.time64("us"), st.integers(0, DAY * 10**6 - 1)),
        *[(pa.timestamp(unit), instants(unit)) for unit in UNIT],
        *[(pa.timestamp(unit, "UTC"), instants(unit)) for unit in ("ms", "us", "ns")],
        *[(pa.decimal128(p, s), decimals(p, s)) for p, s in ((1, 0), (9, 9), (10, 2), (18, 3), (19, 0), (38, 10))],
    ]
)


def or_null(values):
    """Values, a null now and then."""
    return values | st.none()


def undictionaried(kind):
    """The type of the values: behind a null struct PyArrow makes dictionary codes without an entry."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


@st.composite
def nested_types(draw, children):
    """A list, struct or map of what the children draw."""
    (kind, values), (other, others) = draw(children), draw(children)
    shape = draw(st.sampled_from(["list", "large_list", "struct", "required", "map"]))
    if shape == "struct":
        named = pa.struct([pa.field("a", undictionaried(kind)), pa.field("ß b", undictionaried(other), nullable=False)])
        return named, st.fixed_dictionaries({"a": or_null(values), "ß b": others})
    if shape == "map":
        pairs = st.tuples(st.text(max_size=3), or_null(values))
        return pa.map_(pa.string(), kind), st.lists(pairs, max_size=3, unique_by=lambda pair: pair[0])
    if shape == "required":
        return pa.list_(pa.field("element", kind, nullable=False)), st.lists(values, max_size=3)
    make = pa.list_ if shape == "list" else pa.large_list
    return make(kind), st.lists(or_null(values), max_size=3)


TYPES = st.recursive(LEAVES, nested_types, max_leaves=4)
NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=5)
DIALECTS = st.fixed_dictionaries(
    {
        "compression": st.sampled_from(["none", "snappy", "zstd", "gzip", "lz4"]),
        "store_schema": st.booleans(),
        "use_deprecated_int96_timestamps": st.booleans(),
        "store_decimal_as_integer": st.booleans(),
        "use_dictionary": st.booleans(),
        "data_page_version": st.sampled_from(["1.0", "2.0"]),
        "write_page_index": st.booleans(),
        "row_group_size": st.sampled_from([1, 3, 1000]),
    }
)


@st.composite
def tables(draw):
    """A schema, and rows for several files of it."""
    fields = draw(st.lists(TYPES, min_size=1, max_size=4))
    names = draw(st.lists(NAMES, min_size=len(fields), max_size=len(fields), unique_by=str.casefold))
    required = [draw(st.booleans()) for _ in fields]
    schema = pa.schema(
        [pa.field(name, kind, nullable=not must) for name, (kind, _), must in zip(names, fields, required, strict=True)]
    )
    row = st.tuples(*(values if must else or_null(values) for (_, values), must in zip(fields, required, strict=True)))
    files = draw(st.lists(st.lists(row, max_size=6), min_size=2, max_size=6))
    return [table_of(schema, rows) for rows in files]


def table_of(schema, rows):
    """Turn rows into columns."""
    columns = zip(*rows, strict=True) if rows else [[] for _ in schema]
    return pa.table([pa.array(list(c), f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


@st.composite
def directories(draw):
    """Name, writer and content of every file in a directory; several schemas and writers in one."""
    files = []
    for group in range(draw(st.integers(1, 2))):
        dialect = draw(DIALECTS)
        writer = draw(st.sampled_from(["pyarrow", "pyarrow", "duckdb", "polars"]))
        files += [(f"{at}-é {group}日", writer, dialect, table) for at, table in enumerate(draw(tables()))]
    return files


def write(path, writer, dialect, table):
    """Write one file with the writer, or with PyArrow if that writer does not take the types."""
    try:
        if writer == "duckdb":
            codec = {"none": "uncompressed", "lz4": "lz4_raw"}.get(dialect["compression"], dialect["compression"])
            with duck() as db:
                db.from_arrow(table).write_parquet(str(path), compression=codec)
            return
        if writer == "polars":
            codec = {"none": "uncompressed"}.get(dialect["compression"], dialect["compression"])
            pl.from_arrow(table).write_parquet(path, compression=codec)
            return
    except CANNOT:
        path.unlink(missing_ok=True)
    pq.write_table(table, path, **dialect)


@settings(relaxed, max_examples=60)
@given(directories(), st.sampled_from(["keep", "keep", "zstd"]))
def test_other_engines_read_the_same_rows(files, codec):
    """DuckDB and Polars read the same multiset of rows before and after; nothing of ours lies in their way."""
    check_same_rows(files, codec)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@settings(relaxed, max_examples=5000)
@given(directories(), st.sampled_from(["keep", "keep", "zstd"]))
def test_other_engines_read_the_same_rows_of_many_directories(files, codec):
    """The same for thousands of directories."""
    check_same_rows(files, codec)


def check_same_rows(files, codec):
    """Write the files, merge them, and compare what other engines read."""
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root) / "täble" / "dt=2024-01-01"
        folder.mkdir(parents=True)
        for name, writer, dialect, table in files:
            write(folder / f"{name}.parquet", writer, dialect, table)
        before = {read: read_all(folder, read) for read in (read_with_duckdb, read_with_polars)}

        hive = Table(str(folder.parent))
        outcome = hive.compact(HiveOptions(min_files=2, codec=codec))

        for read, rows in before.items():
            event(rows if isinstance(rows, str) else f"{read.__name__}: compared")
            if not isinstance(rows, str):
                assert read_all(folder, read) == rows
        event(f"{len(outcome.units)} outputs, {len(outcome.skipped)} skips")
        assert len(list(folder.iterdir())) == outcome.files_after
        ((seen,),) = duckdb.sql(f"select count(*) from glob('{folder.parent}/**/*.parquet')").fetchall()
        assert seen == outcome.files_after
        if not any("INT96" in skip.why for skip in outcome.skipped):  # only reading the values tells that
            assert hive.plan(HiveOptions(min_files=2, codec=codec)).outcome.units == ()


@settings(relaxed, max_examples=20)
@given(st.lists(st.lists(st.integers(-5, 5), max_size=5), min_size=2, max_size=8))
def test_reading_the_folder_itself_finds_the_same_rows(files):
    """Engines that walk the table's folder, hidden names and all, find every row once."""
    with tempfile.TemporaryDirectory() as root:
        table = Path(root) / "t"
        for at, numbers in enumerate(files):
            folder = table / f"dt={at % 2}"
            folder.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.table({"x": pa.array(numbers, pa.int64())}), folder / f"{at}.parquet")
        wanted = sorted(number for numbers in files for number in numbers)

        Table(str(table)).compact(HiveOptions(min_files=2))

        recursive = duckdb.sql(f"select x from read_parquet('{table}/**/*.parquet')").fetchall()
        assert sorted(x for (x,) in recursive) == wanted
        assert sorted(pl.read_parquet(table, hive_partitioning=False)["x"].to_list()) == wanted
        assert sorted(pl.read_parquet(f"{table}/**/*.parquet", hive_partitioning=False)["x"].to_list()) == wanted


@pytest.mark.parametrize("seed", range(15))
def test_readers_agree_with_filters(seed, tmp_path, packstone):
    """PyArrow, DuckDB and Polars find the same rows in random files of five writers, with and without filters.

    Spark, which is the sixth writer and the fourth reader, is in tests/spark/test_random_directories.py.
    """
    folder = tmp_path / "table"
    folder.mkdir()
    directory = write_directory(folder, seed, WRITERS)
    before = look(folder, directory)
    before.check_agreement(directory)

    done = packstone("compact", folder, "--set", "min-files=2", "--format", "json")

    assert done.code == 0, done.err
    after = look(folder, directory)
    after.check_same(before)
    after.check_agreement(directory)
