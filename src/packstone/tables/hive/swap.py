"""Swap originals for merged files, with a journal that makes a crash at any step recoverable.

Order, for the partitions of a wave: make the backups, record all intents. Then partition by partition: check → move
every original to the backup, checking it there → sync → move every output in → sync → done. If a check or a move fails,
the files already moved go back at once: a table must not wait for ``recover`` to get its rows back.

Originals move first because a reader that meets a gap fails or sees too few rows for some milliseconds and succeeds
when it retries, while a reader that meets both sets counts rows twice and never notices (trino#9761).

Each step checks whether it was done already, so rolling forward runs the steps again, and rolling back runs their
inverses. The files found decide which of the two ``recover`` does:

    all outputs published                                      -> forward (only the mark is missing)
    outputs all present, originals all unchanged or kept       -> forward
    originals all in place or kept                             -> back
    an original lost after it was moved                        -> left as it is: the merged file may hold its only copy

Originals move out in order and back in reverse order, so at any time those in the backup precede those in the table.
This distinguishes a file that was removed from the table (one before it is still in place) from a file that was lost
from the backup.

Power cuts: outputs are synced when they are written, and backup folders and intents before the first move. A rename
may be lost, but never takes the file with it (``FileIO.move``), so every original is in place or kept. The partition's
folder is synced after the originals left it, so that no reader finds both sets before ``recover`` runs, and after the
outputs came in. That makes three syncs for a partition, and a few for a wave.
"""

from __future__ import annotations

import contextlib
import posixpath
import time
from typing import TYPE_CHECKING

from packstone.errors import CommitUnknownError, ConflictError, RefusedError, UnavailableError, storage_sentence
from packstone.runs.state_folder import make_staging
from packstone.tables.hive.journal import (
    Journal,
    Mark,
    OutputFile,
    SwapIntent,
    check_not_exchanged,
    check_reachable,
    find_exchanged,
    make_backup_again,
    remove_empty_backup,
)
from packstone.tables.hive.plan import OUTPUT_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable

    from packstone.model.files import FileEntry
    from packstone.storage.fileio import Entry, FileIO


def check_can_swap(io: FileIO, path: str) -> None:
    """Refuse a store without atomic rename: a swap by copying is slow, and a crash leaves partial files."""
    if not io.capabilities.atomic_rename:
        raise RefusedError(
            f"{path} is on an object store, which has no atomic rename, so Hive directories are not merged there in "
            "place; `health` and `plan` work, and with a metastore `compact db.table --publish location`.",
            path=path,
        )


def commit_swap(
    journal: Journal,
    intent: SwapIntent,
    *,
    now_seconds: float,
    check_ours: Callable[[], None],
    check_unchanged: Callable[[], None],
) -> float:
    """Publish the outputs in place of the inputs; return the milliseconds in which readers could see a gap.

    ``check_unchanged`` raises ConflictError unless every input is still the file that was read, and the partition may
    still be merged. The intent is recorded, and its backup folder exists.

    ConflictError: an input or a folder changed, and the swap was undone; or ``check_ours`` reports that another run
    took the partition over, which then finishes or undoes the swap. UnavailableError: the storage refused a move, and
    the swap was undone. CommitUnknownError: it stopped half-way, and ``recover`` will finish it.

    ``check_ours`` is called after the intent is written, because a run that takes over looks for intents after its
    claim: one of the two sees the other.
    """
    try:
        check_ours()
        _check_before(journal, intent, now_seconds=now_seconds, check_ours=check_ours, check_unchanged=check_unchanged)
        swap_ms = _swap(journal, intent, now_seconds=now_seconds, check_ours=check_ours)
        _move_summaries_out(journal.io, intent)
        journal.write_mark(intent, "done", Mark(at=now_seconds, swap_ms=swap_ms), durable=False)
    except OSError as error:
        raise CommitUnknownError(
            f"The swap in {intent.directory} stopped half-way ({error}); run `packstone recover {journal.layout.root}`."
        ) from error
    return swap_ms


def _check_before(
    journal: Journal,
    intent: SwapIntent,
    *,
    now_seconds: float,
    check_ours: Callable[[], None],
    check_unchanged: Callable[[], None],
) -> None:
    """Check the partition as late as possible; give the swap up if it changed, before anything is moved."""
    try:
        check_unchanged()
        _check_outputs_staged(journal.io, intent)
    except ConflictError as stop:
        check_ours()
        give_up(journal, intent, now_seconds=now_seconds, why=stop.message)
        raise


def give_up(journal: Journal, intent: SwapIntent, *, now_seconds: float, why: str) -> None:
    """Record that a swap which has moved nothing will not be made."""
    journal.write_mark(intent, "undone", Mark(at=now_seconds, why=why), durable=False)
    if intent.switch is None:
        remove_empty_backup(journal.io, intent)


def _swap(journal: Journal, intent: SwapIntent, *, now_seconds: float, check_ours: Callable[[], None]) -> float:
    io, began = journal.io, time.perf_counter()
    try:
        _move_inputs_out(io, intent, is_checked=True)
        check_ours()
        check_not_exchanged(io, journal.layout, intent)
        _move_outputs_in(io, intent)
    except (ConflictError, OSError) as stop:
        check_ours()
        _check_can_return(journal, intent)
        why = stop.message if isinstance(stop, ConflictError) else str(stop)
        roll_back(journal, intent, now_seconds=now_seconds, why=why)
        if isinstance(stop, ConflictError):
            raise
        raise UnavailableError(
            f"The swap in {intent.directory} failed and was undone: {storage_sentence(stop)}"
        ) from stop
    return (time.perf_counter() - began) * 1000


def _check_can_return(journal: Journal, intent: SwapIntent) -> None:
    """CommitUnknownError if the partition's folder was exchanged, or the backup was and now lacks an original."""
    io, layout = journal.io, journal.layout
    if find_exchanged(io, layout, intent, only=intent.directory) is not None or not (
        find_exchanged(io, layout, intent, only=intent.backup_directory) is None
        or all(_is_kept(io, intent, f) or _is(io.stat(intent.place(f)), f) for f in intent.inputs)
    ):
        check_reachable(io, layout, intent)


def recover_swap(journal: Journal, intent: SwapIntent, *, now_seconds: float) -> str:
    """Finish or undo a swap whose owner died; return which."""
    io = journal.io
    check_reachable(io, journal.layout, intent)
    if _may_go_forward(io, intent) and _go_forward(journal, intent):
        _move_summaries_out(io, intent)
        journal.write_mark(intent, "done", Mark(at=now_seconds, why="recovered"))
        return "finished"
    check_originals(io, intent)
    check_outputs_known(journal, intent)
    roll_back(journal, intent, now_seconds=now_seconds, why="recovered")
    return "undone"


def _go_forward(journal: Journal, intent: SwapIntent) -> bool:
    """Do the remaining moves; False if the storage refuses one, which it may always do: then the caller rolls back."""
    io = journal.io
    has_outputs = all(_is_output(io.stat(intent.published(output)), output) for output in intent.outputs)
    back = [file for file in intent.inputs if has_outputs and _is(io.stat(intent.place(file)), file)]
    if not has_outputs or back:
        make_backup_again(io, journal.layout, intent)
    try:
        if not has_outputs:
            _move_inputs_out(io, intent)
        for file in back:  # a power cut lost the moves of these originals; or somebody made a copy, which stays
            with contextlib.suppress(FileExistsError):
                io.move(intent.place(file), intent.kept(file))
        _move_outputs_in(io, intent)
    except OSError:
        return False
    return True


def roll_back(journal: Journal, intent: SwapIntent, *, now_seconds: float, why: str) -> None:
    """Move published outputs out, then kept originals back; changes by others since then stay."""
    io = journal.io
    _check_can_roll_back(io, intent)
    for output in intent.outputs:
        if _is_output(io.stat(intent.published(output)), output):
            make_staging(io, journal.layout.state, posixpath.dirname(output.staged_path))
            io.move(intent.published(output), output.staged_path)
    for file in reversed(intent.inputs):
        put_back(io, intent, file)
    for folder in (intent.directory, intent.backup_directory):
        if io.stat(folder) is not None:
            io.sync_dir(folder)
    journal.write_mark(intent, "undone", Mark(at=now_seconds, why=why))
    remove_empty_backup(io, intent)


def check_originals(io: FileIO, intent: SwapIntent) -> None:
    """CommitUnknownError if an original that was moved out is in neither place: undoing would lose its rows."""
    lost: list[FileEntry] = []
    for file in intent.inputs:
        place, kept = io.stat(intent.place(file)), io.stat(intent.kept(file))
        if kept is None and _is(place, file):
            break  # neither this file nor any after it has been moved
        if kept is None and place is None:
            lost.append(file)
    if not lost or io.stat(intent.directory) is None:
        return
    merged = [p for o in intent.outputs for p in (intent.published(o), o.staged_path) if io.stat(p) is not None]
    rows = f"their rows are in {merged[0]}" if len(merged) == len(intent.outputs) == 1 else "no file was touched"
    raise CommitUnknownError(
        f"{len(lost)} of {len(intent.inputs)} originals, the first {intent.place(lost[0])}, are neither there nor in "
        f"{intent.backup_directory}, so the swap can be neither finished nor undone; {rows}. Put them back into "
        f"{intent.directory}, and run `packstone recover` again."
    )


def check_outputs_known(journal: Journal, intent: SwapIntent) -> None:
    """CommitUnknownError if the partition holds a merged file of the run that no record names.

    It would stay when the originals return, and their rows would be there twice.
    """
    intents = journal.read_intents(intent.run, partition=intent.partition)
    known = {output.name for one in intents for output in one.outputs}
    try:
        names = sorted(entry.name for entry in journal.io.list_dir(intent.directory))
    except FileNotFoundError:
        return
    for name in names:
        if name.startswith(f"{OUTPUT_PREFIX}{intent.run}-") and name not in known:
            raise CommitUnknownError(
                f"{intent.directory}/{name} was written by run {intent.run}, and no record of the run names it; "
                "nothing was changed, because its rows would be there twice."
            )


def put_back(io: FileIO, intent: SwapIntent, file: FileEntry) -> None:
    """Move one kept original back; CommitUnknownError if another file has its name: a user has to decide."""
    kept = io.stat(intent.kept(file))
    if kept is None:
        return
    try:
        io.move(intent.kept(file), intent.place(file))
    except FileExistsError:
        raise CommitUnknownError(
            f"{intent.place(file)} and its original {intent.kept(file)} both exist; move the first file away and run "
            "`packstone recover` again."
        ) from None


def _check_can_roll_back(io: FileIO, intent: SwapIntent) -> None:
    """CommitUnknownError if the folder was dropped: its rows may be unwanted, so it is not created again.

    The backup holds the rows.
    """
    if io.stat(intent.directory) is not None or not any(io.stat(intent.kept(file)) for file in intent.inputs):
        return
    raise CommitUnknownError(
        f"{intent.directory} was removed before its swap was finished; its originals are in {intent.backup_directory}. "
        "Create the folder again and run `packstone recover` to get them back; then remove them if they are unwanted."
    )


def _check_outputs_staged(io: FileIO, intent: SwapIntent) -> None:
    """ConflictError if a staged output is gone (a run that was wrongly considered dead loses its staging folder)."""
    for output in intent.outputs:
        if not _is_output(io.stat(output.staged_path), output):
            raise ConflictError(f"{output.staged_path} is gone or changed; nothing was changed in {intent.directory}.")


def _may_go_forward(io: FileIO, intent: SwapIntent) -> bool:
    if io.stat(intent.directory) is None:
        return False
    published = [_is_output(io.stat(intent.published(output)), output) for output in intent.outputs]
    if all(published):
        return True
    for done, output in zip(published, intent.outputs, strict=True):
        if not done and not _is_output(io.stat(output.staged_path), output):
            return False
    return all(_is_kept(io, intent, f) or _is(io.stat(intent.place(f)), f) for f in intent.inputs)


def _move_inputs_out(io: FileIO, intent: SwapIntent, *, is_checked: bool = False) -> None:
    """Move the originals to the backup; ``is_checked``: all of them were in place a moment ago."""
    for file in intent.inputs:
        place = None if is_checked else io.stat(intent.place(file))
        # A different file under an input's name, while the original is kept, was written by others: it stays.
        if is_checked or _is(place, file) or (place is not None and not _is_kept(io, intent, file)):
            _move_out(io, intent, file)
        if not _is_kept(io, intent, file):
            raise ConflictError(f"{intent.place(file)} changed while it was being moved; nothing was changed.")
    io.sync_dir(intent.directory)


def _move_out(io: FileIO, intent: SwapIntent, file: FileEntry) -> None:
    try:
        io.move(intent.place(file), intent.kept(file))
    except FileNotFoundError:
        raise ConflictError(f"{intent.place(file)} vanished while it was being moved; nothing was changed.") from None
    except FileExistsError:
        raise ConflictError(f"{intent.place(file)} was written again after it had been moved.") from None


def _move_outputs_in(io: FileIO, intent: SwapIntent) -> None:
    for output in intent.outputs:
        if not _is_output(io.stat(intent.published(output)), output):
            io.move(output.staged_path, intent.published(output))
    io.sync_dir(intent.directory)


def _move_summaries_out(io: FileIO, intent: SwapIntent) -> None:
    """Move summary files to the backup: ``_metadata`` describes files that are gone, and readers would fail on it."""
    left: set[str] = set()
    for number, path in enumerate(intent.summaries):
        if io.stat(path) is None:
            continue
        io.remove(intent.kept_summary(number))
        # Partitions share the summaries in the table's root: another run may have moved them first.
        with contextlib.suppress(FileNotFoundError):
            io.move(path, intent.kept_summary(number))
            left.add(posixpath.dirname(path))
    for folder in sorted(left):
        io.sync_dir(folder)


def _is(found: Entry | None, file: FileEntry) -> bool:
    return found is not None and (found.size_bytes, found.mtime_ns) == (file.size_bytes, file.mtime_ns)


def _is_kept(io: FileIO, intent: SwapIntent, file: FileEntry) -> bool:
    return _is(io.stat(intent.kept(file)), file)


def _is_output(found: Entry | None, output: OutputFile) -> bool:
    return found is not None and (found.size_bytes, found.mtime_ns) == (output.size_bytes, output.mtime_ns)
