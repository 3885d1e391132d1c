"""Files merged page by page: every reader sees the rows that were there, in order, and nothing broken gets by."""

from __future__ import annotations

import decimal
import os
import struct
import uuid
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from footer_edit import edit_footer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from packstone import HiveOptions, Table
from packstone.model.files import FileEntry, Permissions
from packstone.model.outcome import SkipKind, Status
from packstone.model.unit import How, UnitSpec, UnitStatus, Verify
from packstone.rewrite.formats.parquet_pages import walk_pages
from packstone.rewrite.formats.parquet_thrift import I64, read_struct
from packstone.rewrite.proof import verify_statistics
from packstone.rewrite.small_files import parquet_splice as splice_plan
from packstone.rewrite.small_files.merge_unit import run_unit
from packstone.rewrite.small_files.parquet_splice import plan_splice
from packstone.rewrite.small_files.spliced_file import CannotSpliceError, read_footer
from packstone.storage.local import LocalFileIO
from packstone.tables.hive import journal

FILES, ROWS = 4, 3_000


@pytest.fixture
def folder(tmp_path) -> Path:
    """An empty table, with a place to stage beside it."""
    (tmp_path / "t").mkdir()
    (tmp_path / "staging").mkdir()
    return tmp_path / "t"


@pytest.fixture
def tiny_pages(monkeypatch):
    """Copy pages however small they are, so that small tables will do."""
    monkeypatch.setattr(splice_plan, "_MIN_PAGE_VALUES", 0)
    monkeypatch.setattr(splice_plan, "_MIN_COPIED_PCT", 0)


def entry(path):
    """A file as the plan saw it."""
    found = path.stat()
    permissions = Permissions(uid=found.st_uid, gid=found.st_gid, mode=found.st_mode & 0o7777)
    return FileEntry(name=path.name, size_bytes=found.st_size, mtime_ns=found.st_mtime_ns, permissions=permissions)


def run(folder, *, io=None, **options):
    """Run the unit of all files of a folder."""
    inputs = tuple(entry(path) for path in sorted(folder.iterdir()))
    spec = UnitSpec(
        number=1, partition="", directory=str(folder), inputs=inputs, how=How.REWRITE, file_format="parquet",
        output_name="out.parquet", why="test", permissions=inputs[0].permissions, **options,
    )  # fmt: skip
    return run_unit(io or LocalFileIO(), spec, staging=str(folder.parent / "staging"), attempt="a0")


def merged(folder, *, how=How.SPLICE, **options):
    """Merge a folder's files in the way that is expected; return the output."""
    result = run(folder, **options)
    assert (result.status, result.how) == (UnitStatus.WRITTEN, how), result
    assert how is How.SPLICE or not result.outputs[0].copied_columns
    return Path(result.outputs[0].path)


def read(*paths):
    """All rows of some files, in order."""
    return pa.concat_tables([pq.read_table(path, partitioning=None) for path in paths])


def check_readers(folder, output):
    """PyArrow, DuckDB and Polars see in the output what they see in the inputs, row by row."""
    inputs = sorted(folder.iterdir())
    assert read(output).equals(read(*inputs))
    names = [str(path) for path in inputs]
    assert duckdb.read_parquet(str(output)).fetchall() == duckdb.read_parquet(names).fetchall()
    assert pl.read_parquet(output).equals(pl.concat([pl.read_parquet(path) for path in inputs]))


def rows_of(first, count=ROWS):
    """A table of many types, with nulls; the numbers are all different, the words repeat."""
    numbers = np.arange(first, first + count)
    maybe = numbers % 7 == 0
    items = [None if n % 5 == 0 else [int(n), None, -int(n)][: n % 4] for n in numbers]
    pair = pa.struct({"x": pa.int64(), "y": pa.string()})
    pairs = [None if n % 6 == 0 else [(f"k{key}", float(n)) for key in range(n % 3)] for n in numbers]
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "small": pa.array((numbers % 100).astype("int8"), mask=maybe),
            "price": pa.array(numbers * 0.25, pa.float64(), mask=maybe),
            "flag": pa.array(numbers % 3 == 0, mask=maybe),
            "text": pa.array([f"text {n * 7919 % 10_007}" for n in numbers], pa.string(), mask=maybe),
            "word": pa.array([f"word {n % 10}" for n in numbers], pa.string(), mask=maybe),
            "amount": pa.array([decimal.Decimal(int(n)) / 100 for n in numbers], pa.decimal128(20, 2)),
            "at": pa.array(numbers * 1000, pa.timestamp("us")),
            "items": pa.array(items, pa.list_(pa.int64())),
            "pair": pa.array([None if n % 8 == 0 else {"x": int(n), "y": str(n)} for n in numbers], pair),
            "map": pa.array(pairs, pa.map_(pa.string(), pa.float64())),
        }
    )


def write_pyarrow(folder, *, files=FILES, rows=ROWS, **options):
    """Files of many types; only the words have a dictionary unless requested otherwise."""
    for at in range(files):
        pq.write_table(rows_of(at * rows, rows), folder / f"{at}.parquet", **{"use_dictionary": ["word"]} | options)


PYARROW_WAYS = {
    "pages of version 1": {},
    "pages of version 2": {"data_page_version": "2.0"},
    "no dictionary at all": {"use_dictionary": False},
    "a dictionary everywhere": {"use_dictionary": True},
    "a dictionary everywhere, version 2": {"use_dictionary": True, "data_page_version": "2.0"},
    "dictionaries that overflow": {"use_dictionary": True, "dictionary_pagesize_limit": 2_000, "write_batch_size": 500},
    "a page index": {"use_dictionary": True, "write_page_index": True},
    "int96": {"use_dictionary": True, "use_deprecated_int96_timestamps": True},
    "int96 without a dictionary": {"use_dictionary": False, "use_deprecated_int96_timestamps": True},
    "checksums": {"write_page_checksum": True},
    "many row groups": {"row_group_size": 1_000},
    "many pages": {"data_page_size": 8_000, "write_batch_size": 1_000},
    "no statistics": {"write_statistics": False},
    "deltas": {
        "use_dictionary": False,
        "column_encoding": {"id": "DELTA_BINARY_PACKED", "text": "DELTA_BYTE_ARRAY", "price": "BYTE_STREAM_SPLIT"},
    },
    **{codec: {"compression": codec} for codec in ("none", "snappy", "gzip", "zstd", "brotli", "lz4")},
}


@pytest.mark.parametrize("way", PYARROW_WAYS)
@pytest.mark.sample(4)
def test_files_of_pyarrow(folder, way):
    """Whatever pages and codecs PyArrow wrote, all readers see the same rows; what has a dictionary keeps one."""
    write_pyarrow(folder, **PYARROW_WAYS[way])
    output = merged(folder)
    check_readers(folder, output)
    metadata = pq.read_metadata(output)
    assert (metadata.num_row_groups, metadata.num_rows) == (1, FILES * ROWS)
    assert metadata.schema.equals(pq.read_metadata(folder / "0.parquet").schema)
    assert metadata.metadata == pq.read_metadata(folder / "0.parquet").metadata


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_files_of_duckdb(folder, version):
    """DuckDB writes bloom filters with its dictionaries: the merged file has them too, and they tell no lies."""
    for at in range(FILES):
        duckdb.sql(
            f"""copy (select range + {at * ROWS} as id, range % 50 as few, 'x' || (range * 7919 % 10007) as text,
                     random() as score, if(range % 9 = 0, null, range % 2 = 0) as flag,
                     case when range % 4 = 0 then null else [range, null] end as list,
                     {{'a': range, 'b': 'b' || range}} as pair, (range / 7)::decimal(18, 3) as amount
                from range({ROWS})) to '{folder}/{at}.parquet' (format parquet, parquet_version {version})"""
        )
    output = merged(folder)
    check_readers(folder, output)
    column = pq.read_metadata(output).row_group(0).column(1)
    assert (column.path_in_schema, column.bloom_filter_offset is not None) == ("few", True)
    for few, count in ((7, FILES * ROWS // 50), (77, 0)):
        assert duckdb.sql(f"select count(*) from read_parquet('{output}') where few = {few}").fetchall() == [(count,)]


# By type: an expression of DuckDB, for a row number n.
DUCKDB_COLUMNS = {
    "few uuids": "case n % 3 when 0 then ('00000000-0000-0000-0000-00000000000' || n % 9)::uuid end",
    "many uuids": "md5(n::text)::uuid",
    "few json": """('{"a": ' || n % 5 || '}')::json""",
    "many json": """('{"a": ' || n || '}')::json""",
    "struct": "{'u': md5((n % 7)::text)::uuid, 'j': ('[' || n % 4 || ']')::json}",
    "list": "[md5((n % 7)::text)::uuid, null]",
    "decimal 4": "(n % 90 / 8)::decimal(4, 2)",
    "decimal 18": "(n / 8)::decimal(18, 3)",
    "decimal 20": "(n % 90 - 40)::decimal(20, 4)",
    "decimals": "[{'d': (n % 90 - 40)::decimal(37, 4)}]",
    "decimal 38": "(n % 90 - 40)::decimal(38, 4)",
    "many intervals": "interval (n) second",
    "time": "time '01:00:00' + interval (n % 50) second",
    "nanoseconds": "make_timestamp_ns(n % 40 * 1000003)",
    "hugeint": "n % 30::hugeint",
    "blob": "(n % 60)::text::blob",
    "enum": "(case n % 2 when 0 then 'a' else 'b' end)::enum('a', 'b')",
}


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_types_of_duckdb(folder, version):
    """DuckDB's files state distinct values and bloom filters: these are proved for UUID, JSON and all other types."""
    columns = ", ".join(f'{expression} as "{name}"' for name, expression in DUCKDB_COLUMNS.items())
    for at in range(FILES):
        duckdb.sql(
            f"copy (select {columns} from range({at * ROWS}, {at * ROWS + ROWS}) as rows(n)) "
            f"to '{folder}/{at}.parquet' (format parquet, parquet_version {version})"
        )
    output = merged(folder)
    inputs = [str(path) for path in sorted(folder.iterdir())]
    assert read(output).equals(read(*inputs))
    assert duckdb.read_parquet(str(output)).fetchall() == duckdb.read_parquet(inputs).fetchall()
    group = pq.read_metadata(output).row_group(0)
    found = {group.column(at).path_in_schema: group.column(at) for at in range(group.num_columns)}
    assert found["few uuids"].bloom_filter_offset is not None
    wanted = [(f"u = '{uuid.UUID(int=1)}'", 0), (f"u = '{uuid.UUID(int=3)}'", FILES * ROWS // 9)]
    for where, count in wanted:
        query = f"""select count(*) from (select "few uuids" as u from read_parquet('{output}')) where {where}"""
        assert duckdb.sql(query).fetchall() == [(count,)]


def write_decimals(folder, *, columns="n % 90 as few, (n - 40)::decimal(20, 4) as d", rows=ROWS):
    """DuckDB's decimals of 16 bytes, where PyArrow writes 9."""
    for at in range(FILES):
        source = f"range({at * rows}, {at * rows + rows}) as rows(n)"
        duckdb.sql(f"copy (select {columns} from {source}) to '{folder}/{at}.parquet' (format parquet)")


def compact(folder, **options):
    """Compact a folder as a user does."""
    return Table(str(folder)).compact(HiveOptions(min_files=2, **options))


def test_fields_that_cannot_be_encoded_are_copied(folder, monkeypatch):
    """All other fields may be encoded: here one, because its dictionary is said not to pay."""
    write_decimals(folder)
    before = duckdb.sql(f"select * from '{folder}/*.parquet' order by d").fetchall()
    growth = splice_plan._Growth(grown_bytes=1 << 20, is_plain_smaller=True)
    monkeypatch.setattr(splice_plan, "_estimate_growth", lambda *_: growth)
    (unit,) = compact(folder).units
    assert unit.columns.startswith("1 copied, 1 encoded (few: ")
    assert duckdb.sql(f"select * from '{folder}/*.parquet' order by d").fetchall() == before


CANNOT_BE_COPIED = {
    "a codec": ({}, {"codec": "zstd"}, ""),
    "small pages": ({"rows": 20}, {}, "its pages cannot be copied"),
    "a filter of other bytes": ({"columns": "n, to_days(30 + (n % 5)::int) as d"}, {}, ""),
}


@pytest.mark.parametrize("what", CANNOT_BE_COPIED)
def test_fields_that_cannot_be_encoded_nor_copied_are_left_alone(folder, what):
    """With the reason. DuckDB's bloom filters of intervals hold 1 month for 30 days, so none can be made of values."""
    shape, options, why = CANNOT_BE_COPIED[what]
    write_decimals(folder, **shape)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    outcome = compact(folder, **options)
    assert not outcome.units
    assert "cannot be written back identically" in outcome.skipped[0].why
    assert why in outcome.skipped[0].why
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def uuids(numbers, of=7919):
    """UUIDs for some numbers."""
    values = [uuid.UUID(int=int(n) * of % 2_500).bytes for n in numbers]
    return pa.ExtensionArray.from_storage(pa.uuid(), pa.array(values, pa.binary(16)))


def odd_rows(first):
    """Columns whose stored values are not those that PyArrow returns, or with which it cannot compute."""
    numbers = np.arange(first, first + ROWS)
    some = pa.array(numbers * 7_919 % 2_500)
    return pa.table(
        {
            "uuid": uuids(numbers),
            "json": pa.ExtensionArray.from_storage(pa.json_(), pa.array([f'{{"a": {n}}}' for n in some.to_pylist()])),
            "half": pa.array(some.to_numpy().astype("f2"), mask=numbers % 5 == 0),
            "bool8": pa.ExtensionArray.from_storage(pa.bool8(), pa.array(numbers % 2, pa.int8())),
            "time": some.cast(pa.int32()).cast(pa.time32("ms")),
            "at": some.cast(pa.timestamp("us")),
            "amount": some.cast(pa.decimal128(19, 0)),
            "wide": some.cast(pa.decimal128(19, 0)).cast(pa.decimal256(60, 3)),
            "small": some.cast(pa.decimal128(19, 0)).cast(pa.decimal128(8, 2)),
            "bytes": some.cast(pa.string()).cast(pa.binary()),
            "unsigned": some.cast(pa.uint16()),
            "long": some.cast(pa.large_string()),
            "list": pa.ListArray.from_arrays(pa.array([*range(0, ROWS, 2), ROWS], pa.int32()), uuids(numbers)).take(
                pa.array(numbers % (ROWS // 2))
            ),
            "struct": pa.StructArray.from_arrays([uuids(numbers)], ["u"], mask=pa.array(numbers % 4 == 0)),
        }
    )


ODD_LEAVES = [*odd_rows(0).column_names[:-2], "list.list.element", "struct.u"]
OVERFLOW = {"dictionary_pagesize_limit": 2_000, "write_batch_size": 500}
INT96 = {"use_deprecated_int96_timestamps": True}
ODD_WAYS = {
    "filters of dictionaries": {},
    "filters of plain values": {"use_dictionary": False},
    "filters after an overflow": OVERFLOW | {"write_page_index": True},
    "page index after an overflow": OVERFLOW | {"write_page_index": True},
    "filters of dictionaries, int96": INT96,
    "filters of plain values, int96": INT96 | {"use_dictionary": False},
    "filters, decimals as integers": {"store_decimal_as_integer": True, "use_dictionary": False},
}


ODD_COLUMNS = {
    "uuid": ["uuid", "list", "struct"], "json": ["json"], "half": ["half"], "at": ["at"],
    "others": ["bool8", "time", "amount", "wide", "small", "bytes", "unsigned", "long"],
}  # fmt: skip


@pytest.mark.parametrize("way", ODD_WAYS)
@pytest.mark.parametrize("kind", ODD_COLUMNS)
def test_statements_about_odd_types_are_proved(folder, kind, way):
    """What a spliced file states about values that PyArrow converts is true, and found to be so."""
    names, options = ODD_COLUMNS[kind], dict(ODD_WAYS[way])
    leaves = [leaf for leaf in ODD_LEAVES if leaf.split(".")[0] in names and leaf != "bool8"]
    if "filters" in way:
        options["bloom_filter_options"] = {leaf: {"ndv": 2_500, "fpp": 0.01} for leaf in leaves}
    for at in range(FILES):
        pq.write_table(odd_rows(at * ROWS).select(names), folder / f"{at}.parquet", **options)
    output = merged(folder)
    assert read(output).equals(read(*sorted(folder.iterdir())))
    group = pq.read_metadata(output).row_group(0)
    chunks = [group.column(at) for at in range(group.num_columns)]
    filtered = {chunk.path_in_schema for chunk in chunks if chunk.bloom_filter_offset is not None}
    assert filtered == set(options.get("bloom_filter_options", ()))


def test_a_statement_that_cannot_be_checked_fails_its_unit_only(folder, monkeypatch):
    """An error that the check does not expect is explained, and keeps back the files that it is about, no others."""
    for part, words in (("p=1", 7), ("p=2", 9)):
        (folder / part).mkdir()
        for at in range(FILES):
            table = pa.table({"id": np.arange(ROWS) + at * ROWS, "word": [f"{n % words}" for n in range(ROWS)]})
            options = {"word": {"ndv": words, "fpp": 0.01}}
            pq.write_table(table, folder / part / f"{at}.parquet", bloom_filter_options=options)
    rows_of_bytes = verify_statistics._rows_of_bytes

    def fails_for_seven(array):
        if len(array) == 7:
            pa.array([1]).cast(pa.struct({}))  # as a kernel that does not exist
        yield from rows_of_bytes(array)

    monkeypatch.setattr(verify_statistics, "_rows_of_bytes", fails_for_seven)
    outcome = Table(str(folder)).compact(HiveOptions(min_files=2))
    assert outcome.status is Status.PARTIAL
    assert [(len(list((folder / part).iterdir()))) for part in ("p=1", "p=2")] == [FILES, 1]
    (skip,) = outcome.skipped
    assert (skip.what, skip.kind) == ("p=1", SkipKind.FAILED)
    assert skip.why.startswith("What the column word of the merged file states could not be checked (ArrowNotImpl")


@pytest.mark.parametrize("verify", list(Verify))
def test_one_bound_is_too_long_to_be_stated(folder, verify):
    """PyArrow states the shorter bound alone, also in a column that a splice encodes: such files are merged."""
    text = pa.array([None, "a" * 10, "b" * 9000, *["b" * 20] * 1500])
    for at in range(3):
        table = pa.table({"id": pa.array(range(at, at + len(text))), "text": text})
        pq.write_table(table, folder / f"{at}.parquet", use_dictionary=["text"] if at else [])

    output = merged(folder, verify=verify)

    check_readers(folder, output)
    with LocalFileIO().open_input(str(output)) as source:
        (_, chunk) = read_footer(source)[4][1].items[0][1][1].items
    assert 6 in chunk[3][1][12][1]
    assert 5 not in chunk[3][1][12][1]


@pytest.mark.parametrize("has_nulls", [False, True])
@pytest.mark.parametrize("coded", [(), (0,)])
def test_a_dictionary_that_no_page_uses(folder, has_nulls, coded):
    """PyArrow writes plain pages after the dictionary if its entries are not unique; a splice leaves it out."""
    for at in range(3):
        codes = [None if has_nulls and number % 7 == 0 else number % 3 for number in range(1500)]
        entries = pa.array(["a", "b", "c" if at in coded else "a"])
        text = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), entries)
        table = pa.table({"id": pa.array(range(at, at + 1500)), "text": text})
        pq.write_table(table, folder / f"{at}.parquet", store_schema=False)
        chunk = pq.read_metadata(folder / f"{at}.parquet").row_group(0).column(1)
        assert chunk.has_dictionary_page
        assert ("RLE_DICTIONARY" in chunk.encodings) == (at in coded)

    check_readers(folder, merged(folder))


def state_no_dictionary(footer):
    """State that dictionaries begin at 0 where there are none, as some writers do."""
    for group in footer[4][1].items:
        for chunk in group[1][1].items:
            chunk[3][1].setdefault(11, (I64, 0))
            ordered = sorted(chunk[3][1].items())
            chunk[3][1].clear()
            chunk[3][1].update(ordered)


@pytest.mark.parametrize("encoding", ["PLAIN", "DELTA_LENGTH_BYTE_ARRAY"])
@pytest.mark.parametrize("files", [3, 40])
def test_a_dictionary_that_begins_at_0_is_none(folder, encoding, files):
    """A chunk without a dictionary is digested from its first page, in one file and in many."""
    for at in range(files):
        text = pa.array([f"{at} {number}" * (1 + 200 * (files < 40)) for number in range(1500)])
        table = pa.table({"id": pa.array(range(at, at + 1500)), "text": text})
        path = folder / f"{at:02}.parquet"
        pq.write_table(table, path, use_dictionary=["id"], column_encoding={"text": encoding})
        if at != 1:
            edit_footer(path, state_no_dictionary)

    result = run(folder)

    assert result.status is UnitStatus.WRITTEN, result.message
    assert read(result.outputs[0].path).equals(read(*sorted(folder.iterdir())))


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("unused", ["first", "last"])
@pytest.mark.parametrize("size", [1_501, 1_504])
def test_bloom_filters_have_no_unused_categories(folder, version, unused, size):
    """Entries that no row uses are in no filter, also if a page's last group of codes is filled up with their code."""
    words = ["a", "b", "c"]
    for at in range(FILES):
        entries = [f"unused{at}", *words] if unused == "first" else [*words, f"unused{at}"]
        codes = [None if n % 7 == 0 else n * n % 3 + (unused == "first") for n in range(size)]
        words_of = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(entries))
        pq.write_table(
            pa.table({"word": words_of, "id": range(size)}), folder / f"{at}.parquet", data_page_version=version,
            bloom_filter_options={"word": {"ndv": 10, "fpp": 0.01}},
        )  # fmt: skip
    output = merged(folder)
    assert read(output).to_pylist() == read(*sorted(folder.iterdir())).to_pylist()
    assert pq.read_metadata(output).row_group(0).column(0).bloom_filter_offset is not None
    assert duckdb.sql(f"select count(*) from read_parquet('{output}') where word = 'b'").fetchall() == [
        (sum(n % 7 > 0 and n * n % 3 == 1 for n in range(size)) * FILES,)
    ]


def test_files_of_polars(folder):
    """What Polars writes is merged, and read by all."""
    for at in range(FILES):
        pl.from_arrow(rows_of(at * ROWS).drop_columns(["map"])).write_parquet(folder / f"{at}.parquet")
    output = run(folder)
    assert output.status is UnitStatus.WRITTEN
    check_readers(folder, Path(output.outputs[0].path))


def test_different_encodings_in_one_column(folder):
    """Pages of one column may be encoded differently from file to file."""
    encodings = ["PLAIN", "DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT"]
    for at, encoding in enumerate(encodings):
        table = pa.table({"n": np.arange(ROWS) + at})
        pq.write_table(table, folder / f"{at}.parquet", use_dictionary=False, column_encoding={"n": encoding})
    output = merged(folder)
    assert set(pq.read_metadata(output).row_group(0).column(0).encodings) >= set(encodings)
    check_readers(folder, output)


def test_empty_files_and_row_groups(folder):
    """Files without rows, with and without a row group, add nothing and break nothing."""
    write_pyarrow(folder)
    pq.write_table(rows_of(0, 0), folder / "1b.parquet", use_dictionary=["word"])
    with pq.ParquetWriter(folder / "0a.parquet", rows_of(0, 0).schema, use_dictionary=["word"]) as writer:
        writer.write_table(rows_of(0, 0))
        writer.write_table(rows_of(0, 10))
        writer.write_table(rows_of(0, 0))
    with pq.ParquetWriter(folder / "00.parquet", rows_of(0, 0).schema, use_dictionary=["word"]):
        pass
    check_readers(folder, merged(folder))


def test_row_groups_have_the_usual_size(folder):
    """Row groups of the inputs are joined up to a million rows, and never cut."""
    for at in range(5):
        table = pa.table({"n": np.arange(300_000) + at})
        pq.write_table(table, folder / f"{at}.parquet", use_dictionary=False, row_group_size=100_000)
    metadata = pq.read_metadata(merged(folder))
    assert [metadata.row_group(at).num_rows for at in range(metadata.num_row_groups)] == [1_000_000, 500_000]


def write_other_writer(folder):
    """The last file was written by another writer, as its footer says."""
    write_pyarrow(folder)
    last = folder / f"{FILES - 1}.parquet"
    content = last.read_bytes()
    last.write_bytes(content.replace(b"parquet-cpp-arrow", b"parquet-cpp-other"))


def write_old_writer(folder):
    """All files say that they are of a parquet-mr whose pages cannot stand alone."""
    write_pyarrow(folder)
    for path in folder.iterdir():
        content = path.read_bytes()
        name = pq.read_metadata(path).created_by.encode()
        old = b"parquet-mr version 1.6.0 ".ljust(len(name))
        path.write_bytes(content.replace(name, old))


def write_sorted(folder):
    """The files claim an order."""
    write_pyarrow(folder, sorting_columns=[pq.SortingColumn(0)], use_dictionary=False)
    for path in folder.iterdir():
        table = pq.read_table(path, columns=["id", "small"], partitioning=None)
        pq.write_table(table, path, sorting_columns=[pq.SortingColumn(0)], use_dictionary=False)


REWRITTEN = {
    "pages of a few rows": (
        lambda folder: write_pyarrow(folder, data_page_size=100, write_batch_size=10),
        "pages of id are too small to be worth copying",
    ),
    "files of a few rows": (lambda folder: write_pyarrow(folder, rows=20), ""),  # as all such files are
    "another writer": (write_other_writer, "not by the writer of the first file"),
    "an old writer": (write_old_writer, "whose pages may depend on each other"),
    "a sort order": (write_sorted, "its row groups are sorted, and bigger ones must be sorted again"),
}


@pytest.mark.parametrize("what", REWRITTEN)
def test_what_is_encoded_again(folder, what):
    """Where copied pages would be bad to read, lose something or mean something else, all is encoded again.

    The outcome says why.
    """
    write, why = REWRITTEN[what]
    write(folder)
    output = merged(folder, how=How.REWRITE)
    assert read(output).equals(read(*sorted(folder.iterdir())))
    outcome = Table(str(folder)).compact(HiveOptions(min_files=2))
    note = outcome.units[0].to_json().get("columns", "")
    assert note.startswith("all encoded (" if why else "")
    assert why in note
    assert bool(note) is bool(why)


@pytest.mark.parametrize("has_checksums", [True, False])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("options", [{}, {"rows": 20}, {"sorting_columns": [pq.SortingColumn(0)]}])
def test_checksums_of_pages_are_kept(folder, options, version, has_checksums):
    """The pages of a merged file have checksums if those of its first rows have, however it is written."""
    pq.write_table(rows_of(0, 0), folder / "00.parquet")
    write_pyarrow(folder, **options, write_page_checksum=has_checksums, data_page_version=version)
    for path in folder.iterdir() if "sorting_columns" in options else ():
        table = pq.read_table(path, columns=["id", "word"], partitioning=None)
        pq.write_table(
            table, path, **options, write_page_checksum=has_checksums, data_page_version=version, use_dictionary=False
        )
    output = merged(folder, how=How.REWRITE if options else How.SPLICE)
    group, data = pq.read_metadata(output).row_group(0), output.read_bytes()
    for chunk in (group.column(at) for at in range(group.num_columns)):
        begin = chunk.dictionary_page_offset if chunk.has_dictionary_page else chunk.data_page_offset
        pages = walk_pages(data[begin : begin + chunk.total_compressed_size])
        assert {page.crc is not None for page in pages} == {has_checksums}


def test_codec_on_request_encodes_again(folder):
    """``--codec`` is a reason to encode again, also if it names the codec that is there."""
    write_pyarrow(folder, compression="snappy")
    assert pq.read_metadata(merged(folder, how=How.REWRITE, codec="zstd")).row_group(0).column(0).compression == "ZSTD"


def test_a_dictionary_after_plain_pages_is_encoded_again(folder):
    """A page with codes never follows a plain one, which Spark reads wrongly; the other columns are still spliced."""
    write_pyarrow(folder)
    pq.write_table(rows_of(9 * ROWS), folder / "9.parquet", use_dictionary=["word", "text"])
    check_readers(folder, output := merged(folder))
    result = run(folder)
    names = pq.read_metadata(output).schema.names
    assert names.index("text") not in result.outputs[0].copied_columns
    assert names.index("id") in result.outputs[0].copied_columns


def test_the_plan_says_why_not(folder):
    """A refusal names its reason."""
    pq.write_table(rows_of(0), folder / "0.parquet", sorting_columns=[pq.SortingColumn(0)])
    with pytest.raises(CannotSpliceError, match="sorted"):
        plan_splice(LocalFileIO(), [str(folder / "0.parquet")])


def boundary_orders(path):
    """The order of pages that the column indexes of the first row group claim, by column."""
    with LocalFileIO().open_input(str(path)) as source:
        columns = read_footer(source)[4][1].items[0][1][1].items
    data = memoryview(path.read_bytes())
    names = pq.read_schema(path).names
    return {
        name: read_struct(data, column[6][1])[0][4][1]
        for name, column in zip(names, columns, strict=True)
        if 6 in column
    }


def test_a_page_index_states_the_order_of_its_pages(folder):
    """Ascending or descending only if all pages of all files are so, in the order of their type."""
    for at in range(4):
        numbers = np.arange(at * ROWS, at * ROWS + ROWS)
        rows = pa.table(
            {
                "up": numbers - 5_000,
                "down": -1.5 * numbers,
                "unsigned": pa.array(numbers + (1 << 31) - 5_000, pa.uint32()),
                "up_in_each": numbers % ROWS,
                "same": np.ones(ROWS, np.int64),
                "nulls_between": pa.array([None if at == 2 else int(n) for n in numbers], pa.int64()),
                "text": [f"{n:06d}" for n in numbers],
                "decimal": pa.array([decimal.Decimal(int(n)) - 5_000 for n in numbers], pa.decimal128(30, 2)),
                "nan": [float("nan") if n == 7_000 else float(n) for n in numbers],
            }
        )
        pq.write_table(
            rows, folder / f"{at}.parquet", write_page_index=True, data_page_size=8_000, write_batch_size=500,
            use_dictionary=["same"],
        )  # fmt: skip
    assert boundary_orders(merged(folder)) == {
        "up": 1, "down": 2, "unsigned": 1, "up_in_each": 0, "same": 1, "nulls_between": 1, "text": 1, "decimal": 1,
    }  # fmt: skip


# ---- broken and changed files ----


class Tampering(LocalFileIO):
    """Changes the staged output behind the writer's back, or an input after the first read."""

    def __init__(self, change):
        self.change = change

    def sync_file(self, path):
        """The writer is done."""
        super().sync_file(path)
        if path.endswith(".data"):
            self.change(Path(path))


def flip(path, leaf, *, group=0, share=0.5):
    """Change one byte within a column chunk."""
    chunk = pq.read_metadata(path).row_group(group).column(leaf)
    start = chunk.dictionary_page_offset if chunk.has_dictionary_page else chunk.data_page_offset
    content = bytearray(path.read_bytes())
    content[start + int(chunk.total_compressed_size * share)] ^= 0xFF
    path.write_bytes(content)


@pytest.mark.parametrize("codec", ["none", "snappy", "zstd"])
@pytest.mark.parametrize("leaf", [0, 2, 4, 5, 8])
def test_a_changed_page_in_the_output_is_found(folder, leaf, codec):
    """One byte of a page, copied or encoded, decodable or not: a mismatch, and the evidence stays."""
    write_pyarrow(folder, compression=codec)
    result = run(folder, io=Tampering(lambda path: flip(path, leaf)))
    assert result.status is UnitStatus.MISMATCH
    assert Path(result.outputs[0].path).exists()


@pytest.mark.parametrize("leaf", [0, 4])
def test_a_changed_page_in_an_input_is_found(folder, leaf):
    """An input that is another one when it is read again: a mismatch."""
    write_pyarrow(folder, compression="none")
    assert run(folder, io=Tampering(lambda _: flip(folder / "2.parquet", leaf))).status is UnitStatus.MISMATCH


TAMPERED = {
    "a row lost": lambda table: table.slice(1),
    "no rows": lambda table: table.slice(0, 0),
    "a column lost": lambda table: table.drop_columns(["map"]),
    "all but one column lost": lambda table: table.select(["id"]),
    "a column renamed": lambda table: table.rename_columns(["ID", *table.column_names[1:]]),
    "rows exchanged": lambda table: pa.concat_tables([table.slice(ROWS), table.slice(0, ROWS)]),
}


@pytest.mark.parametrize("verify", Verify)
@pytest.mark.parametrize("what", TAMPERED)
def test_another_output_is_found(folder, what, verify):
    """Rows or columns lost, doubled or exchanged in the output; a count sees what a count can see."""
    write_pyarrow(folder)

    def change(path):
        pq.write_table(TAMPERED[what](read(path)), path, use_dictionary=False)

    result = run(folder, io=Tampering(change), verify=verify)
    if verify is Verify.CONTENT or what != "rows exchanged":
        assert result.status is UnitStatus.MISMATCH


@pytest.mark.parametrize("verify", Verify)
@pytest.mark.parametrize("options", [{"compression": "snappy"}, {"compression": "none", "write_page_checksum": True}])
def test_a_page_broken_before_is_blamed_on_its_file(folder, verify, options):
    """A page that nobody can read is not copied into a big file, where it would take the other rows with it."""
    write_pyarrow(folder, **options)
    broken = folder / "2.parquet"
    chunk = pq.read_metadata(broken).row_group(0).column(4)
    content = bytearray(broken.read_bytes())
    middle = chunk.data_page_offset + chunk.total_compressed_size // 2
    content[middle : middle + 300] = b"\xff" * 300
    broken.write_bytes(content)
    result = run(folder, verify=verify)
    assert (result.status, Path(result.blamed).name) == (UnitStatus.UNREADABLE, "2.parquet")


@pytest.mark.parametrize("leaf", [0, 1])
def test_a_broken_dictionary_is_blamed_on_its_file(folder, leaf):
    """Dictionaries are merged together, but only the file with the broken one is left alone."""
    for at in range(6):
        numbers = np.random.default_rng(at).integers(0, 300, 20_000)
        rows = pa.table({"word": [f"w{number}" for number in numbers], "number": numbers})
        pq.write_table(rows, folder / f"{at}.parquet", compression="none")
    broken = folder / "4.parquet"
    content = bytearray(broken.read_bytes())
    chunk = pq.read_metadata(broken).row_group(0).column(leaf)
    begin, end = chunk.dictionary_page_offset, chunk.data_page_offset
    (page,) = walk_pages(memoryview(bytes(content[begin:end])))
    if leaf == 0:
        content[begin + page.body] ^= 0xFF  # the length of the first entry
    else:  # the number of entries
        header = bytes(content[begin : begin + page.body])
        content[begin : begin + page.body] = header.replace(b"\xd8\x04", b"\xda\x04")
    broken.write_bytes(content)
    result = run(folder)
    assert (result.status, Path(result.blamed).name) == (UnitStatus.UNREADABLE, "4.parquet"), result.message
    Table(str(folder)).compact(HiveOptions(min_files=2))
    names = {path.name for path in folder.glob("*.parquet")}
    assert "4.parquet" in names
    assert len(names) == 2


@pytest.mark.parametrize("share", [0.0, 0.001])
def test_a_broken_page_header_is_blamed_on_its_file(folder, share):
    """Headers are walked before anything is copied."""
    write_pyarrow(folder)
    flip(folder / "1.parquet", 4, share=share)
    result = run(folder)
    assert result.status in (UnitStatus.UNREADABLE, UnitStatus.FAILED)
    assert "1.parquet" in result.message


# ---- the record of a run ----


@pytest.mark.parametrize("verify", Verify)
def test_a_run_is_proved_again_and_undone(folder, verify):
    """``verify`` reads the pages of outputs and originals again and sees a changed byte; ``restore`` undoes it all."""
    write_pyarrow(folder, compression="none")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    table = Table(str(folder))
    outcome = table.compact(HiveOptions(min_files=2, verify=verify))
    assert [unit.how for unit in outcome.units] == [How.SPLICE]
    report = table.verify(outcome.run)
    assert (report.problems, report.with_inputs, report.rows) == ((), 1, FILES * ROWS)
    (output,) = folder.iterdir()
    content, times = output.read_bytes(), output.stat()
    flip(output, 0)
    assert table.verify(outcome.run).problems
    output.write_bytes(content)
    os.utime(output, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert not table.verify(outcome.run).problems
    table.restore(outcome.run)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_splice_of_an_earlier_version_is_proved_against_its_originals(folder, monkeypatch):
    """Its fingerprint is not computed in that way any more; what can be compared is, and damage is still found."""
    write_pyarrow(folder, compression="none")
    table = Table(str(folder))
    outcome = table.compact(HiveOptions(min_files=2))
    monkeypatch.setattr(journal, "SPLICE_DIGEST", journal.SPLICE_DIGEST + 1)
    assert not table.verify(outcome.run).problems
    flip(next(folder.iterdir()), 0)
    assert table.verify(outcome.run).problems


def test_the_plan_calls_it_a_rewrite_and_a_second_merge_has_nothing_to_do(folder):
    """Whether pages can be copied shows when they are read; the outcome then says how it was done."""
    write_pyarrow(folder)
    table = Table(str(folder))
    assert [unit.how for unit in table.plan(HiveOptions(min_files=2)).outcome.units] == [How.REWRITE]
    assert [unit.how for unit in table.compact(HiveOptions(min_files=2)).units] == [How.SPLICE]
    assert table.compact(HiveOptions(min_files=2)).units == ()


# ---- statistics ----

VALUES = {
    "int8": st.integers(-128, 127),
    "uint8": st.integers(0, 255),
    "uint32": st.integers(0, 2**32 - 1),
    "uint64": st.integers(0, 2**64 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "float32": st.floats(width=32),
    "float64": st.floats(),
    "string": st.text(max_size=5),
    "binary": st.binary(max_size=5),
    "bool": st.booleans(),
    "decimal128(9, 2)": st.decimals(-1_000_000, 1_000_000, places=2),
    "decimal128(30, 2)": st.decimals(-1_000_000, 1_000_000, places=2),
    "date32": st.dates(),
    "list": st.lists(st.integers(-128, 127) | st.none(), max_size=3),
}
TYPES = {
    **{name: pa.type_for_alias(name) for name in VALUES if "(" not in name and name != "list"},
    "decimal128(9, 2)": pa.decimal128(9, 2),
    "decimal128(30, 2)": pa.decimal128(30, 2),
    "list": pa.list_(pa.int64()),
}


@st.composite
def tables(draw):
    """Some tables of one random schema."""
    kinds = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=4))
    schema = pa.schema([pa.field(f"c{at}", TYPES[kind]) for at, kind in enumerate(kinds)])
    made = []
    for _ in range(draw(st.integers(2, 4))):
        rows = draw(st.integers(0, 12))
        columns = [
            pa.array(draw(st.lists(VALUES[kind] | st.none(), min_size=rows, max_size=rows)), TYPES[kind])
            for kind in kinds
        ]
        made.append(pa.table(columns, schema=schema))
    return made


def check_bounds(path):
    """No value lies outside of what the footer states of its row group, and the nulls are as many."""
    file = pq.ParquetFile(path)
    for number in range(file.num_row_groups):
        table, group = file.read_row_group(number), file.metadata.row_group(number)
        for at, column in enumerate(table.columns):
            statistics = group.column(at).statistics
            if pa.types.is_nested(column.type) or statistics is None:
                continue
            assert statistics.null_count == column.null_count
            values = column.drop_null()
            if statistics.has_min_max and len(values):
                low, high = (pa.scalar(bound, column.type) for bound in (statistics.min, statistics.max))
                assert pc.min(pc.cast(values, column.type)).as_py() >= low.as_py() or np.isnan(low.as_py())
                assert pc.max(values).as_py() <= high.as_py()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(made=tables(), options=st.sampled_from([{}, {"data_page_version": "2.0"}, {"store_decimal_as_integer": True}]))
def test_random_tables(tmp_path_factory, tiny_pages, made, options):
    """Rows in order, null counts and bounds are right for random values of random types, nulls among them."""
    folder = tmp_path_factory.mktemp("random") / "t"
    folder.mkdir()
    (folder.parent / "staging").mkdir()
    for at, table in enumerate(made):
        pq.write_table(table, folder / f"{at}.parquet", use_dictionary=False, **options)
    result = run(folder)
    assert result.status is UnitStatus.WRITTEN, result
    expected = pa.concat_tables(made)
    assert result.how is (How.SPLICE if expected.num_rows else How.REWRITE)
    output = Path(result.outputs[0].path)
    assert str(read(output).to_pylist()) == str(expected.to_pylist())
    assert read(output).num_rows == duckdb.read_parquet(str(output)).count("*").fetchall()[0][0]
    check_bounds(output)


def bounds_of(folder, *columns, **options):
    """Merge files of one column each; return what the footer of the merged one tells."""
    for at, column in enumerate(columns):
        pq.write_table(pa.table({"c": column}), folder / f"{at}.parquet", use_dictionary=False, **options)
    return pq.read_metadata(merged(folder)).row_group(0).column(0).statistics


@pytest.mark.usefixtures("tiny_pages")
class TestStatistics:
    """Bounds are kept where the order of a type is known, and left out where it is not."""

    @pytest.mark.parametrize(
        ("kind", "values", "low", "high"),
        [
            (pa.int32(), [[-5, 3], [7, None]], -5, 7),
            (pa.uint32(), [[1], [2**32 - 1]], 1, 2**32 - 1),
            (pa.uint64(), [[2**63], [5]], 5, 2**63),
            (pa.string(), [["b"], ["é", "a"]], "a", "é"),
            (pa.binary(), [[b"\xff"], [b"\x01"]], b"\x01", b"\xff"),
            (pa.bool_(), [[True], [False]], False, True),
            (pa.decimal128(25, 1), [[decimal.Decimal(-15)], [decimal.Decimal(25)]], -15, 25),
            (pa.float64(), [[1.5, 1.0], [-2.5, 0.5]], -2.5, 1.5),
        ],
    )  # fmt: skip
    def test_the_widest_bounds_win(self, folder, kind, values, low, high):
        """Signed, unsigned, bytewise, decimal: each type in its own order."""
        found = bounds_of(folder, *(pa.array(one, kind) for one in values))
        assert (found.min, found.max) == (low, high)
        assert found.null_count == sum(one.count(None) for one in values)

    def test_files_of_nulls_do_not_count(self, folder):
        """A file with nothing but nulls has no bounds, and needs none."""
        found = bounds_of(folder, pa.array([3, 4]), pa.array([None, None], pa.int64()))
        assert (found.min, found.max, found.null_count) == (3, 4, 2)

    def test_one_file_without_bounds_is_enough(self, folder):
        """Who does not know all files, says nothing."""
        pq.write_table(pa.table({"c": [1, 2]}), folder / "9.parquet", use_dictionary=False, write_statistics=False)
        assert not (found := bounds_of(folder, pa.array([3, 4]))) or not found.has_min_max

    def test_zero_has_two_signs(self, folder):
        """The bounds of zeros take in both."""
        found = bounds_of(folder, pa.array([0.0]), pa.array([-0.0]))
        assert struct.pack("<dd", found.min, found.max) == struct.pack("<dd", -0.0, 0.0)

    def test_half_floats_have_none(self, folder):
        """Their order is not bytewise."""
        found = bounds_of(folder, pa.array([np.float16(1)]), pa.array([np.float16(-2)]))
        assert not found.has_min_max
