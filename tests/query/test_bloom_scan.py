"""Scans that ask bloom filters: fewer row groups are read, and the rows are the same."""

import datetime as dt
import random
from decimal import Decimal

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import packstone
from packstone.pipeline.table import Table
from packstone.query.filter.parse_filter import parse_filter
from packstone.query.filter.resolve import prepare_filter
from packstone.query.scan.blocklet_scan import scan_blocklets
from packstone.query.scan.bloom import requested_columns
from packstone.query.scan.caches import ScanCaches
from packstone.query.scan.plan import ScanFile
from packstone.storage.local import LocalFileIO

SCHEMA = "id long, n int, b byte, name string, raw binary, price decimal(30,5), day date, moment timestamp, x double"
BLOOMS = "id,n,b,name,raw,price,day,moment"
START = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)


def rows(rng, count):
    """Even numbers in any order, in every type; odd ones are within all bounds and nowhere."""
    ids = [2 * rng.randrange(50_000) for _ in range(count)]
    return pa.table(
        {
            "id": ids,
            "n": pa.array(ids, pa.int32()),
            "b": pa.array([number % 100 for number in ids], pa.int8()),
            "name": [f"n{number}" for number in ids],
            "raw": pa.array([number.to_bytes(4, "big") for number in ids], pa.binary()),
            "price": pa.array([Decimal(number * 10**20) for number in ids], pa.decimal128(30, 5)),
            "day": [dt.date(1900, 1, 1) + dt.timedelta(days=number) for number in ids],
            "moment": pa.array([START + dt.timedelta(seconds=number) for number in ids], pa.timestamp("us", "UTC")),
            "x": [float(number) for number in ids],
        }
    )


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Four loads that overlap wholly; the first was made before there were bloom filters."""
    rng, path = random.Random(5), tmp_path_factory.mktemp("lake") / "t"
    made = packstone.create(str(path), SCHEMA, properties={"TABLE_BLOCKLET_ROWS": "1000"})
    made.segments.load(rows(rng, 1000))
    made.segments.alter({"BLOOM_COLUMNS": BLOOMS, "BLOOM_FPP": "0.001"})
    for _ in range(3):
        made.segments.load(rows(rng, 5000))
    return Table(str(path))


def groups_read(table, where):
    """How many row groups are left after the bounds, and after the bloom filters."""
    levels = {level.name: level for level in table.scan(where=where).explain().pruned.levels}
    return levels["row groups"].kept, levels["bloom filters"].kept


@pytest.mark.parametrize(
    "where",
    [
        "id = 33333",
        "n = 33333",
        "name = 'n33333'",
        "raw = X'00008235'",
        "price = 3333300000000000000000000.00000",
        "day = DATE '1991-04-07'",
        "moment = TIMESTAMP '2024-01-01 09:15:33Z'",
        "id IN (33331, 33333, 33335)",
        "id = 33333 AND x > 5",
        "id = 33333 OR name = 'n1'",
        "(id = 33333 OR n = 5) AND name < 'n6'",
    ],
)
def test_a_value_that_is_nowhere_is_not_looked_for(table, where):
    """Of all row groups only those of the load that has no bloom filters are left; no row matches."""
    bounds, blooms = groups_read(table, where)
    assert bounds == 16
    assert blooms <= 2
    assert table.scan(where=where).to_arrow().num_rows == 0
    assert table.scan(where=where).count() == 0


@pytest.mark.parametrize(
    "where", ["id <> 33333", "id > 33333", "NOT id IN (1, 3)", "id = 1 OR x = 2", "id IS NULL", "x = 33333", "TRUE"]
)
def test_other_filters_do_not_ask(table, where):
    """Where a row without the value may match, or equal values have several forms, the filter is not used."""
    assert "bloom filters" not in [level.name for level in table.scan(where=where).explain().pruned.levels]
    with duckdb.connect() as connection:
        query = f"select count(*) from read_parquet($1) where {where}"
        ((expected,),) = connection.execute(query, [list(table.segments.files().paths)]).fetchall()
    assert table.scan(where=where).count() == expected


def test_values_that_are_there_are_found(table):
    """One by one and in lists, in every column with a bloom filter, as DuckDB finds them."""
    whole = pa.concat_tables([pq.read_table(path) for path in table.segments.files().paths])  # noqa: F841 - by DuckDB
    rng = random.Random(7)
    with duckdb.connect() as connection:
        connection.execute("set TimeZone = 'UTC'")
        for _ in range(40):
            number, other = 2 * rng.randrange(50_000), rng.randrange(100_000)
            day, moment = dt.date(1900, 1, 1) + dt.timedelta(days=number), START + dt.timedelta(seconds=number)
            for where in (
                f"id = {number}", f"n IN ({number}, {other})", f"name = 'n{number}'", f"b = {number % 100}",
                f"price = {number * 10**20}", f"day = DATE '{day}'", f"moment = TIMESTAMP '{moment:%F %T}Z'",
                f"id = {number} AND name IN ('n{number}', 'n{other}')", f"id = {other} OR n = {number}",
            ):  # fmt: skip
                theirs = where.replace("TIMESTAMP", "TIMESTAMPTZ")
                expected = connection.sql(f"select id from whole where {theirs}").fetchall()
                found = table.scan(columns=["id"], where=where).to_arrow().column("id").to_pylist()
                assert sorted(found) == sorted(one for (one,) in expected), where


def test_a_compaction_writes_them_too(tmp_path):
    """Of the merged segment every row group has bloom filters, and of a globally sorted load."""
    rng = random.Random(9)
    properties = {"TABLE_BLOCKLET_ROWS": "1000", "BLOOM_COLUMNS": "name", "SORT_COLUMNS": "id", "SORT_SCOPE": "global"}
    table = packstone.create(str(tmp_path / "t"), SCHEMA, properties=properties)
    for _ in range(4):
        table.segments.load(rows(rng, 3000))
    table = Table(str(tmp_path / "t"))
    for is_merged in (False, True):
        if is_merged:
            table.compact(table.plan(strategy="major"))
        bounds, blooms = groups_read(table, "name = 'n33333'")
        assert bounds > 2
        assert blooms <= 1
    for path in table.segments.files().paths:
        metadata = pq.read_metadata(path)
        chunks = [metadata.row_group(at).column(3) for at in range(metadata.num_row_groups)]
        assert all(chunk.bloom_filter_offset for chunk in chunks)


def test_a_long_list_is_not_tested():
    """Asking is dearer than reading then."""
    schema = pa.schema([("id", pa.int64())])
    few, many = (", ".join(map(str, range(0, 2 * count, 2))) for count in (256, 257))
    assert requested_columns(prepare_filter(parse_filter(f"id IN ({few})"), schema), ["id"]) == {"id"}
    assert requested_columns(prepare_filter(parse_filter(f"id IN ({many})"), schema), ["id"]) == frozenset()


@pytest.mark.parametrize(
    ("stored", "asked"),
    [
        (pa.int32(), pa.int64()),
        (pa.timestamp("ms"), pa.timestamp("us")),
        (pa.decimal128(20, 1), pa.decimal128(30, 1)),
    ],
)
def test_a_file_of_another_type_is_not_asked(tmp_path, stored, asked):
    """A column that was widened since: its bytes in the file are others than those of the value that is requested."""
    path, value = tmp_path / "f.parquet", pa.array([7], pa.int64()).cast(stored)
    pq.write_table(
        pa.table({"v": pa.chunked_array([value])}), path, bloom_filter_options={"v": {"ndv": 10, "fpp": 0.001}}
    )
    schema = pa.schema([("v", asked)])
    where = "v = TIMESTAMP_NTZ '1970-01-01 00:00:00.007'" if pa.types.is_timestamp(asked) else "v = 7"
    found = scan_blocklets(
        LocalFileIO(),
        [ScanFile(path=str(path), size_bytes=path.stat().st_size)],
        schema=schema,
        filter_schema=schema,
        expression=prepare_filter(parse_filter(where), schema),
        caches=ScanCaches.make(),
    )
    assert sum(batch.num_rows for batch in found) == 1
