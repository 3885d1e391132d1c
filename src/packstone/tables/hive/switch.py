"""Publishing by location: a new folder is filled and proved, and one call to the metastore makes it the partition's.

Order: intent → copy what stays as it is, move the merged files in → check that the old folder is what was read → one
call that sets the location and the statistics → look once more for files that came too late → done. Readers resolve a
location once, so they see the old folder whole or the new one whole: no gap, nothing twice (hazards 15 and 16). The old
folder is not touched: it is the backup, until ``clean`` removes its recorded files.

After a crash the metastore decides: it names the old folder (undo: our new files go), the new one (finish: only the
mark is missing), or neither (somebody else moved the partition: a matter for a person).
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol

from packstone.errors import CommitUnknownError, ConflictError, RefusedError, UnavailableError
from packstone.storage.fileio import Kind
from packstone.tables.hive.copy_file import copy_file
from packstone.tables.hive.journal import Journal, LeftFile, Mark, SwapIntent, Switch, check_not_exchanged
from packstone.tables.hive.listing import is_data, is_hidden

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from packstone.model.files import FileEntry
    from packstone.storage.fileio import Entry, FileIO

SUCCESS = "_SUCCESS"
EMPTY: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class ByLocation:
    """Publish partitions of this table by a new location."""

    table: str  # db.table
    catalog: LocationCatalog


class LocationCatalog(Protocol):
    """Whoever can say and change where a partition is."""

    def read_location(self, table: str, partition: str) -> str | None:
        """Where a partition is now, as the metastore spells it; None if there is no such partition."""

    def set_location(self, table: str, partition: str, *, location: str, numbers: dict[str, int]) -> None:
        """In one call: the partition is there, with these statistics (``numFiles``, ``totalSize``)."""


class UnaskedError(UnavailableError):
    """The metastore could not be asked before a change, so it was not changed."""


class _TooLateError(ConflictError):
    """Readers were sent to the new folder for a moment."""


def commit_switch(
    journal: Journal,
    intent: SwapIntent,
    *,
    catalog: LocationCatalog,
    now_seconds: float,
    check_ours: Callable[[], None],
    copied: Mapping[str, str] = EMPTY,
) -> float:
    """Publish the new folder; return 0.0, for readers see no gap. ``copied``: where copies wait, by name.

    ConflictError: the old folder changed, and everything is back as it was. CommitUnknownError: it stopped half-way.
    """
    io, switch = journal.io, _switch(intent)
    try:
        check_not_exchanged(io, journal.layout, intent)
        journal.write_intent(intent)
        check_ours()
        try:
            _fill(io, intent, copied)
            _check_unchanged(io, intent)
            check_ours()
            catalog.set_location(switch.table, switch.name, location=switch.new_location, numbers=_numbers(intent))
            _check_none_came_late(io, intent, catalog)
        except (ConflictError, UnaskedError) as stop:
            check_ours()
            undo = leave_new_folder if isinstance(stop, _TooLateError) else roll_back_switch
            undo(journal, intent, now_seconds=now_seconds, why=stop.message)
            raise
        journal.write_mark(intent, "done", Mark(at=now_seconds))
    except OSError as error:
        raise CommitUnknownError(
            f"Publishing {switch.new_location} stopped half-way ({error}); run `packstone recover {switch.table}`."
        ) from error
    return 0.0


def recover_switch(journal: Journal, intent: SwapIntent, *, catalog: LocationCatalog | None, now_seconds: float) -> str:
    """Finish or undo a switch whose owner died; return which."""
    switch = _switch(intent)
    at = _location(intent, catalog)
    if at == switch.new_location and not any(
        True for _ in _strangers(journal.io, intent.directory, _old_names(intent))
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
        f"{switch.table} {switch.name} is at {at}, neither where it was nor where it should go; nothing was changed."
    )


def _undo_for_late_files(io: FileIO, intent: SwapIntent, catalog: LocationCatalog | None) -> None:
    """The process died before it could look for files that came too late, and there are some."""
    switch = _switch(intent)
    if any(True for _ in _strangers(io, switch.folder, _new_names(intent))):
        raise ConflictError(
            f"Files arrived both in {intent.directory}, which readers do not see any more, and in {switch.folder}; "
            "move the first ones over by hand and run `packstone recover` again."
        )
    _set_back(io, intent, catalog)


def roll_back_switch(journal: Journal, intent: SwapIntent, *, now_seconds: float, why: str) -> None:
    """Remove our new files, to which nobody was ever sent; the metastore names the old folder."""
    io, switch = journal.io, _switch(intent)
    for name in (*sorted(_new_names(intent)), SUCCESS):
        io.remove(f"{switch.folder}/{name}")
    remove_empty_version(io, intent)
    journal.write_mark(intent, "undone", Mark(at=now_seconds, why=why))


def leave_new_folder(journal: Journal, intent: SwapIntent, *, now_seconds: float, why: str) -> None:
    """Undo a switch that readers may have seen: the new files stay for a while, as old ones do."""
    left = _list_left(journal.io, _switch(intent).folder)
    journal.write_mark(intent, "undone", Mark(at=now_seconds, why=why, left=left))


def restore_switch(
    journal: Journal, intent: SwapIntent, *, catalog: LocationCatalog | None, now_seconds: float
) -> None:
    """Go back to the old folder; files that arrived in the new one since come along. Again after a crash is fine.

    The new folder stays: who is in the middle of reading it reads on, and ``clean`` removes it later.
    """
    io, switch = journal.io, _switch(intent)
    at = _location(intent, catalog)
    if at not in (switch.old_location, switch.new_location):
        raise ConflictError(f"{switch.table} {switch.name} is at {at} by now; nothing was changed.")
    journal.write_mark(intent, "restoring", Mark(at=now_seconds))
    if at == switch.new_location:
        for entry in _strangers(io, switch.folder, _new_names(intent)):
            copy_file(io, f"{switch.folder}/{entry.name}", f"{intent.directory}/{entry.name}")
        io.sync_dir(intent.directory)
        _set_back(io, intent, catalog)
    for entry in list(_strangers(io, switch.folder, _new_names(intent))):
        if io.stat(f"{intent.directory}/{entry.name}") is None:  # it came in the last moment
            aside = f"{intent.directory}/.{entry.name}.coming"
            copy_file(io, f"{switch.folder}/{entry.name}", aside)
            io.move(aside, f"{intent.directory}/{entry.name}")
    journal.write_mark(intent, "restored", Mark(at=now_seconds, left=_list_left(io, switch.folder)))


def check_switch_restorable(io: FileIO, intent: SwapIntent, *, catalog: LocationCatalog | None) -> None:
    """Refuse to go back to a folder that is not what it was, or over files whose names are taken."""
    switch = _switch(intent)
    at = _location(intent, catalog, command=f"restore {intent.run} {switch.table}")
    if at != switch.new_location:
        why = f"is at {at} by now; if a later run published it there, restore that one first"
        raise RefusedError(f"{switch.table} {switch.name} {why}; nothing was changed.")
    for file in (*intent.inputs, *switch.copies):
        if not _is(io.stat(f"{intent.directory}/{file.name}"), file):
            raise RefusedError(f"The original {intent.directory}/{file.name} is gone or changed; nothing was changed.")
    for entry in _strangers(io, switch.folder, _new_names(intent)):
        if entry.kind is not Kind.FILE:
            raise RefusedError(f"{switch.folder}/{entry.name} is no file and cannot come along; nothing was changed.")
        if any(entry.name == file.name for file in intent.inputs):
            raise RefusedError(f"{switch.folder}/{entry.name} has the name of an original; nothing was changed.")


def why_not_cleaned(intent: SwapIntent, catalog: LocationCatalog | None, *, new: bool = False) -> str | None:
    """Why the old folder, or the new one of a switch that was undone, must stay: nothing is deleted on doubt."""
    switch = _switch(intent)
    folder, location = (switch.folder, switch.new_location) if new else (intent.directory, switch.old_location)
    if catalog is None:
        return f"{folder}: give {switch.table} by its name and --metastore, to see where it is"
    is_there = _location(intent, catalog) == location
    return f"{folder} is where the metastore says the rows are" if is_there else None


def switched_folders(journal: Journal) -> dict[str, str]:
    """Folders that readers do not see any more, because a run published another one; with what to do about it."""
    if journal.io.stat(journal.layout.versions) is None:
        return {}
    found: dict[str, str] = {}
    for run in journal.list_runs():
        for intent in journal.read_intents(run) if journal.closed_at(run) is None else ():
            is_over = not journal.has_mark(intent, "done") or journal.has_mark(intent, "restored")
            if intent.switch is not None and not is_over:
                where = f"{intent.switch.new_location}; give {intent.switch.table} by its name, with --metastore"
                found[intent.directory] = f"run {run} published the partition at {where}"
    return found


def new_location(old: str, old_path: str, new_path: str) -> str:
    """Spell a new folder as its metastore spells the old one: with the same scheme and authority."""
    if not new_path.startswith("/"):  # a path of ours begins with our own word for the store: s3 for s3a
        return old.partition(":")[0] + new_path[new_path.index(":") :]
    end = len(old.rstrip("/")) - len(old_path)
    prefix = old.rstrip("/")[:end] if old.rstrip("/").endswith(old_path) else ""
    return f"{prefix or 'file:'}{new_path}"


def _switch(intent: SwapIntent) -> Switch:
    if intent.switch is None:
        raise TypeError(f"{intent} moves files and no location")
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
            copy_file(io, f"{intent.directory}/{file.name}", f"{switch.folder}/{file.name}")
    if io.stat(f"{intent.directory}/{SUCCESS}") is not None:
        copy_file(io, f"{intent.directory}/{SUCCESS}", f"{switch.folder}/{SUCCESS}")
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
    for entry in _strangers(io, intent.directory, _old_names(intent)):
        raise ConflictError(f"{intent.directory}/{entry.name} arrived meanwhile; nothing was changed.")


def _check_none_came_late(io: FileIO, intent: SwapIntent, catalog: LocationCatalog) -> None:
    """A file that came between the last look and the call would be seen by nobody: go back at once."""
    for entry in _strangers(io, intent.directory, _old_names(intent)):
        _set_back(io, intent, catalog)
        raise _TooLateError(f"{intent.directory}/{entry.name} arrived in the last moment; nothing was changed.")


def _set_back(io: FileIO, intent: SwapIntent, catalog: LocationCatalog | None) -> None:
    """Let the metastore point to the old folder again, with all that is in it by now."""
    switch = _switch(intent)
    late = _strangers(io, intent.directory, _old_names(intent))
    sizes = [*(file.size_bytes for file in (*intent.inputs, *switch.copies)), *(entry.size_bytes for entry in late)]
    numbers = {"numFiles": len(sizes), "totalSize": sum(sizes)}
    if catalog is not None:
        catalog.set_location(switch.table, switch.name, location=switch.old_location, numbers=numbers)


def _strangers(io: FileIO, folder: str, known: frozenset[str]) -> Iterator[Entry]:
    """What is visible in a folder and is not ours: files, and folders, which we do not carry over."""
    try:
        entries = list(io.list_dir(folder))
    except FileNotFoundError:
        return
    for entry in entries:
        is_visible = is_data(entry.name) if entry.kind is Kind.FILE else not is_hidden(entry.name)
        if is_visible and entry.name not in known:
            yield entry


def remove_empty_version(io: FileIO, intent: SwapIntent) -> None:
    """Remove the new folder, and those above it, as far as nothing is in them."""
    at = _switch(intent).folder
    for _ in range(intent.partition.count("/") + 3):  # up to the folder of all versions
        if io.stat(at) is None or not io.remove_empty_dir(at):
            return
        at = posixpath.dirname(at)


def _list_left(io: FileIO, folder: str) -> tuple[LeftFile, ...]:
    """Record all files of a folder, to know them again when they may go."""
    try:
        entries = sorted(io.list_dir(folder), key=lambda entry: entry.name)
    except FileNotFoundError:
        return ()
    files = (entry for entry in entries if entry.kind is Kind.FILE)
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
