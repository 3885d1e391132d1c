"""A scan of a footer accepts, refuses and states exactly what a full read of the footer does."""

import io
import random
from collections import OrderedDict

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from packstone.errors import UnfaithfulError
from packstone.rewrite.formats import parquet_file_writer, parquet_scan
from packstone.rewrite.formats.parquet_checks import check_metadata
from packstone.rewrite.formats.parquet_file_writer import ParquetFileWriter
from packstone.rewrite.formats.parquet_scan import find_chunks, scan_footer


def rows_of(seed: int) -> pa.Table:
    """Rows of all physical types, with nulls, nested and empty values; each seed has other numbers."""
    chance = random.Random(seed)
    count = chance.randrange(1, 90)

    def some(values):
        return [None if chance.random() < 0.2 else value for value in values]

    return pa.table({
        "i": pa.array(some(chance.randrange(1 << 30) for _ in range(count)), pa.int32()),
        "l": pa.array(some(chance.randrange(1 << 50) for _ in range(count)), pa.int64()),
        "b": pa.array(some(chance.random() < 0.5 for _ in range(count)), pa.bool_()),
        "d": pa.array(some(chance.random() for _ in range(count)), pa.float64()),
        "s": pa.array(some("x" * chance.randrange(60) for _ in range(count)), pa.string()),
        "none": pa.array([None] * count, pa.string()),
        "x": pa.array(some(b"abcd" for _ in range(count)), pa.binary(4)),
        "t": pa.array(some(chance.randrange(1 << 50) for _ in range(count)), pa.timestamp("us")),
        "list": pa.array(some([chance.randrange(9)] * chance.randrange(4) for _ in range(count)), pa.list_(pa.int64())),
    })  # fmt: skip


def by_pyarrow(**options):
    """A writer with these options."""

    def write(rows: pa.Table) -> bytes:
        out = io.BytesIO()
        pq.write_table(rows, out, **options)
        return out.getvalue()

    return write


def by_polars(rows: pa.Table) -> bytes:
    """The rows as Polars writes them."""
    out = io.BytesIO()
    pl.from_arrow(rows.drop_columns("x")).write_parquet(out)
    return out.getvalue()


def by_duckdb(rows: pa.Table, tmp_path) -> bytes:
    """The rows as DuckDB writes them."""
    path = tmp_path / "d.parquet"
    duckdb.sql("from rows").write_parquet(str(path))
    return path.read_bytes()


WRITERS = {
    "pyarrow": by_pyarrow(),
    "pages of version 2": by_pyarrow(data_page_version="2.0", version="2.6", compression="zstd"),
    "page index": by_pyarrow(write_page_index=True, write_page_checksum=True),
    "no statistics": by_pyarrow(write_statistics=False, use_dictionary=False),
    "int96": by_pyarrow(use_deprecated_int96_timestamps=True, store_schema=False),
    "some groups": by_pyarrow(row_group_size=20),
    "many groups": by_pyarrow(row_group_size=3),
    "sorted": by_pyarrow(sorting_columns=[pq.SortingColumn(0)]),
    "bloom filter": by_pyarrow(bloom_filter_options={"i": {"ndv": 10, "fpp": 0.1}}),
    "polars": by_polars,
}


def footer_of(data: bytes) -> bytes:
    """The footer of a file."""
    return data[-8 - int.from_bytes(data[-8:-4], "little") : -8]


def scanned(data: bytes):
    """What a scan says: the content, or the refusal."""
    try:
        return scan_footer(pa.BufferReader(data), "a.parquet")
    except Exception as error:  # noqa: BLE001 - whatever a full read raises, a scan must raise too
        return type(error).__name__, str(error)


def read_in_full(data: bytes, monkeypatch):
    """What the scan says if it must not use what it learned from other footers."""
    with monkeypatch.context() as patched:
        patched.setattr(parquet_scan._Schema, "scan", lambda *_: None)
        return scanned(data)


@pytest.mark.parametrize("writer", [*WRITERS, "duckdb"])
def test_a_scan_states_what_a_full_read_states(writer, tmp_path, monkeypatch):
    """Row counts, places, sizes, statistics and kind are equal for files of every writer."""
    write = WRITERS.get(writer) or (lambda rows: by_duckdb(rows, tmp_path))
    for seed in range(12):
        data = write(rows_of(seed))
        first = scanned(data)
        assert first == read_in_full(data, monkeypatch)
        metadata = pq.read_metadata(pa.BufferReader(data))
        assert (first.rows, len(first.groups)) == (metadata.num_rows, metadata.num_row_groups)
        for number, group in enumerate(first.groups):
            stated = metadata.row_group(number)
            chunks = [stated.column(leaf) for leaf in range(metadata.num_columns)]
            places = group.chunks
            assert list(places.data_offsets) == [chunk.data_page_offset for chunk in chunks]
            assert list(places.size_bytes) == [chunk.total_compressed_size for chunk in chunks]
            assert list(places.values) == [chunk.num_values for chunk in chunks]
            assert list(places.dictionary_offsets) == [chunk.dictionary_page_offset or 0 for chunk in chunks]


@pytest.mark.parametrize("writer", ["pyarrow", "page index", "int96", "polars", "duckdb"])
def test_files_of_usual_writers_are_rarely_read_in_full(writer, tmp_path, monkeypatch):
    """Otherwise the scan would be of no use: at most half of forty files are read in full, which learns."""
    write = WRITERS.get(writer) or (lambda rows: by_duckdb(rows, tmp_path))
    found = [write(rows_of(seed)) for seed in range(40)]
    read = []

    def check(footer, *, data_end):
        read.append(data_end)
        return check_metadata(footer, data_end=data_end)

    monkeypatch.setattr(parquet_scan, "check_metadata", check)
    for data in found:
        scan_footer(pa.BufferReader(data), "a.parquet")
    assert len(read) <= 20


@pytest.mark.parametrize("shapes", [0, 1], ids=["by chunks", "by the shape of row groups"])
def test_damage_is_refused_as_by_a_full_read(monkeypatch, shapes):
    """Whatever byte of a footer changes, the scan refuses or states the same as a full read."""
    monkeypatch.setattr(parquet_scan, "_SCHEMAS", OrderedDict())
    monkeypatch.setattr(parquet_scan, "_SCANS_BEFORE_SHAPE", (1, 2) if shapes else ())
    write = by_pyarrow(store_schema=False, row_group_size=50, write_page_index=True)
    data = write(rows_of(9))
    for seed in (9, 9, 9, *range(8)):
        scan_footer(pa.BufferReader(write(rows_of(seed))), "a.parquet")
    (schema,) = parquet_scan._SCHEMAS.values()
    assert bool(schema._shapes) is bool(shapes)
    length = len(footer_of(data))
    refused = passed = 0
    for seed in range(2_000):
        chance = random.Random(seed)
        damaged = bytearray(data)
        for _ in range(chance.choice((1, 1, 2))):
            at = chance.randrange(len(data) - 8 - length, len(data) - 8)
            damaged[at] = chance.choice((damaged[at] ^ 1 << chance.randrange(8), chance.randrange(256)))
        found = scanned(bytes(damaged))
        expected = read_in_full(bytes(damaged), monkeypatch)
        assert found == expected
        refused, passed = refused + isinstance(found, tuple), passed + (not isinstance(found, tuple))
    assert refused > 100
    assert passed > 100


@pytest.mark.parametrize("depth", [6, 7, 14, 15, 16, 40])
def test_deeply_nested_columns_are_read(depth):
    """The lists of levels in size statistics have a longer head from 15 levels on."""
    kind = pa.int32()
    for _ in range(depth):
        kind = pa.struct([("a", kind)])
    value = None
    for _ in range(depth):
        value = {"a": value}
    for values in ([value], [value, None]):
        out = io.BytesIO()
        pq.write_table(pa.table({"x": pa.array(values, kind)}), out)
        assert scan_footer(pa.BufferReader(out.getvalue()), "a file").rows == len(values)


def test_a_codec_of_a_later_parquet_is_refused_after_files_with_known_ones():
    """What was learned from good files does not hide that a column chunk names another codec."""
    write = by_pyarrow(store_schema=False)
    data = write(pa.table({"i": pa.array([1, 2, 3], pa.int32())}))
    scan_footer(pa.BufferReader(data), "a.parquet")
    footer = footer_of(data)
    head = scan_footer(pa.BufferReader(data), "a.parquet").groups[0].chunks.heads[0]
    changed = footer.replace(head, head[:-1] + bytes([14 * 2]))
    assert changed != footer
    with pytest.raises(UnfaithfulError, match="unknown codec number 14"):
        scan_footer(pa.BufferReader(data.replace(footer, changed)), "a.parquet")


@pytest.mark.parametrize("created_by", [None, "", "parquet-mr version 1.2.3"])
def test_a_footer_is_edited_alike_whether_it_is_known_or_not(created_by, monkeypatch):
    """A footer like an earlier one is edited in place; the bytes are those of an edit of the whole footer."""

    def write(seed: int) -> bytes:
        rows, sink = rows_of(seed), pa.BufferOutputStream()
        writer = ParquetFileWriter(sink, rows.schema, options={"write_page_index": True}, created_by=created_by)
        for _ in range(1 + seed % 3):
            writer.write(rows)
        writer.close({b"key": b"value"})
        return sink.getvalue().to_pybytes()

    edited_in_place = 0
    for seed in range(12):
        with monkeypatch.context() as patched:
            patched.setattr(parquet_file_writer, "find_chunks", lambda _footer: None)
            whole = write(seed)
        scan_footer(pa.BufferReader(whole), "a.parquet")
        assert write(seed) == whole
        edited_in_place += find_chunks(footer_of(whole)) is not None
    assert edited_in_place > 6
