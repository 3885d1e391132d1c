"""The status as it is written down: what comes back, what is refused, how lists and segment files are kept."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from packstone.errors import CorruptionError, RefusedError
from packstone.model.codec import seal, to_plain
from packstone.model.segment import SegmentId, SegmentStatus
from packstone.storage.memory import MemoryFileIO
from packstone.tables.segments.format.columns import parse_columns
from packstone.tables.segments.format.edits import new_table
from packstone.tables.segments.format.layout import segment_file_path
from packstone.tables.segments.format.properties import SortScope
from packstone.tables.segments.format.segment_file import (
    DataFile,
    SegmentFile,
    read_segment,
    read_segment_file,
    write_segment_file,
)
from packstone.tables.segments.format.status import (
    ChunkRef,
    RunningCompaction,
    StatusEntry,
    StoredEntries,
    TableStatus,
    dump_entries,
    dump_status,
    parse_entries,
    parse_header,
    parse_status,
)

numbers = st.integers(0, 2**63 - 1)
texts = st.text(st.characters(codec="utf-8"), max_size=8)
names = st.from_regex(r"[0-9a-z][0-9a-z_-]{0,8}", fullmatch=True)
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
    attempt=names,
    is_major=st.booleans(),
    merged_into=st.none() | ids,
    modified_ms=st.none() | numbers,
    labels=st.none().map(lambda _: ()),
).map(lambda entry: replace(entry, segment_file=f"{entry.id}_{entry.attempt}.json"))
with_deletes = st.tuples(entries, st.integers(0, 5)).map(
    lambda one: (
        replace(one[0], delete_file=f"{one[0].id}_d-0.json", deleted_rows=one[1])
        if 0 < one[1] < one[0].rows
        else one[0]
    )
)
lists = st.lists(with_deletes, max_size=4, unique_by=lambda entry: entry.id).map(
    lambda found: tuple(sorted(found, key=lambda entry: entry.id))
)

refs = st.builds(
    ChunkRef,
    name=names,
    digest=names,
    size_bytes=numbers,
    count=st.integers(10, 99),
    gone=st.sampled_from([(), (1, 3)]),
)


@st.composite
def statuses(draw):
    """A status that could be: what is being merged is there, and nothing twice."""
    some = tuple(
        replace(entry, labels=(f"{entry.id} á", f"b{entry.id}")) if draw(st.booleans()) else entry
        for entry in draw(lists)
    )
    merged = [entry.id for entry in some if draw(st.booleans())]
    output = SegmentId(merged[0].load, merged[0].merges + draw(st.integers(1, 3))) if merged else None
    running = (
        RunningCompaction(attempt=draw(names), output=output, inputs=tuple(merged), started_ms=1) if merged else None
    )
    return TableStatus(
        version=draw(st.integers(1, 10**9)),
        commit=draw(names),
        ancestors=draw(st.lists(names, max_size=3).map(tuple)),
        written_ms=draw(numbers),
        clock_ms=draw(st.none() | numbers),
        ordered_since=draw(st.integers(0, 10**9)),
        operation=draw(texts),
        table_id=draw(texts),
        columns=parse_columns("id long not null, `a b` map<string,array<int>>"),
        properties=draw(st.dictionaries(texts, texts, max_size=3).map(lambda found: tuple(found.items()))),
        next_load=10**6 + 1 + draw(st.integers(0, 5)),
        entries=some,
        running=() if running is None else (running,),
        retired=draw(st.builds(StoredEntries, chunks=st.lists(refs, max_size=2).map(tuple), recent=lists)),
        history_files=draw(st.lists(names, max_size=2).map(tuple)),
    )


def plain_status():
    """A status with one entry, as bytes."""
    entry = StatusEntry(
        id=SegmentId(0),
        status=SegmentStatus.SUCCESS,
        load_start_ms=1,
        newest_load_ms=1,
        attempt="a",
        segment_file="0_a.json",
    )
    status = new_table(parse_columns("id long"), {"COMPRESSION": "none"}, table_id="t", commit="c", now_ms=5)
    return replace(status, entries=(entry,), next_load=1)


@given(statuses())
def test_a_status_reads_back_as_it_was_written(status):
    """Every field, whatever its text; the first line alone tells the version."""
    data = dump_status(status)
    assert parse_status(data, path="p") == status
    assert data.count(b"\n") == 1
    header = parse_header(data, path="p")
    for name in ("version", "commit", "ancestors", "written_ms", "clock_ms", "ordered_since", "operation"):
        assert getattr(header, name) == getattr(status, name)


@given(lists)
def test_a_list_of_entries_reads_back(some):
    """Retired and cleaned segments keep everything that they were."""
    assert parse_entries(dump_entries(some, commit="c"), path="p") == some


def test_any_reader_of_json_understands_it():
    """It is one JSON object, with the entries column by column."""
    plain = json.loads(dump_status(plain_status()))
    assert plain["format_version"] == 4
    assert plain["properties"] == {"COMPRESSION": "none"}
    assert (plain["entries"]["load"], plain["entries"]["status"]) == ([0], ["success"])


def test_a_newer_format_is_refused():
    """Not half understood: every way to read it says to upgrade."""
    newer = dump_status(plain_status()).replace(b'"format_version":4', b'"format_version":5')
    for read in (parse_status, parse_header, parse_entries):
        with pytest.raises(RefusedError, match=r"p was written by a newer packstone \(format 5\)"):
            read(newer, path="p")


def test_a_torn_status_is_corruption():
    """Cut at any byte, it is damaged, and the file is named."""
    data = dump_status(plain_status())
    for length in range(len(data)):
        with pytest.raises(CorruptionError, match=r"^The record p is damaged"):
            parse_status(data[:length], path="p")
        with pytest.raises(CorruptionError, match=r"^The record p is damaged"):
            parse_header(data[:length], path="p")


def test_a_changed_byte_is_corruption():
    """Every bit counts, in the first line and in the entries."""
    data = dump_status(plain_status())
    for at in range(len(data)):
        changed = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        for read in (parse_status, parse_header):
            with pytest.raises((CorruptionError, RefusedError)):
                read(changed, path="p")


def old_status(version, **changes):
    """A status as formats 1 and 2 had it: all entries, the name of a retired list, labels in a list of their own."""
    plain = json.loads(dump_status(plain_status()))
    for name in ("chunks", "retired_chunks", "retired", "digest"):
        del plain[name]
    for name in ("labels", "delete_file", "deleted_rows"):
        del plain["entries"][name]
    plain |= {"format_version": version, "retired_file": None, **changes}
    lines = json.dumps({name: value for name, value in plain.items() if name != "entries"}).removesuffix("}")
    return f'{lines},\n"entries":{json.dumps(plain["entries"])}}}'.encode()


def test_a_status_of_an_older_packstone_is_read():
    """Format 1 had no digest, no clock and ended in a line break; format 2 had no chunks."""
    first = old_status(1).replace(b'"clock_ms": 5, "ordered_since": 0, ', b"") + b"\n"
    assert parse_status(first, path="p") == replace(plain_status(), clock_ms=None)
    assert parse_header(first, path="p").version == 1
    second = seal(old_status(2, retired_file="r.json", labels=[{"label": "monday", "segments": [{"load": 0}]}]))
    status = parse_status(second, path="p")
    assert status.retired == StoredEntries(chunks=(ChunkRef(name="r.json"),))
    assert status.find_label("monday").segment == SegmentId(0)
    with pytest.raises(CorruptionError, match="digest"):
        parse_status(old_status(2), path="p")
    for wrong in ({"labels": 3}, {"labels": [{"label": "x"}]}, {"retired_file": "../x"}, {"entries": [3]}):
        with pytest.raises(CorruptionError, match="The record p is damaged"):
            parse_status(seal(old_status(2, **wrong)), path="p")


def test_entries_of_format_3_have_no_deleted_rows():
    """In the status as in a chunk; format 4 must say it, because a reader that guesses shows deleted rows."""
    plain = json.loads(dump_status(plain_status()))
    for one in (plain["entries"], plain["retired"]):
        del one["delete_file"], one["deleted_rows"]
    del plain["digest"]
    with pytest.raises(CorruptionError, match="not lists of values"):
        parse_status(seal(json.dumps(plain).encode()), path="p")
    older = seal(json.dumps(plain | {"format_version": 3}).encode())
    assert parse_status(older, path="p") == plain_status()
    assert parse_entries(older, path="p") == plain_status().entries


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
        (b'"commit":"c"', b'"commit":"../c"'),
        (b'"rows":[0]', b'"rows":[-1]'),
        (b'"rows":[0]', b'"rows":[9223372036854775808]'),
        (b'"load":[0]', b'"load":[7]'),
        (b'"load":[0]', b'"load":[-1]'),
        (b'"attempt":["a"]', b'"attempt":["../../.."]'),
        (b'"attempt":["a"]', b'"attempt":[".."]'),
        (b'"attempt":["a"]', b'"attempt":["a\\nb"]'),
        (b'"segment_file":["0_a.json"]', b'"segment_file":["../0_a.json"]'),
        (b'"segment_file":["0_a.json"]', b'"segment_file":["/etc/passwd"]'),
        (b'"chunks":[]', b'"chunks":[{"name":"../x.json"}]'),
        (b'"chunks":[]', b'"chunks":[{"name":"x.json","digest":"d","count":3}]'),
        (b'"chunks":[]', b'"chunks":3'),
        (b'"retired_chunks":[]', b'"retired_chunks":[{"name":"a/b.json"}]'),
        (b'"retired_chunks":[]', b'"retired_chunks":[{"name":"b.json","count":3,"gone":[1,4]}]'),
        (b'"retired_chunks":[]', b'"retired_chunks":[{"name":"b.json","count":9,"gone":[2,1]}]'),
        (b'"retired_chunks":[]', b'"retired_chunks":[{"name":"b.json","count":9,"gone":[1]}]'),
        (b'"retired_chunks":[]', b'"retired_chunks":[{"name":"b.json","count":99999999999,"gone":[1,9999999999]}]'),
        (b'"labels":[[]]', b'"labels":[["a","a"]]'),
        (b'"labels":[[]]', b'"labels":[[1]]'),
        (b'"labels":[[]]', b'"labels":[[""]]'),
        (b'"labels":[[]]', b'"labels":["a"]'),
        (b'"delete_file":[null]', b'"delete_file":["0_d.json"]'),
        (b'"delete_file":[null],"deleted_rows":[0]', b'"delete_file":["0_d.json"],"deleted_rows":[1]'),
        (b'"delete_file":[null]', b'"delete_file":["../0_d.json"]'),
        (b'"deleted_rows":[0]', b'"deleted_rows":[1]'),
        (b'"history_files":[]', b'"history_files":["a/b"]'),
        (b'"type_text":"long"', b'"type_text":"lung"'),
        (b'"name":"id"', b'"name":""'),
        (b'"running":[]', b'"running":[{"attempt":"m","output":{"load":5},"inputs":[{"load":5}],"started_ms":1}]'),
        (
            b'"running":[]',
            b'"running":[{"attempt":"m","output":{"load":5,"merges":1},"inputs":[{"load":5}],"started_ms":1}]',
        ),
        (b'"running":[]', b'"running":3'),
        (b'"properties":{', b'"properties":[],"x":{'),
        (b'"format_version":4', b'"format_version":"x"'),
    ],
)
def test_a_value_that_cannot_be_is_corruption(old, new):
    """What does not fit is never guessed at, even if the digest is right: names lead nowhere else."""
    data = dump_status(plain_status())
    assert old in data
    changed = data[: data.rindex(b',"digest"')] + b"}"
    with pytest.raises(CorruptionError, match=r"^The record p is damaged"):
        parse_status(seal(changed.replace(old, new)), path="p")


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
    """Damaged, or another's under this name; one that is gone is reported as such."""
    io = MemoryFileIO()
    name = write_segment_file(io, "/t", segment_file())
    path = segment_file_path("/t", name)
    io.replace(segment_file_path("/t", "other.json"), io.read_bytes(path))
    with pytest.raises(CorruptionError, match=r"says that it is 0\.1_m\.json"):
        read_segment_file(io, "/t", "other.json")
    io.replace(path, io.read_bytes(path)[:-3])
    with pytest.raises(CorruptionError, match=path):
        read_segment_file(io, "/t", name)
    with pytest.raises(FileNotFoundError):
        read_segment_file(io, "/t", "gone.json")


@pytest.mark.parametrize(
    "change",
    [
        {"index_file": "../../../outside/secret.txt"},
        {"index_file": "/etc/passwd"},
        {"index_file": "0.2_m.arrow"},
        {"attempt": "../x"},
        {"rows": 11},
        {"data_bytes": -1},
        {"id": {"load": -1, "merges": 0}},
        {"files": [{"path": "Fact/Segment_0.1/../../../secret.txt", "run": 0, "rows": 10, "size_bytes": 100}]},
        {"files": [{"path": "Fact/Segment_7/p0.parquet", "run": 0, "rows": 10, "size_bytes": 100}]},
        {"files": [{"path": "/etc/passwd", "run": 0, "rows": 10, "size_bytes": 100}]},
        {"files": [{"path": "Fact/Segment_0.1/p0.parquet", "run": 0, "rows": 5, "size_bytes": 50}] * 2},
        {"files": []},
        {"sort_scope": "SIDEWAYS"},
    ],
)
def test_a_segment_file_names_its_own_files_only(change):
    """A record whose digest is right, but whose names lead elsewhere, is damaged: nothing is read or removed by it."""
    io = MemoryFileIO()
    name = write_segment_file(io, "/t", segment_file())
    path = segment_file_path("/t", name)
    plain = {"format_version": 2, **to_plain(segment_file()), **change}
    io.replace(path, seal(json.dumps(plain).encode()))
    with pytest.raises(CorruptionError, match=f"The record {path} is damaged"):
        read_segment_file(io, "/t", name)


def test_a_segment_file_is_that_of_its_entry():
    """An entry that names another segment's file, or other rows, is not believed: its files are not this one's."""
    io = MemoryFileIO()
    name = write_segment_file(io, "/t", segment_file())
    entry = StatusEntry(
        id=SegmentId(0, 1), status=SegmentStatus.SUCCESS, load_start_ms=1, newest_load_ms=1, attempt="m",
        segment_file=name, rows=10, files=2, data_bytes=100,
    )  # fmt: skip
    assert read_segment(io, "/t", entry) == segment_file()
    for wrong in (replace(entry, id=SegmentId(5)), replace(entry, rows=9), replace(entry, attempt="x")):
        with pytest.raises(CorruptionError, match="not what the status says"):
            read_segment(io, "/t", wrong)
