"""Undo exactly one run: its outputs out, its originals back, whatever arrived meanwhile left alone (hazard 42)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packstone.errors import InvalidInputError, RefusedError
from packstone.tables.hive.journal import Journal, Mark, SwapIntent, check_reachable, remove_empty_backup
from packstone.tables.hive.swap import check_originals, check_outputs_known, put_back
from packstone.tables.hive.switch import check_switch_restorable, restore_switch
from packstone.tables.state_folder import make_staging

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO
    from packstone.tables.hive.journal import OutputFile
    from packstone.tables.hive.switch import LocationCatalog

_SECOND_CHARS = len("20190101T000000")  # what follows in a run's id is random: runs of one second are in no order


def plan_restore(
    journal: Journal, run: str, *, partition: str = "", catalog: LocationCatalog | None = None
) -> tuple[SwapIntent, ...]:
    """Name the swaps to undo, at or below a partition, newest first; RefusedError if one of them cannot be."""
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

    What is taken out waits in the staging of the run that does this: whoever ends that run removes it.
    """
    io = journal.io
    check_reachable(io, journal.layout, intent)
    if intent.switch is not None:
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
    _put_summaries_back(io, intent)
    io.sync_dir(intent.directory)
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
        raise RefusedError(f"The originals of run {intent.run} were cleaned away; it cannot be undone any more.")
    if journal.has_mark(intent, "restoring"):
        return  # somebody began and died; finishing is all that is left
    for output in intent.outputs:
        # A later round of this very run may have merged it again; that one is undone first.
        if intent.published(output) not in back and not is_as_recorded(io, intent, output):
            _check_not_in_use(journal, intent, output)
    if intent.switch is not None:
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
        raise RefusedError(f"{intent.directory} was removed; make it again to get its originals back.")
    later = who_merged(journal, intent, output)
    if later is not None:
        why = f"was merged again by run {later}; restore that one first"
        raise RefusedError(f"{intent.published(output)} {why}; nothing was changed.", later=later)
    # One that is simply gone cannot double anything: the originals are all there is of its rows.
    if journal.io.stat(intent.published(output)) is not None:
        why = "is not the file that was merged; move it away and restore again"
        raise RefusedError(f"{intent.published(output)} {why}; nothing was changed.")


def _put_summaries_back(io: FileIO, intent: SwapIntent) -> None:
    """The originals that a ``_metadata`` describes are there again; one that was written since is newer, and stays."""
    for number, path in enumerate(intent.summaries):
        if io.stat(intent.kept_summary(number)) is not None and io.stat(path) is None:
            io.move(intent.kept_summary(number), path)


def is_as_recorded(io: FileIO, intent: SwapIntent, output: OutputFile) -> bool:
    """Whether a merged file is where and what it was when it was published."""
    found = io.stat(intent.published(output))
    if found is None or found.size_bytes != output.size_bytes:
        return False
    # Where a move is a copy, the time is that of the move; our names hold run and unit, so nobody else has them.
    return found.mtime_ns == output.mtime_ns or not io.capabilities.atomic_rename


def who_merged(journal: Journal, intent: SwapIntent, output: OutputFile) -> str | None:
    """Name the later run (or the later round of this one) that merged an output again; None if none did."""
    for run in reversed(journal.list_runs()):
        if run[:_SECOND_CHARS] < intent.run[:_SECOND_CHARS]:
            return None
        for later in journal.read_intents(run, partition=intent.partition):
            took = any(later.place(file) == intent.published(output) for file in later.inputs)
            if took and journal.has_mark(later, "done") and not journal.has_mark(later, "restored"):
                return run
    return None
