"""The journal of swaps: small files, one per fact, each written once and atomically.

An intent must name exactly the folders that the layout gives its run and partition, or it counts as damaged: a user who
may write beside a table must not decide which files of others are moved or removed.

A swap of one partition is named ``<partition>~<number>`` in its run's folder. Its state is the set of these files:
``intent`` (what will be moved), then ``done`` or ``undone``; later ``restoring``, ``restored``, ``cleaned``, and
``emptied`` (the new folder of an undone relocation).
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packstone.errors import CommitUnknownError, ConflictError
from packstone.model.codec import (
    AbsolutePath,
    Count,
    Name,
    RelativePath,
    RunId,
    Seconds,
    damaged,
    dump_record,
    load_record,
)
from packstone.model.files import FileEntry, FileFormat
from packstone.model.unit import How, Verify
from packstone.rewrite.small_files.merge_unit import Written
from packstone.runs.folder import Ended, RunFolders, list_names
from packstone.storage.fileio import EntryKind
from packstone.tables.hive.layout import KEPT_SUFFIX, TableLayout, partition_id
from packstone.tables.hive.listing import SUMMARY_NAMES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packstone.storage.fileio import FileIO

_INTENT = ".intent.json"
_BACKUP_NOTE = ".packstone-backup.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFile:
    """One merged file: its staged path, its final name, and what was proved of it."""

    staged_path: AbsolutePath
    name: Name
    size_bytes: Count
    mtime_ns: int
    rows: Count
    fingerprint: str
    verified: Verify
    how: How
    header_lines: Count
    inputs: tuple[Name, ...]
    ordered: bool = False  # whether the fingerprint depends on the order of the rows
    copied_columns: tuple[Count, ...] = ()  # of a splice: the columns that the fingerprint covers by their pages
    file_format: str = ""  # empty in old records, from when there were two formats
    why: str = ""
    seconds: float = 0.0
    read_seconds_before: float = 0.0
    read_seconds_after: float = 0.0

    @property
    def merged_as(self) -> str:
        """The format whose kernel wrote the file, and can prove it again."""
        return self.file_format or (FileFormat.TEXT if self.how == How.CONCATENATE else FileFormat.PARQUET)

    @property
    def written(self) -> Written:
        """How it was written."""
        return Written(
            how=How(self.how), ordered=self.ordered, copied=self.copied_columns, header_lines=self.header_lines
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Relocation:
    """A partition that is published at a new location; its old folder is the backup."""

    table: str  # db.table
    name: str  # of the partition, as Hive spells it
    old_location: str  # both as the metastore spells them
    new_location: str
    folder: AbsolutePath  # the new location as a path
    copies: tuple[FileEntry, ...]  # files of the old folder that are carried over as they are


@dataclass(frozen=True, slots=True, kw_only=True)
class SwapIntent:
    """All that any later process needs to finish or undo a swap."""

    run: RunId
    number: Count
    partition: RelativePath
    directory: AbsolutePath
    backup_directory: AbsolutePath
    inputs: tuple[FileEntry, ...]
    outputs: tuple[OutputFile, ...]
    summaries: tuple[AbsolutePath, ...]
    keep_until: Seconds
    switch: Relocation | None = None

    def __post_init__(self) -> None:
        """Check that every input is in exactly one output, and that no output name occurs twice."""
        merged = [name for output in self.outputs for name in output.inputs]
        if sorted(merged) != sorted({file.name for file in self.inputs}) or len(merged) != len(self.inputs):
            raise ValueError("inputs: they differ from the inputs of its outputs")
        if len({output.name for output in self.outputs}) != len(self.outputs) or not self.outputs:
            raise ValueError("outputs: there is none, or two have the same name")

    @property
    def key(self) -> str:
        """The swap's name in its run's folder."""
        return f"{partition_id(self.partition)}~{self.number}"

    def place(self, file: FileEntry) -> str:
        """Return the path of an input while it is live."""
        return f"{self.directory}/{file.name}"

    def kept(self, file: FileEntry) -> str:
        """Return the path of an input while it is kept as an original."""
        return f"{self.backup_directory}/{file.name}{KEPT_SUFFIX}" if self.switch is None else self.place(file)

    def published(self, output: OutputFile) -> str:
        """Return the path of an output once it is live."""
        return f"{self.directory if self.switch is None else self.switch.folder}/{output.name}"

    def kept_summary(self, number: int) -> str:
        """Return the path of a summary file while it is kept."""
        name = self.summaries[number].rpartition("/")[2]
        return f"{self.backup_directory}/{name}.{number}{KEPT_SUFFIX}"

    def __str__(self) -> str:
        return f"{self.run} {self.key}: {len(self.inputs)} files -> {len(self.outputs)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupNote:
    """A note in a backup folder outside the state folder: it proves that somebody with write access made it ours."""

    run: RunId
    table: AbsolutePath


def make_backup(io: FileIO, layout: TableLayout, intent: SwapIntent) -> None:
    """Create the backup folder of a swap; a folder that the user chose gets a note that it is ours."""
    home = _backup_of_run(intent)
    _make_backup_folders(io, layout, intent)
    if home != layout.backup(intent.run) and io.stat(f"{home}/{_BACKUP_NOTE}") is None:
        io.replace(f"{home}/{_BACKUP_NOTE}", dump_record(BackupNote(run=intent.run, table=layout.root)))


def make_backup_again(io: FileIO, layout: TableLayout, intent: SwapIntent) -> None:
    """Create the backup folder of a recovered swap again, if it was empty and has been removed."""
    if io.stat(intent.backup_directory) is None and _backup_of_run(intent) != layout.backup(intent.run):
        raise CommitUnknownError(
            f"The backup folder {intent.backup_directory} of run {intent.run} is gone; nothing was changed. Create "
            "it, and run `packstone recover` again."
        )
    _make_backup_folders(io, layout, intent)


def _make_backup_folders(io: FileIO, layout: TableLayout, intent: SwapIntent) -> None:
    """Create the folders of a backup, each as private as the folder that its files come from."""
    home, root = _backup_of_run(intent), intent.directory.removesuffix(f"/{intent.partition}")
    names = intent.partition.split("/") if intent.partition else []
    for depth in range(len(names) + 1):
        below = "".join(f"/{name}" for name in names[:depth])
        source = next((path for path in (f"{root}{below}", layout.root) if io.stat(path) is not None), None)
        io.make_dirs(f"{home}{below}", like=None if source is None else io.read_permissions(source))


def remove_empty_backup(io: FileIO, intent: SwapIntent) -> None:
    """Remove the backup folder of a swap and those above it, up to that of its run, as far as they are empty."""
    at = intent.backup_directory
    if intent.switch is not None:  # a folder of the table itself, or of a version of it: those above it stay
        if intent.partition:
            io.remove_empty_dir(at)
        return
    for folder in (at, *_parents(at, up_to=_backup_of_run(intent))):
        if folder == _backup_of_run(intent) and {e.name for e in list_names(io, folder)} == {_BACKUP_NOTE}:
            io.remove(f"{folder}/{_BACKUP_NOTE}")
        if not io.remove_empty_dir(folder):
            return


def check_reachable(io: FileIO, layout: TableLayout, intent: SwapIntent) -> None:
    """CommitUnknownError if a folder of a swap has become a symbolic link: it would lead out of the table."""
    exchanged = find_exchanged(io, layout, intent)
    if exchanged is not None:
        raise CommitUnknownError(f"{exchanged}; nothing was changed there, and all files are kept.")


def find_exchanged(io: FileIO, layout: TableLayout, intent: SwapIntent, *, only: str = "") -> str | None:
    """Say which folder of a swap (or of the path ``only``) has become a link or a file; None if all are folders."""
    places = {intent.directory, intent.backup_directory, *(posixpath.dirname(o.staged_path) for o in intent.outputs)}
    if intent.switch is not None:
        places.add(intent.switch.folder)
    bases = (layout.root, layout.state, _backup_of_run(intent))
    for place in [only] if only else sorted(places):
        base = next((base for base in bases if f"{place}/".startswith(f"{base}/")), layout.root)
        for folder in (place, *_parents(place, up_to=base)):
            found = io.stat(folder)
            if folder != base and found is not None and found.kind is not EntryKind.DIRECTORY:
                return f"{folder} is a {found.kind} and not the folder that run {intent.run} worked on"
    return None


def check_not_exchanged(io: FileIO, layout: TableLayout, intent: SwapIntent) -> None:
    """ConflictError if a folder of a swap was replaced by a link; called before the first move and again after it."""
    exchanged = find_exchanged(io, layout, intent)
    if exchanged is not None:
        raise ConflictError(f"{exchanged}; nothing was changed.")


def _check_folders(io: FileIO, layout: TableLayout, intent: SwapIntent, *, is_settled: bool) -> None:
    """ValueError unless every folder that an intent names is one that the layout gives its run and partition.

    ``is_settled``: it was undone, restored or cleaned, so its backup and the note in it are gone and are not checked.
    """
    if not layout.is_folder_of(intent.directory, intent.partition):
        raise ValueError(f"{intent.directory} is not the folder of partition {intent.partition!r}")
    for output in intent.outputs:
        if not output.staged_path.startswith(f"{layout.staging(intent.run)}/"):
            raise ValueError(f"{output.staged_path} is not in the staging folder of run {intent.run}")
    for path in intent.summaries:
        folder, name = posixpath.split(path)
        if name not in SUMMARY_NAMES or folder not in {intent.directory, layout.root}:
            raise ValueError(f"{path} is not a summary file of the partition")
    if intent.switch is not None:
        if intent.backup_directory != intent.directory:
            raise ValueError("the backup of a partition with a new location is not its old folder")
        if intent.switch.folder != layout.version(intent.run, intent.partition):
            raise ValueError(f"{intent.switch.folder} is not where run {intent.run} publishes")
    elif not is_settled and _backup_of_run(intent) != layout.backup(intent.run):
        _check_backup_elsewhere(io, layout, intent)


def _check_backup_elsewhere(io: FileIO, layout: TableLayout, intent: SwapIntent) -> None:
    """ValueError unless a backup that the user chose ends like ours and holds the note of a run of this table."""
    home = _backup_of_run(intent)
    end = f"/{posixpath.basename(layout.root)}/{intent.run}"
    note = f"{home}/{_BACKUP_NOTE}"
    if not home.endswith(end) or f"{home}/{intent.partition}".rstrip("/") != intent.backup_directory:
        raise ValueError(f"{intent.backup_directory} is not a backup folder of run {intent.run}")
    known = load_record(BackupNote, io.read_bytes(note), path=note) if io.stat(note) is not None else None
    if known != BackupNote(run=intent.run, table=layout.root):
        raise ValueError(f"{home} does not say that it is the backup of run {intent.run}")


def _backup_of_run(intent: SwapIntent) -> str:
    return intent.backup_directory.removesuffix(f"/{intent.partition}") if intent.partition else intent.backup_directory


def _parents(path: str, *, up_to: str) -> Iterator[str]:
    """Yield the folders above a path, the nearest first, up to and including the given one."""
    while path != up_to and path.startswith(up_to):
        path = posixpath.dirname(path)
        yield path


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftFile:
    """A file of a folder to which the metastore no longer points."""

    name: Name
    size_bytes: Count
    mtime_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One fact about a swap, with its time."""

    at: Seconds
    swap_ms: float = 0.0
    why: str = ""
    left: tuple[LeftFile, ...] = ()  # in the new folder of an undone relocation: readers may still use it


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """The journal of one table."""

    io: FileIO
    layout: TableLayout

    def write_intent(self, intent: SwapIntent) -> None:
        """Record what will be moved, before anything is."""
        self.io.write_new(self._path(intent, "intent"), dump_record(intent))

    def write_mark(self, intent: SwapIntent, name: str, mark: Mark) -> None:
        """Record a fact; a fact that is already recorded stays as it is."""
        try:
            self.io.write_new(self._path(intent, name), dump_record(mark))
        except FileExistsError:
            return

    def read_mark(self, intent: SwapIntent, name: str) -> Mark | None:
        """Read a fact; None if it was not recorded."""
        path = self._path(intent, name)
        try:
            return load_record(Mark, self.io.read_bytes(path), path=path)
        except FileNotFoundError:
            return None

    def has_mark(self, intent: SwapIntent, *names: str) -> bool:
        """Whether one of these facts was recorded."""
        return any(self.io.stat(self._path(intent, name)) is not None for name in names)

    @property
    def runs(self) -> RunFolders:
        """The folders of all runs."""
        return RunFolders(io=self.io, state=self.layout.state)

    def list_runs(self) -> list[str]:
        """List the runs that left a folder, oldest first (a run's id begins with its time)."""
        return self.runs.list_runs()

    def closed_at(self, run: str) -> float | None:
        """Return when a run was closed, by the file system's clock; None if something may be left to do for it."""
        found = self.io.stat(self._closed_path(run))
        return None if found is None else found.mtime_ns / 1e9

    def close_run(self, run: str) -> None:
        """Record that nothing is left to do for a run; its records are kept for reference only."""
        self.io.replace(self._closed_path(run), dump_record(Ended(run=run)))

    def _closed_path(self, run: str) -> str:
        return f"{self.layout.run(run)}/closed.json"

    def read_intents(self, run: str, *, partition: str | None = None) -> Iterator[SwapIntent]:
        """Yield the swaps of a run, or of one partition of it, one at a time, in the order of their names."""
        folder = self.layout.run(run)
        begin = "" if partition is None else f"{partition_id(partition)}~"
        names = (entry.name for entry in list_names(self.io, folder))
        for name in sorted(name for name in names if name.endswith(_INTENT) and name.startswith(begin)):
            yield self._read_intent(run, f"{folder}/{name}")

    def _read_intent(self, run: str, path: str) -> SwapIntent:
        intent = load_record(SwapIntent, self.io.read_bytes(path), path=path)
        if (intent.run, f"{intent.key}{_INTENT}") != (run, posixpath.basename(path)):
            raise damaged(path, f"it is the record of {intent.key} of run {intent.run}")
        try:
            is_settled = self.has_mark(intent, "undone", "restored", "cleaned")
            _check_folders(self.io, self.layout, intent, is_settled=is_settled)
        except ValueError as error:
            raise damaged(path, error) from error
        return intent

    def _path(self, intent: SwapIntent, name: str) -> str:
        return f"{self.layout.run(intent.run)}/{intent.key}.{name}.json"
