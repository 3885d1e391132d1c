"""The kernel of a scan: any row groups of any Parquet file, tested and cut right, whatever is missing in the file."""

import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from packstone.errors import UnreadableFileError
from packstone.query.filter.expression import TRUE
from packstone.query.filter.parse_filter import parse_filter
from packstone.query.filter.resolve import prepare_filter
from packstone.query.scan.blocklet_scan import count_blocklets, scan_blocklets
from packstone.query.scan.caches import ScanCaches
from packstone.query.scan.plan import ScanFile
from packstone.rewrite.merge_tree.spec import ColumnSource, pack_positions
from packstone.storage.local import LocalFileIO

IO = LocalFileIO()
SCHEMA = pa.schema([
    ("id", pa.int64()), ("s", pa.string()), ("u", pa.string()), ("x", pa.float64()), ("later", pa.int32()),
    ("tags", pa.list_(pa.string())), ("wide", pa.int64()),
])  # fmt: skip


WITHOUT_LATER = (ColumnSource(target="later", source=None),)


def write(path, rows, *, group_rows, first=0, **options):
    """A file without the column `later`, in which `wide` is still narrow; `u` differs in every row."""
    table = pa.table({
        "id": pa.array(range(first, first + rows)),
        "s": [None if at % 11 == 0 else f"v{at % 5}" for at in range(rows)],
        "u": [f"unique {at}" for at in range(rows)],
        "x": [float("nan") if at % 13 == 0 else at / 2 for at in range(rows)],
        "tags": [[f"t{at % 3}"] * (at % 4) for at in range(rows)],
        "wide": pa.array([at % 100 for at in range(rows)], pa.int32()),
    })  # fmt: skip
    pq.write_table(table, path, row_group_size=group_rows, **options)
    return table


def scan(files, *, columns, where=None, batch_rows=1 << 16, caches=None):
    """All rows as one table; the count is requested too, and must agree."""
    schema = pa.schema([SCHEMA.field(name) for name in columns])
    expression = None if where is None else prepare_filter(parse_filter(where), SCHEMA)
    expression = None if expression == TRUE else expression
    names = [name for name in SCHEMA.names if where is not None and name in where]
    filter_schema = pa.schema([SCHEMA.field(name) for name in names])
    told = {"filter_schema": filter_schema, "expression": expression, "caches": caches or ScanCaches.make()}
    batches = list(scan_blocklets(IO, files, schema=schema, batch_rows=batch_rows, **told))
    assert all(batch.num_rows and batch.schema == schema for batch in batches)
    rows = sum(batch.num_rows for batch in batches)
    assert count_blocklets(IO, files, **told) == rows
    return pa.Table.from_batches(batches, schema=schema)


@pytest.mark.parametrize("batch_rows", [1 << 16, 700, 64])
@pytest.mark.parametrize("group_rows", [90, 1000, 5000])
@pytest.mark.parametrize("where", [
    None, "id = 1234", "s = 'v3'", "s = 'v1' AND x > 700", "u = 'unique 77'", "later IS NULL", "later = 1",
    "s IS NULL OR id < 3", "wide = 5 AND s IN ('v0', 'v4')", "x = CAST('NaN' AS DOUBLE)", "id >= 0",
])  # fmt: skip
def test_every_size_of_row_group_and_batch_gives_the_same_rows(tmp_path, where, group_rows, batch_rows):
    """Row groups are tested together or alone, batches end anywhere: the rows are the same, in the file's order."""
    path = str(tmp_path / "f.parquet")
    table = write(path, 2000, group_rows=group_rows)
    file = ScanFile(path=path, size_bytes=1, columns=WITHOUT_LATER)
    columns = ["tags", "u", "later", "s", "wide", "id"]
    found = scan([file], columns=columns, where=where, batch_rows=batch_rows)
    keep = {
        None: lambda row: True,
        "id = 1234": lambda row: row["id"] == 1234,
        "s = 'v3'": lambda row: row["s"] == "v3",
        "s = 'v1' AND x > 700": lambda row: row["s"] == "v1" and not row["x"] <= 700,
        "u = 'unique 77'": lambda row: row["u"] == "unique 77",
        "later IS NULL": lambda row: True,
        "later = 1": lambda row: False,
        "s IS NULL OR id < 3": lambda row: row["s"] is None or row["id"] < 3,
        "wide = 5 AND s IN ('v0', 'v4')": lambda row: row["wide"] == 5 and row["s"] in ("v0", "v4"),
        "x = CAST('NaN' AS DOUBLE)": lambda row: row["x"] != row["x"],
        "id >= 0": lambda row: True,
    }[where]
    expected = [{**row, "later": None} for row in table.to_pylist() if keep(row)]
    assert found.to_pylist() == [{name: row[name] for name in columns} for row in expected]


def test_chosen_row_groups_only_and_those_that_must_match_untested(tmp_path):
    """The driver's word is taken: other row groups are not read, and what must match is not tested."""
    path = str(tmp_path / "f.parquet")
    write(path, 1000, group_rows=100)
    file = ScanFile(path=path, size_bytes=1, row_groups=(1, 2, 7), row_counts=(100, 100, 100), must_match=(2,))
    found = scan([file], columns=["id"], where="id = 150")
    assert found.column("id").to_pylist() == [150, *range(200, 300)]


@pytest.mark.parametrize("where", [None, "s = 'v1'", "id >= 0"])
@pytest.mark.parametrize("group_rows", [100, 1000])
def test_deleted_rows_stay_away(tmp_path, where, group_rows):
    """Positions count over the whole file, also where row groups are left out."""
    path = str(tmp_path / "f.parquet")
    table = write(path, 1000, group_rows=group_rows)
    gone = np.array(sorted(random.Random(1).sample(range(1000), 300)))
    file = ScanFile(path=path, size_bytes=1, row_counts=(1000,), deleted=pack_positions(gone))
    found = scan([file], columns=["id"], where=where, batch_rows=64).column("id").to_pylist()
    wanted = [row["id"] for row in table.to_pylist() if where != "s = 'v1'" or row["s"] == "v1"]
    assert found == [one for one in wanted if one not in set(gone.tolist())]
    scan([file], columns=[], where=where)  # without columns the count is compared


def test_columns_are_found_under_their_old_names(tmp_path):
    """A file from before a column was renamed."""
    path = str(tmp_path / "f.parquet")
    pq.write_table(pa.table({"old": ["a", "b", "a"], "s": ["not", "this", "one"]}), path)
    sources = (ColumnSource(target="s", source="old"), ColumnSource(target="u", source=None))
    file = ScanFile(path=path, size_bytes=1, columns=sources)
    assert scan([file], columns=["s", "u"], where="s = 'a'").to_pydict() == {"s": ["a", "a"], "u": [None, None]}
    assert scan([file], columns=["u"], where="u IS NOT NULL").num_rows == 0


def test_the_footer_leaves_row_groups_out_if_no_index_does(tmp_path):
    """Row groups that cannot match by the file's own statistics are never decoded: here they are broken."""
    path = tmp_path / "f.parquet"
    write(str(path), 1000, group_rows=100, compression="none", use_dictionary=False)
    data = bytearray(path.read_bytes())
    metadata = pq.read_metadata(path)
    chunk = metadata.row_group(5).column(0)
    data[chunk.data_page_offset : chunk.data_page_offset + 30] = bytes(30)
    path.write_bytes(data)
    file = ScanFile(path=str(path), size_bytes=len(data))
    assert scan([file], columns=["id", "u"], where="id < 400").num_rows == 400
    with pytest.raises(UnreadableFileError, match=r"f\.parquet"):
        scan([file], columns=["id"], where="id < 600 AND id > 500")


def test_other_columns_are_not_decoded_where_nothing_matches(tmp_path):
    """Without a match only the filter's columns are touched: here another one is broken, and nobody sees it."""
    path = tmp_path / "f.parquet"
    write(str(path), 3000, group_rows=3000, compression="none", use_dictionary=False)
    data = bytearray(path.read_bytes())
    chunk = pq.read_metadata(path).row_group(0).column(2)
    data[chunk.data_page_offset : chunk.data_page_offset + 30] = bytes(30)
    path.write_bytes(data)
    file = ScanFile(path=str(path), size_bytes=len(data))
    assert scan([file], columns=["id", "u"], where="s = 'v1' AND wide = 52").num_rows == 0
    with pytest.raises(UnreadableFileError):
        scan([file], columns=["id", "u"], where="s = 'v1' AND wide = 51")


def test_a_footer_is_read_once(tmp_path):
    """However often and by whomever the file is scanned; so are the bounds of each filtered column."""
    path, caches = str(tmp_path / "f.parquet"), ScanCaches.make()
    write(path, 100, group_rows=50)
    for _ in range(3):
        scan([ScanFile(path=path, size_bytes=1)], columns=["id"], where="id = 3", caches=caches)
    stats = caches.stats()["footer"]
    assert (stats.loads, stats.entries) == (2, 2)
    assert stats.hits > 6
    scan([ScanFile(path=path, size_bytes=1)], columns=["id"], where="id = 3 AND wide = 5", caches=caches)
    assert caches.stats()["footer"].entries == 3


@pytest.mark.parametrize("where", ["id = 60000", "id IN (3, 59990, 90000)", "u = 'unique 90001' OR id = 7", "s = 'v2'"])
def test_few_rows_of_a_big_row_group_are_read_by_page(tmp_path, where, monkeypatch):
    """The same rows, nested columns and missing ones included; what is not few is read as ever."""
    path = str(tmp_path / "f.parquet")
    write(path, 100_000, group_rows=100_000, data_page_size=1 << 14)
    file = ScanFile(path=path, size_bytes=1, columns=WITHOUT_LATER)
    columns = [["u", "later", "s", "wide", "id"], ["s", "u", "x"], ["u", "tags", "x"], ["id"]]
    fast = [scan([file], columns=some, where=where, batch_rows=20_000) for some in columns]
    monkeypatch.setattr("packstone.query.scan.blocklet_scan._FEW_ROWS", 0)
    slow = [scan([file], columns=some, where=where, batch_rows=20_000) for some in columns]
    assert [table.num_rows for table in fast] == [table.num_rows for table in slow]
    assert [repr(table.to_pylist()) for table in fast] == [repr(table.to_pylist()) for table in slow]  # NaN is NaN


def test_where_the_pages_are_is_found_once(tmp_path):
    """However many row groups of a file are read by page: one footer is kept for all, and each gives its own rows."""
    path, caches = str(tmp_path / "f.parquet"), ScanCaches.make()
    rows = write(path, 300_000, group_rows=100_000, data_page_size=1 << 14)
    file = ScanFile(path=path, size_bytes=1)
    for at in (99_990, 150_000, 299_999, 250_000):
        found = scan([file], columns=["u", "x"], where=f"id = {at}", batch_rows=100_000, caches=caches)
        assert found.to_pylist() == rows.select(["u", "x"]).slice(at, 1).to_pylist()
    stats = caches.stats()["footer"]
    assert (stats.loads, stats.entries) == (3, 3)  # of PyArrow, of pages, and the bounds of id
    assert stats.bytes < 200_000


@pytest.mark.parametrize("batch_rows", [1 << 16, 64])
def test_codes_of_a_byte_in_several_row_groups(tmp_path, batch_rows):
    """Arrow's own note in a file may say so of each dictionary; the texts of all of them are more than fit."""
    path = str(tmp_path / "f.parquet")
    codes = pa.array([at % 100 for at in range(500)], pa.int8())
    groups = [
        pa.table({
            "id": pa.array(range(first, first + 500)),
            "s": pa.DictionaryArray.from_arrays(codes, pa.array([f"v{first + at}" for at in range(100)])),
            "u": pa.DictionaryArray.from_arrays(codes, pa.array([f"u{first + at}" for at in range(100)])),
        })
        for first in (0, 1000, 2000)
    ]  # fmt: skip
    with pq.ParquetWriter(path, groups[0].schema) as writer:
        for group in groups:
            writer.write_table(group)
    assert pq.read_schema(path).field("s").type.index_type == pa.int8()
    found = scan([ScanFile(path=path, size_bytes=1)], columns=["id", "s", "u"], where="s >= 'v'", batch_rows=batch_rows)
    rows = [row for group in groups for row in group.to_pylist()]
    assert found.to_pylist() == rows
