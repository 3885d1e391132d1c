"""Files that differ in anything a reader can notice are merged apart, never into each other."""

from __future__ import annotations

import os

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from footer_edit import set_codec

from packstone import HiveOptions, Table

SPARK, LEGACY, LEGACY96 = "org.apache.spark.version", "org.apache.spark.legacyDateTime", "org.apache.spark.legacyINT96"
ZONE, ROW = "org.apache.spark.timeZone", "org.apache.spark.sql.parquet.row.metadata"


@pytest.fixture
def folder(tmp_path):
    """An empty table."""
    (tmp_path / "t").mkdir()
    return tmp_path / "t"


def merged_names(folder, **options):
    """Merge; tell which inputs came together, and check that no row moved."""
    rows = {path.name: rows_of(path) for path in folder.iterdir()}
    outcome = Table(str(folder)).compact(HiveOptions(min_files=2, **options))
    for unit in outcome.units:
        assert rows_of(folder / unit.outputs[0]) == [row for name in unit.inputs for row in rows[name]]
    return {frozenset(name.split(".")[0] for name in unit.inputs) for unit in outcome.units}


def rows_of(path):
    """Rows, by a reader that is not ours."""
    return list(map(repr, pl.read_parquet(path, glob=False).rows()))


def write(path, table=None, *, notes=None, **options):
    """Write a file with these key-values and no others."""
    table = pa.table({"a": [1]}) if table is None else table
    with pq.ParquetWriter(path, table.schema, **{"store_schema": False} | options) as writer:
        writer.write_table(table)
        if notes:
            writer.add_key_value_metadata(notes)


WITH_ID = pa.field("a", pa.int64(), metadata={"PARQUET:field_id": "3"})
TABLES = {
    "more columns": (pa.table({"a": [1]}), pa.table({"a": [1], "b": [2]})),
    "column order": (pa.table({"a": [1], "b": [2]}), pa.table({"b": [2], "a": [1]})),
    "case of a name": (pa.table({"a": [1]}), pa.table({"A": [1]})),
    "width": (pa.table({"a": [1]}), pa.table({"a": pa.array([1], pa.int32())})),
    "sign": (pa.table({"a": [1]}), pa.table({"a": pa.array([1], pa.uint64())})),
    "text or bytes": (pa.table({"a": ["x"]}), pa.table({"a": [b"x"]})),
    "unit of time": (pa.table({"a": pa.array([1], pa.timestamp("us"))}),
                     pa.table({"a": pa.array([1], pa.timestamp("ms"))})),
    "zone of time": (pa.table({"a": pa.array([1], pa.timestamp("us"))}),
                     pa.table({"a": pa.array([1], pa.timestamp("us", "UTC"))})),
    "precision": (pa.table({"a": pa.array([1], pa.decimal128(9, 2))}),
                  pa.table({"a": pa.array([1], pa.decimal128(8, 2))})),
    "nullability": (pa.table({"a": [1]}),
                    pa.table([pa.array([1])], pa.schema([pa.field("a", pa.int64(), nullable=False)]))),
    "nullability inside": (
        pa.table({"a": pa.array([[1]], pa.list_(pa.int64()))}),
        pa.table({"a": pa.array([[1]], pa.list_(pa.field("element", pa.int64(), nullable=False)))}),
    ),
    "field id": (pa.table({"a": [1]}), pa.table([pa.array([1])], pa.schema([WITH_ID]))),
}  # fmt: skip
OPTIONS = {
    "codec": ({"compression": "snappy"}, {"compression": "zstd"}),
    "ARROW:schema": ({"store_schema": True}, {"store_schema": False}),
    "sorting": ({"sorting_columns": [pq.SortingColumn(0)]}, {}),
    "bloom filter": ({"bloom_filter_options": {"a": True}}, {}),
}
NOTES = {
    "old calendar": ({SPARK: "3.5.1", LEGACY: ""}, {SPARK: "3.5.1"}),
    "old int96 calendar": ({SPARK: "3.5.1", LEGACY96: ""}, {SPARK: "3.5.1"}),
    "spark 2 and 3": ({SPARK: "2.4.8"}, {SPARK: "3.0.0"}),
    "spark and not": ({SPARK: "3.5.1"}, {}),
    "time zone": ({SPARK: "3.5.1", LEGACY: "", ZONE: "Asia/Tokyo"}, {SPARK: "3.5.1", LEGACY: "", ZONE: "UTC"}),
    "spark's schema": ({ROW: '{"type":"struct","fields":[]}'}, {ROW: '{"type":"struct"}'}),
    "any other key": ({"parquet.avro.schema": "1"}, {"parquet.avro.schema": "2"}),
    "a key more": ({"x": "1"}, {}),
}


@pytest.mark.parametrize("what", TABLES)
def test_schemas_stay_apart(folder, what):
    """Two schemas in one folder become two files."""
    for name, table in zip("pq", TABLES[what], strict=True):
        write(folder / f"{name}1.parquet", table)
        write(folder / f"{name}2.parquet", table)
    assert merged_names(folder) == {frozenset({"p1", "p2"}), frozenset({"q1", "q2"})}


@pytest.mark.parametrize("what", OPTIONS)
def test_ways_of_writing_stay_apart(folder, what):
    """Two codecs, orders, kinds of index or schema notes in one folder become two files."""
    for name, options in zip("pq", OPTIONS[what], strict=True):
        write(folder / f"{name}1.parquet", **options)
        write(folder / f"{name}2.parquet", **options)
    assert merged_names(folder) == {frozenset({"p1", "p2"}), frozenset({"q1", "q2"})}


@pytest.mark.parametrize("what", NOTES)
def test_writer_semantics_stay_apart(folder, what):
    """Footers by which Spark reads dates differently, or that differ in any key we do not know, become two files."""
    for name, notes in zip("pq", NOTES[what], strict=True):
        write(folder / f"{name}1.parquet", notes=notes)
        write(folder / f"{name}2.parquet", notes=notes)
    assert merged_names(folder) == {frozenset({"p1", "p2"}), frozenset({"q1", "q2"})}
    kept = [pq.read_metadata(path).metadata or {} for path in folder.iterdir()]
    wanted = [{k.encode(): v.encode() for k, v in notes.items()} for notes in NOTES[what]]
    assert sorted(map(str, kept)) == sorted(map(str, wanted))


def test_extensions_stay_apart(folder):
    """``x.parquet``, ``x.parq`` and a file without an ending keep their endings."""
    for ending in (".parquet", ".parq", ""):
        for at in range(2):
            write(folder / f"{ending[1:] or 'none'}{at}{ending}")
    groups = merged_names(folder)
    assert groups == {frozenset({f"{kind}0", f"{kind}1"}) for kind in ("parquet", "parq", "none")}
    assert sorted(path.suffix for path in folder.iterdir()) == ["", ".parq", ".parquet"]


def test_modes_stay_apart(folder):
    """Files that not everybody may read are not mixed with files that everybody may."""
    for name, mode in (("p1", 0o600), ("p2", 0o600), ("q1", 0o644), ("q2", 0o644)):
        write(folder / f"{name}.parquet")
        (folder / f"{name}.parquet").chmod(mode)
    assert merged_names(folder) == {frozenset({"p1", "p2"}), frozenset({"q1", "q2"})}
    assert sorted(path.stat().st_mode & 0o777 for path in folder.iterdir()) == [0o600, 0o644]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_owners_stay_apart(folder):
    """Files of different owners become files of those owners."""
    for name, uid in (("p1", 1), ("p2", 1), ("q1", 0), ("q2", 0)):
        write(folder / f"{name}.parquet")
        os.chown(folder / f"{name}.parquet", uid, 0)
    assert merged_names(folder) == {frozenset({"p1", "p2"}), frozenset({"q1", "q2"})}
    assert sorted(path.stat().st_uid for path in folder.iterdir()) == [0, 1]


SAME = {
    "spark versions of one era": [{SPARK: "3.3.0", ROW: "{}"}, {SPARK: "4.1.0", ROW: "{}"}],
    "pandas' ranges": [{"pandas": pandas_note} for pandas_note in (
        '{"index_columns": [{"kind": "range", "start": 0, "stop": 3, "step": 1}], "pandas_version": "2.0.0"}',
        '{"index_columns": [{"kind": "range", "start": 0, "stop": 9, "step": 1}], "pandas_version": "2.1.0"}')],
}  # fmt: skip


@pytest.mark.parametrize("what", SAME)
def test_what_only_describes_the_writer_does_not_separate(folder, what):
    """Versions and the range of pandas' row index say nothing about the rows."""
    for name, notes in zip("pq", SAME[what], strict=True):
        write(folder / f"{name}.parquet", notes=notes)
    assert merged_names(folder) == {frozenset({"p", "q"})}


def test_created_by_does_not_separate(folder):
    """Files of several writers whose schemas are alike become one file."""
    pl.DataFrame({"a": [1]}).write_parquet(folder / "polars.parquet", compression="snappy")
    pd.DataFrame({"a": [1.5]}).to_parquet(folder / "float.parquet")
    arrow = pl.DataFrame({"a": [2]}).to_arrow()
    notes = pq.read_metadata(folder / "polars.parquet").metadata
    write(folder / "pyarrow.parquet", arrow, notes=notes)
    assert merged_names(folder) == {frozenset({"polars", "pyarrow"})}


FOREIGN = [
    (3, "LZO", "keep"),
    (3, "LZO", "zstd"),
    (5, "Hadoop's LZ4", "keep"),
    (8, "number 8", "zstd"),
    (99, "99", "keep"),
]


@pytest.mark.parametrize(("number", "name", "codec"), FOREIGN)
def test_codecs_of_others_are_left_alone(packstone, lake, number, name, codec):
    """A codec that PyArrow cannot read and write is a reason in plan and run, not a failure; the rest is merged."""
    folder = lake.parquet("p=1", files=8)
    for path in sorted(folder.iterdir())[:4]:
        pq.write_table(pq.read_table(path, partitioning=None), path, row_group_size=3)
        set_codec(path, number, last_group_only=path.name.endswith("2.parquet"))
    before = {path.name: path.read_bytes() for path in sorted(folder.iterdir())[:4]}
    planned = packstone("plan", lake.table, "--codec", codec, "--set", "min-files=2", "--format", "json")
    done = packstone("compact", lake.table, "--codec", codec, "--set", "min-files=2", "--format", "json")
    assert (planned.code, done.code) == (0, 0), done.err
    for path, content in before.items():
        assert name in planned.skipped(path)
        assert name in done.skipped(path)
        assert (folder / path).read_bytes() == content
    assert (len(done.json["units"]), len(lake.names("p=1"))) == (1, 5)


def test_hadoops_lz4_is_read_if_another_codec_is_given(packstone, lake):
    """PyArrow reads it and cannot write it: ``--codec`` merges such files."""
    folder = lake.parquet("p=1", codec="lz4")
    for path in folder.iterdir():
        set_codec(path, 5)
    ids = lake.ids()
    assert packstone("compact", lake.table, "--codec", "zstd").code == 0
    assert (len(lake.names("p=1")), lake.ids()) == (1, ids)
