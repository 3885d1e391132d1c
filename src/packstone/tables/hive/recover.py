"""Find what dead runs left, and finish or undo it. Every command that writes does this first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packstone.errors import ConflictError
from packstone.storage.ownership import Owner, claim, is_dead, read_owner, release
from packstone.tables.hive.restore import restore_swap
from packstone.tables.hive.swap import recover_swap

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packstone.tables.hive.journal import Journal, SwapIntent

_ENDED = "ended.json"
_NAMELESS_SECONDS = 60  # a run writes its name within milliseconds of making its folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """One thing that was mended, or that somebody alive still works on."""

    run: str
    partition: str
    action: str

    def __str__(self) -> str:
        return f"run {self.run}, {self.partition or 'the table'}: {self.action}"


def recover_table(journal: Journal, *, me: Owner, now_seconds: float, take_over: bool = False) -> tuple[Recovered, ...]:
    """Finish or undo every swap that stopped half-way and whose owner is dead; remove dead runs' staging."""
    io, layout = journal.io, journal.layout
    done: list[Recovered] = []
    for run in journal.list_runs():
        if run == me.run or io.stat(f"{layout.run(run)}/{_ENDED}") is not None:
            continue
        pending = list(_pending(journal, run))
        done.extend(
            _recover_one(journal, intent, me=me, now_seconds=now_seconds, take_over=take_over) for intent in pending
        )
        if not _is_run_dead(journal, run, now_seconds=now_seconds, take_over=take_over):
            continue
        if any(True for _ in _pending(journal, run)):
            continue
        had_staging = io.stat(layout.staging(run)) is not None
        end_run(journal, run)
        if had_staging and not pending:
            done.append(Recovered(run=run, partition="", action="staging removed"))
    return tuple(done)


def end_run(journal: Journal, run: str) -> None:
    """Remove a finished run's staging; its folder too, unless it committed something."""
    io, layout = journal.io, journal.layout
    io.remove_tree(layout.staging(run))
    if any(True for _ in journal.read_intents(run)):
        io.replace(f"{layout.run(run)}/{_ENDED}", b'{"format_version":1}')
    else:
        io.remove_tree(layout.run(run))


def _pending(journal: Journal, run: str) -> Iterator[SwapIntent]:
    for intent in journal.read_intents(run):
        if journal.has_mark(intent, "restoring"):
            if not journal.has_mark(intent, "restored"):
                yield intent
        elif not journal.has_mark(intent, "done") and not journal.has_mark(intent, "undone"):
            yield intent


def _recover_one(journal: Journal, intent: SwapIntent, *, me: Owner, now_seconds: float, take_over: bool) -> Recovered:
    io, layout = journal.io, journal.layout
    folder = layout.owners(intent.partition)
    what = layout.directory(intent.partition)
    number, owner = read_owner(io, folder)
    mine = owner is not None and owner.run == me.run
    try:
        if not mine:
            number = claim(io, folder, me, what=what, now_seconds=now_seconds, take_over=take_over)
    except ConflictError as conflict:
        return Recovered(run=intent.run, partition=intent.partition, action=f"left alone: {conflict.message}")
    if journal.has_mark(intent, "restoring"):
        restore_swap(journal, intent, now_seconds=now_seconds)
        action = "restore finished"
    else:
        action = f"swap {recover_swap(journal, intent, now_seconds=now_seconds)}"
    if not mine:
        release(io, folder, number=number, owner=me)
    return Recovered(run=intent.run, partition=intent.partition, action=action)


def _is_run_dead(journal: Journal, run: str, *, now_seconds: float, take_over: bool) -> bool:
    io, layout = journal.io, journal.layout
    info = journal.read_run_info(run)
    if info is None:
        # Killed before it said who it is: the folder's age decides, as for another host's run.
        found = io.stat(layout.run(run))
        return found is not None and now_seconds - found.mtime_ns / 1e9 > _NAMELESS_SECONDS
    owner = Owner(run=run, process=info.process, heartbeat_path=layout.heartbeat(run))
    return take_over or is_dead(io, owner, now_seconds=now_seconds)
