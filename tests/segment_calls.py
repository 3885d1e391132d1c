"""Commits on segment tables that tests kill or race; ``fork_server.py`` runs them in processes of their own.

No rows are written: a commit is about names and numbers only.
"""

import contextlib
import random
import time
import uuid
from pathlib import Path

from packstone.errors import InvalidInputError
from packstone.model.segment import SegmentId
from packstone.runs.clock import Clock
from packstone.tables.segments.format.columns import parse_columns
from packstone.tables.segments.format.commit import commit_edit, create_table
from packstone.tables.segments.format.edits import (
    SegmentFacts,
    abandon_attempt,
    alter_properties,
    begin_compaction,
    begin_load,
    cleaned,
    delete_segments,
    finish_compaction,
    finish_load,
)
from packstone.tables.segments.format.layout import status_path
from packstone.tables.segments.format.status_files import (
    find_as_of,
    list_versions,
    raise_floor,
    read_latest,
    read_retired,
)

FACTS = SegmentFacts(segment_file="s.json", rows=10, files=1, data_bytes=100, index_bytes=10)


def segment_clock(**changes):
    """The clock, ids and chance of this process."""
    own = {
        "now_ms": lambda: time.time_ns() // 1_000_000,
        "new_id": lambda: uuid.uuid4().hex,
        "random": random.random,
        "sleep": time.sleep,
    }
    return Clock(**(own | changes))


def segment_create(io, path, clock=None, **properties):
    """An empty table of two columns."""
    columns = parse_columns("id long, name string")
    return create_table(io, path, columns, properties=properties, clock=clock or segment_clock()).version


def segment_load(io, path, overwrite=False, facts=FACTS, clock=None):
    """A load without rows: announced, then finished."""
    clock = clock or segment_clock()
    attempt = clock.new_id()

    def begin(status):
        return begin_load(status, attempt=attempt, overwrite=overwrite, now_ms=clock.now_ms())

    def finish(status):
        return finish_load(status, facts, attempt=attempt, now_ms=clock.now_ms())

    found = commit_edit(io, path, begin, clock=clock, operation="load").find_load(attempt)
    commit_edit(io, path, finish, clock=clock, operation="load")
    return str(found.id)


def segment_merge(io, path, inputs, output, clock=None):
    """A compaction without rows: registered, then finished."""
    clock = clock or segment_clock()
    attempt = clock.new_id()
    ids = [SegmentId.parse(one) for one in inputs]

    def begin(status):
        into = SegmentId.parse(output)
        return begin_compaction(status, attempt=attempt, inputs=ids, output=into, now_ms=clock.now_ms())

    def finish(status):
        into = SegmentId.parse(output)
        return finish_compaction(status, FACTS, attempt=attempt, output=into, now_ms=clock.now_ms())

    commit_edit(io, path, begin, clock=clock, operation="compact")
    return commit_edit(io, path, finish, clock=clock, operation="compact").version


def commit_delete(io, table, ids, *, clock):
    """Delete segments by id; an error states the fate of one that is retired already."""
    wanted = tuple(ids)

    def edit(status):
        retired = read_retired(io, table, status)
        return delete_segments(status, wanted, now_ms=clock.now_ms(), retired=retired)

    return commit_edit(io, table, edit, clock=clock, operation="delete")


def segment_delete(io, path, ids):
    """Delete by id."""
    return commit_delete(io, path, [SegmentId.parse(one) for one in ids], clock=segment_clock()).version


def segment_cleaned(io, path, ids):
    """What clean says when it has removed the files of retired segments."""

    def edit(status):
        return cleaned(status, [entry.key for entry in read_retired(io, path, status) if str(entry.id) in ids])

    return commit_edit(io, path, edit, clock=segment_clock(), operation="clean").version


def segment_alter(io, path, **changes):
    """Change properties."""
    return commit_edit(
        io, path, lambda status: alter_properties(status, changes), clock=segment_clock(), operation="alter"
    ).version


def segment_abandon(io, path, attempt):
    """Give up an attempt."""
    clock = segment_clock()
    return commit_edit(
        io,
        path,
        lambda status: abandon_attempt(status, attempt=attempt, now_ms=clock.now_ms()),
        clock=clock,
        operation="abandon",
    ).version


def segment_load_loop(io, path, count):
    """Load this many times; say which ids came out, how often a race was lost, and the longest time of a load."""
    lost, ids, longest = [], [], 0.0

    def sleep(seconds):
        lost.append(seconds)
        time.sleep(seconds)

    for _ in range(count):
        began = time.monotonic()
        ids.append(segment_load(io, path, clock=segment_clock(sleep=sleep)))
        longest = max(longest, time.monotonic() - began)
    return {"ids": ids, "lost": len(lost), "longest": longest}


def segment_read_loop(io, path, stop):
    """Read the newest, a listed and a timed version until there is a file; every answer must be whole and no older."""
    seen = 0
    while not Path(stop).exists():
        status = read_latest(io, path)
        assert status.version >= seen
        seen = status.version
        read_retired(io, path, status)
        assert list_versions(io, path)[-1] >= seen
        assert find_as_of(io, path, 10**15).version >= seen
        with contextlib.suppress(InvalidInputError):  # removed already: the error says what is kept
            assert find_as_of(io, path, status.written_ms).version >= seen
    return seen


def segment_prune(io, path, keep):
    """Remove all but the newest versions; say how many."""
    gone = list_versions(io, path)[:-keep]
    if gone:
        raise_floor(io, path, gone.stop)
    for version in gone:
        io.remove(status_path(path, version))
    return len(gone)


def segment_prune_loop(io, path, keep, stop):
    """Remove all but the newest versions, as clean does, until there is a file."""
    removed = 0
    while not Path(stop).exists():
        removed += segment_prune(io, path, keep)
    return removed
