"""The status as it is written down: what comes back, what is refused, how lists and segment files are kept."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from packstone.errors import CorruptionError, RefusedError
from packstone.model.segment import SegmentId, SegmentStatus
from packstone.storage.memory import MemoryFileIO
from packstone.tables.segments.column_types import parse_columns
from packstone.tables.segments.edits import new_table
from packstone.tables.segments.layout import segment_file_path
from packstone.tables.segments.properties import SortScope
from packstone.tables.segments.segment_file import DataFile, SegmentFile, read_segment_file, write_segment_file
from packstone.tables.segments.status import (
    RunningCompaction,
    StatusEntry,
    TableStatus,
    dump_entries,
    dump_status,
    parse_entries,
    parse_header,
    parse_status,
)

numbers = st.integers(0, 2**63 - 1)
texts = st.text(st.characters(codec="utf-8"), max_size=8)
ids = st.builds(SegmentId, st.integers(0, 10**6), st.integers(0, 30))
entries = st.builds(
    StatusEntry,
    id=ids,
    status=st.sampled_from(SegmentStatus),
    load_start_ms=numbers,
    load_end_ms=st.none() | numbers,
    newest_load_ms=numbers,
    data_bytes=numbers,
    index_bytes=numbers,
    rows=numbers,
    files=numbers,
    bad_rows=numbers,
    segment_file=st.none() | texts,
    attempt=texts,
    is_major=st.booleans(),
    merged_into=st.none() | ids,
    modified_ms=st.none() | numbers,
)
statuses = st.builds(
    TableStatus,
    version=st.integers(1, 10**9),
    commit=texts,
    ancestors=st.lists(texts, max_size=3).map(tuple),
    written_ms=numbers,
    operation=texts,
    table_id=texts,
    columns=st.just(parse_columns("id long not null, `a b` map<string,array<int>>")),
    properties=st.dictionaries(texts, texts, max_size=3).map(lambda found: tuple(found.items())),
    next_load=numbers,
    entries=st.lists(entries, max_size=4).map(tuple),
    running=st.lists(
        st.builds(RunningCompaction, attempt=texts, output=ids, inputs=st.lists(ids).map(tuple), started_ms=numbers),
        max_size=2,
    ).map(tuple),
    retired_file=st.none() | texts,
    history_files=st.lists(texts, max_size=2).map(tuple),
)


def plain_status():
    """A status with one entry, as bytes."""
    entry = StatusEntry(
        id=SegmentId(0), status=SegmentStatus.SUCCESS, load_start_ms=1, newest_load_ms=1, attempt="a", segment_file="s"
    )
    status = new_table(parse_columns("id long"), {"COMPRESSION": "none"}, table_id="t", commit="c", now_ms=5)
    return replace(status, entries=(entry,), next_load=1)


@given(statuses)
def test_a_status_reads_back_as_it_was_written(status):
    """Every field, whatever its text; the first line alone tells the version."""
    data = dump_status(status)
    assert parse_status(data, path="p") == status
    assert data.count(b"\n") == 2
    header = parse_header(data, path="p")
    for name in ("version", "commit", "ancestors", "written_ms", "operation"):
        assert getattr(header, name) == getattr(status, name)


@given(st.lists(entries, max_size=4).map(tuple))
def test_a_list_of_entries_reads_back(some):
    """Retired and cleaned segments keep everything that they were."""
    assert parse_entries(dump_entries(some, commit="c"), path="p") == some


def test_any_reader_of_json_understands_it():
    """It is one JSON object, with the entries column by column."""
    plain = json.loads(dump_status(plain_status()))
    assert plain["format_version"] == 1
    assert plain["properties"] == {"COMPRESSION": "none"}
    assert (plain["entries"]["load"], plain["entries"]["status"]) == ([0], ["success"])


def test_a_newer_format_is_refused():
    """Not half understood: every way to read it says to upgrade."""
    newer = dump_status(plain_status()).replace(b'"format_version":1', b'"format_version":2')
    for read in (parse_status, parse_header, parse_entries):
        with pytest.raises(RefusedError, match=r"p was written by a newer packstone \(format 2\)"):
            read(newer, path="p")


def test_a_torn_status_is_corruption():
    """Cut at any byte, it is damaged, and the file is named."""
    data = dump_status(plain_status())
    for length in range(len(data) - 2):
        with pytest.raises(CorruptionError, match=r"^p is damaged"):
            parse_status(data[:length], path="p")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"status":["success"]', b'"status":["suckess"]'),
        (b'"load":[0]', b'"load":["0"]'),
        (b'"load":[0]', b'"load":[0,1]'),
        (b'"rows":[0]', b'"rows":[0.5]'),
        (b'"rows":[0]', b'"rows":[true]'),
        (b'"attempt":["a"]', b'"attempt":[null]'),
        (b'"merged_into":[null]', b'"merged_into":["x"]'),
        (b'"merged_into":[null]', b'"merged":[null]'),
        (b'"entries":{', b'"entries":[],"x":{'),
        (b'"commit":"c",', b""),
        (b'"running":[]', b'"running":3'),
        (b'"properties":{', b'"properties":[],"x":{'),
        (b'"format_version":1', b'"format_version":"x"'),
    ],
)
def test_a_value_that_cannot_be_is_corruption(old, new):
    """What does not fit is never guessed at."""
    data = dump_status(plain_status())
    assert old in data
    with pytest.raises(CorruptionError, match=r"^p is damaged"):
        parse_status(data.replace(old, new), path="p")


def test_values_print_in_one_line():
    """As logs and errors show them."""
    status = plain_status()
    assert str(status) == "version 1 (create): 1 segments, 0 running"
    running = RunningCompaction(attempt="m", output=SegmentId(0, 1), inputs=(SegmentId(0), SegmentId(2)), started_ms=1)
    assert str(running) == "0 2 -> 0.1 (m)"


def segment_file():
    """Two files of one run."""
    files = tuple(DataFile(path=f"Fact/Segment_0.1/p{at}.parquet", run=0, rows=5, size_bytes=50) for at in range(2))
    return SegmentFile(
        id=SegmentId(0, 1),
        attempt="m",
        files=files,
        sort_columns=("id",),
        sort_scope=SortScope.GLOBAL_SORT,
        schema="id long",
        index_file="0.1_m.arrow",
        rows=10,
        data_bytes=100,
    )


def test_a_segment_file_reads_back():
    """Under a name of its own, which is created once."""
    io = MemoryFileIO()
    name = write_segment_file(io, "/t", segment_file())
    assert name == "0.1_m.json"
    assert read_segment_file(io, "/t", name) == segment_file()
    with pytest.raises(FileExistsError):
        write_segment_file(io, "/t", segment_file())


def test_a_wrong_segment_file_is_corruption():
    """Damaged, or another's under this name; one that is gone is told as that."""
    io = MemoryFileIO()
    name = write_segment_file(io, "/t", segment_file())
    path = segment_file_path("/t", name)
    io.replace(segment_file_path("/t", "other.json"), io.read_bytes(path))
    with pytest.raises(CorruptionError, match=r"says that it is the segment file 0\.1_m\.json"):
        read_segment_file(io, "/t", "other.json")
    io.replace(path, io.read_bytes(path)[:-3])
    with pytest.raises(CorruptionError, match=path):
        read_segment_file(io, "/t", name)
    with pytest.raises(FileNotFoundError):
        read_segment_file(io, "/t", "gone.json")
