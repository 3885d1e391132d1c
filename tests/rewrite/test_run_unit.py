"""A unit is published only if the rows read back are the rows that were there."""

from __future__ import annotations

import os
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from format_files import FORMATS

from packstone import HiveOptions, Table
from packstone.errors import VerificationError
from packstone.model.files import FileEntry, Permissions
from packstone.model.unit import How, UnitSpec, UnitStatus, Verify
from packstone.rewrite.small_files.merge_unit import run_unit
from packstone.storage.local import LocalFileIO

ROWS = 50


class Tampering(LocalFileIO):
    """Changes the staged output behind the writer's back, or an input between the first read and the second."""

    def __init__(self, change, *, of_input=False):
        self.change, self.of_input = change, of_input

    def sync_file(self, path):
        """The writer is done: what is changed now only a second read can see."""
        super().sync_file(path)
        if path.endswith(".data"):
            self.change(Path(path).parents[1] / "t" / "1.parquet" if self.of_input else Path(path))


def rewrite(path, rows):
    """Write a Parquet file anew with rows made of its rows."""
    table = pq.read_table(path, partitioning=None)
    pq.write_table(rows(table), path)


def replace_cell(table, name, value):
    """Change one cell."""
    values = table[name].to_pylist()
    values[len(values) // 2] = value
    at = table.schema.get_field_index(name)
    return table.set_column(at, table.schema.field(name), pa.array(values, table.schema.field(name).type))


TAMPERED_ROWS = {
    "a row lost": lambda table: table.slice(1),
    "the last row lost": lambda table: table.slice(0, table.num_rows - 1),
    "all rows lost": lambda table: table.slice(0, 0),
    "a row doubled": lambda table: pa.concat_tables([table, table.slice(3, 1)]),
    "all rows doubled": lambda table: pa.concat_tables([table, table]),
    "a row in place of another": lambda table: pa.concat_tables([table.slice(1), table.slice(3, 1)]),
    "a number changed": lambda table: replace_cell(table, "n", -1),
    "a null for a number": lambda table: replace_cell(table, "n", None),
    "a text changed": lambda table: replace_cell(table, "s", "X"),
    "an empty text for null": lambda table: replace_cell(table, "s", ""),
    "a sign of zero changed": lambda table: replace_cell(table, "f", -0.0),
    "a nested cell changed": lambda table: replace_cell(table, "l", [{"x": 1}, {"x": 9}]),
    "two columns exchanged": lambda table: table.rename_columns(["m", "n", "s", "f", "l"]),
    "cells of two rows exchanged": lambda table: table.set_column(
        0, table.schema.field(0), table["n"].combine_chunks().take(pa.array([1, 0, *range(2, table.num_rows)]))
    ),
}
TAMPERED_SHAPE = {
    "another type": lambda table: table.set_column(0, "n", table["n"].cast(pa.int32())),
    "another name": lambda table: table.rename_columns(["N", "m", "s", "f", "l"]),
    "a key-value gone": lambda table: table.replace_schema_metadata(None),
}


@pytest.fixture
def folder(tmp_path):
    """Three files and a place to stage."""
    (tmp_path / "t").mkdir()
    (tmp_path / "staging").mkdir()
    for at in range(3):
        numbers = range(at * ROWS, at * ROWS + ROWS)
        table = pa.table(
            {
                "n": pa.array(numbers, pa.int64()),
                "m": pa.array([number + 1 for number in numbers], pa.int64()),
                "s": [None if number % 2 else f"s{number}" for number in numbers],
                "f": [0.0] * ROWS,
                "l": [[{"x": 1}, {"x": number}] for number in numbers],
            }
        )
        pq.write_table(table.replace_schema_metadata({"owner": "us"}), tmp_path / "t" / f"{at}.parquet")
    return tmp_path / "t"


def entry(path):
    """A file as the plan saw it."""
    found = path.stat()
    permissions = Permissions(uid=found.st_uid, gid=found.st_gid, mode=found.st_mode & 0o7777)
    return FileEntry(name=path.name, size_bytes=found.st_size, mtime_ns=found.st_mtime_ns, permissions=permissions)


def spec_of(folder, *, how=How.REWRITE, file_format="", **options):
    """A unit of all files of a folder."""
    inputs = tuple(entry(path) for path in sorted(folder.iterdir()))
    file_format = file_format or ("text" if how is How.CONCATENATE else "parquet")
    return UnitSpec(
        number=1, partition="", directory=str(folder), inputs=inputs, how=how, file_format=file_format,
        output_name="out.parquet", why="test", permissions=inputs[0].permissions, **options,
    )  # fmt: skip


def run(io, folder, **options):
    """Run the unit of a folder."""
    return run_unit(io, spec_of(folder, **options), staging=str(folder.parent / "staging"), attempt="a0")


def test_a_good_unit_is_written(folder):
    """Without tampering the unit is written, with the mode of its inputs."""
    for path in folder.iterdir():
        path.chmod(0o640)
    result = run(LocalFileIO(), folder)
    assert (result.status, result.rows_out) == (UnitStatus.WRITTEN, 3 * ROWS)
    staged = Path(result.outputs[0].path)
    assert (staged.stat().st_size, staged.stat().st_mtime_ns) == (
        result.outputs[0].size_bytes,
        result.outputs[0].mtime_ns,
    )
    assert staged.stat().st_mode & 0o7777 == 0o640


@pytest.mark.parametrize("what", [*TAMPERED_ROWS, *TAMPERED_SHAPE])
def test_a_changed_output_is_found(folder, what):
    """Rows lost, doubled or changed in the output, or another schema: a mismatch, and the evidence stays."""
    change = (TAMPERED_ROWS | TAMPERED_SHAPE)[what]
    result = run(Tampering(lambda path: rewrite(path, change)), folder)
    assert result.status is UnitStatus.MISMATCH
    assert Path(result.outputs[0].path).exists()


@pytest.mark.parametrize("what", TAMPERED_ROWS)
def test_a_changed_input_is_found(folder, what):
    """An input that is another one when read again is a mismatch: the output holds what nobody can prove."""
    change = TAMPERED_ROWS[what]
    result = run(Tampering(lambda path: rewrite(path, change), of_input=True), folder)
    assert result.status is UnitStatus.MISMATCH


@pytest.mark.parametrize("what", TAMPERED_ROWS)
def test_a_mismatch_publishes_nothing(folder, what):
    """The run stops with the reason, every file of the table is as before, and the staged file is kept as evidence."""
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    io = Tampering(lambda path: rewrite(path, TAMPERED_ROWS[what]))
    with pytest.raises(VerificationError, match="evidence is kept in") as failed:
        Table(str(folder), io=io).compact(HiveOptions(min_files=2))
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert list(Path(failed.value.facts["staging"]).glob("u*.data"))


def test_count_sees_lost_and_doubled_rows_only(folder):
    """The cheap form holds the number of rows against the footers': it misses changed cells, as documented."""
    assert run(LocalFileIO(), folder, verify=Verify.COUNT).status is UnitStatus.WRITTEN
    for what, change in TAMPERED_ROWS.items():
        result = run(Tampering(lambda path, change=change: rewrite(path, change)), folder, verify=Verify.COUNT)
        same_count = change(pq.read_table(folder / "0.parquet", partitioning=None)).num_rows == ROWS
        same_schema = "columns" not in what
        assert result.status is (UnitStatus.WRITTEN if same_count and same_schema else UnitStatus.MISMATCH), what


def test_a_flipped_byte_in_the_output_is_found(folder):
    """A page that does not decode, or decodes to something else, is a mismatch; a flip that changes no row may pass."""
    rows = duckdb.read_parquet(f"{folder}/*.parquet").order("n").fetchall()
    found = 0
    for step in range(40):

        def flip(path, step=step):
            data = bytearray(path.read_bytes())
            data[4 + step * (len(data) - 12) // 40] ^= 0x10
            path.write_bytes(data)

        result = run(Tampering(flip), folder)
        found += result.status is UnitStatus.MISMATCH
        if result.status is not UnitStatus.MISMATCH:
            assert duckdb.read_parquet(result.outputs[0].path).order("n").fetchall() == rows
    assert found > 20


def test_a_vanished_output_is_found(folder):
    """A staged file that is gone when it should be read back is not a success."""
    result = run(Tampering(os.unlink), folder)
    assert result.status is UnitStatus.MISMATCH
    with pytest.raises(VerificationError, match="cannot be read back"):
        Table(str(folder), io=Tampering(os.unlink)).compact(HiveOptions(min_files=2))


def test_a_vanished_input_fails_the_unit_only(folder):
    """An input that is gone is named, and nothing is left in staging."""
    spec = spec_of(folder)
    (folder / "1.parquet").unlink()
    result = run_unit(LocalFileIO(), spec, staging=str(folder.parent / "staging"), attempt="a0")
    assert result.status is UnitStatus.UNREADABLE
    assert result.blamed.endswith("/1.parquet")
    assert list((folder.parent / "staging").iterdir()) == []


@pytest.mark.parametrize("keep", [0, 5, 200, -1, -9])
def test_a_truncated_input_is_named(folder, keep):
    """A broken file is blamed by name, so that the rest can go on without it."""
    spec = spec_of(folder)
    broken = folder / "1.parquet"
    broken.write_bytes(broken.read_bytes()[:keep])
    result = run_unit(LocalFileIO(), spec, staging=str(folder.parent / "staging"), attempt="a0")
    assert (result.status, Path(result.blamed).name) == (UnitStatus.UNREADABLE, "1.parquet")
    assert list((folder.parent / "staging").iterdir()) == []


def test_another_schema_than_planned_fails_the_unit_only(folder):
    """An input replaced since the plan by one of another schema ends its unit, not the job."""
    spec = spec_of(folder)
    pq.write_table(pa.table({"other": ["x"]}), folder / "1.parquet")
    result = run_unit(LocalFileIO(), spec, staging=str(folder.parent / "staging"), attempt="a0")
    assert result.status is not UnitStatus.WRITTEN


class Full(LocalFileIO):
    """A disk that fills up after some bytes."""

    def open_output(self, path):
        """Open a file that takes 1000 bytes."""
        return pa.PythonFile(FullFile(path), "w")


class FullFile:
    """A file of a thousand bytes."""

    def __init__(self, path):
        self.file, self.room = Path(path).open("wb"), 1000  # noqa: SIM115 - closed by its user
        self.closed = False

    def write(self, data):
        """Take bytes while there is room."""
        self.room -= len(data)
        if self.room < 0:
            raise OSError(28, "No space left on device")
        return self.file.write(data)

    def flush(self):
        """Nothing is held back."""
        self.file.flush()

    def tell(self):
        """Where we are."""
        return self.file.tell()

    def close(self):
        """Close the file."""
        self.file.close()
        self.closed = True


@pytest.mark.parametrize("how", [How.REWRITE, How.CONCATENATE])
def test_a_full_disk_fails_the_unit_only(folder, how):
    """No space is the unit's result, with its reason, and the half-written file is removed."""
    if how is How.CONCATENATE:
        for path in list(folder.iterdir()):
            path.unlink()
        for at in range(3):
            (folder / f"{at}.txt").write_bytes(b"line\n" * 200)
    result = run(Full(), folder, how=how)
    assert (result.status, "No space left" in result.message) == (UnitStatus.FAILED, True)
    assert list((folder.parent / "staging").iterdir()) == []


TAMPERED_TEXT = {
    "a line lost": lambda text: text.partition(b"\n")[2],
    "a line doubled": lambda text: text + text.partition(b"\n")[0] + b"\n",
    "a byte changed": lambda text: text[:5] + bytes([text[5] ^ 1]) + text[6:],
    "two lines joined": lambda text: text.replace(b"\n", b" ", 1),
    "a carriage return added": lambda text: text.replace(b"\n", b"\r\n", 1),
    "an empty line added": lambda text: text + b"\n",
}


@pytest.mark.parametrize("what", TAMPERED_TEXT)
def test_changed_text_is_found(folder, what):
    """Lines lost, doubled, joined or changed in merged text are a mismatch."""
    for path in list(folder.iterdir()):
        path.unlink()
    for at in range(3):
        (folder / f"{at}.txt").write_bytes(f"line {at}\nsecond\n\nlast".encode())
    io = Tampering(lambda path: path.write_bytes(TAMPERED_TEXT[what](path.read_bytes())))
    assert run(io, folder, how=How.CONCATENATE).status is UnitStatus.MISMATCH
    assert run(LocalFileIO(), folder, how=How.CONCATENATE).status is UnitStatus.WRITTEN


COPIED = {
    "text": "text",
    "orc": "orc",
    "gzip": "gzip text",
    "avro": "avro",
    "sequencefile": "sequencefile",
    "rcfile": "rcfile",
}
TAMPERED_BYTES = {
    "a bit flipped": lambda data, at: data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :],
    "a byte lost": lambda data, at: data[:at] + data[at + 1 :],
    "a byte added": lambda data, at: data[:at] + b"1" + data[at:],
    "cut off": lambda data, at: data[:at],
    "bytes after the end": lambda data, at: data + data[:at],
}


@pytest.mark.parametrize("what", TAMPERED_BYTES)
@pytest.mark.parametrize("name", COPIED)
def test_a_changed_copy_is_found(tmp_path, name, what):
    """A copy in which a byte differs, anywhere, is a mismatch, or still the same rows to a reader that is not ours."""
    ending, write, read = FORMATS[name]
    folder = tmp_path / "t"
    (tmp_path / "staging").mkdir()
    folder.mkdir()
    for at in range(3):
        (folder / f"{at}.{ending}").write_bytes(write(list(range(at * 40, at * 40 + 40))))
    good = run(LocalFileIO(), folder, file_format=COPIED[name])
    assert good.status is UnitStatus.WRITTEN
    size = Path(good.outputs[0].path).stat().st_size
    for at in range(1, size, max(1, size // 12)):
        change = TAMPERED_BYTES[what]
        io = Tampering(lambda path, change=change, at=at: path.write_bytes(change(path.read_bytes(), at)))
        result = run(io, folder, file_format=COPIED[name])
        if result.status is UnitStatus.WRITTEN:
            assert read(Path(result.outputs[0].path).read_bytes()) == list(range(120))
        else:
            assert result.status is UnitStatus.MISMATCH
