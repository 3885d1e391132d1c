"""DuckDB, Polars and PyArrow read the live files of a table with every column type and find what was loaded."""

import datetime as dt
import decimal
import random
from collections import Counter

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from segment_lake import SegmentLake
from segment_model import order_key, quick_folder

from packstone.pipeline.table import Table
from packstone.tables.segments.format.columns import parse_columns, to_arrow
from packstone.tables.segments.load_options import LoadOptions
from packstone.tables.segments.options import SegmentOptions

INF, NAN = float("inf"), float("nan")
D = decimal.Decimal
ZONED = [dt.datetime(1, 1, 1, tzinfo=dt.UTC), dt.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC)]
VALUES = {
    "boolean": [True, False],
    "byte": [-128, 0, 127],
    "short": [-(2**15), 2**15 - 1],
    "int": [-(2**31), 0, 2**31 - 1],
    "long": [-(2**63), -1, 2**63 - 1],
    "float": [0.0, -0.0, NAN, INF, -INF, 0.5, 3.4e38],
    "double": [0.0, -0.0, NAN, INF, -INF, 0.1, 5e-324],
    "decimal(5,2)": [D("-999.99"), D("0.00"), D("0.01")],
    "decimal(18,6)": [D("123456789012.123456"), D("-1.000000")],
    "decimal(38,10)": [D("9" * 28 + "." + "9" * 10), D("-0.0000000001")],
    "string": ["", "a", "ä€😀", "\x00", "x" * 400],
    "binary": [b"", b"\x00", b"\xff" * 300],
    "date": [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(9999, 12, 31)],
    "timestamp": [*ZONED, dt.datetime(2024, 2, 29, 12, 0, 0, 1, tzinfo=dt.UTC)],
    "timestamp_ntz": [one.replace(tzinfo=None) for one in ZONED],
    "array<int>": [[], [1, None, 3]],
    "array<struct<a:string,b:array<double>>>": [[], [{"a": "x", "b": [1.5, None]}, None], [{"a": None, "b": None}]],
    "map<string,int>": [[], [("k", 1), ("l", None)]],
    "struct<a:int,b:struct<c:string,d:date>>": [
        {"a": 1, "b": {"c": "x", "d": dt.date(2024, 1, 1)}},
        {"a": None, "b": None},
    ],
}
COLUMNS = {f"c{at}": kind for at, kind in enumerate(VALUES)}
SCHEMA = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
ZONED_COLUMN = next(name for name, kind in COLUMNS.items() if kind == "timestamp")
PLAIN = [name for name, kind in COLUMNS.items() if "<" not in kind]


def make_rows(seed, count):
    """Rows of all types, a fifth of the values missing."""
    rng = random.Random(seed)
    rows = [
        {name: None if rng.random() < 0.2 else rng.choice(VALUES[kind]) for name, kind in COLUMNS.items()}
        for _ in range(count)
    ]
    return pa.Table.from_pylist(rows, schema=to_arrow(parse_columns(SCHEMA)))


def spell(value):
    """One spelling for what readers give in several: maps as pairs or as structs, zones by any name."""
    if isinstance(value, dict):
        return tuple(spell(one) for one in value.values())
    if isinstance(value, list | tuple):
        return tuple(spell(one) for one in value)
    if isinstance(value, dt.datetime):
        return ("at", value.replace(tzinfo=None).isoformat(), value.tzinfo is not None)
    return repr(value)


def count_rows(table):
    """Rows with how often they occur; the order of the columns is the table's."""
    return Counter(spell(row) for row in table.select(list(COLUMNS)).to_pylist())


def read_with_duckdb(paths):
    """By its own reader, which shows times in the zone of the machine."""
    with duckdb.connect() as connection:
        found = connection.read_parquet(paths).to_arrow_table()
    at = found.column_names.index(ZONED_COLUMN)
    return found.set_column(at, ZONED_COLUMN, found.column(at).cast(pa.timestamp("us", "UTC")))


def read_with_polars(paths):
    """By its own reader."""
    return pl.read_parquet(paths).to_arrow()


def read_with_pyarrow(paths):
    """By the library that wrote them."""
    return pa.concat_tables([pq.read_table(path) for path in paths])


READERS = (read_with_duckdb, read_with_polars, read_with_pyarrow)


@pytest.fixture(params=PLAIN, ids=COLUMNS.get)
def made(request):
    """A table of every type, sorted by two columns: one of each plain type comes first once."""
    with quick_folder() as folder:
        first = request.param
        second = "c10" if first != "c10" else "c4"
        lake = SegmentLake(folder / "t").create(SCHEMA, SORT_COLUMNS=f"{first},{second}", TABLE_BLOCKLET_ROWS=1000)
        yield lake, (first, second)


def check(lake, expected):
    """All three find the rows in the files that the table names, and nothing is wrong with them."""
    paths = list(Table(lake.table).segments.files().paths)
    assert sorted(paths) == sorted(lake.files())
    for read in READERS:
        assert count_rows(read(paths)) == expected, read.__name__


@pytest.mark.sample(4)
def test_other_readers_find_the_rows(made):
    """After loads of all scopes, and after their merge, which is in order over all its files."""
    lake, sort_columns = made
    table = Table(lake.table)
    expected = Counter()
    for seed, scope in enumerate(("NO_SORT", "LOCAL_SORT", "GLOBAL_SORT", None)):
        rows = make_rows(seed, 40 if seed else 1100)
        table.segments.load(rows, options=LoadOptions(sort_scope=scope, verify="content"))
        expected += count_rows(rows)
    check(lake, expected)
    outcome = table.compact(SegmentOptions(task_bytes=20_000))
    assert [unit.partition for unit in outcome.units] == ["0.1"]
    check(lake, expected)
    keys = lake.read("0.1").select(list(sort_columns)).to_pylist()
    ordered = [tuple(order_key(value) for value in key.values()) for key in keys]
    assert ordered == sorted(ordered)
