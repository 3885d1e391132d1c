"""Spark writes ORC files of all its types; merged, it reads the same rows and the same schema, with filters too."""

from __future__ import annotations

import pyarrow as pa
import pytest
from orc_files import change_footer, change_type
from pyarrow import orc

from packstone import HiveOptions, Table
from packstone.rewrite.data_files.orc_rows import OrcOutput
from packstone.rewrite.merge_tree.spec import DataFormat, OutputSpec
from packstone.storage.local import LocalFileIO

FILES = 5
EVERY_TYPE = """
    id, cast(id % 100 as tinyint) tiny, cast(id as smallint) small, cast(id as int) int, id % 3 = 0 flag,
    cast(id as float) / 3 real, cast(id as double) / 7 double, if(id % 5 = 0, null, concat('s', id)) text,
    cast(concat('b', id) as binary) raw, cast(id * 1.01 as decimal(10,2)) dec, cast(id * 1.01 as decimal(38,6)) wide,
    date_add(date'0001-01-01', cast(id * 3000 as int)) day,
    case id % 4 when 0 then timestamp'0001-01-01 00:00:00' when 1 then timestamp'9999-12-31 23:59:59.999999'
        when 2 then timestamp'1969-12-31 23:59:59.000123' else timestamp_micros(id * 1000003) end at,
    if(id % 2 = 0, timestamp_ntz'0001-01-01 00:00:00', timestamp_ntz'9999-12-31 23:59:59.999999') wall,
    make_dt_interval(0, 0, 0, id) span, make_ym_interval(cast(id as int), 1) months,
    array(id, null, id + 1) list, map(concat('k', id), id) map,
    named_struct('x', id, 'y', array(named_struct('z', id))) pair
"""
FILTERS = (
    "id = 77", "text = 's78'", "text is null", "double > 20", "day > date'1000-01-01'", "flag", "dec = 50.5",
    "wall > timestamp_ntz'2000-01-01'", "at < timestamp'1500-01-01'", "at > timestamp'5000-01-01'", "id < 0",
)  # fmt: skip


def write(spark, folder, *, codec, columns=EVERY_TYPE, rows=200):
    """Write rows that follow each other as some files, in one job."""
    spec = spark.range(0, rows, 1, FILES).selectExpr(*split_columns(columns))
    spec.write.option("compression", codec).orc(str(folder))
    for marker in (*folder.glob("_*"), *folder.glob(".*")):
        marker.unlink()


def split_columns(columns):
    """Cut a select list at its outer commas."""
    found, depth, start = [], 0, 0
    for at, letter in enumerate(columns):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            found.append(columns[start:at])
            start = at + 1
    return [*found, columns[start:]]


WITHOUT_TIMES = ",".join(one for one in split_columns(EVERY_TYPE) if not one.endswith(" at"))


def rows_of(spark, folder):
    """All rows as text, and the schema."""
    frame = spark.read.orc(str(folder))
    texts = [f"to_json({name})" if name == "map" else f"cast({name} as string)" for name in frame.columns]
    return sorted(map(str, frame.selectExpr(*texts).collect())), frame.schema.json()


def counts_of(spark, folder, filters):
    """How many rows pass each filter, each by a scan of its own."""
    asked = [f"select {at} at, count(*) n from {{table}} where {one}" for at, one in enumerate(filters)]
    found = spark.sql(" union all ".join(asked), table=spark.read.orc(str(folder))).collect()
    return [row.n for row in sorted(found)]


def compact(folder):
    """Merge the folder to one file; name the way."""
    outcome = Table(str(folder)).compact(HiveOptions(min_files=2))
    (unit,) = outcome.units
    assert (len(unit.inputs), outcome.skipped) == (FILES, ())
    assert len(list(folder.iterdir())) == 1
    return unit.how


def test_every_type_of_spark(spark, tmp_path, hostile):
    """Years 1 and 9999, wall-clock times, intervals, decimals and nested values: the same rows, schema and answers."""
    folder = tmp_path / "t"
    write(spark, folder, codec="zlib")
    before = rows_of(spark, folder)
    hostile({"spark.sql.orc.filterPushdown": "true"})
    counts = counts_of(spark, folder, FILTERS)
    assert sum(counts) > 0
    assert compact(folder) == "stitch"
    assert rows_of(spark, folder) == before
    assert counts_of(spark, folder, FILTERS) == counts
    hostile({"spark.sql.orc.enableVectorizedReader": "false"})
    assert rows_of(spark, folder) == before


@pytest.mark.parametrize("how", ["stitch", "rewrite"])
def test_answers_from_statistics(spark, tmp_path, hostile, how):
    """Spark answers counts and extremes from the footer alone: those of the merged file are right."""
    folder = tmp_path / "t"
    columns = EVERY_TYPE if how == "stitch" else WITHOUT_TIMES
    write(spark, folder, codec="snappy", columns=columns)
    query = """select count(*), count(text), min(id), max(id), min(tiny), max(int), min(real), max(double), min(day),
        max(day) from {table}"""
    before = spark.sql(query, table=spark.read.orc(str(folder))).collect()
    assert compact(folder) == how
    hostile({"spark.sql.orc.aggregatePushdown": "true", "spark.sql.sources.useV1SourceList": ""})
    frame = spark.sql(query, table=spark.read.orc(str(folder)))
    assert "PushedAggregation: [COUNT(*)" in frame._jdf.queryExecution().toString()
    assert frame.collect() == before


@pytest.mark.parametrize("codec", ["snappy", "zstd", "lz4", "none"])
def test_every_codec_of_spark(spark, tmp_path, codec):
    """Under every codec that Spark writes, the merged file has the same rows under the same codec."""
    folder = tmp_path / "t"
    write(spark, folder, codec=codec, columns="id, concat('text ', id) text, cast(id * 1.01 as decimal(10,2)) dec")
    before = rows_of(spark, folder)
    compact(folder)
    assert rows_of(spark, folder) == before
    (path,) = folder.iterdir()
    assert orc.ORCFile(path).compression == ("UNCOMPRESSED" if codec == "none" else codec.upper())


def test_char_and_varchar(spark, tmp_path, hostile):
    """Lengths of char and varchar, which PyArrow does not show, are what Spark reads before and after."""
    hostile({"spark.sql.charAsVarchar": "false"})
    folder = tmp_path / "t"
    folder.mkdir()
    for at in range(FILES):
        path = folder / f"{at}.orc"
        texts = [f"{at}{letter}  " for letter in "abcd"]
        orc.write_table(pa.table({"c": texts, "v": texts}), path, compression="zlib")
        change_footer(path, change_type(1, kind=17, length=4))
        change_footer(path, change_type(2, kind=16, length=9))
    reader = spark._jvm.org.apache.orc.OrcFile

    def types():
        conf = spark._jsc.hadoopConfiguration()
        paths = [spark._jvm.org.apache.hadoop.fs.Path(str(path)) for path in sorted(folder.iterdir())]
        return {reader.createReader(path, reader.readerOptions(conf)).getSchema().toString() for path in paths}

    before = rows_of(spark, folder)
    assert types() == {"struct<c:char(4),v:varchar(9)>"}
    assert compact(folder) == "rewrite"
    assert types() == {"struct<c:char(4),v:varchar(9)>"}
    assert rows_of(spark, folder) == before


def test_types_that_are_encoded_again(spark, tmp_path, hostile):
    """Tiny stripes of Spark's: one stripe of PyArrow's with the same rows, schema, attributes, metadata and answers."""
    folder = tmp_path / "t"
    write(spark, folder, codec="zlib", columns=WITHOUT_TIMES)
    before = rows_of(spark, folder)
    filters = [one for one in FILTERS if "at " not in one]
    hostile({"spark.sql.orc.filterPushdown": "true"})
    counts = counts_of(spark, folder, filters)
    (first, *_) = sorted(folder.iterdir())
    metadata = orc.ORCFile(first).metadata
    assert b"org.apache.spark.version" in metadata
    assert compact(folder) == "rewrite"
    assert rows_of(spark, folder) == before
    assert counts_of(spark, folder, filters) == counts
    (path,) = folder.iterdir()
    assert (orc.ORCFile(path).metadata, orc.ORCFile(path).nstripes) == (metadata, 1)


def test_writers_in_two_zones(spark, tmp_path):
    """Stripes carry the zone of their writer: instants of both, an hour that happens twice too, are what they were."""
    zones = spark._jvm.java.util.TimeZone
    usual, folder = zones.getDefault(), tmp_path / "t"
    columns = "id, timestamp_seconds(1729983600 + id * 600) at"  # Berlin's clocks went back that night
    for number, zone in enumerate(("Europe/Berlin", "America/Los_Angeles")):
        try:
            zones.setDefault(zones.getTimeZone(zone))
            write(spark, tmp_path / zone, codec="none", columns=columns, rows=60)
        finally:
            zones.setDefault(usual)
        folder.mkdir(exist_ok=True)
        for path in (tmp_path / zone).iterdir():
            path.rename(folder / f"{number}{path.name}")
    before = rows_of(spark, folder)
    outcome = Table(str(folder)).compact(HiveOptions(min_files=2))
    assert [(len(unit.inputs), unit.how) for unit in outcome.units] == [(2 * FILES, "stitch")]
    assert rows_of(spark, folder) == before
    (path,) = folder.iterdir()
    content = path.read_bytes()
    assert (content.count(b"Europe/Berlin"), content.count(b"America/Los_Angeles")) == (FILES, FILES)


def test_pyarrow_files(spark, tmp_path):
    """Files of another writer than Spark, encoded again with their times: the same rows before and after."""
    folder = tmp_path / "t"
    folder.mkdir()
    for at in range(FILES):
        ids = list(range(at * 50, at * 50 + 50))
        table = pa.table(
            {"id": ids, "at": pa.array([one + 1 for one in ids], pa.timestamp("s")), "text": [f"t{one}" for one in ids]}
        )
        orc.write_table(table, folder / f"{at}.orc", compression="snappy")
    before = rows_of(spark, folder)
    assert compact(folder) == "rewrite"
    assert rows_of(spark, folder) == before


FLOAT_FILTERS = [
    f"{column} {comparison} {literal}"
    for column in ("x", "f", "pair.x")
    for comparison in ("=", "<", "<=", ">", ">=")
    for literal in ("double('NaN')", "-0.0D", "0.0D", "5.0D", "double('-Infinity')")
]


@pytest.mark.slow
@pytest.mark.parametrize("rows", [250, 25_000])
def test_filters_on_floats(spark, tmp_path, hostile, rows):
    """NaN, infinities and both zeros: statistics of the merged file hide no row that a filter found before."""
    folder = tmp_path / "t"
    value = """case {0} when 0 then double('NaN') when 1 then -0.0D when 2 then 0.0D when 3 then double('Infinity')
        when 4 then double('-Infinity') when 5 then 7.5D when 6 then -1.0D when 7 then null else 2.0D end"""
    pick = "hash(id div {0}) % 9" if rows > 1_000 else "abs(hash(id)) % 9"
    x = value.format(pick.format(3_000))
    columns = f"id, {x} x, cast({x} as float) f, named_struct('x', {x}) pair"
    write(spark, folder, codec="zlib", columns=columns, rows=rows)
    hostile({"spark.sql.orc.filterPushdown": "true"})
    before = counts_of(spark, folder, FLOAT_FILTERS)
    compact(folder)
    after = counts_of(spark, folder, FLOAT_FILTERS)
    assert dict(zip(FLOAT_FILTERS, after, strict=True)) == dict(zip(FLOAT_FILTERS, before, strict=True))


@pytest.mark.parametrize("codec", ["zlib", "none"])
@pytest.mark.sample(2)
def test_times_before_1970_behind_an_index(spark, tmp_path, hostile, codec):
    """Fractions before 1970 that were encoded again: Java finds them by the row index, and by their own statistics."""
    rows = 45_000  # some groups of 10,000, in more than one stripe
    early = [None if at % 11 == 0 else -2_000_000 - at * 1_000_003 for at in range(rows)]
    table = pa.table(
        {
            "id": list(range(rows)),
            "at": pa.array(early, pa.timestamp("us")),
            "list": pa.array([[one] * (at % 3) for at, one in enumerate(early)], pa.list_(pa.timestamp("us"))),
            "noise": [f"{at * 7919 % 99_991}" * 9 for at in range(rows)],
        }
    )
    spec = OutputSpec(directory=str(tmp_path), file_format=DataFormat.ORC, compression=codec, block_bytes=1 << 18)
    output = OrcOutput(LocalFileIO(), str(tmp_path / "a.orc"), schema=table.schema, output=spec, sample=table)
    output.write(table)
    output.close()
    hostile({"spark.sql.orc.filterPushdown": "true"})
    frame = spark.read.orc(str(tmp_path / "a.orc"))
    texts = ["id", "cast(at as string) at", "cast(list as string) list"]
    found = {row.id: (row.at, row.list) for row in frame.selectExpr(*texts).collect()}
    assert [found[at][0] is None for at in range(rows)] == [one is None for one in early]
    for place in (0, 9_999, 10_000, 20_001, 31_234, rows - 1):
        near = frame.where(f"id between {place - 2} and {place + 2}").selectExpr(*texts).collect()
        assert {row.id: (row.at, row.list) for row in near} == {
            at: found[at] for at in range(max(0, place - 2), min(rows, place + 3))
        }
        if found[place][0] is not None:
            assert frame.where(f"at = timestamp'{found[place][0]}'").count() == 1
