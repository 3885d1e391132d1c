"""Files of users as batches: every row once, whatever the file is cut into, and bad lines reported by number."""

import gzip
import json
from itertools import pairwise

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import orc

from packstone.errors import InvalidInputError, UnreadableFileError
from packstone.rewrite.load import input_files as text_blocks
from packstone.rewrite.load.convert_rows import BadRecords, Converter
from packstone.rewrite.load.input_files import (
    InputFormat,
    InputOptions,
    InputPiece,
    LoadFile,
    find_files,
    split_files,
)
from packstone.rewrite.load.read_inputs import read_inputs
from packstone.storage.local import LocalFileIO
from packstone.storage.memory import MemoryFileIO

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("score", pa.float64())])
IO = LocalFileIO()
ANY = InputOptions()


def read(paths, *, schema=SCHEMA, options=ANY, task_bytes=1 << 30, action=BadRecords.IGNORE, io=IO):
    """All rows of some files through the converter, and what was bad."""
    files = find_files(io, [str(path) for path in paths], options=options)
    rows, bad = [], []
    for group in split_files(io, files, task_bytes=task_bytes, options=options):
        converter = Converter(schema, action=action)
        for piece in group:
            for batch in read_inputs(io, piece, schema=schema, options=options):
                got = converter.convert(batch)
                rows += got.batch.to_pylist()
                bad += got.bad
    return rows, bad


def table(rows):
    """Rows that are all different."""
    return pa.table(
        {"id": range(rows), "name": [f"n{n}" for n in range(rows)], "score": [n / 2 for n in range(rows)]}, SCHEMA
    )


def write_csv(path, rows, *, header=True):
    """The same rows as text."""
    lines = ["id,name,score"] * header + [f"{row['id']},{row['name']},{row['score']}" for row in rows]
    path.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("task_bytes", [1, 700, 1 << 20])
def test_all_formats(tmp_path, task_bytes):
    """Each format gives all rows once and in order, in whatever pieces."""
    rows = table(300).to_pylist()
    pq.write_table(table(300), tmp_path / "a.parquet", row_group_size=70)
    orc.write_table(table(300), tmp_path / "b.orc")
    write_csv(tmp_path / "c.csv", rows)
    (tmp_path / "d.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    for name in ("a.parquet", "b.orc", "c.csv", "d.jsonl"):
        got, bad = read([tmp_path / name], task_bytes=task_bytes)
        assert (got, bad) == (rows, []), name


def test_small_files_are_put_together(tmp_path):
    """Files of a folder go into tasks by their bytes, in the order of names; hidden and empty ones are no data."""
    for at in range(20):
        write_csv(tmp_path / f"{at:02d}.csv", table(3).to_pylist())
    (tmp_path / "_SUCCESS").write_text("x")
    (tmp_path / "zz.csv").write_text("")
    size = (tmp_path / "00.csv").stat().st_size
    files = find_files(IO, [str(tmp_path)], options=ANY)
    groups = list(split_files(IO, files, task_bytes=5 * size, options=ANY))
    assert [len(group) for group in groups] == [5, 5, 5, 5]
    assert [piece.file.path for group in groups for piece in group] == [f"{tmp_path}/{at:02d}.csv" for at in range(20)]


def test_row_groups_are_shared_out(tmp_path):
    """A big Parquet file is cut between its row groups into parts of about the requested size."""
    pq.write_table(table(1000), tmp_path / "a.parquet", row_group_size=100)
    size = (tmp_path / "a.parquet").stat().st_size
    files = find_files(IO, [str(tmp_path)], options=ANY)
    groups = list(split_files(IO, files, task_bytes=size // 3, options=ANY))
    assert 3 <= len(groups) <= 4
    pieces = [piece for group in groups for piece in group]
    assert [piece.start for piece in pieces[1:]] == [piece.end for piece in pieces[:-1]]


def test_csv_fields(tmp_path):
    """An empty field is null and a quoted one is empty text; quotes, other signs and line ends are understood."""
    path = tmp_path / "a.csv"
    path.write_bytes('\ufeffname,ID,score\r\n"",1,\r\n,2,NaN\r\n"a ""b"", c",3,-Infinity\r\n\r\nx,4,1e3'.encode())
    rows, bad = read([path])
    assert [(row["id"], row["name"], str(row["score"])) for row in rows] == [
        (1, "", "None"),
        (2, None, "nan"),
        (3, 'a "b", c', "-inf"),
        (4, "x", "1000.0"),
    ]
    assert bad == []
    tabs = tmp_path / "b.tsv"
    tabs.write_text("1\tx\\\ty\tNULL\n")
    options = InputOptions(delimiter="\t", header=False, escape="\\", null_text="NULL")
    assert read([tabs], options=options)[0] == [{"id": 1, "name": "x\ty", "score": None}]


@pytest.mark.parametrize("task_bytes", [1 << 20, 15])
def test_csv_bad_rows(tmp_path, task_bytes):
    """Rows with other fields than the header, bytes that are no text, values that do not fit: each with its number."""
    path = tmp_path / "a.csv"
    path.write_bytes(b"id,name,score\n1,a,1\n2,b\n3,c,3,4\n4,d\xff,4\n5,e,x\n6,f,6\n")
    rows, bad = read([path], task_bytes=task_bytes)
    assert [row["id"] for row in rows] == [1, 6]
    assert sorted((field.row, field.column, field.reason) for field in bad) == [
        (2, "", "has 2 fields where 3 are expected"),
        (3, "", "has 4 fields where 3 are expected"),
        (4, "name", "is not valid UTF-8"),
        (5, "score", "is not a number that a double can hold"),
    ]


def test_csv_line_breaks(tmp_path):
    """A break inside quotes needs the option; without it the load says so and guesses nothing."""
    path = tmp_path / "a.csv"
    path.write_text('id,name,score\n1,"two\nlines",1\n2,x\n3,"more\n\nlines",3\n')
    with pytest.raises(InvalidInputError, match="line breaks inside quotes; set --multiline"):
        read([path])
    rows, bad = read([path], options=InputOptions(multiline=True), task_bytes=1)
    assert [row["name"] for row in rows] == ["two\nlines", "more\n\nlines"]
    assert len(bad) == 1


def test_json_lines(tmp_path):
    """Values of another kind are judged one by one, digits are kept, and a line that is not an object is bad."""
    path = tmp_path / "a.jsonl"
    path.write_text(
        '{"ID": 1, "name": "a"}\n{"ID": "2", "name": 12345678901234567890.10}\n\n{"ID": 1.5}\nnonsense\n[1]\n'
        '{"ID": 5, "name": {"k": 1}, "score": "NaN"}\n{"ID": 6, "score": true}\n'
    )
    rows, bad = read([path])
    assert [(row["id"], row["name"]) for row in rows] == [(1, "a"), (2, "12345678901234567890.10"), (5, '{"k": 1}')]
    assert [(field.row, field.column) for field in sorted(bad, key=lambda field: field.row)] == [
        (4, "id"),
        (5, ""),
        (6, ""),
        (8, "score"),
    ]


def test_json_structures(tmp_path):
    """Lists, maps, structs and bytes; a row with another structure is bad alone."""
    schema = pa.schema(
        [
            ("tags", pa.list_(pa.int32())),
            ("props", pa.map_(pa.string(), pa.date32())),
            ("at", pa.struct([("x", pa.float64())])),
            ("raw", pa.binary()),
        ]
    )
    path = tmp_path / "a.json"
    path.write_text(
        '{"tags": [1, null], "props": {"d": "2024-01-02"}, "at": {"X": 1.5}, "raw": "AAE="}\n'
        '{"tags": 7}\n{"tags": ["x"]}\n{"raw": "?"}\n{"props": {"d": "2024-02-30"}}\n{"at": {"y": 1}}\n{}\n'
    )
    rows, bad = read([path], schema=schema)
    assert rows[0]["tags"] == [1, None]
    assert rows[0]["at"] == {"x": 1.5}
    assert rows[0]["raw"] == b"\x00\x01"
    assert len(rows) == 2
    assert [field.row for field in sorted(bad, key=lambda field: field.row)] == [2, 3, 4, 5, 6]


def test_a_json_array_is_refused(tmp_path):
    """One array in place of lines is reported at once."""
    (tmp_path / "a.json").write_text('[\n{"id": 1}\n]\n')
    with pytest.raises(InvalidInputError, match="is a JSON array"):
        read([tmp_path / "a.json"])


def test_compressed_text(tmp_path):
    """Text behind a compression is read as a whole."""
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"id,name\n1,a\n2,b\n"))
    assert [row["id"] for row in read([tmp_path], task_bytes=1)[0]] == [1, 2]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"id,colour,size\n1,2,3\n", "columns that the table does not have: colour, size"),
        ("a.jsonl", b'{"id": 1, "colour": 2}\n', "columns that the table does not have: colour"),
        ("a.dat", b"hello", "cannot be detected"),
        ("p=1/a.csv", b"id\n1\n", "is partitioned"),
    ],
)
def test_wrong_inputs(tmp_path, name, content, message):
    """What cannot be loaded is one clear error."""
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidInputError, match=message):
        read([tmp_path])


@pytest.mark.parametrize("name", ["a.parquet", "a.orc", "a.csv.gz"])
def test_broken_files(tmp_path, name):
    """A file that is not what its name says is named."""
    (tmp_path / name).write_bytes(b"PAR1 is not enough")
    with pytest.raises(UnreadableFileError, match=rf"{name} is (not a readable|a truncated)"):
        read([tmp_path])


@settings(max_examples=150, deadline=None)
@given(
    lines=st.lists(st.text("ab", max_size=6), max_size=12),
    ends=st.booleans(),
    cuts=st.lists(st.integers(1, 60), max_size=4),
    block=st.integers(1, 20),
)
def test_pieces_share_out_the_lines(lines, ends, cuts, block):
    """Wherever a file is cut and however it is read, each line is in exactly one piece."""
    data = "\n".join(lines).encode() + b"\n" * ends
    io = MemoryFileIO()
    io.make_dirs("/in")
    io.replace("/in/a.csv", data)
    file = LoadFile(path="/in/a.csv", size_bytes=len(data), file_format=InputFormat.CSV)
    bounds = [0, *sorted({cut for cut in cuts if cut < len(data)}), -1]
    before = text_blocks.BLOCK_BYTES
    text_blocks.BLOCK_BYTES = block
    try:
        blocks = [
            list(text_blocks.read_blocks(io, InputPiece(file=file, size_bytes=0, start=start, end=end)))
            for start, end in pairwise(bounds)
        ]
    finally:
        text_blocks.BLOCK_BYTES = before
    assert b"".join(block for piece in blocks for block in piece) == data
    assert all(block.endswith(b"\n") for piece in blocks[:-1] for block in piece[:-1])
