"""Find what dead runs left, and finish or undo it. Every command that writes does this first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packstone.errors import CommitUnknownError, ConflictError, CorruptionError
from packstone.model.codec import dump_record
from packstone.runs.owner import Owner, claim, may_take_over, read_owner, release
from packstone.storage.fileio import Kind
from packstone.tables.hive.journal import Ended
from packstone.tables.hive.layout import KEPT_SUFFIX, PLAN_PREFIX
from packstone.tables.hive.restore import restore_swap
from packstone.tables.hive.swap import recover_swap
from packstone.tables.hive.switch import recover_switch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packstone.storage.fileio import Entry, FileIO
    from packstone.tables.hive.journal import Journal, SwapIntent
    from packstone.tables.hive.switch import LocationCatalog

_ENDED = "ended.json"
_PLAN_SECONDS = 86_400  # no plan takes a day
_NAMELESS_SECONDS = 60  # a run writes its name within milliseconds of making its folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """One thing that was finished or undone, or that was left alone, and why."""

    run: str
    partition: str
    action: str
    is_damaged: bool = False  # a record cannot be read, so it is not known which partitions are half done

    def __str__(self) -> str:
        return f"run {self.run}, {self.partition or 'the table'}: {self.action}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _OpenRun:
    """A run that has not ended: what it left half-way, or why that cannot be known."""

    run: str
    pending: tuple[SwapIntent, ...] = ()
    damage: str = ""


def recover_table(
    journal: Journal,
    *,
    me: Owner,
    now_seconds: float,
    take_over: bool = False,
    catalog: LocationCatalog | None = None,
) -> tuple[Recovered, ...]:
    """Finish or undo every swap that stopped half-way and whose owner is dead; remove dead runs' staging.

    All records are read before anything is changed: one of a newer packstone refuses the whole table.
    """
    io, layout = journal.io, journal.layout
    done: list[Recovered] = []
    for found in list(_open_runs(journal, besides=me.run)):
        run = found.run
        if found.damage:
            done.append(_left(run, found.damage, is_damaged=True))
            continue
        is_dead_run = _is_run_dead(journal, run, now_seconds=now_seconds, take_over=take_over)
        if is_dead_run:
            journal.fence_run(run)
        pending = list(_pending(journal, run))  # again: it may have gone on until it was fenced
        done.extend(
            _recover_one(journal, intent, me=me, now_seconds=now_seconds, take_over=take_over, catalog=catalog)
            for intent in pending
        )
        unexplained = unexplained_backup(journal, run) if is_dead_run and not pending else ""
        if unexplained:
            done.append(_left(run, unexplained, is_damaged=True))
            continue
        had_staging = io.stat(layout.staging(run)) is not None
        if is_dead_run and end_run(journal, run) and had_staging and not pending:
            done.append(Recovered(run=run, partition="", action="staging removed"))
    _remove_old_plans(journal, now_seconds=now_seconds)
    return tuple(done)


def _left(run: str, why: str, *, is_damaged: bool = False) -> Recovered:
    return Recovered(run=run, partition="", action=f"left alone: {why}", is_damaged=is_damaged)


def _open_runs(journal: Journal, *, besides: str = "") -> Iterator[_OpenRun]:
    """Read what the runs that have not ended left; RefusedError if a newer packstone wrote it."""
    for run in journal.list_runs():
        if run == besides or is_ended(journal, run):
            continue
        try:
            yield _OpenRun(run=run, pending=tuple(_pending(journal, run)))
        except CorruptionError as error:
            yield _OpenRun(run=run, damage=error.message)


def unexplained_backups(journal: Journal) -> Iterator[Recovered]:
    """Name the runs whose backup holds originals that no record explains; run by run, whether they ended or not."""
    try:
        runs = sorted(entry.name for entry in journal.io.list_dir(f"{journal.layout.state}/backup"))
    except FileNotFoundError:
        return
    for run in runs:
        try:
            why = unexplained_backup(journal, run)
        except CorruptionError as error:
            why = error.message
        if why:
            yield _left(run, why, is_damaged=True)


def unexplained_backup(journal: Journal, run: str) -> str:
    """Say which kept originals no intent of a run names: the table may lack their rows. Empty if there are none."""
    folder = journal.layout.backup(run)
    lost = sum(1 for _ in _unexplained(journal, run, folder))
    if not lost:
        return ""
    first = next(_unexplained(journal, run, folder), folder)
    return (
        f"the backup {folder} holds {lost} originals that no record explains, the first {first}; their rows may be "
        "missing from the table. All files are kept: put the records of the run back, or compare the rows and move the "
        "originals into the table by hand"
    )


def _unexplained(journal: Journal, run: str, folder: str) -> Iterator[str]:
    """Yield the kept files below a backup folder that no record names; it reads one partition's records at a time."""
    folders = [folder]
    while folders:
        folder = folders.pop()
        try:
            entries = sorted(journal.io.list_dir(folder), key=lambda entry: entry.name)
        except (FileNotFoundError, NotADirectoryError):
            continue
        kept = [f"{folder}/{entry.name}" for entry in entries if entry.name.endswith(KEPT_SUFFIX)]
        if kept:
            partition = folder.removeprefix(journal.layout.backup(run)).removeprefix("/")
            known: set[str] = set()
            for intent in journal.read_intents(run, partition=partition):
                known |= {intent.kept(file) for file in intent.inputs}
                known |= {intent.kept_summary(number) for number in range(len(intent.summaries))}
            yield from (path for path in kept if path not in known)
        folders += [f"{folder}/{entry.name}" for entry in reversed(entries) if entry.kind is Kind.DIRECTORY]


def _remove_old_plans(journal: Journal, *, now_seconds: float) -> None:
    """What the tasks of a killed plan answered is of no use to anybody."""
    for path, entry in list_plans(journal):
        if now_seconds - _last_change_ns(journal.io, path, entry) / 1e9 > _PLAN_SECONDS:
            journal.io.remove_tree(path)


def list_plans(journal: Journal) -> tuple[tuple[str, Entry], ...]:
    """The staging folders of plans: of those at work, and of those that were killed."""
    io, folder = journal.io, f"{journal.layout.state}/staging"
    if io.stat(folder) is None:
        return ()
    found = ((f"{folder}/{entry.name}", entry) for entry in io.list_dir(folder))
    return tuple((path, entry) for path, entry in found if entry.name.startswith(PLAN_PREFIX))


def _last_change_ns(io: FileIO, path: str, found: Entry) -> int:
    """When something was last written there; a folder of an object store has no time of its own, its files have."""
    newest = found.mtime_ns
    folders = [path] if found.kind is Kind.DIRECTORY else []
    while folders:
        at = folders.pop()
        for entry in io.list_dir(at):
            if entry.kind is Kind.DIRECTORY:
                folders.append(f"{at}/{entry.name}")
            else:
                newest = max(newest, entry.mtime_ns)
    return newest


def end_run(journal: Journal, run: str, *, keep_staging: bool = False) -> bool:
    """Remove a finished run's staging; its folder too, unless it committed something or left evidence.

    False, and nothing is removed, if one of its swaps is half-way: ``recover`` needs it all, and looks only at runs
    that have not ended.
    """
    io, layout = journal.io, journal.layout
    if any(True for _ in _pending(journal, run)):
        return False
    if not keep_staging:
        io.remove_tree(layout.staging(run))
    if keep_staging or any(True for _ in journal.read_intents(run)):
        io.replace(f"{layout.run(run)}/{_ENDED}", dump_record(Ended(run=run)))
    else:
        io.remove_tree(layout.run(run))
    return True


def is_ended(journal: Journal, run: str) -> bool:
    """Whether a run is over, by its own word or by that of whoever recovered it."""
    return journal.io.stat(f"{journal.layout.run(run)}/{_ENDED}") is not None


def find_unfinished(journal: Journal, partition: str, *, besides: str) -> str | None:
    """Name a run, other than the given one, whose swap of this partition is half-way."""
    for run in journal.list_runs():
        if run == besides or is_ended(journal, run):
            continue
        if any(intent.partition == partition for intent in _pending(journal, run)):
            return run
    return None


def unfinished_swaps(journal: Journal) -> Iterator[SwapIntent | Recovered]:
    """Name the swaps that stopped half-way: part of their rows is in the backup; or why a run's are not known."""
    for found in _open_runs(journal):
        yield from found.pending
        if found.damage:
            yield _left(found.run, found.damage, is_damaged=True)


def _pending(journal: Journal, run: str) -> Iterator[SwapIntent]:
    """Yield what a run left half-way: its own swaps, and those of the run that it was about to restore."""
    info = journal.read_run_info(run)
    for at in (run, info.restores) if info is not None and info.restores is not None else (run,):
        for intent in journal.read_intents(at):
            if _is_pending(journal, intent):
                yield intent


def _is_pending(journal: Journal, intent: SwapIntent) -> bool:
    if journal.has_mark(intent, "restoring"):
        return not journal.has_mark(intent, "restored")
    return not journal.has_mark(intent, "done", "undone")


def _recover_one(
    journal: Journal,
    intent: SwapIntent,
    *,
    me: Owner,
    now_seconds: float,
    take_over: bool,
    catalog: LocationCatalog | None,
) -> Recovered:
    io, layout = journal.io, journal.layout
    folder = layout.owners(intent.partition)
    what = layout.directory(intent.partition)
    number, owner = read_owner(io, folder)
    mine = isinstance(owner, Owner) and owner.run == me.run
    try:
        if not mine:
            number = claim(io, folder, me, what=what, now_seconds=now_seconds, take_over=take_over)
    except ConflictError as conflict:
        return Recovered(run=intent.run, partition=intent.partition, action=f"left alone: {conflict.message}")
    mended = False
    try:
        action = _mend(journal, intent, by=me.run, now_seconds=now_seconds, catalog=catalog)
        mended = True
    except (CommitUnknownError, ConflictError) as error:
        action = f"left alone: {error.message}"  # a matter for a person must not stand in the way of other partitions
    finally:
        if not mine:
            release(io, folder, number=number, owner=me, unfinished=not mended)
    return Recovered(run=intent.run, partition=intent.partition, action=action)


def _mend(journal: Journal, intent: SwapIntent, *, by: str, now_seconds: float, catalog: LocationCatalog | None) -> str:
    # Asked again now that the partition is ours: whoever had it before may have finished in the meantime.
    if not _is_pending(journal, intent):
        return "finished by somebody else meanwhile"
    if journal.has_mark(intent, "restoring"):
        restore_swap(journal, intent, by=by, now_seconds=now_seconds, catalog=catalog)
        return "restore finished"
    if intent.switch is not None:
        return f"new location {recover_switch(journal, intent, catalog=catalog, now_seconds=now_seconds)}"
    return f"swap {recover_swap(journal, intent, now_seconds=now_seconds)}"


def _is_run_dead(journal: Journal, run: str, *, now_seconds: float, take_over: bool) -> bool:
    io, layout = journal.io, journal.layout
    info = journal.read_run_info(run)
    if info is None:
        # Killed before it said who it is: the folder's age decides, as for another host's run.
        found = io.stat(layout.run(run))
        return found is not None and now_seconds - found.mtime_ns / 1e9 > _NAMELESS_SECONDS
    owner = Owner(run=run, process=info.process, heartbeat_path=layout.heartbeat(run))
    return may_take_over(io, owner, now_seconds=now_seconds, take_over=take_over)
