"""The delete file: what comes back, and what is refused."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packstone.errors import CorruptionError, RefusedError
from packstone.model.codec import seal, to_plain
from packstone.model.segment import SegmentId, SegmentStatus
from packstone.rewrite.formats.roaring import encode_roaring
from packstone.storage.memory import MemoryFileIO
from packstone.tables.segments.format.delete_file import make_delete_file, read_deletes, write_delete_file
from packstone.tables.segments.format.layout import delete_file_path
from packstone.tables.segments.format.properties import SortScope
from packstone.tables.segments.format.segment_file import DataFile, SegmentFile
from packstone.tables.segments.format.status import StatusEntry

FIRST, SECOND = "Fact/Segment_3/a.parquet", "Fact/Segment_3/b.parquet"
SEGMENT = SegmentFile(
    id=SegmentId(3),
    attempt="m",
    files=(
        DataFile(path=FIRST, run=0, rows=100_000, size_bytes=7),
        DataFile(path=SECOND, run=0, rows=5, size_bytes=3),
    ),
    sort_columns=(),
    sort_scope=SortScope.NO_SORT,
    schema="id long",
    index_file="3_m.arrow",
    rows=100_005,
    data_bytes=10,
)
NAME = "3_c-0.json"
ENTRY = StatusEntry(
    id=SegmentId(3), status=SegmentStatus.SUCCESS, load_start_ms=1, newest_load_ms=1, attempt="m",
    segment_file=SEGMENT.name, rows=100_005, files=2, data_bytes=10, delete_file=NAME, deleted_rows=4,
)  # fmt: skip


def written(positions, name=NAME):
    """A delete file in memory."""
    io = MemoryFileIO()
    found = {path: np.array(sorted(at), dtype=np.int64) for path, at in positions.items()}
    write_delete_file(io, "/t", make_delete_file(SEGMENT, found, name=name))
    return io


@given(st.sets(st.integers(0, 99_999), max_size=50), st.sets(st.integers(0, 4)))
def test_positions_read_back(first, second):
    """By data file; files without deleted rows are not in it."""
    io = written({FIRST: first, SECOND: second})
    entry = replace(ENTRY, deleted_rows=len(first) + len(second))
    found = {path: at.tolist() for path, at in read_deletes(io, "/t", entry, segment=SEGMENT).items()}
    assert found == {path: sorted(at) for path, at in ((FIRST, first), (SECOND, second)) if at}


def test_an_entry_without_a_delete_file_reads_nothing():
    """Tables without deletes have no such folder."""
    assert read_deletes(MemoryFileIO(), "/t", replace(ENTRY, delete_file=None, deleted_rows=0), segment=SEGMENT) == {}


def test_every_changed_bit_is_damage():
    """A changed position would show a deleted row, or hide another one."""
    io = written({FIRST: {1, 5, 70_000}, SECOND: {4}})
    path = delete_file_path("/t", NAME)
    data = io.read_bytes(path)
    for at in range(len(data)):
        io.replace(path, data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :])
        with pytest.raises((CorruptionError, RefusedError), match=path):
            read_deletes(io, "/t", ENTRY, segment=SEGMENT)
    for length in range(len(data)):
        io.replace(path, data[:length])
        with pytest.raises(CorruptionError, match=path):
            read_deletes(io, "/t", ENTRY, segment=SEGMENT)


def test_a_delete_file_is_that_of_its_entry():
    """Another number of rows, or another segment file, is not believed."""
    io = written({FIRST: {1, 5, 70_000}, SECOND: {4}})
    assert sum(map(len, read_deletes(io, "/t", ENTRY, segment=SEGMENT).values())) == 4
    for wrong in (replace(ENTRY, deleted_rows=3), replace(ENTRY, segment_file="3_x.json")):
        with pytest.raises(CorruptionError, match="not what the status says of segment 3"):
            read_deletes(io, "/t", wrong, segment=SEGMENT)
    with pytest.raises(FileNotFoundError):
        read_deletes(io, "/t", replace(ENTRY, delete_file="3_other-0.json"), segment=SEGMENT)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"format_version": 9}, "newer packstone"),
        ({"name": "3_x-0.json"}, "it says that it is 3_x-0.json"),
        ({"name": "../x"}, "is damaged"),
        ({"rows": 5}, "rows are not those of its files"),
        ({"bitmap": encode_roaring(np.array([1, 2, 3]))}, "does not have its rows"),
        ({"bitmap": encode_roaring(np.array([1, 2, 3, 100_000]))}, "segment 3 does not have these rows of a.parquet"),
        ({"bitmap": encode_roaring(np.array([1, 2, 3, 4])) + b"x"}, "does not have its rows"),
        ({"bitmap": b"roar"}, "the bitmap of a.parquet cannot be read"),
        ({"path": "Fact/Segment_4/a.parquet"}, "does not have these rows"),
        ({"path": "../a.parquet"}, "is damaged"),
    ],
)
def test_a_delete_file_names_rows_of_its_segment_only(change, why):
    """Whatever its digest says."""
    io = written({FIRST: {1, 2, 3, 4}})
    path = delete_file_path("/t", NAME)
    plain = json.loads(io.read_bytes(path))
    del plain["digest"]
    (file,) = plain["files"]
    plain_change = {name: to_plain(value) for name, value in change.items()}
    file.update({name: value for name, value in plain_change.items() if name in file and name != "rows"})
    plain.update({name: value for name, value in plain_change.items() if name not in file or name == "rows"})
    io.replace(path, seal(json.dumps(plain).encode()))
    with pytest.raises((CorruptionError, RefusedError), match=why):
        read_deletes(io, "/t", ENTRY, segment=SEGMENT)
