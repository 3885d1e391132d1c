"""Publish by location: fill and prove a new folder, and make it the partition's by one call to the metastore.

Order: intent → copy the unmerged files, move the merged files in → check that the old folder is unchanged since it was
read → one call that sets the location and the statistics → check once more for files that arrived too late → done.
Readers resolve a location once, so they see either the whole old folder or the whole new one: no gap, no rows twice
(hazards 15 and 16). The old folder is not touched: it is the backup, until ``clean`` removes its recorded files.

After a crash the metastore decides: it names the old folder (undo: our new files are removed), the new one (finish:
only the mark is missing), or neither (another program moved the partition: a user has to resolve it).
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol

from packstone.errors import CommitUnknownError, ConflictError, RefusedError, UnavailableError
from packstone.storage.fileio import EntryKind
from packstone.storage.store_checks import copy_file
from packstone.tables.hive.journal import Journal, LeftFile, Mark, Relocation, SwapIntent
from packstone.tables.hive.listing import is_data, is_hidden

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from packstone.model.files import FileEntry
    from packstone.storage.fileio import Entry, FileIO

SUCCESS = "_SUCCESS"
EMPTY: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class LocationPublish:
    """Publish partitions of this table by a new location."""

    table: str  # db.table
    catalog: LocationCatalog


class LocationCatalog(Protocol):
    """A metastore that reads and changes the locations of partitions."""

    def read_location(self, table: str, partition: str) -> str | None:
        """Return a partition's location, as the metastore spells it; None if there is no such partition."""

    def set_location(self, table: str, partition: str, *, location: str, numbers: dict[str, int]) -> None:
        """Set a partition's location and statistics (``numFiles``, ``totalSize``) in one call."""


class MetastoreUnavailableError(UnavailableError):
    """The metastore was not reachable before a change, so it was not changed."""


class _TooLateError(ConflictError):
    """A file arrived too late; the metastore named the new folder for a moment, so readers may have seen it."""


def commit_relocation(
    journal: Journal,
    intent: SwapIntent,
    *,
    catalog: LocationCatalog,
    now_seconds: float,
    check_ours: Callable[[], None],
    copied: Mapping[str, str] = EMPTY,
) -> float:
    """Publish the new folder; return 0.0, because readers see no gap. ``copied``: the staged copies, by file name.

    The intent is recorded. ConflictError: the old folder changed, and the commit was undone. CommitUnknownError: it
    stopped half-way.
    """
    io, switch = journal.io, _switch(intent)
    try:
        check_ours()
        try:
            _fill(io, intent, copied)
            _check_unchanged(io, intent)
            check_ours()
            catalog.set_location(switch.table, switch.name, location=switch.new_location, numbers=_numbers(intent))
            _check_none_came_late(io, intent, catalog)
        except (ConflictError, MetastoreUnavailableError) as stop:
            check_ours()
            undo = leave_new_folder if isinstance(stop, _TooLateError) else roll_back_switch
            undo(journal, intent, now_seconds=now_seconds, why=stop.message)
            raise
        journal.write_mark(intent, "done", Mark(at=now_seconds), durable=False)
    except OSError as error:
        raise CommitUnknownError(
            f"Publishing {switch.new_location} stopped half-way ({error}); run `packstone recover {switch.table}`."
        ) from error
    return 0.0


def recover_relocation(
    journal: Journal, intent: SwapIntent, *, catalog: LocationCatalog | None, now_seconds: float
) -> str:
    """Finish or undo a relocation whose owner died; return which."""
    switch = _switch(intent)
    at = _location(intent, catalog)
    if at == switch.new_location and not any(
        True for _ in _unexpected_files(journal.io, intent.directory, _old_names(intent))
    ):
        journal.write_mark(intent, "done", Mark(at=now_seconds, why="recovered"))
        return "finished"
    if at == switch.new_location:
        _undo_for_late_files(journal.io, intent, catalog)
        leave_new_folder(journal, intent, now_seconds=now_seconds, why="recovered")
        return "undone"
    if at is None or at == switch.old_location:
        roll_back_switch(journal, intent, now_seconds=now_seconds, why="recovered")
        return "undone"
    raise ConflictError(
        f"{switch.table} {switch.name} is at {at}, neither at its old location nor at the new one; nothing was changed."
    )


def _undo_for_late_files(io: FileIO, intent: SwapIntent, catalog: LocationCatalog | None) -> None:
    """Go back to the old folder, where files arrived too late: the process died before it could check for them."""
    switch = _switch(intent)
    if any(True for _ in _unexpected_files(io, switch.folder, _new_names(intent))):
        raise ConflictError(
            f"Files arrived both in {intent.directory}, which readers no longer see, and in {switch.folder}; "
            "move the first ones over by hand and run `packstone recover` again."
        )
    _set_back(io, intent, catalog)


def roll_back_switch(journal: Journal, intent: SwapIntent, *, now_seconds: float, why: str) -> None:
    """Remove our new files, which no reader saw: the metastore still names the old folder."""
    io, switch = journal.io, _switch(intent)
    for name in (*sorted(_new_names(intent)), SUCCESS):
        io.remove(f"{switch.folder}/{name}")
    remove_empty_version(io, intent)
    journal.write_mark(intent, "undone", Mark(at=now_seconds, why=why))


def leave_new_folder(journal: Journal, intent: SwapIntent, *, now_seconds: float, why: str) -> None:
    """Undo a relocation that readers may have seen: the new files are kept for a while, as originals are."""
    left = _list_left(journal.io, _switch(intent).folder)
    journal.write_mark(intent, "undone", Mark(at=now_seconds, why=why, left=left))


def restore_switch(
    journal: Journal, intent: SwapIntent, *, catalog: LocationCatalog | None, now_seconds: float
) -> None:
    """Go back to the old folder, and copy files into it that arrived in the new one since; may run again after a crash.

    The new folder stays, so that readers in the middle of it can finish; ``clean`` removes it later.
    """
    io, switch = journal.io, _switch(intent)
    at = _location(intent, catalog)
    if at not in (switch.old_location, switch.new_location):
        raise ConflictError(f"{switch.table} {switch.name} is now at {at}; nothing was changed.")
    journal.write_mark(intent, "restoring", Mark(at=now_seconds))
    if at == switch.new_location:
        for entry in _unexpected_files(io, switch.folder, _new_names(intent)):
            copy_alike(io, f"{switch.folder}/{entry.name}", f"{intent.directory}/{entry.name}")
        io.sync_dir(intent.directory)
        _set_back(io, intent, catalog)
    for entry in list(_unexpected_files(io, switch.folder, _new_names(intent))):
        if io.stat(f"{intent.directory}/{entry.name}") is None:  # it arrived after the first copy
            aside = f"{intent.directory}/.{entry.name}.coming"
            copy_alike(io, f"{switch.folder}/{entry.name}", aside)
            io.move(aside, f"{intent.directory}/{entry.name}")
    journal.write_mark(intent, "restored", Mark(at=now_seconds, left=_list_left(io, switch.folder)))


def check_switch_restorable(io: FileIO, intent: SwapIntent, *, catalog: LocationCatalog | None) -> None:
    """Refuse to go back to a folder whose originals changed, or if new files have the names of originals."""
    switch = _switch(intent)
    at = _location(intent, catalog, command=f"restore {intent.run} {switch.table}")
    if at != switch.new_location:
        why = f"is now at {at}; if a later run published it there, restore that run first"
        raise RefusedError(f"{switch.table} {switch.name} {why}; nothing was changed.")
    for file in (*intent.inputs, *switch.copies):
        if not _is(io.stat(f"{intent.directory}/{file.name}"), file):
            raise RefusedError(f"The original {intent.directory}/{file.name} is gone or changed; nothing was changed.")
    for entry in _unexpected_files(io, switch.folder, _new_names(intent)):
        if entry.kind is not EntryKind.FILE:
            why = "is not a file and cannot be copied back"
            raise RefusedError(f"{switch.folder}/{entry.name} {why}; nothing was changed.")
        if any(entry.name == file.name for file in intent.inputs):
            raise RefusedError(f"{switch.folder}/{entry.name} has the name of an original; nothing was changed.")


def why_not_cleaned(intent: SwapIntent, catalog: LocationCatalog | None, *, new: bool = False) -> str | None:
    """Say why the old folder (or the new one of an undone relocation) must stay; None if it can be removed.

    If in doubt, nothing is deleted.
    """
    switch = _switch(intent)
    folder, location = (switch.folder, switch.new_location) if new else (intent.directory, switch.old_location)
    if catalog is None:
        return f"{folder}: give {switch.table} by its name, with --metastore, to look up its location"
    is_there = _location(intent, catalog) == location
    return f"{folder} is the location in the metastore" if is_there else None


def switched_folders(journal: Journal) -> dict[str, str]:
    """Return the folders that readers no longer see, because a run published another one, with what to do instead."""
    if journal.io.stat(journal.layout.versions) is None:
        return {}
    found: dict[str, str] = {}
    for run in journal.list_runs():
        for intent in journal.read_intents(run) if journal.closed_at(run) is None else ():
            is_live = journal.has_mark(intent, "done") and not journal.has_mark(intent, "restored")
            if intent.switch is not None and is_live:
                where = f"{intent.switch.new_location}; give {intent.switch.table} by its name, with --metastore"
                found[intent.directory] = f"run {run} published the partition at {where}"
    return found


def new_location(old: str, old_path: str, new_path: str) -> str:
    """Spell a new folder as its metastore spells the old one: with the same scheme and authority."""
    if not new_path.startswith("/"):  # our paths begin with our own scheme: s3 for s3a
        return old.partition(":")[0] + new_path[new_path.index(":") :]
    end = len(old.rstrip("/")) - len(old_path)
    prefix = old.rstrip("/")[:end] if old.rstrip("/").endswith(old_path) else ""
    return f"{prefix or 'file:'}{new_path}"


def _switch(intent: SwapIntent) -> Relocation:
    if intent.switch is None:
        raise TypeError(f"{intent} does not change a location")
    return intent.switch


def _location(intent: SwapIntent, catalog: LocationCatalog | None, *, command: str = "") -> str | None:
    switch = _switch(intent)
    if catalog is None:
        raise ConflictError(
            f"{switch.table} {switch.name} is published by its location, which only the metastore knows; "
            f"run `packstone {command or f'recover {switch.table}'} --metastore URL`."
        )
    return catalog.read_location(switch.table, switch.name)


def _fill(io: FileIO, intent: SwapIntent, copied: Mapping[str, str]) -> None:
    switch = _switch(intent)
    io.make_dirs(switch.folder)
    io.set_permissions(switch.folder, io.read_permissions(intent.directory))
    for file in switch.copies:
        if file.name in copied:
            io.move(copied[file.name], f"{switch.folder}/{file.name}")
        else:
            copy_alike(io, f"{intent.directory}/{file.name}", f"{switch.folder}/{file.name}")
    if io.stat(f"{intent.directory}/{SUCCESS}") is not None:
        copy_alike(io, f"{intent.directory}/{SUCCESS}", f"{switch.folder}/{SUCCESS}")
    for output in intent.outputs:
        io.move(output.staged_path, intent.published(output))
    io.sync_dir(switch.folder)


def _check_unchanged(io: FileIO, intent: SwapIntent) -> None:
    """The old folder must hold exactly the files that were read and copied."""
    for file in (*intent.inputs, *_switch(intent).copies):
        if not _is(io.stat(f"{intent.directory}/{file.name}"), file):
            raise ConflictError(
                f"{intent.directory}/{file.name} changed while it was being merged; nothing was changed."
            )
    for entry in _unexpected_files(io, intent.directory, _old_names(intent)):
        raise ConflictError(f"{intent.directory}/{entry.name} arrived during the merge; nothing was changed.")


def _check_none_came_late(io: FileIO, intent: SwapIntent, catalog: LocationCatalog) -> None:
    """Go back at once if a file arrived between the last check and the call: no reader would see it."""
    for entry in _unexpected_files(io, intent.directory, _old_names(intent)):
        _set_back(io, intent, catalog)
        raise _TooLateError(f"{intent.directory}/{entry.name} arrived during the commit; nothing was changed.")


def _set_back(io: FileIO, intent: SwapIntent, catalog: LocationCatalog | None) -> None:
    """Set the location back to the old folder, with the statistics of what it holds now."""
    switch = _switch(intent)
    late = _unexpected_files(io, intent.directory, _old_names(intent))
    sizes = [*(file.size_bytes for file in (*intent.inputs, *switch.copies)), *(entry.size_bytes for entry in late)]
    numbers = {"numFiles": len(sizes), "totalSize": sum(sizes)}
    if catalog is not None:
        catalog.set_location(switch.table, switch.name, location=switch.old_location, numbers=numbers)


def _unexpected_files(io: FileIO, folder: str, known: frozenset[str]) -> Iterator[Entry]:
    """Yield the visible entries of a folder that are not known; folders too, because they are not copied."""
    try:
        entries = list(io.list_dir(folder))
    except FileNotFoundError:
        return
    for entry in entries:
        is_visible = is_data(entry.name) if entry.kind is EntryKind.FILE else not is_hidden(entry.name)
        if is_visible and entry.name not in known:
            yield entry


def remove_empty_version(io: FileIO, intent: SwapIntent) -> None:
    """Remove the new folder and those above it, as far as they are empty."""
    at = _switch(intent).folder
    for _ in range(intent.partition.count("/") + 3):  # up to the folder of all versions
        if io.stat(at) is None or not io.remove_empty_dir(at):
            return
        at = posixpath.dirname(at)


def _list_left(io: FileIO, folder: str) -> tuple[LeftFile, ...]:
    """Return all files of a folder, so that ``clean`` can recognise them when their retention has expired."""
    try:
        entries = sorted(io.list_dir(folder), key=lambda entry: entry.name)
    except FileNotFoundError:
        return ()
    files = (entry for entry in entries if entry.kind is EntryKind.FILE)
    return tuple(LeftFile(name=one.name, size_bytes=one.size_bytes, mtime_ns=one.mtime_ns) for one in files)


def _old_names(intent: SwapIntent) -> frozenset[str]:
    return frozenset(file.name for file in (*intent.inputs, *_switch(intent).copies))


def _new_names(intent: SwapIntent) -> frozenset[str]:
    return frozenset((*(one.name for one in intent.outputs), *(file.name for file in _switch(intent).copies)))


def _numbers(intent: SwapIntent) -> dict[str, int]:
    sizes = [
        *(output.size_bytes for output in intent.outputs),
        *(file.size_bytes for file in _switch(intent).copies),
    ]
    return {"numFiles": len(sizes), "totalSize": sum(sizes)}


def _is(found: Entry | None, file: FileEntry) -> bool:
    return found is not None and (found.size_bytes, found.mtime_ns) == (file.size_bytes, file.mtime_ns)


def copy_alike(io: FileIO, source: str, target: str) -> None:
    """Copy a file with its owner and mode."""
    io.remove(target)  # left by an attempt that died here
    copy_file(io, source, target)
    io.set_permissions(target, io.read_permissions(source))
