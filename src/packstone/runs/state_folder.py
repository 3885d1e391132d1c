"""The state folder: where Packstone keeps its own files of a table, beside it and not in it.

DuckDB and Polars read hidden folders below a table, so the files for ``<parent>/orders`` are in
``<parent>/.packstone/orders``. Only if that is on another store (a rename would not work) or not writable, the state
folder is in the table's root.

It holds rows (staging, backups) and names, so it is never more open than the table: a user who may not enter the
table's folder may not enter this one. It has the table's ACL, or none, whatever it would inherit from its parent.

``<parent>/orders/.packstone/orders`` can therefore be the folder of two tables: of ``<parent>/orders`` itself, or of a
table ``<parent>/orders/orders``. The records in it say which.
"""

from __future__ import annotations

import contextlib
import posixpath
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from packstone.errors import RefusedError
from packstone.model.codec import load_record
from packstone.storage.fileio import PRIVATE, EntryKind
from packstone.storage.location import is_store_root

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packstone.storage.fileio import FileIO

_OWNER: Final = 0o700
STATE_FOLDER: Final = ".packstone"
DEATHS_FOLDER: Final = "deaths"  # notes about files that were being read when a process died
_OWN_FOLDERS: Final = frozenset({"runs", "staging", "backup", "owners", "versions", "unrecorded", DEATHS_FOLDER})


def find_state_folder(io: FileIO, root: str) -> str:
    """The path of the state folder of the table with this root."""
    parent, name = posixpath.split(root)
    if is_store_root(root):
        return f"{root.rstrip('/')}/{STATE_FOLDER}/root"
    inside = f"{root}/{STATE_FOLDER}/{name}"
    if io.store_id(parent) != io.store_id(root):
        return inside
    beside = f"{parent.rstrip('/')}/{STATE_FOLDER}/{name}"
    if io.stat(beside) is not None:
        return beside
    # The first run decides for all users: with two state folders, one partition could have two owners.
    is_inside = io.stat(inside) is not None and not is_of_namesake(io, root)
    return inside if is_inside or not io.may_write(parent) else beside


@dataclass(frozen=True, slots=True, kw_only=True)
class _RecordedRun:
    """The part of a run's record that names its table; the same in every family."""

    table: str


def is_of_namesake(io: FileIO, root: str) -> bool:
    """Whether the state folder in a table's root belongs to a table of the same name below it, and not to the table.

    It does if that table exists and every run recorded there names it. For a folder without recorded runs the answer
    does not matter.
    """
    name = posixpath.basename(root)
    namesake, runs = f"{root}/{name}", f"{root}/{STATE_FOLDER}/{name}/runs"
    return io.stat(namesake) is not None and all(table == namesake for table in _recorded_tables(io, runs))


def _recorded_tables(io: FileIO, runs: str) -> Iterator[str]:
    """Yield the table that each run names; a run that was killed before it wrote its record names none."""
    try:
        names = [entry.name for entry in io.list_dir(runs)]
    except FileNotFoundError:
        return
    for name in names:
        path = f"{runs}/{name}/run.json"
        try:
            yield load_record(_RecordedRun, io.read_bytes(path), path=path).table
        except FileNotFoundError:
            continue


def make_state_folder(io: FileIO, root: str, state: str) -> None:
    """Make the state folder, as private as the table; restrict an existing one that is more open, if permitted."""
    if not io.capabilities.has_folders or io.stat(root) is None:
        return
    _check_real_folders(io, state)
    table = io.read_permissions(root)
    io.make_dirs(posixpath.dirname(state))
    io.make_dirs(state, like=table)
    found = io.read_permissions(state)
    mode = found.mode & (table.mode | _OWNER)
    if (found.mode, found.attributes) != (mode, table.attributes):
        with contextlib.suppress(OSError):  # another user's folder: what we put into it has permissions of its own
            io.set_permissions(state, replace(found, mode=mode, attributes=table.attributes))


def _check_real_folders(io: FileIO, state: str) -> None:
    """Raise RefusedError for links in place of our own folders: originals would be moved to another place."""
    try:
        entries = sorted(io.list_dir(state), key=lambda entry: entry.name)
    except FileNotFoundError:
        return
    for entry in entries:
        if entry.name in _OWN_FOLDERS and entry.kind is not EntryKind.DIRECTORY:
            raise RefusedError(
                f"{state}/{entry.name} is a {entry.kind} and not a folder; nothing was changed. Put the folder itself "
                "there, with all its content.",
                path=f"{state}/{entry.name}",
            )


def make_scratch(io: FileIO, folder: str, *, root: str, state: str) -> None:
    """Make a folder for tasks that change nothing, in the state folder of a table or anywhere else."""
    if folder.startswith(f"{state}/"):
        make_state_folder(io, root, state)
        make_staging(io, state, folder)
    else:
        io.make_dirs(folder, like=PRIVATE)


def make_staging(io: FileIO, state: str, folder: str) -> None:
    """Make a folder for unpublished files that only its owner may enter, because it holds rows of any partition."""
    io.make_dirs(f"{state}/staging")
    io.make_dirs(folder, like=PRIVATE)
