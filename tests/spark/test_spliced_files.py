"""Spark reads files that were merged page by page, its own among them."""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError

from packstone import HiveOptions, Table
from packstone.model.unit import How
from packstone.rewrite.small_files import parquet_splice
from packstone.rewrite.small_files.parquet_splice import plan_splice, splice_parquet
from packstone.storage.local import LocalFileIO

ROWS = 4_000
FILTERS = (
    "id = 7000",
    "text = 'text 77'",
    "word = 'word 3' and price > 100",
    "flag",
    "id < 0",
    "text is null",
    "x = 9",
    "own = 'own 0 7'",
    "own >= 'own 3'",
)


def write_files(folder, *, pages):
    """Files in which only two columns have a dictionary; one has values of each file's own, so codes get longer."""
    for at in range(4):
        numbers = np.arange(at * ROWS, at * ROWS + ROWS)
        table = pa.table(
            {
                "id": numbers,
                "price": pa.array(numbers * 0.25, mask=numbers % 7 == 0),
                "flag": pa.array(numbers % 3 == 0, mask=numbers % 7 == 0),
                "text": pa.array([f"text {n * 7919 % 10_007}" for n in numbers], mask=numbers % 11 == 0),
                "word": [f"word {n % 10}" for n in numbers],
                "own": [f"own {at} {n * 7919 % 300}" for n in numbers],
                "list": pa.array(
                    [None if n % 5 == 0 else [int(n), None][: n % 3] for n in numbers], pa.list_(pa.int64())
                ),
                "pair": [None if n % 8 == 0 else {"x": int(n), "y": str(n)} for n in numbers],
            }
        )
        pq.write_table(
            table.append_column("x", pa.array(numbers, pa.int32())),
            folder / f"{at}.parquet",
            use_dictionary=["word", "own"],
            data_page_version=pages,
            row_group_size=2_000,
            store_schema=False,
        )


@pytest.mark.slow
@pytest.mark.parametrize("pages", ["1.0", "2.0"])
def test_spark_reads_a_spliced_file(spark, tmp_path, pages):
    """The vectorised reader and the plain one see the same rows, split anywhere, with filters pushed down."""
    folder = tmp_path / "t"
    folder.mkdir()
    write_files(folder, pages=pages)
    was = spark.read.parquet(str(folder))
    rows, counts = sorted(map(str, was.collect())), [was.where(one).count() for one in FILTERS]

    outcome = Table(str(folder)).compact(HiveOptions(min_files=2))

    assert [unit.how for unit in outcome.units] == [How.SPLICE]
    for vectorised in ("true", "false"):
        settings = {
            "spark.sql.files.maxPartitionBytes": "64k",
            "spark.sql.parquet.enableVectorizedReader": vectorised,
        }
        before = {key: spark.conf.get(key) for key in settings}
        try:
            for key, value in settings.items():
                spark.conf.set(key, value)
            now = spark.read.parquet(str(folder))
            assert now.schema == was.schema
            assert sorted(map(str, now.collect())) == rows
            assert [now.where(one).count() for one in FILTERS] == counts
        finally:
            for key, value in before.items():
                spark.conf.set(key, value)


FILES_OF_SPARK = 4
ROWS_OF_SPARK = 1_500
BY_SPARK = """
    id, concat('low', pmod(xxhash64(id), 5)) low,
    if(pmod(xxhash64(id, 1), 9) = 0, null, concat('m', pmod(id, 300))) mid,
    if(id < 3000, null, concat('s', pmod(id, 9))) null_in_some, cast(null as string) nothing, 'one' one,
    if(pmod(id, 1500) < 700, concat('rep', pmod(id, 4)), concat('unique-', id)) falls_back,
    if(id < 1500, concat('u', id), 'same') dictionary_in_some,
    element_at(array(0D, -0D, 1.5D, double('nan'), double('inf'), -2.25D), cast(pmod(xxhash64(id, 2), 6) + 1 as int)) d,
    cast(pmod(id, 7) / 4 as double) quarter, floor(id / 100) runs, cast(pmod(xxhash64(id, 3), 1000) - 500 as int) i,
    cast(pmod(id, 4000) / 100 as decimal(9, 2)) dec32, cast(pmod(id, 4000) / 100 as decimal(25, 3)) dec_bytes,
    timestamp_seconds(1700000000 + pmod(xxhash64(id, 4), 900)) ts,
    date_add(date '2024-01-01', cast(pmod(id, 400) as int)) day, pmod(id, 3) = 0 flag,
    if(pmod(id, 4) = 0, null, array(cast(pmod(id, 50) as int), null)) ints,
    if(pmod(id, 5) = 0, null, struct(concat('c', pmod(id, 12)) as a, if(pmod(id, 3) = 0, null, pmod(id, 9)) as b)) st,
    map('k1', pmod(id, 20), concat('k', pmod(id, 7) + 2), id) m
"""
FILTERS_OF_SPARK = (
    "low = 'low3'",
    "mid = 'm77'",
    "mid is null",
    "null_in_some = 's4'",
    "nothing is not null",
    "falls_back = 'rep2'",
    "falls_back = 'unique-5999'",
    "d = 0",
    "d = double('nan')",
    "quarter > 1",
    "runs = 17",
    "i between -3 and 3",
    "dec32 = 1.25",
    "dec_bytes < 2",
    "ts >= timestamp_seconds(1700000800)",
    "day = date '2024-02-03'",
    "id in (1499, 1500, 4500)",
    "st.a = 'c3'",
)
WAYS_OF_SPARK = {
    "version 1": {},
    "version 2": {"parquet.writer.version": "PARQUET_2_0"},
    "small pages": {"parquet.page.size": "512", "parquet.page.row.count.limit": "300"},
    "small pages, version 2": {
        "parquet.writer.version": "PARQUET_2_0", "parquet.page.size": "512", "parquet.page.row.count.limit": "300",
    },
    "overflow": {"parquet.dictionary.page.size": "1024"},
    "bloom filters": {"parquet.bloom.filter.enabled#mid": "true", "parquet.bloom.filter.enabled#id": "true"},
    "bloom filters of all": {"parquet.bloom.filter.enabled": "true", "parquet.bloom.filter.max.bytes": "4096"},
    "no checksums": {"parquet.page.write-checksum.enabled": "false"},
    **{codec: {"compression": codec} for codec in ("none", "gzip", "zstd", "lz4_raw")},
}  # fmt: skip


def found_by_spark(spark, folder):
    """All rows in their order, and what each filter finds, in one job each."""
    frame = spark.read.parquet(str(folder))
    rows = [str(row) for row in frame.orderBy("id").collect()]
    asked = None
    for at, one in enumerate(FILTERS_OF_SPARK):
        part = frame.where(one).selectExpr(f"{at} as filter", "id")
        asked = part if asked is None else asked.union(part)
    return rows, sorted(map(tuple, collect_surely(asked)))


def collect_surely(frame, tries=4):
    """Collect; Spark 4.3 at times fails to decompress LZ4_RAW pages in parallel tasks, and then reads the same file."""
    for left in reversed(range(tries)):
        try:
            return frame.collect()
        except Py4JJavaError as error:
            if "io.airlift.compress" not in str(error) or not left:
                raise
    raise AssertionError("never reached")


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS_OF_SPARK)
def test_files_of_spark_keep_their_dictionaries(spark, tmp_path, monkeypatch, way):
    """Spark finds the same rows in the merged file, by both readers; PyArrow and DuckDB see them in the same order."""
    monkeypatch.setattr(parquet_splice, "_MIN_PAGE_VALUES", 100)
    folder = tmp_path / "t"
    writer = (
        spark.range(0, ROWS_OF_SPARK * FILES_OF_SPARK, 1, FILES_OF_SPARK).selectExpr(*split_columns(BY_SPARK)).write
    )
    for key, value in WAYS_OF_SPARK[way].items():
        writer = writer.option(key, value)
    writer.parquet(str(folder))
    for path in folder.iterdir():
        if not path.name.endswith(".parquet"):
            path.unlink()
    inputs = [str(path) for path in sorted(folder.iterdir())]
    by_arrow = pa.concat_tables([pq.read_table(path, partitioning=None) for path in inputs])
    by_duckdb = str(duckdb.read_parquet(inputs).fetchall())
    before = found_by_spark(spark, folder)

    output = tmp_path / "out" / "merged.parquet"
    output.parent.mkdir()
    io = LocalFileIO()
    spliced = splice_parquet(io, inputs, str(output), plan=plan_splice(io, inputs))

    assert "recoded" in spliced.note
    if way not in ("overflow", "bloom filters", "bloom filters of all"):
        assert "dictionary_in_some" in spliced.note or "(" not in spliced.note
    assert str(pq.read_table(output).to_pylist()) == str(by_arrow.to_pylist())
    assert str(duckdb.read_parquet(str(output)).fetchall()) == by_duckdb
    assert found_by_spark(spark, output.parent) == before
    was = spark.conf.get("spark.sql.parquet.enableVectorizedReader")
    try:
        spark.conf.set("spark.sql.parquet.enableVectorizedReader", "false")
        assert found_by_spark(spark, output.parent) == before
    finally:
        spark.conf.set("spark.sql.parquet.enableVectorizedReader", was)


@pytest.mark.parametrize("codec", ["keep", "zstd"])
def test_bloom_filters_of_all_columns(spark, tmp_path, packstone, codec):
    """parquet-mr then writes filters of booleans, too, which nobody can make or ask: these are left out."""
    folder = tmp_path / "t"
    columns = ("id", "concat('m', pmod(id, 50)) word", "pmod(id, 3) = 0 flag", "if(pmod(id, 2) = 0, null, id > 9) rare")
    frame = spark.range(0, 3_000, 1, 3).selectExpr(*columns)
    filters = {"parquet.bloom.filter.enabled": "true", "parquet.bloom.filter.max.bytes": "4096"}
    frame.write.options(**filters).parquet(str(folder))
    for path in folder.iterdir():
        if not path.name.endswith(".parquet"):
            path.unlink()
    assert filtered_columns(next(folder.iterdir())) == {"id", "flag", "rare"}  # none beside a dictionary
    rows = sorted(map(str, spark.read.parquet(str(folder)).collect()))

    done = packstone("compact", folder, "--engine", "inline", "--set", "min-files=2", "--codec", codec)

    assert done.code == 0, done.err
    (merged,) = (path for path in folder.iterdir() if path.suffix == ".parquet")
    assert filtered_columns(merged) == {"id"}
    after = spark.read.parquet(str(folder))
    assert sorted(map(str, after.collect())) == rows
    assert (after.where("flag").count(), after.where("word = 'm7' and rare").count()) == (1_000, 59)


def filtered_columns(path):
    """The columns of the first row group that have a bloom filter."""
    group = pq.read_metadata(path).row_group(0)
    chunks = [group.column(at) for at in range(group.num_columns)]
    return {chunk.path_in_schema for chunk in chunks if chunk.bloom_filter_offset is not None}


def split_columns(text):
    """Split a list of SQL expressions at the commas outside of brackets."""
    found, depth = [""], 0
    for letter in text.strip():
        depth += (letter == "(") - (letter == ")")
        if letter == "," and not depth:
            found.append("")
        else:
            found[-1] += letter
    return [one.strip() for one in found]
