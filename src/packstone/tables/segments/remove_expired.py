"""Remove what a plan lists, in the order that `clean.py` argues for."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from packstone.tables.segments.attempts import close_attempt
from packstone.tables.segments.commit import commit_edit
from packstone.tables.segments.edits import Change, abandon_attempt, cleaned
from packstone.tables.segments.layout import segment_folder, status_path, trash_folder
from packstone.tables.segments.status_files import raise_floor, read_latest, read_retired

if TYPE_CHECKING:
    from packstone.runs.clock import Clock
    from packstone.storage.fileio import FileIO
    from packstone.tables.segments.clean import CleanPlan, ExpiredSegment
    from packstone.tables.segments.dead_attempts import DeadAttempt
    from packstone.tables.segments.edits import Edit
    from packstone.tables.segments.status import StatusEntry, TableStatus


def remove_expired(io: FileIO, plan: CleanPlan, *, clock: Clock) -> None:
    """Do it; killed anywhere, another clean does the rest."""
    if plan.is_empty:
        return
    _end_registrations(io, plan, clock=clock)
    trash = f"{trash_folder(plan.table)}/{clock.now_ms()}"
    awake = _find_awake(io, plan) if plan.attempts else frozenset()
    for attempt in plan.attempts:
        if attempt.attempt not in awake:
            _remove_attempt(io, plan, attempt, trash=trash)
    if plan.versions:
        raise_floor(io, plan.table, plan.versions.stop)
    for version in plan.versions:
        io.remove(status_path(plan.table, version))
    for segment in plan.segments:
        _remove_segment(io, plan.table, segment)
    if plan.segments:
        ids = frozenset(segment.id for segment in plan.segments)
        _commit(io, plan.table, lambda status: cleaned(status, ids), clock=clock)
    for file in plan.metadata:
        io.remove(f"{plan.table}/{file.path}")
    for folder in plan.trash:
        io.remove_tree(f"{trash_folder(plan.table)}/{folder.name}")


def _end_registrations(io: FileIO, plan: CleanPlan, *, clock: Clock) -> None:
    dead = [attempt.attempt for attempt in plan.attempts if attempt.is_registered]

    def edit(status: TableStatus) -> Change:
        changed = status
        retired: list[StatusEntry] = []
        for attempt in dead:
            change = abandon_attempt(changed, attempt=attempt, now_ms=clock.now_ms())
            changed = change.status
            retired += change.retired
        return Change(status=changed, retired=tuple(retired))

    if dead:
        _commit(io, plan.table, edit, clock=clock)


def _find_awake(io: FileIO, plan: CleanPlan) -> frozenset[str]:
    """Attempts that were dead in the plan and have begun or committed since: they slept past their lease."""
    status = read_latest(io, plan.table)
    found = {entry.attempt for entry in status.loading} | {running.attempt for running in status.running}
    committed = {entry.attempt for entry in (*status.live, *read_retired(io, plan.table, status)) if entry.segment_file}
    return frozenset(found | {one.attempt for one in plan.attempts if one.is_registered and one.attempt in committed})


def _remove_attempt(io: FileIO, plan: CleanPlan, attempt: DeadAttempt, *, trash: str) -> None:
    for file in attempt.files:
        path = f"{plan.table}/{file.path}"
        if plan.keeps_trash and file.is_data and io.stat(path) is not None:
            target = f"{trash}/{file.path}"
            io.make_dirs(posixpath.dirname(target))
            io.move(path, target)
        else:
            io.remove(path)
    close_attempt(io, plan.table, attempt.attempt)


def _remove_segment(io: FileIO, table: str, segment: ExpiredSegment) -> None:
    for file in segment.files:
        io.remove(f"{table}/{file.path}")
    # Its id is taken for ever, so nobody is about to write there.
    io.remove_empty_dir(f"{table}/{segment_folder(segment.id)}")


def _commit(io: FileIO, table: str, edit: Edit, *, clock: Clock) -> TableStatus:
    return commit_edit(io, table, edit, clock=clock, operation="clean")
