"""Chunks of entries: what a commit writes, what versions share, what clean removes, what is noticed if one is lost."""

import itertools
import subprocess
import sys
import uuid
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from segment_calls import (
    commit_delete,
    segment_clock,
    segment_create,
    segment_load,
    segment_merge,
    segment_prune,
)

from packstone.model.codec import seal
from packstone.model.segment import SegmentId, SegmentStatus
from packstone.storage.local import LocalFileIO
from packstone.storage.memory import MemoryFileIO
from packstone.tables.segments.clean import plan_clean, remove_expired
from packstone.tables.segments.format.layout import entries_folder, retired_folder, status_path
from packstone.tables.segments.format.status import (
    ChunkRef,
    EntryChunk,
    StatusEntry,
    join_entries,
    plan_chunks,
    store_entries,
)
from packstone.tables.segments.format.status_files import (
    list_versions,
    read_head,
    read_latest,
    read_retired,
    read_version,
)

T = "/t"
DAY_MS = 86_400_000


def entry(number, **changes):
    """An entry of a load."""
    first = StatusEntry(
        id=SegmentId(number),
        status=SegmentStatus.SUCCESS,
        load_start_ms=1,
        newest_load_ms=1,
        attempt=f"a{number}",
        segment_file=f"{number}_a.json",
    )
    return replace(first, **changes)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.integers(1, 40)),
            st.tuples(st.just("drop"), st.integers(0, 10**6)),
            st.tuples(st.just("drop many"), st.integers(0, 10**6)),
            st.tuples(st.just("change"), st.integers(0, 10**6)),
            st.tuples(st.just("run"), st.integers(0, 10**6)),
        ),
        max_size=60,
    )
)
def test_entries_in_chunks_are_the_entries(steps):
    """Whatever is added, changed and removed: heads and chunks hold exactly the entries; heads are short."""
    entries, chunks, numbers, names = (), (), itertools.count(), itertools.count()
    for what, value in steps:
        at = value % len(entries) if entries else 0
        if what == "add":
            entries += tuple(entry(next(numbers)) for _ in range(value))
        elif what == "drop":
            entries = entries[:at] + entries[at + 1 :]
        elif what == "drop many":
            entries = entries[:at] + entries[at + value % 100 :]
        elif entries:
            status = SegmentStatus.IN_PROGRESS if what == "run" else SegmentStatus.PARTIAL_SUCCESS
            entries = (*entries[:at], replace(entries[at], rows=value, status=status), *entries[at + 1 :])
        chunks, moving = plan_chunks(entries, chunks)
        if moving:
            assert not any(one.is_running for one in moving)
            ref = ChunkRef(name=f"c{next(names)}", digest="d", count=len(moving))
            chunks = (*chunks, EntryChunk(ref=ref, entries=moving))
        stored = store_entries(entries, chunks)
        assert join_entries(stored, [chunk.entries for chunk in chunks]) == entries
        assert sum(not one.is_running for one in stored.recent) < 16
        sizes = sorted(one.count - len(one.gone_positions) for one in stored.chunks)
        assert all(2 * size >= one.count for size, one in zip(sizes, sorted(stored.chunks, key=live), strict=True))
        assert len(sizes) <= 12


def live(ref):
    """How many of its entries count."""
    return ref.count - len(ref.gone_positions)


class Counting(MemoryFileIO):
    """Counts the bytes that are written."""

    written = 0

    def write_new(self, path, data, **options):
        """Count, and write."""
        self.written += len(data)
        super().write_new(path, data, **options)

    def replace(self, path, data, **options):
        """Count, and write."""
        self.written += len(data)
        super().replace(path, data, **options)


def test_a_commit_writes_what_it_changes():
    """The bytes of a load stay the same, whether there are a hundred segments or eight hundred."""
    io = Counting()
    segment_create(io, T)
    bytes_of = []
    for _ in range(8):
        before = io.written
        for _ in range(100):
            segment_load(io, T)
        bytes_of.append((io.written - before) // 100)
    assert max(bytes_of) < 24_000, bytes_of
    assert bytes_of[-1] < 2 * bytes_of[0], bytes_of
    status = read_latest(io, T)
    assert [one.id.load for one in status.entries] == list(range(800))
    assert len(status.chunks) <= 6
    largest = max(io.stat(status_path(T, version)).size_bytes for version in list_versions(io, T))
    assert largest < 12_000


def test_every_version_stays_readable():
    """Loads, merges and deletes move entries between chunks; each version still has its own."""
    io = MemoryFileIO()
    segment_create(io, T)
    seen = {}
    for number in range(70):
        loaded = segment_load(io, T)
        if number % 10 == 9:
            segment_merge(io, T, [str(number - 5), str(number - 4)], f"{number - 5}.1")
            commit_delete(io, T, [SegmentId(number - 8), SegmentId(int(loaded))], clock=segment_clock())
        status = read_latest(io, T)
        seen[status.version] = status, read_retired(io, T, status)
    for version, (status, retired) in seen.items():
        again = read_version(io, T, version)
        assert again == status
        assert read_retired(io, T, again) == retired


def chunk_names(io):
    """The chunks that are there."""
    return {f"{folder}/{one.name}" for folder in (entries_folder(T), retired_folder(T)) for one in io.list_dir(folder)}


def test_clean_removes_the_chunks_of_removed_versions():
    """Chunks that no kept version names go after a day; those that one names stay."""
    io, now = MemoryFileIO(), [10 * DAY_MS]
    clock = segment_clock(now_ms=lambda: now[0], new_id=lambda: uuid.uuid4().hex[:16])
    segment_create(io, T, clock=clock)
    for _ in range(60):
        segment_load(io, T, clock=clock)
    commit_delete(io, T, [SegmentId(number) for number in range(40)], clock=clock)
    versions = list_versions(io, T)
    state = {version: read_version(io, T, version).entries for version in versions}
    all_chunks = chunk_names(io)
    assert len(all_chunks) > 3
    segment_prune(io, T, keep=5)
    kept = {name for version in list_versions(io, T) for name in named(io, version)}
    assert kept < all_chunks
    late = max(one.mtime_ns for one in io.list_dir(entries_folder(T))) // 1_000_000
    assert not plan_clean(io, T, now_ms=late + DAY_MS // 2).metadata
    plan = plan_clean(io, T, now_ms=late + 2 * DAY_MS)
    assert {f"{T}/{file.path}" for file in plan.metadata} >= all_chunks - kept
    assert not {f"{T}/{file.path}" for file in plan.metadata} & kept
    remove_expired(io, replace(plan, versions=range(0), segments=()), clock=clock)
    assert chunk_names(io) == kept
    *before, by_clean = list_versions(io, T)
    assert len(before) == 5
    for version in before:
        assert read_version(io, T, version).entries == state[version]
    assert read_version(io, T, by_clean).entries == state[before[-1]]


def named(io, version):
    """The chunks that a version names."""
    head = read_head(io, T, version)
    live_ones = {f"{entries_folder(T)}/{one.name}" for one in head.live.chunks}
    return live_ones | {f"{retired_folder(T)}/{one.name}" for one in head.retired.chunks}


class Sleeping(MemoryFileIO):
    """Runs something else between a commit's new chunk and its version, as if the machine had slept in between."""

    meanwhile = None

    def write_new(self, path, data, **options):
        """Wait for what happens meanwhile, once, then write."""
        folder = f"{T}/Metadata/status/"
        if self.meanwhile is not None and path.startswith(folder) and any(self.list_dir(entries_folder(T))):
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()
        super().write_new(path, data, **options)


@pytest.mark.parametrize("is_published", [False, True], ids=["before it publishes", "after it published"])
def test_clean_never_removes_the_chunk_of_a_commit_that_slept_for_days(is_published):
    """A commit has written its chunk and sleeps; a clean takes the chunk for a leftover. No entry is lost."""
    io = Sleeping()
    segment_create(io, T)
    clock = segment_clock(new_id=lambda: uuid.uuid4().hex[:16])
    later = replace(clock, now_ms=lambda: clock.now_ms() + 2 * DAY_MS)
    plans = []

    def clean():
        found = plan_clean(io, T, now_ms=later.now_ms())
        plans.append(replace(found, attempts=()))  # a process that sleeps is not dead
        assert [file.path for file in plans[0].metadata], "the chunk looks unused"
        if not is_published:
            remove_expired(io, plans[0], clock=later)

    for number in range(16):
        if number == 15:
            io.meanwhile = clean
        segment_load(io, T, clock=clock)
    if is_published:
        remove_expired(io, plans[0], clock=later)
    status = read_version(io, T, list_versions(io, T)[-1])
    assert [one.id.load for one in status.entries] == list(range(16))
    assert named(io, status.version) <= chunk_names(io)


READ = """
import sys
from packstone.storage.local import LocalFileIO
from packstone.errors import PackstoneError
from packstone.tables.segments.format.status_files import read_latest, read_retired
try:
    status = read_latest(LocalFileIO(), sys.argv[1])
    print(len(status.entries), len(read_retired(LocalFileIO(), sys.argv[1], status)))
except PackstoneError as error:
    print(type(error).__name__, error.message)
"""


def read_afresh(path):
    """What a new process, which has read nothing before, finds."""
    done = subprocess.run([sys.executable, "-c", READ, path], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize("folder", ["entries", "retired"])
def test_a_chunk_that_is_lost_or_damaged_is_named(tmp_path, folder):
    """A missing, torn, changed or exchanged chunk stops every reader, and the error says which file it is."""
    io, path = LocalFileIO(), str(tmp_path / "t")
    segment_create(io, path)
    for _ in range(50):
        segment_load(io, path)
    commit_delete(io, path, [SegmentId(number) for number in range(17)], clock=segment_clock())
    assert read_afresh(path) == "33 17"
    head = read_head(io, path, read_latest(io, path).version)
    name = (head.live if folder == "entries" else head.retired).chunks[0].name
    chunk = Path(path, "Metadata", folder, name)
    content = chunk.read_bytes()
    other = seal(content[: content.rindex(b',"digest"')].replace(b'"bad_rows":[0', b'"bad_rows":[1') + b"}")
    for data in (None, content[:-9], content[:50] + b"X" + content[51:], other):
        chunk.unlink(missing_ok=True)
        if data is not None:
            chunk.write_bytes(data)
        answer = read_afresh(path)
        assert answer.startswith("CorruptionError"), answer
        assert name in answer, answer
