"""Find what dead runs left, and finish or undo it. Every command that writes does this first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packstone.errors import ConflictError
from packstone.storage.ownership import Owner, claim, is_dead, read_owner, release
from packstone.tables.hive.journal import has_mark, list_runs, read_intents, read_run_info
from packstone.tables.hive.restore import restore_swap
from packstone.tables.hive.swap import recover_swap

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packstone.storage.fileio import FileIO
    from packstone.tables.hive.journal import SwapIntent
    from packstone.tables.hive.layout import TableLayout

_ENDED = "ended.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """One thing that was mended, or that somebody alive still works on."""

    run: str
    partition: str
    action: str

    def __str__(self) -> str:
        return f"run {self.run}, {self.partition or 'the table'}: {self.action}"


def recover_table(
    io: FileIO, layout: TableLayout, *, me: Owner, now_seconds: float, take_over: bool = False
) -> tuple[Recovered, ...]:
    """Finish or undo every swap that stopped half-way and whose owner is dead; remove dead runs' staging."""
    done: list[Recovered] = []
    for run in list_runs(io, layout):
        if run == me.run or io.stat(f"{layout.run(run)}/{_ENDED}") is not None:
            continue
        pending = list(_pending(io, layout, run))
        for intent in pending:
            done.append(_recover_one(io, layout, intent, me=me, now_seconds=now_seconds, take_over=take_over))
        if _is_run_dead(io, layout, run, now_seconds=now_seconds, take_over=take_over):
            if not any(True for _ in _pending(io, layout, run)):
                had_staging = io.stat(layout.staging(run)) is not None
                end_run(io, layout, run)
                if had_staging and not pending:
                    done.append(Recovered(run=run, partition="", action="staging removed"))
    return tuple(done)


def end_run(io: FileIO, layout: TableLayout, run: str) -> None:
    """Remove a finished run's staging; its folder too, unless it committed something."""
    io.remove_tree(layout.staging(run))
    if any(True for _ in read_intents(io, layout, run)):
        io.replace(f"{layout.run(run)}/{_ENDED}", b'{"format_version":1}')
    else:
        io.remove_tree(layout.run(run))


def _pending(io: FileIO, layout: TableLayout, run: str) -> Iterator[SwapIntent]:
    for intent in read_intents(io, layout, run):
        if has_mark(io, layout, intent, "restoring"):
            if not has_mark(io, layout, intent, "restored"):
                yield intent
        elif not has_mark(io, layout, intent, "done") and not has_mark(io, layout, intent, "undone"):
            yield intent


def _recover_one(
    io: FileIO, layout: TableLayout, intent: SwapIntent, *, me: Owner, now_seconds: float, take_over: bool
) -> Recovered:
    folder = layout.owners(intent.partition)
    what = layout.directory(intent.partition)
    number, owner = read_owner(io, folder)
    mine = owner is not None and owner.run == me.run
    try:
        if not mine:
            number = claim(io, folder, me, what=what, now_seconds=now_seconds, take_over=take_over)
    except ConflictError as conflict:
        return Recovered(run=intent.run, partition=intent.partition, action=f"left alone: {conflict.message}")
    if has_mark(io, layout, intent, "restoring"):
        restore_swap(io, layout, intent, now_seconds=now_seconds)
        action = "restore finished"
    else:
        action = f"swap {recover_swap(io, layout, intent, now_seconds=now_seconds)}"
    if not mine:
        release(io, folder, number, me)
    return Recovered(run=intent.run, partition=intent.partition, action=action)


def _is_run_dead(io: FileIO, layout: TableLayout, run: str, *, now_seconds: float, take_over: bool) -> bool:
    info = read_run_info(io, layout, run)
    if info is None:
        # Killed before it said who it is: the folder's age decides, as for another host's run.
        found = io.stat(layout.run(run))
        return found is not None and now_seconds - found.mtime_ns / 1e9 > 60
    owner = Owner(run=run, process=info.process, heartbeat_path=layout.heartbeat(run))
    return take_over or is_dead(io, owner, now_seconds=now_seconds)
