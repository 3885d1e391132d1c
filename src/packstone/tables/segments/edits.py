"""What can be done to a status, as pure functions ``(status, …) -> Change``; `commit.py` publishes the result.

An edit is reduced again on every retry, on the status as it then is: so each checks all it relies on.

    begin_load          an entry in progress, with the next id
    finish_load         it becomes visible; an overwrite retires every committed segment, loads at work stay
    abandon_attempt     a failed or dead load is marked for delete, a compaction is forgotten; twice is fine
    begin_compaction    inputs must be live and nobody else's
    finish_compaction   inputs must be live still; they are retired as compacted, the merged one appears
    delete_segments     all or nothing;  delete_before  what was loaded before a moment
    alter_properties    cleaned

Whoever retires an input of a running compaction also ends its registration: `finish_compaction` then conflicts, and
its work is lost, never anybody's rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from packstone.errors import ConflictError, InvalidInputError
from packstone.model.segment import SegmentId, SegmentStatus
from packstone.tables.segments.column_types import Column
from packstone.tables.segments.properties import alter, normalise, parse_properties
from packstone.tables.segments.status import RunningCompaction, StatusEntry, TableStatus
from packstone.tables.segments.transitions import DELETABLE, MERGEABLE, VISIBLE, check_transition, retire


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What an edit makes of a status; version, commit and time are set by whoever publishes it."""

    status: TableStatus
    retired: tuple[StatusEntry, ...] = ()  # to be added to the retired list
    cleaned: frozenset[SegmentId] = frozenset()  # to be moved from the retired list to the history


Edit: TypeAlias = Callable[[TableStatus], Change]


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFacts:
    """What a finished load or compaction has written."""

    segment_file: str
    rows: int
    files: int
    data_bytes: int
    index_bytes: int
    bad_rows: int = 0


def new_table(
    columns: tuple[Column, ...], properties: Mapping[str, str], *, table_id: str, commit: str, now_ms: int
) -> TableStatus:
    """Version 1, without segments; InvalidInputError if a property is wrong."""
    parse_properties(properties, columns)
    return TableStatus(
        version=1,
        commit=commit,
        ancestors=(),
        written_ms=now_ms,
        clock_ms=now_ms,
        operation="create",
        table_id=table_id,
        columns=columns,
        properties=tuple(normalise(properties).items()),
    )


def begin_load(status: TableStatus, *, attempt: str, overwrite: bool, now_ms: int) -> Change:
    """Announce a load: it gets the next id, which nobody else ever gets."""
    if status.find_load(attempt) is not None:
        raise ConflictError(f"The load {attempt} has begun already.", attempt=attempt)
    entry = StatusEntry(
        id=SegmentId(status.next_load),
        status=SegmentStatus.OVERWRITE_IN_PROGRESS if overwrite else SegmentStatus.IN_PROGRESS,
        load_start_ms=now_ms,
        newest_load_ms=now_ms,
        attempt=attempt,
    )
    # The next load has a higher number than all that ever was, so the order by id is kept.
    return Change(status=replace(status, next_load=status.next_load + 1, entries=(*status.entries, entry)))


def finish_load(status: TableStatus, facts: SegmentFacts, *, attempt: str, now_ms: int) -> Change:
    """Make a load visible; ConflictError if it was taken for dead meanwhile."""
    entry = status.find_load(attempt)
    if entry is None:
        raise ConflictError(
            f"The load {attempt} is not in the table's status any more; it was taken for dead. Load it again.",
            attempt=attempt,
        )
    after = SegmentStatus.PARTIAL_SUCCESS if facts.bad_rows else SegmentStatus.SUCCESS
    check_transition(entry.id, entry.status, after)
    loaded = replace(_with_facts(entry, facts), status=after, load_end_ms=now_ms, bad_rows=facts.bad_rows)
    if entry.status is SegmentStatus.IN_PROGRESS:
        return Change(status=_with_entries(status, [loaded if one.id == loaded.id else one for one in status.entries]))
    old = tuple(one for one in status.entries if one.status in VISIBLE)
    kept = [loaded if one.id == loaded.id else one for one in status.entries if one.status not in VISIBLE]
    retired = tuple(retire(one, SegmentStatus.MARKED_FOR_DELETE, now_ms=now_ms) for one in old)
    return Change(status=_with_entries(status, kept), retired=retired)


def abandon_attempt(status: TableStatus, *, attempt: str, now_ms: int) -> Change:
    """Give up a load or a compaction; nothing changes if the status knows neither (any more).

    A load's id stays taken: its entry is retired without a segment file. What it wrote is known from its attempt.
    """
    entry = status.find_load(attempt)
    if entry is not None:
        gone = replace(retire(entry, SegmentStatus.MARKED_FOR_DELETE, now_ms=now_ms), load_end_ms=now_ms)
        return Change(status=_without(status, {entry.id}), retired=(gone,))
    if status.find_compaction(attempt) is None:
        return Change(status=status)
    return Change(status=replace(status, running=tuple(one for one in status.running if one.attempt != attempt)))


def begin_compaction(
    status: TableStatus,
    *,
    attempt: str,
    inputs: Iterable[SegmentId],
    output: SegmentId,
    now_ms: int,
    is_major: bool = False,
) -> Change:
    """Register a compaction; ConflictError if an input is not live or is in another one's hands."""
    members = tuple(sorted(set(inputs)))
    if not members:
        raise InvalidInputError("A compaction needs at least one segment.")
    if status.find_compaction(attempt) is not None:
        raise ConflictError(f"The compaction {attempt} has begun already.", attempt=attempt)
    taken = {segment: running for running in status.running for segment in running.inputs}
    entries = {entry.id: entry for entry in status.entries}
    for segment in members:
        _live_input(entries, segment)
        if segment in taken:
            raise ConflictError(
                f"Segment {segment} is being merged by the compaction {taken[segment].attempt}; wait for it.",
                segment=str(segment),
            )
    _check_output(output, members)
    running = RunningCompaction(attempt=attempt, output=output, inputs=members, started_ms=now_ms, is_major=is_major)
    return Change(status=replace(status, running=(*status.running, running)))


def finish_compaction(
    status: TableStatus,
    facts: SegmentFacts,
    *,
    attempt: str,
    now_ms: int,
    read_files: Mapping[SegmentId, str] | None = None,
) -> Change:
    """Put the merged segment in the place of its inputs.

    ``read_files`` are the segment files that were read; ConflictError if an input has another one now, is not live any
    more, or if the compaction is not registered any more.
    """
    running = status.find_compaction(attempt)
    if running is None:
        raise ConflictError(
            f"The compaction {attempt} is not registered any more: one of its segments was deleted or overwritten, or "
            "it was taken for dead; nothing was changed. Plan again.",
            attempt=attempt,
        )
    entries = {entry.id: entry for entry in status.entries}
    inputs = [_live_input(entries, segment) for segment in running.inputs]
    for entry in inputs:
        if read_files is not None and read_files.get(entry.id) != entry.segment_file:
            raise ConflictError(f"Segment {entry.id} has other files than those that were merged; plan again.")
    retired = tuple(retire(one, SegmentStatus.COMPACTED, now_ms=now_ms, merged_into=running.output) for one in inputs)
    has_bad_rows = any(entry.status is SegmentStatus.PARTIAL_SUCCESS for entry in inputs)
    merged = StatusEntry(
        id=running.output,
        status=SegmentStatus.PARTIAL_SUCCESS if has_bad_rows else SegmentStatus.SUCCESS,
        load_start_ms=running.started_ms,
        load_end_ms=now_ms,
        newest_load_ms=max(entry.newest_load_ms for entry in inputs),
        attempt=attempt,
        is_major=running.is_major,
    )
    rest = _without(status, set(running.inputs))
    return Change(status=_with_entries(rest, [*rest.entries, _with_facts(merged, facts)]), retired=retired)


def delete_segments(
    status: TableStatus, ids: Iterable[SegmentId], *, now_ms: int, retired: Collection[StatusEntry] = ()
) -> Change:
    """Mark segments for delete, all or none; ``retired`` lets the error tell what became of one that is gone."""
    wanted = sorted(set(ids))
    if not wanted:
        raise InvalidInputError("No segment is given; name at least one id.")
    entries = {entry.id: entry for entry in (*retired, *status.entries)}
    for segment in wanted:
        entry = entries.get(segment)
        if entry is None:
            raise InvalidInputError(f"Segment {segment} does not exist; nothing was deleted.", segment=str(segment))
        if entry.status not in DELETABLE:
            raise InvalidInputError(
                f"Segment {segment} is {in_words(entry)}, so it cannot be deleted; nothing was deleted.",
                segment=str(segment),
                status=str(entry.status),
            )
    return _delete(status, [entries[segment] for segment in wanted], now_ms=now_ms)


def delete_before(status: TableStatus, before_ms: int, *, now_ms: int) -> Change:
    """Mark for delete what was loaded before a moment, of a merged segment every load; loads at work are left out."""
    old = [one for one in status.entries if one.status in DELETABLE and one.newest_load_ms < before_ms]
    if not old:
        raise InvalidInputError("No segment was loaded before that time; nothing was deleted.", before_ms=before_ms)
    return _delete(status, old, now_ms=now_ms)


def alter_properties(status: TableStatus, changes: Mapping[str, str | None]) -> Change:
    """Set properties, or with None put them back to their default."""
    altered = alter(status.properties, changes, status.columns)
    return Change(status=status if altered == status.properties else replace(status, properties=altered))


def cleaned(status: TableStatus, ids: Iterable[SegmentId]) -> Change:
    """Move retired segments, whose files are removed, to the history; one that is there already is no error."""
    return Change(status=status, cleaned=frozenset(ids))


def _delete(status: TableStatus, entries: list[StatusEntry], *, now_ms: int) -> Change:
    retired = tuple(retire(entry, SegmentStatus.MARKED_FOR_DELETE, now_ms=now_ms) for entry in entries)
    return Change(status=_without(status, {entry.id for entry in entries}), retired=retired)


def _without(status: TableStatus, gone: Collection[SegmentId]) -> TableStatus:
    return _with_entries(status, [entry for entry in status.entries if entry.id not in gone])


def _with_entries(status: TableStatus, entries: list[StatusEntry]) -> TableStatus:
    """Set the entries, in order, and end the registration of compactions that have lost an input."""
    there = {entry.id for entry in entries}
    running = tuple(one for one in status.running if there.issuperset(one.inputs))
    return replace(status, entries=tuple(sorted(entries, key=lambda entry: entry.id)), running=running)


def _with_facts(entry: StatusEntry, facts: SegmentFacts) -> StatusEntry:
    return replace(
        entry,
        segment_file=facts.segment_file,
        rows=facts.rows,
        files=facts.files,
        data_bytes=facts.data_bytes,
        index_bytes=facts.index_bytes,
    )


def _live_input(entries: Mapping[SegmentId, StatusEntry], segment: SegmentId) -> StatusEntry:
    entry = entries.get(segment)
    if entry is None or entry.status not in MERGEABLE:
        what = "not live any more" if entry is None else in_words(entry)
        raise ConflictError(f"Segment {segment} is {what}; plan again.", segment=str(segment))
    return entry


def _check_output(output: SegmentId, members: tuple[SegmentId, ...]) -> None:
    """A merged id continues its first member's: then it is new, for only one segment of a load is ever live."""
    first = members[0]
    if output.load != first.load or output.merges <= first.merges:
        raise InvalidInputError(f"The merge of {', '.join(map(str, members))} cannot be called {output}.")


def in_words(entry: StatusEntry) -> str:
    """What a segment is: ``compacted into 0.1``."""
    into = f" into {entry.merged_into}" if entry.merged_into is not None else ""
    return f"{str(entry.status).replace('-', ' ')}{into}"
