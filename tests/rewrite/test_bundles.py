"""Many small files that are decoded as one have the rows that each of them has on its own."""

import random
import struct
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from packstone.model.files import FileEntry, Permissions
from packstone.model.unit import How, UnitSpec, UnitStatus
from packstone.rewrite.formats import parquet_bundle
from packstone.rewrite.formats.parquet_bundle import FileBundle, find_bundles
from packstone.rewrite.formats.parquet_file_writer import ParquetFileWriter
from packstone.rewrite.formats.parquet_thrift import I32, read_struct, write_struct
from packstone.rewrite.proof import verify_files
from packstone.rewrite.small_files.merge_unit import run_unit
from packstone.storage.local import LocalFileIO

NAN = float("nan")


class CountedReads(LocalFileIO):
    """Counts how often each file is opened."""

    def __init__(self):
        self.opened = []

    def open_input(self, path):
        """Count and open."""
        self.opened.append(path)
        return super().open_input(path)


def rows_of(seed: int, count: int) -> pa.Table:
    """Rows with nulls, NaN, nested and empty values."""
    chance = random.Random(seed)

    def some(values):
        return [None if chance.random() < 0.2 else value for value in values]

    return pa.table({
        "i": pa.array(some(chance.randrange(1 << 30) for _ in range(count)), pa.int32()),
        "d": pa.array(some(chance.choice((0.0, -0.0, NAN, chance.random())) for _ in range(count)), pa.float64()),
        "s": pa.array(some("ä" * chance.randrange(9) for _ in range(count)), pa.string()),
        "none": pa.array([None] * count, pa.string()),
        "t": pa.array(some(chance.randrange(1 << 50) for _ in range(count)), pa.timestamp("us")),
        "list": pa.array(some([chance.randrange(9)] * chance.randrange(4) for _ in range(count)), pa.list_(pa.int64())),
        "struct": pa.array(some({"a": chance.randrange(9), "b": ["x"] * chance.randrange(3)} for _ in range(count)),
                           pa.struct({"a": pa.int64(), "b": pa.list_(pa.string())})),
    })  # fmt: skip


def write_pyarrow(rows, path, **options):
    """Write with PyArrow."""
    pq.write_table(rows, path, **options)


WRITERS = {
    "pyarrow": write_pyarrow,
    "int96": lambda rows, path: write_pyarrow(rows, path, use_deprecated_int96_timestamps=True, store_schema=False),
    "page version 2": lambda rows, path: write_pyarrow(rows, path, data_page_version="2.0", compression="zstd"),
    "checksums": lambda rows, path: write_pyarrow(rows, path, write_page_checksum=True, write_page_index=True),
    "plain": lambda rows, path: write_pyarrow(rows, path, use_dictionary=False, write_statistics=False),
    "row groups": lambda rows, path: write_pyarrow(rows, path, row_group_size=7),
    "duckdb": lambda rows, path: duckdb.from_arrow(rows).write_parquet(str(path)),
    "polars": lambda rows, path: pl.from_arrow(rows).write_parquet(path),
}


def write_files(folder: Path, writer: str, counts=(20, 1, 33, 0, 71, 8)) -> list[str]:
    """Files of one writer with these numbers of rows."""
    folder.mkdir(exist_ok=True)
    for at, count in enumerate(counts):
        WRITERS[writer](rows_of(at, count), folder / f"{at}.parquet")
    return [str(folder / f"{at}.parquet") for at in range(len(counts))]


def spec_of(paths, **options) -> UnitSpec:
    """A unit of these files."""
    inputs = []
    for path in map(Path, paths):
        found = path.stat()
        permissions = Permissions(uid=found.st_uid, gid=found.st_gid, mode=found.st_mode & 0o7777)
        inputs.append(
            FileEntry(name=path.name, size_bytes=found.st_size, mtime_ns=found.st_mtime_ns, permissions=permissions)
        )
    return UnitSpec(
        number=1, partition="", directory=str(path.parent), inputs=tuple(inputs), how=How.REWRITE,
        file_format="parquet", output_name="out.parquet", why="test", permissions=permissions, **options,
    )  # fmt: skip


def run(io, paths, **options):
    """Run a unit of these files."""
    staging = Path(paths[0]).parents[1] / "staging"
    staging.mkdir(exist_ok=True)
    return run_unit(io, spec_of(paths, **options), staging=str(staging), attempt="a0")


@pytest.mark.parametrize("writer", WRITERS)
def test_a_bundle_has_the_rows_of_its_files(writer, tmp_path):
    """The rows that the merge writes and those that are digested are those of the files, in their order."""
    io, paths = LocalFileIO(), write_files(tmp_path / "t", writer)
    parts = find_bundles(io, paths)
    assert any(isinstance(part, FileBundle) for part in parts)
    for part in parts:
        if isinstance(part, FileBundle):
            rows = part.open(io, unit="us").read()
            part.check_last(io, rows, unit="us")
            digested = verify_files.digested_rows(io, part, rows, unit="us")
            alone = verify_files.fingerprint_parquet(io, part.paths, ordered=True)
            assert verify_files.fingerprint_rows(iter(digested), ordered=True) == alone


@pytest.mark.parametrize("writer", WRITERS)
def test_a_unit_of_small_files_keeps_all_rows(writer, tmp_path):
    """The output has the rows of the inputs for a reader of another project, and every input was read once."""
    paths, io = write_files(tmp_path / "t", writer), CountedReads()
    result = run(io, paths)
    assert (result.status, result.message) == (UnitStatus.WRITTEN, "")
    before = pl.concat([pl.read_parquet(path) for path in paths])
    assert pl.read_parquet(result.outputs[0].path).equals(before)
    assert result.fingerprint == str(verify_files.fingerprint_parquet(LocalFileIO(), paths, ordered=True))
    assert [path for path in io.opened if path in paths] == paths


def test_files_of_other_schemas_are_no_part_of_a_bundle(tmp_path):
    """A bundle holds neighbours of one kind only, and the order of all files stays."""
    paths = write_files(tmp_path / "t", "pyarrow", counts=(5, 6))
    others = write_files(tmp_path / "u", "int96", counts=(7, 8))
    parts = find_bundles(LocalFileIO(), [*paths, *others, paths[0]])
    assert [part.paths if isinstance(part, FileBundle) else part for part in parts] == [paths, others, paths[0]]


def edit_page(path: str, field: int, value: int) -> None:
    """Change a number in the header of the first data page of the first column."""
    metadata = pq.read_metadata(path)
    at = metadata.row_group(0).column(0).data_page_offset
    data = Path(path).read_bytes()
    header, end = read_struct(data, at)
    header[5][1][field] = I32, value
    edited = write_struct(header)
    assert len(edited) == end - at
    Path(path).write_bytes(data[:at] + edited + data[end:])


@pytest.mark.parametrize("rows", [19, 21, 3, 60])
@pytest.mark.parametrize("which", [0, 2, 4])
def test_a_page_with_another_number_of_rows_moves_no_rows(tmp_path, which, rows):
    """Such a file is refused by name, or gives the rows that it has on its own; its neighbours keep theirs."""
    paths = write_files(tmp_path / "t", "plain", counts=(20, 20, 20, 20, 20))
    edit_page(paths[which], 1, rows)
    result = run(LocalFileIO(), paths)
    if result.status is UnitStatus.WRITTEN:
        before = pa.concat_tables([pq.ParquetFile(path).read() for path in paths])
        after = pq.ParquetFile(result.outputs[0].path).read()
        assert after.drop_columns("d").equals(before.drop_columns("d"))
    else:
        assert (result.status, result.blamed) == (UnitStatus.UNREADABLE, paths[which])


def test_a_damaged_file_is_named(tmp_path):
    """Whatever byte of the pages of one file is damaged: the unit fails by its name, or the damage changed its rows."""
    folder = tmp_path / "t"
    paths = write_files(folder, "checksums", counts=(20, 20, 20))
    good = Path(paths[1]).read_bytes()
    end = len(good) - 8 - struct.unpack("<I", good[-8:-4])[0]
    named = 0
    for step in range(40):
        damaged = bytearray(good)
        damaged[4 + step * (end - 4) // 40] ^= 0x11
        Path(paths[1]).write_bytes(damaged)
        result = run(LocalFileIO(), paths)
        if result.status is not UnitStatus.WRITTEN:
            assert (result.status, result.blamed) == (UnitStatus.UNREADABLE, paths[1])
            named += 1
    assert named > 15


def lose_a_row(rows):
    """All but one row."""
    return pa.concat_tables([rows.slice(0, 10), rows.slice(11)])


def double_a_row(rows):
    """One row twice, another not at all."""
    return pa.concat_tables([rows.slice(0, 10), rows.slice(9)]).slice(0, rows.num_rows)


def swap_rows(rows):
    """Two rows exchanged."""
    return pa.concat_tables([rows.slice(1, 1), rows.slice(0, 1), rows.slice(2)])


def change_a_value(rows):
    """One number changed."""
    numbers = rows["i"].to_pylist()
    numbers[12] = 5 if numbers[12] is None else None
    return rows.set_column(0, rows.schema.field(0), pa.array(numbers, pa.int32()))


@pytest.mark.parametrize("fault", [lose_a_row, double_a_row, swap_rows, change_a_value])
def test_a_writer_that_changes_rows_is_found(tmp_path, monkeypatch, fault):
    """The rows are digested before the writer gets them, so its faults are no part of the digest."""
    paths = write_files(tmp_path / "t", "int96")
    write = ParquetFileWriter.write
    monkeypatch.setattr(ParquetFileWriter, "write", lambda self, rows, **options: write(self, fault(rows), **options))
    assert run(LocalFileIO(), paths).status is UnitStatus.MISMATCH


def test_a_bundle_in_a_wrong_order_is_not_used(tmp_path, monkeypatch):
    """A wrong virtual file is found by its rows, and the files are read on their own."""
    paths = write_files(tmp_path / "t", "plain", counts=(20, 20, 20))
    footer = FileBundle._footer

    def wrong(self, *parts, **options):
        self.footers.reverse()
        try:
            return footer(self, *parts, **options)
        finally:
            self.footers.reverse()

    monkeypatch.setattr(FileBundle, "_footer", wrong)
    result = run(LocalFileIO(), paths)
    assert result.status is UnitStatus.WRITTEN
    assert pl.read_parquet(result.outputs[0].path).equals(pl.concat([pl.read_parquet(path) for path in paths]))


def with_pages_of(places, others, leaves, *, distance):
    """The same chunks, some of them with the pages of others, for a footer that adds the distance again."""
    fields = {name: list(values) for name, values in places._asdict().items()}
    for leaf in leaves:
        for name, values in others._asdict().items():
            fields[name][leaf] = values[leaf]
        fields["data_offsets"][leaf] += distance
        fields["dictionary_offsets"][leaf] += distance if fields["dictionary_offsets"][leaf] else 0
    return type(places)(**fields)


@pytest.mark.parametrize("leaves", [{0}, {4}, None], ids=["one column", "another", "all columns"])
def test_a_bundle_that_reads_a_file_twice_is_not_used(tmp_path, monkeypatch, leaves):
    """A footer that names the pages of the first file for the second, too, is found: no row count shows it."""
    paths = write_files(tmp_path / "t", "plain", counts=(20, 20, 20))
    write_group = parquet_bundle._write_group
    first = []

    def wrong(group, *parts, shift):
        if not first:
            first.append(group)
        elif len(first) == 1:  # the second file
            first.append(group)
            taken = range(len(group.chunks.heads)) if leaves is None else leaves
            group = group._replace(chunks=with_pages_of(group.chunks, first[0].chunks, taken, distance=-shift))
        return write_group(group, *parts, shift=shift)

    monkeypatch.setattr(parquet_bundle, "_write_group", wrong)
    result = run(LocalFileIO(), paths)
    assert len(first) == 2
    assert result.status is UnitStatus.WRITTEN
    assert pl.read_parquet(result.outputs[0].path).equals(pl.concat([pl.read_parquet(path) for path in paths]))


def test_files_without_rows_and_columns(tmp_path):
    """Files without rows, also with an empty row group, become one file without rows."""
    paths = write_files(tmp_path / "t", "pyarrow", counts=(0, 0, 0))
    empty = pa.table({"x": pa.array([], pa.int32())})
    assert run(LocalFileIO(), paths).rows_out == 0
    (tmp_path / "u").mkdir()
    others = [str(tmp_path / "u" / f"{at}.parquet") for at in range(3)]
    for path in others:
        with pq.ParquetWriter(path, empty.schema) as writer:
            writer.write_table(empty)
    result = run(LocalFileIO(), others)
    assert (result.status, result.rows_out) == (UnitStatus.WRITTEN, 0)
