"""Edits of a status, as pure functions ``(status, …) -> Change``; `commit.py` publishes the result.

An edit is applied again on every retry, to the newest status: so each edit checks everything it relies on.

    begin_load          adds an entry in progress, with the next id
    finish_load         makes it visible; an overwrite retires every committed segment and keeps running loads
    abandon_attempt     marks a failed or dead load for delete, drops its registered merges; can be repeated
    begin_compaction    registers a merge of a run by its output; inputs must be live and in no other merge
    finish_compaction   inputs must still be live; retires them as compacted and adds the merged segment
    undo_merges         retires a run's merged segments and makes their inputs live again; all or nothing
    delete_segments     marks segments for delete; all or nothing
    delete_before       marks segments for delete that were loaded before a moment
    delete_rows         replaces the delete files of segments; retires those without rows; all or nothing
    alter_properties    sets properties
    mark_cleaning       clean is about to remove the files of these segments
    cleaned             clean has removed them

A merge of rows that were deleted meanwhile is lost: `finish_compaction` compares the delete files of its inputs, too.
An edit that retires an input of a running compaction also ends its registration: `finish_compaction` then conflicts,
and the merge is lost, but no rows are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from packstone.errors import ConflictError, InvalidInputError, RefusedError
from packstone.model.segment import SegmentId, SegmentStatus
from packstone.model.sizes import plural
from packstone.tables.segments.format.columns import TableColumn
from packstone.tables.segments.format.properties import alter, normalise, parse_properties
from packstone.tables.segments.format.status import (
    DELETABLE,
    MAX_LABELS,
    MERGEABLE,
    VISIBLE,
    EntryKey,
    RunningCompaction,
    StatusEntry,
    TableStatus,
    check_transition,
    retire,
    revive,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The result of an edit; version, commit and time are set when it is published."""

    status: TableStatus
    retired: tuple[StatusEntry, ...] = ()  # to add to the retired list, after the removals below
    revived: frozenset[EntryKey] = frozenset()  # to remove from the retired list: they are live again
    cleaning: frozenset[EntryKey] = frozenset()  # to mark in the retired list: they cannot be revived any more
    cleaned: frozenset[EntryKey] = frozenset()  # to move from the retired list to the history

    @property
    def touches_lists(self) -> bool:
        """Whether the lists of retired and cleaned segments change."""
        return bool(self.retired or self.revived or self.cleaning or self.cleaned)


Edit: TypeAlias = Callable[[TableStatus], Change]


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFacts:
    """The sizes and names of what a finished load or compaction wrote."""

    segment_file: str
    rows: int
    files: int
    data_bytes: int
    index_bytes: int
    bad_rows: int = 0


def new_table(
    columns: tuple[TableColumn, ...], properties: Mapping[str, str], *, table_id: str, commit: str, now_ms: int
) -> TableStatus:
    """Return version 1, without segments; InvalidInputError if a property is invalid."""
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
    """Register a load with the next id, which no other load ever gets."""
    if status.find_load(attempt) is not None:
        raise ConflictError(f"The load {attempt} has begun already.", attempt=attempt)
    entry = StatusEntry(
        id=SegmentId(status.next_load),
        status=SegmentStatus.OVERWRITE_IN_PROGRESS if overwrite else SegmentStatus.IN_PROGRESS,
        load_start_ms=now_ms,
        newest_load_ms=now_ms,
        attempt=attempt,
    )
    # The next load has a higher number than all loads before, so entries stay in id order.
    return Change(status=replace(status, next_load=status.next_load + 1, entries=(*status.entries, entry)))


class LabelTakenError(ConflictError):
    """A load with this label is already visible; ``segment`` is the segment that contains its rows."""


def finish_load(
    status: TableStatus, facts: SegmentFacts, *, attempt: str, now_ms: int, label: str | None = None
) -> Change:
    """Make a load visible; ConflictError if it was abandoned as dead, LabelTakenError if its label is loaded."""
    if label is not None and (loaded_before := status.find_label(label)) is not None:
        raise LabelTakenError(f"The label {label!r} is loaded already.", label=label, segment=loaded_before.segment)
    entry = status.find_load(attempt)
    if entry is None:
        raise ConflictError(
            f"The load {attempt} is no longer in the table's status: another command abandoned it as dead. Load again.",
            attempt=attempt,
        )
    after = SegmentStatus.PARTIAL_SUCCESS if facts.bad_rows else SegmentStatus.SUCCESS
    check_transition(entry.id, entry.status, after)
    loaded = replace(_with_facts(entry, facts), status=after, load_end_ms=now_ms, bad_rows=facts.bad_rows)
    if label is not None:
        loaded = replace(loaded, labels=(label,))
    if entry.status is SegmentStatus.IN_PROGRESS:
        return Change(status=_with_entries(status, [loaded if one is entry else one for one in status.entries]))
    old = tuple(one for one in status.entries if one.status in VISIBLE)
    kept = [loaded if one.id == loaded.id else one for one in status.entries if one.status not in VISIBLE]
    retired = tuple(retire(one, SegmentStatus.MARKED_FOR_DELETE, now_ms=now_ms) for one in old)
    return Change(status=_with_entries(status, kept), retired=retired)


def abandon_attempt(
    status: TableStatus, *, attempt: str, now_ms: int, outputs: Collection[SegmentId] | None = None
) -> Change:
    """Abandon a load, all merges of a run, or those of some outputs; changes nothing if none is registered.

    The id of a load is not reused: its entry is retired without a segment file. The run has recorded its files.
    """
    entry = status.find_load(attempt)
    if entry is not None:
        gone = replace(retire(entry, SegmentStatus.MARKED_FOR_DELETE, now_ms=now_ms), load_end_ms=now_ms)
        return Change(status=_without(status, {entry.id}), retired=(gone,))
    kept = tuple(
        one for one in status.running if one.attempt != attempt or (outputs is not None and one.output not in outputs)
    )
    return Change(status=status if len(kept) == len(status.running) else replace(status, running=kept))


def begin_compaction(
    status: TableStatus,
    *,
    attempt: str,
    inputs: Iterable[SegmentId],
    output: SegmentId,
    now_ms: int,
    is_major: bool = False,
) -> Change:
    """Register a compaction; ConflictError if an input is not live or another compaction merges it."""
    members = tuple(sorted(set(inputs)))
    if not members:
        raise InvalidInputError("A compaction needs at least one segment.")
    if status.find_compaction(attempt, output) is not None:
        raise ConflictError(f"The compaction {attempt} into {output} has begun already.", attempt=attempt)
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
    output: SegmentId,
    now_ms: int,
    read: Mapping[SegmentId, tuple[str | None, str | None]] | None = None,
) -> Change:
    """Replace the inputs by the merged segment.

    ``read`` is the ``content`` of the entries that were merged; ConflictError if an input has another one now or is no
    longer live, or if the compaction is no longer registered.
    """
    running = status.find_compaction(attempt, output)
    if running is None:
        raise ConflictError(
            f"The compaction {attempt} into {output} is no longer registered: one of its segments was deleted or "
            "overwritten, or it was abandoned as dead; nothing was changed. Plan again.",
            attempt=attempt,
        )
    entries = {entry.id: entry for entry in status.entries}
    inputs = [_live_input(entries, segment) for segment in running.inputs]
    for entry in inputs:
        if read is not None and read.get(entry.id) != entry.content:
            what = "rows were deleted from it" if entry.delete_file is not None else "it has changed"
            raise ConflictError(f"Segment {entry.id} cannot be merged: {what} since it was read; plan again.")
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
        labels=tuple(label for entry in inputs for label in entry.labels)[-MAX_LABELS:],
    )
    rest = [entry for entry in status.entries if entry.id not in running.inputs]
    return Change(status=_with_entries(status, [*rest, _with_facts(merged, facts)]), retired=retired)


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeMerge:
    """A merge that a run published: the merged segment, and the segment files that it read."""

    output: SegmentId
    run: str
    members: tuple[str, ...]

    @property
    def key(self) -> EntryKey:
        """The key of the merged segment's entry."""
        return self.output, self.run


def undo_merges(
    status: TableStatus,
    merges: Iterable[MadeMerge],
    *,
    retired: Iterable[StatusEntry],
    history: Iterable[StatusEntry],
    now_ms: int,
) -> Change:
    """Make the inputs of merges, the last one first, live again; RefusedError if one cannot be undone.

    A merge that is already undone is skipped, so repeating this changes nothing.
    """
    live = {entry.key: entry for entry in status.entries}
    gone = {entry.key: entry for entry in retired}
    cleaned_away = {entry.key: entry for entry in history}
    taken = {segment: running for running in status.running for segment in running.inputs}
    revived: set[EntryKey] = set()
    made: set[EntryKey] = set()
    for merge in merges:
        merged = live.get(merge.key)
        if merged is None:
            _check_undone(merge, gone, cleaned_away)
            continue
        if merged.id in taken:
            by = taken[merged.id].attempt
            raise RefusedError(f"Segment {merged.id} is being merged by the compaction {by}; nothing was changed.")
        if merged.delete_file is not None:
            were = "was" if merged.deleted_rows == 1 else "were"
            raise RefusedError(
                f"{plural(merged.deleted_rows, 'row')} of segment {merged.id} {were} deleted after it was merged, and "
                "would be live again; nothing was changed.",
                segment=str(merged.id),
            )
        for member in _members(merge, merged, gone, history=cleaned_away):
            known = (*gone.values(), *cleaned_away.values())
            is_partial = merged.status is SegmentStatus.PARTIAL_SUCCESS and _had_bad_rows(member, known)
            after = SegmentStatus.PARTIAL_SUCCESS if is_partial else SegmentStatus.SUCCESS
            live[member.key] = revive(gone.pop(member.key), after)
            revived.add(member.key)
        gone[merged.key] = retire(live.pop(merged.key), SegmentStatus.MARKED_FOR_DELETE, now_ms=now_ms)
        made.add(merged.key)
    if not made:
        return Change(status=status)
    return Change(
        status=_with_entries(status, list(live.values())),
        retired=tuple(gone[key] for key in sorted(made)),
        revived=frozenset(revived),
    )


def _is_member(entry: StatusEntry, merged: StatusEntry) -> bool:
    """Whether exactly this merge retired an entry: both have its time; a later merge into the same id has another."""
    return entry.merged_into == merged.id and entry.modified_ms == merged.load_end_ms


def _members(
    merge: MadeMerge,
    merged: StatusEntry,
    gone: Mapping[EntryKey, StatusEntry],
    *,
    history: Mapping[EntryKey, StatusEntry],
) -> list[StatusEntry]:
    there = {entry.segment_file: entry for entry in gone.values() if _is_member(entry, merged)}
    removed = {entry.segment_file: entry for entry in history.values()}
    found = []
    for name in dict.fromkeys(merge.members):
        entry = there.get(name)
        if entry is None or entry.status is not SegmentStatus.COMPACTED:
            lost = entry or removed.get(name)
            what = f"Segment {lost.id}" if lost is not None else f"A segment ({name})"
            raise RefusedError(
                f"{what}, which was merged into {merged.id}, has been cleaned, so the merge cannot be undone; nothing "
                "was changed."
            )
        found.append(entry)
    return found


def _check_undone(
    merge: MadeMerge, gone: Mapping[EntryKey, StatusEntry], cleaned_away: Mapping[EntryKey, StatusEntry]
) -> None:
    """Accept a merge that is already undone; RefusedError if its segment was retired in another way."""
    merged = gone.get(merge.key) or cleaned_away.get(merge.key)
    if merged is None:
        raise RefusedError(f"Segment {merge.output} of run {merge.run} is not known; nothing was changed.")
    wanted = set(merge.members)
    known = (*gone.values(), *cleaned_away.values())
    if merged.merged_into is not None or any(
        entry.segment_file in wanted and _is_member(entry, merged) for entry in known
    ):
        raise RefusedError(
            f"Segment {merged.id} is {describe_status(merged)}, so the merge that made it cannot be undone; nothing "
            "was changed.",
            segment=str(merged.id),
        )


def _had_bad_rows(member: StatusEntry, known: Collection[StatusEntry]) -> bool:
    """Whether a load inside a retired segment had bad rows: its entry says so, or those of the inputs of a merge."""
    inside, seen = [member], {member.key}
    for entry in inside:
        if entry.bad_rows:
            return True
        for one in known:
            if one.merged_into == entry.id and one.key not in seen:
                seen.add(one.key)
                inside.append(one)
    return False


def delete_segments(
    status: TableStatus, ids: Iterable[SegmentId], *, now_ms: int, retired: Collection[StatusEntry] = ()
) -> Change:
    """Mark segments for delete, all or none; from ``retired`` the error takes the status of one that is not live."""
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
                f"Segment {segment} is {describe_status(entry)}, so it cannot be deleted; nothing was deleted.",
                segment=str(segment),
                status=str(entry.status),
            )
    return _delete(status, [entries[segment] for segment in wanted], now_ms=now_ms)


def delete_before(status: TableStatus, before_ms: int, *, now_ms: int) -> Change:
    """Mark segments for delete whose loads all began before a moment; leaves out loads in progress."""
    old = [one for one in status.entries if one.status in DELETABLE and one.newest_load_ms < before_ms]
    if not old:
        raise InvalidInputError("No segment was loaded before that time; nothing was deleted.", before_ms=before_ms)
    return _delete(status, old, now_ms=now_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentDelete:
    """The deleted rows of one segment: ``content`` of its entry when they were found, and the new delete file."""

    key: EntryKey
    content: tuple[str | None, str | None]
    delete_file: str
    deleted_rows: int  # all of them; as many as the segment has rows: it is retired


class RowsChangedError(ConflictError):
    """A segment from which rows are deleted is no longer live, or other rows of it were deleted; find them again."""


def delete_rows(status: TableStatus, deletes: Iterable[SegmentDelete], *, now_ms: int) -> Change:
    """Replace the delete files of segments; RowsChangedError unless each segment has the content that was read."""
    wanted = {one.key: one for one in deletes}
    entries: list[StatusEntry] = []
    empty: list[StatusEntry] = []
    for entry in status.entries:
        one = wanted.pop(entry.key, None)
        if one is None:
            entries.append(entry)
            continue
        if entry.status not in VISIBLE or entry.content != one.content:
            raise RowsChangedError(f"Segment {entry.id} has changed since its rows were read.", segment=str(entry.id))
        if one.deleted_rows < entry.rows:
            entries.append(replace(entry, delete_file=one.delete_file, deleted_rows=one.deleted_rows))
        else:
            empty.append(entry)
    for segment, _ in wanted:
        raise RowsChangedError(f"Segment {segment} is no longer live.", segment=str(segment))
    retired = tuple(retire(entry, SegmentStatus.MARKED_FOR_DELETE, now_ms=now_ms) for entry in empty)
    return Change(status=_with_entries(status, entries), retired=retired)


def alter_properties(status: TableStatus, changes: Mapping[str, str | None]) -> Change:
    """Set properties; None resets one to its default."""
    altered = alter(status.properties, changes, status.columns)
    return Change(status=status if altered == status.properties else replace(status, properties=altered))


def mark_cleaning(status: TableStatus, keys: Iterable[EntryKey]) -> Change:
    """Mark compacted segments whose files are about to be removed; leaves alone a segment that is live again."""
    return Change(status=status, cleaning=frozenset(keys))


def cleaned(status: TableStatus, keys: Iterable[EntryKey]) -> Change:
    """Move retired segments, whose files are removed, to the history; skips those that are already there."""
    return Change(status=status, cleaned=frozenset(keys))


def _delete(status: TableStatus, entries: list[StatusEntry], *, now_ms: int) -> Change:
    retired = tuple(retire(entry, SegmentStatus.MARKED_FOR_DELETE, now_ms=now_ms) for entry in entries)
    return Change(status=_without(status, {entry.id for entry in entries}), retired=retired)


def _without(status: TableStatus, gone: Collection[SegmentId]) -> TableStatus:
    return _with_entries(status, [entry for entry in status.entries if entry.id not in gone])


def _with_entries(status: TableStatus, entries: list[StatusEntry]) -> TableStatus:
    """Set the entries, in order; end compactions that have lost an input."""
    there = {entry.id for entry in entries}
    return replace(
        status,
        entries=tuple(sorted(entries, key=lambda entry: (entry.id.load, entry.id.merges))),
        running=tuple(one for one in status.running if there.issuperset(one.inputs)),
    )


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
        what = "no longer live" if entry is None else describe_status(entry)
        raise ConflictError(f"Segment {segment} is {what}; plan again.", segment=str(segment))
    return entry


def _check_output(output: SegmentId, members: tuple[SegmentId, ...]) -> None:
    """Check that the merged id continues that of its first member: it is new, since a load has one live segment."""
    first = members[0]
    if output.load != first.load or output.merges <= first.merges:
        raise InvalidInputError(f"The merge of {', '.join(map(str, members))} cannot have the id {output}.")


def describe_status(entry: StatusEntry) -> str:
    """Return the status of a segment as text: ``compacted into 0.1``."""
    into = f" into {entry.merged_into}" if entry.merged_into is not None else ""
    return f"{str(entry.status).replace('-', ' ')}{into}"
