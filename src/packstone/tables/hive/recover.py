"""Finish or undo the swaps of dead runs, and restore one run.

Every command that writes recovers first. A restore undoes exactly one run: its outputs out, its originals back; files
that arrived since are left alone (hazard 42).
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packstone.errors import CommitUnknownError, ConflictError, CorruptionError, InvalidInputError, RefusedError
from packstone.model.maintenance import Recovered
from packstone.runs.owner import Owner, claim, read_owner, release
from packstone.runs.state_folder import make_staging
from packstone.storage.fileio import EntryKind
from packstone.tables.hive.journal import Journal, Mark, SwapIntent, check_reachable, remove_empty_backup
from packstone.tables.hive.layout import KEPT_SUFFIX, PLAN_PREFIX
from packstone.tables.hive.swap import check_originals, check_outputs_known, put_back, recover_swap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from packstone.storage.fileio import Entry, FileIO
    from packstone.tables.hive.journal import OutputFile
    from packstone.tables.hive.relocate import LocationCatalog

_PLAN_SECONDS = 86_400  # a plan never takes a day


@dataclass(frozen=True, slots=True, kw_only=True)
class _OpenRun:
    """A run that has not ended: its half-done swaps, or why they cannot be read."""

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
    inherit: Callable[[str], bool] = lambda _: False,
) -> tuple[Recovered, ...]:
    """Finish or undo every swap that stopped half-way and whose owner is dead; remove dead runs' staging.

    Runs that the caller inherits, because it reuses their finished work, are left to the caller.
    All records are read before anything is changed: a record of a newer packstone refuses the whole table.
    """
    io, layout = journal.io, journal.layout
    done: list[Recovered] = []
    for found in list(_open_runs(journal, besides=me.run)):
        run = found.run
        if found.damage:
            done.append(_left(run, found.damage, is_damaged=True))
            continue
        is_dead_run = journal.runs.is_dead(run, now_seconds=now_seconds, take_over=take_over)
        if is_dead_run:
            journal.runs.fence(run)
        pending = list(_pending(journal, run))  # again: it may have continued until it was fenced
        if not is_dead_run:
            pending = _without_progress(journal, run, pending)
        done.extend(
            _recover_one(journal, intent, me=me, now_seconds=now_seconds, take_over=take_over, catalog=catalog)
            for intent in pending
        )
        unexplained = unexplained_backup(journal, run) if is_dead_run and not pending else ""
        if unexplained:
            done.append(_left(run, unexplained, is_damaged=True))
            continue
        if is_dead_run and not is_half_done(journal, run) and inherit(run):
            continue
        had_staging = io.stat(layout.staging(run)) is not None
        if is_dead_run and end_run(journal, run) and had_staging and not pending:
            done.append(Recovered(run=run, part="", action="remaining staging files removed"))
    _remove_old_plans(journal, now_seconds=now_seconds)
    return tuple(done)


def _left(run: str, why: str, *, is_damaged: bool = False) -> Recovered:
    return Recovered(run=run, part="", action=f"left alone: {why}", is_left=True, is_damaged=is_damaged)


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
    """Yield the runs, ended or not, whose backup holds originals that no record explains."""
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
        folders += [f"{folder}/{entry.name}" for entry in reversed(entries) if entry.kind is EntryKind.DIRECTORY]


def _remove_old_plans(journal: Journal, *, now_seconds: float) -> None:
    """Remove the staging folders of killed plans: their task results have no further use."""
    for path, entry in list_plans(journal):
        if now_seconds - _last_change_ns(journal.io, path, entry) / 1e9 > _PLAN_SECONDS:
            journal.io.remove_tree(path)


def list_plans(journal: Journal) -> tuple[tuple[str, Entry], ...]:
    """Return the staging folders of plans, running or killed."""
    io, folder = journal.io, f"{journal.layout.state}/staging"
    if io.stat(folder) is None:
        return ()
    found = ((f"{folder}/{entry.name}", entry) for entry in io.list_dir(folder))
    return tuple((path, entry) for path, entry in found if entry.name.startswith(PLAN_PREFIX))


def _last_change_ns(io: FileIO, path: str, found: Entry) -> int:
    """Return the time of the last write in a folder; on an object store only files have times."""
    newest = found.mtime_ns
    folders = [path] if found.kind is EntryKind.DIRECTORY else []
    while folders:
        at = folders.pop()
        for entry in io.list_dir(at):
            if entry.kind is EntryKind.DIRECTORY:
                folders.append(f"{at}/{entry.name}")
            else:
                newest = max(newest, entry.mtime_ns)
    return newest


def end_run(journal: Journal, run: str) -> bool:
    """Remove a dead run's staging folder, and its run folder too, unless it committed something.

    False, and nothing is removed, if one of its swaps is half-way: ``recover`` needs all of it, and inspects only runs
    that have not ended.
    """
    io, layout = journal.io, journal.layout
    if is_half_done(journal, run):
        return False
    io.remove_tree(layout.staging(run))
    if any(True for _ in journal.read_intents(run)):
        journal.runs.end(run)
    else:
        io.remove_tree(layout.run(run))
    return True


def is_half_done(journal: Journal, run: str) -> bool:
    """Whether a swap of a run is half-way."""
    return any(True for _ in _pending(journal, run))


def is_ended(journal: Journal, run: str) -> bool:
    """Whether a run has ended, recorded by itself or by the run that recovered it."""
    return journal.runs.is_ended(run)


def find_unfinished(journal: Journal, partition: str, *, besides: str) -> str | None:
    """Return a run, other than the given one, whose swap of this partition is half-way; None if there is none."""
    for run in journal.list_runs():
        if run == besides or is_ended(journal, run):
            continue
        if any(intent.partition == partition for intent in _pending(journal, run)):
            return run
    return None


def unfinished_swaps(journal: Journal) -> Iterator[SwapIntent | Recovered]:
    """Yield the swaps that stopped half-way (part of their rows is in the backup), or why a run's cannot be read."""
    for found in _open_runs(journal):
        yield from found.pending
        if found.damage:
            yield _left(found.run, found.damage, is_damaged=True)


def _pending(journal: Journal, run: str) -> Iterator[SwapIntent]:
    """Yield the half-done swaps of a run: its own, and those of the run that it was restoring."""
    info = journal.runs.read_info(run)
    for at in (run, info.restores) if info is not None and info.restores is not None else (run,):
        for intent in journal.read_intents(at):
            if _is_pending(journal, intent):
                yield intent


def _is_pending(journal: Journal, intent: SwapIntent) -> bool:
    if journal.has_mark(intent, "restoring"):
        return not journal.has_mark(intent, "restored")
    return not journal.has_mark(intent, "done", "undone")


def _without_progress(journal: Journal, run: str, pending: list[SwapIntent]) -> list[SwapIntent]:
    """The half-done swaps of a live run without those of its present wave, of which only the first is reported."""

    def is_held(intent: SwapIntent) -> bool:
        owner = read_owner(journal.io, journal.layout.owners(intent.partition))[1]
        return isinstance(owner, Owner) and owner.run == run and not owner.released

    held = [intent for intent in pending if is_held(intent)]
    return [intent for intent in pending if intent not in held[1:]]


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
        action = f"left alone: {conflict.message}"
        return Recovered(run=intent.run, part=intent.partition, action=action, is_left=True)
    is_settled = False
    try:
        action = _settle(journal, intent, by=me.run, now_seconds=now_seconds, catalog=catalog)
        is_settled = True
    except (CommitUnknownError, ConflictError) as error:
        action = f"left alone: {error.message}"  # what a user has to resolve must not block other partitions
    finally:
        if not mine:
            release(io, folder, number=number, owner=me, unfinished=not is_settled)
    return Recovered(run=intent.run, part=intent.partition, action=action, is_left=not is_settled)


def _settle(
    journal: Journal, intent: SwapIntent, *, by: str, now_seconds: float, catalog: LocationCatalog | None
) -> str:
    # Checked again now that the partition is ours: its previous owner may have finished since.
    if not _is_pending(journal, intent):
        return "already finished by another run"
    if journal.has_mark(intent, "restoring"):
        restore_swap(journal, intent, by=by, now_seconds=now_seconds, catalog=catalog)
        return "restore finished"
    if intent.switch is not None:
        from packstone.tables.hive.relocate import recover_relocation

        return f"new location {recover_relocation(journal, intent, catalog=catalog, now_seconds=now_seconds)}"
    return f"swap {recover_swap(journal, intent, now_seconds=now_seconds)}"


# ---- restore ----

_SECOND_CHARS = len("20190101T000000")  # the rest of a run's id is random: runs of the same second have no order


def plan_restore(
    journal: Journal, run: str, *, partition: str = "", catalog: LocationCatalog | None = None
) -> tuple[SwapIntent, ...]:
    """Return the swaps to undo, at or below a partition, newest first; RefusedError if one cannot be undone."""
    if run not in journal.list_runs():
        raise InvalidInputError(f"There is no run {run} of {journal.layout.root}; `packstone history` lists the runs.")
    swaps = [i for i in journal.read_intents(run) if journal.has_mark(i, "done")]
    swaps = [i for i in swaps if not journal.has_mark(i, "restored")]
    swaps = [i for i in swaps if not partition or f"{i.partition}/".startswith(f"{partition}/")]
    swaps.sort(key=lambda intent: (intent.partition, -intent.number))
    undone_outputs: set[str] = set()
    brought_back: set[str] = set()
    for intent in swaps:
        _check_restorable(journal, intent, undone=undone_outputs, back=brought_back, catalog=catalog)
        undone_outputs |= {intent.published(output) for output in intent.outputs}
        brought_back |= {intent.place(file) for file in intent.inputs}
    return tuple(swaps)


def is_undone(journal: Journal, run: str) -> bool:
    """Whether nothing of a run is left to undo."""
    return all(journal.has_mark(i, "restored") for i in journal.read_intents(run) if journal.has_mark(i, "done"))


def restore_swap(
    journal: Journal, intent: SwapIntent, *, by: str, now_seconds: float, catalog: LocationCatalog | None = None
) -> None:
    """Undo one swap, journalled; running it again after a crash finishes it.

    The removed outputs wait in the staging folder of the restoring run; ending that run removes them.
    """
    io = journal.io
    check_reachable(io, journal.layout, intent)
    if intent.switch is not None:
        from packstone.tables.hive.relocate import restore_switch

        restore_switch(journal, intent, catalog=catalog, now_seconds=now_seconds)
        return
    check_originals(io, intent)
    journal.write_mark(intent, "restoring", Mark(at=now_seconds))
    trash = f"{journal.layout.staging(by)}/{intent.run}-{intent.key}"
    make_staging(io, journal.layout.state, trash)
    for output in intent.outputs:
        if is_as_recorded(io, intent, output):
            io.move(intent.published(output), f"{trash}/{output.name}")
    for file in reversed(intent.inputs):
        put_back(io, intent, file)
    for folder in sorted({intent.directory, *_put_summaries_back(io, intent)}):
        io.sync_dir(folder)
    journal.write_mark(intent, "restored", Mark(at=now_seconds))
    for output in intent.outputs:
        io.remove(f"{trash}/{output.name}")
    io.remove_empty_dir(trash)
    remove_empty_backup(io, intent)


def _check_restorable(
    journal: Journal,
    intent: SwapIntent,
    *,
    undone: set[str],
    back: set[str],
    catalog: LocationCatalog | None,
) -> None:
    io = journal.io
    check_reachable(io, journal.layout, intent)
    if journal.has_mark(intent, "cleaned", "cleaning"):
        raise RefusedError(f"The originals of run {intent.run} were deleted by `clean`; it can no longer be undone.")
    if journal.has_mark(intent, "restoring"):
        return  # a restore died half-way and only has to be finished
    for output in intent.outputs:
        # A later round of this run may have merged it again; that round is undone first.
        if intent.published(output) not in back and not is_as_recorded(io, intent, output):
            _check_not_in_use(journal, intent, output)
    if intent.switch is not None:
        from packstone.tables.hive.relocate import check_switch_restorable

        check_switch_restorable(io, intent, catalog=catalog)
        return
    check_outputs_known(journal, intent)
    for file in intent.inputs:
        if io.stat(intent.kept(file)) is None:
            raise RefusedError(f"The original {intent.kept(file)} is gone; nothing was changed.")
        if io.stat(intent.place(file)) is not None and intent.place(file) not in undone:
            raise RefusedError(f"{intent.place(file)} was written again since; nothing was changed.")


def _check_not_in_use(journal: Journal, intent: SwapIntent, output: OutputFile) -> None:
    if journal.io.stat(intent.directory) is None:
        raise RefusedError(f"{intent.directory} was removed; create it again to get its originals back.")
    later = find_later_run(journal, intent, output)
    if later is not None:
        why = f"was merged again by run {later}; restore that run first"
        raise RefusedError(f"{intent.published(output)} {why}; nothing was changed.", later=later)
    # An output that is gone cannot double rows: the originals are the only copy of them.
    if journal.io.stat(intent.published(output)) is not None:
        why = "is not the file that was merged; move it away and restore again"
        raise RefusedError(f"{intent.published(output)} {why}; nothing was changed.")


def _put_summaries_back(io: FileIO, intent: SwapIntent) -> set[str]:
    """Move summary files back, because their originals are back; a ``_metadata`` written since is newer, and stays.

    Return the folders that they are in.
    """
    folders: set[str] = set()
    for number, path in enumerate(intent.summaries):
        if io.stat(intent.kept_summary(number)) is not None and io.stat(path) is None:
            io.move(intent.kept_summary(number), path)
            folders.add(posixpath.dirname(path))
    return folders


def is_as_recorded(io: FileIO, intent: SwapIntent, output: OutputFile) -> bool:
    """Whether a merged file is still in place and unchanged since it was published."""
    found = io.stat(intent.published(output))
    if found is None or found.size_bytes != output.size_bytes:
        return False
    # Where a move is a copy, the time is that of the move; our names contain run and unit, so they are unique.
    return found.mtime_ns == output.mtime_ns or not io.capabilities.atomic_rename


def find_later_run(journal: Journal, intent: SwapIntent, output: OutputFile) -> str | None:
    """Return the later run (or this run, for a later round) that merged an output again; None if there is none."""
    for run in reversed(journal.list_runs()):
        if run[:_SECOND_CHARS] < intent.run[:_SECOND_CHARS]:
            return None
        for later in journal.read_intents(run, partition=intent.partition):
            took = any(later.place(file) == intent.published(output) for file in later.inputs)
            if took and journal.has_mark(later, "done") and not journal.has_mark(later, "restored"):
                return run
    return None
