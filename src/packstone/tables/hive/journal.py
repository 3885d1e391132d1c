"""The journal of swaps: small files, one per fact, each written once and whole.

The folders that an intent names are those that the layout gives its run and partition, or the intent is damaged: who
may write beside a table must not decide which files of others are moved or removed.

A swap of one partition is known as ``<partition>~<number>`` in its run's folder. Its state is which of these
exist: ``intent`` (what will be moved), then ``done`` or ``undone``; later ``restoring``, ``restored``, ``cleaned``, and
``emptied`` (the new folder of a switch that was undone).
"""

from __future__ import annotations

import contextlib
import posixpath
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from packstone.errors import CommitUnknownError, ConflictError
from packstone.model.codec import damaged, dump_record, load_record
from packstone.model.file_format import FileFormat
from packstone.model.files import FileEntry
from packstone.model.record_fields import AbsolutePath, Count, Name, RelativePath, RunId, Seconds
from packstone.model.unit import How, Verify
from packstone.rewrite.kernels.merge_kernel import Written
from packstone.runs.liveness import ProcessIdentity
from packstone.storage.fileio import Kind
from packstone.tables.hive.layout import KEPT_SUFFIX, TableLayout, partition_id
from packstone.tables.hive.listing import SUMMARY_NAMES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packstone.storage.fileio import Entry, FileIO

_INTENT = ".intent.json"
_BACKUP_NOTE = ".packstone-backup.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """What a run is, for those who find its folder later."""

    run: RunId
    command: str
    table: AbsolutePath
    process: ProcessIdentity
    started_at: str
    restores: RunId | None = None  # the run that this one undoes: how ``recover`` finds it, for it ended long ago
    fenced: bool = False  # somebody took the run for dead and mends it; if it lives after all, it must stop


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFile:
    """One merged file: where it waits, where it goes, and what was proved of it."""

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
    ordered: bool = False  # whether the fingerprint is of the rows in their order
    copied_columns: tuple[Count, ...] = ()  # of a splice: those that the fingerprint knows by their pages
    file_format: str = ""  # empty in records of when there were two formats
    why: str = ""
    seconds: float = 0.0
    read_seconds_before: float = 0.0
    read_seconds_after: float = 0.0

    @property
    def merged_as(self) -> str:
        """The format whose kernel made the file, and can prove it again."""
        return self.file_format or (FileFormat.TEXT if self.how == How.CONCATENATE else FileFormat.PARQUET)

    @property
    def written(self) -> Written:
        """In which way it was made."""
        return Written(
            how=How(self.how), ordered=self.ordered, copied=self.copied_columns, header_lines=self.header_lines
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """A partition that gets a new location in place of new files in the old one; its old folder is the backup."""

    table: str  # db.table
    name: str  # of the partition, as Hive spells it
    old_location: str  # both as the metastore spells them
    new_location: str
    folder: AbsolutePath  # the new location as a path
    copies: tuple[FileEntry, ...]  # files of the old folder that are carried over as they are


@dataclass(frozen=True, slots=True, kw_only=True)
class SwapIntent:
    """All that is needed to finish or to undo a swap, by anybody, later."""

    run: RunId
    number: Count
    partition: RelativePath
    directory: AbsolutePath
    backup_directory: AbsolutePath
    inputs: tuple[FileEntry, ...]
    outputs: tuple[OutputFile, ...]
    summaries: tuple[AbsolutePath, ...]
    keep_until: Seconds
    switch: Switch | None = None

    def __post_init__(self) -> None:
        """Every input is in exactly one output, and no name is there twice."""
        merged = [name for output in self.outputs for name in output.inputs]
        if sorted(merged) != sorted({file.name for file in self.inputs}) or len(merged) != len(self.inputs):
            raise ValueError("inputs: they are not those of its outputs")
        if len({output.name for output in self.outputs}) != len(self.outputs) or not self.outputs:
            raise ValueError("outputs: there is none, or two have one name")

    @property
    def key(self) -> str:
        """The swap's name in its run's folder."""
        return f"{partition_id(self.partition)}~{self.number}"

    def place(self, file: FileEntry) -> str:
        """Where an input stands while it is live."""
        return f"{self.directory}/{file.name}"

    def kept(self, file: FileEntry) -> str:
        """Where an input is kept afterwards."""
        return f"{self.backup_directory}/{file.name}{KEPT_SUFFIX}" if self.switch is None else self.place(file)

    def published(self, output: OutputFile) -> str:
        """Where an output stands once it is live."""
        return f"{self.directory if self.switch is None else self.switch.folder}/{output.name}"

    def kept_summary(self, number: int) -> str:
        """Where a summary file is kept afterwards."""
        name = self.summaries[number].rpartition("/")[2]
        return f"{self.backup_directory}/{name}.{number}{KEPT_SUFFIX}"

    def __str__(self) -> str:
        return f"{self.run} {self.key}: {len(self.inputs)} files -> {len(self.outputs)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupNote:
    """Left in a backup folder outside the state folder: only whoever may write there can make it a backup of ours."""

    run: RunId
    table: AbsolutePath


def make_backup(io: FileIO, layout: TableLayout, intent: SwapIntent) -> None:
    """Make the backup folder of a swap; one that a user chose gets a note that it is ours."""
    home = _backup_of_run(intent)
    _make_backup_folders(io, layout, intent)
    if home != layout.backup(intent.run) and io.stat(f"{home}/{_BACKUP_NOTE}") is None:
        io.replace(f"{home}/{_BACKUP_NOTE}", dump_record(BackupNote(run=intent.run, table=layout.root)))


def make_backup_again(io: FileIO, layout: TableLayout, intent: SwapIntent) -> None:
    """Make the backup folder of a swap that is recovered, if it was empty and somebody removed it."""
    if io.stat(intent.backup_directory) is None and _backup_of_run(intent) != layout.backup(intent.run):
        raise CommitUnknownError(
            f"The backup folder {intent.backup_directory} of run {intent.run} is gone; nothing was changed. Make it "
            "again, and run `packstone recover` once more."
        )
    _make_backup_folders(io, layout, intent)


def _make_backup_folders(io: FileIO, layout: TableLayout, intent: SwapIntent) -> None:
    """Each folder of a backup is as private as the one that its files come from, and so are those above it."""
    home, root = _backup_of_run(intent), intent.directory.removesuffix(f"/{intent.partition}")
    names = intent.partition.split("/") if intent.partition else []
    for depth in range(len(names) + 1):
        below = "".join(f"/{name}" for name in names[:depth])
        source = next((path for path in (f"{root}{below}", layout.root) if io.stat(path) is not None), None)
        io.make_dirs(f"{home}{below}", like=None if source is None else io.read_permissions(source))


def remove_empty_backup(io: FileIO, intent: SwapIntent) -> None:
    """Remove the backup folder of a swap, up to that of its run, as far as nothing is in it."""
    at = intent.backup_directory
    if intent.switch is not None:  # a folder of the table itself, or of a version of it: what is above it stays
        if intent.partition:
            io.remove_empty_dir(at)
        return
    for folder in (at, *_parents(at, up_to=_backup_of_run(intent))):
        if folder == _backup_of_run(intent) and {e.name for e in _entries(io, folder)} == {_BACKUP_NOTE}:
            io.remove(f"{folder}/{_BACKUP_NOTE}")
        if not io.remove_empty_dir(folder):
            return


def check_reachable(io: FileIO, layout: TableLayout, intent: SwapIntent) -> None:
    """CommitUnknownError if a folder of a swap is a symbolic link by now: it would lead out of the table."""
    exchanged = find_exchanged(io, layout, intent)
    if exchanged is not None:
        raise CommitUnknownError(f"{exchanged}; nothing was changed there, and all files are kept.")


def find_exchanged(io: FileIO, layout: TableLayout, intent: SwapIntent, *, only: str = "") -> str | None:
    """Say which folder of a swap (or on the way to ``only``) is a link or a file by now; None if all are folders."""
    places = {intent.directory, intent.backup_directory, *(posixpath.dirname(o.staged_path) for o in intent.outputs)}
    if intent.switch is not None:
        places.add(intent.switch.folder)
    bases = (layout.root, layout.state, _backup_of_run(intent))
    for place in [only] if only else sorted(places):
        base = next((base for base in bases if f"{place}/".startswith(f"{base}/")), layout.root)
        for folder in (place, *_parents(place, up_to=base)):
            found = io.stat(folder)
            if folder != base and found is not None and found.kind is not Kind.DIRECTORY:
                return f"{folder} is a {found.kind} and not the folder that run {intent.run} worked on"
    return None


def check_not_exchanged(io: FileIO, layout: TableLayout, intent: SwapIntent) -> None:
    """ConflictError if a folder of a swap was exchanged for a link: asked before the first move, and after it again."""
    exchanged = find_exchanged(io, layout, intent)
    if exchanged is not None:
        raise ConflictError(f"{exchanged}; nothing was changed.")


def _check_folders(io: FileIO, layout: TableLayout, intent: SwapIntent, *, is_settled: bool) -> None:
    """ValueError unless every folder that an intent names is one that the layout gives its run and partition.

    ``is_settled``: it was undone, restored or cleaned, and its backup is gone with all that could be believed of it.
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
            raise ValueError("the old folder of a new location is its own backup")
        if intent.switch.folder != layout.version(intent.run, intent.partition):
            raise ValueError(f"{intent.switch.folder} is not where run {intent.run} publishes")
    elif not is_settled and _backup_of_run(intent) != layout.backup(intent.run):
        _check_backup_elsewhere(io, layout, intent)


def _check_backup_elsewhere(io: FileIO, layout: TableLayout, intent: SwapIntent) -> None:
    """A backup that a user chose ends like ours, and holds the note that only a run of this table leaves there."""
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
    """The folders above a path, the nearest first, and last the one given."""
    while path != up_to and path.startswith(up_to):
        path = posixpath.dirname(path)
        yield path


def _entries(io: FileIO, folder: str) -> tuple[Entry, ...]:
    try:
        return tuple(io.list_dir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A run is over; that the file is there says it."""

    run: RunId


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftFile:
    """A file of a folder that nobody is sent to any more."""

    name: Name
    size_bytes: Count
    mtime_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One fact about a swap, with when it became so."""

    at: Seconds
    swap_ms: float = 0.0
    why: str = ""
    left: tuple[LeftFile, ...] = ()  # in the new folder of a switch that was undone: readers may be in the middle of it


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """The journal of one table."""

    io: FileIO
    layout: TableLayout

    def write_intent(self, intent: SwapIntent) -> None:
        """Write down what will be moved, before anything is."""
        self.io.write_new(self._path(intent, "intent"), dump_record(intent))

    def write_mark(self, intent: SwapIntent, name: str, mark: Mark) -> None:
        """Write down a fact; the same fact twice is fine."""
        try:
            self.io.write_new(self._path(intent, name), dump_record(mark))
        except FileExistsError:
            return

    def read_mark(self, intent: SwapIntent, name: str) -> Mark | None:
        """Read when a fact became so; None if it did not."""
        path = self._path(intent, name)
        try:
            return load_record(Mark, self.io.read_bytes(path), path=path)
        except FileNotFoundError:
            return None

    def has_mark(self, intent: SwapIntent, *names: str) -> bool:
        """Whether one of these facts was written."""
        return any(self.io.stat(self._path(intent, name)) is not None for name in names)

    def list_runs(self) -> list[str]:
        """Name the runs that left a folder, oldest first (a run's id begins with its time)."""
        return sorted(entry.name for entry in _entries(self.io, self.layout.runs))

    def closed_at(self, run: str) -> float | None:
        """When nothing was left to do for a run, by the file system's clock; None if something may be."""
        found = self.io.stat(self._closed_path(run))
        return None if found is None else found.mtime_ns / 1e9

    def close_run(self, run: str) -> None:
        """Note that nothing is left to do for a run: its records are kept for questions, and are read no more."""
        self.io.replace(self._closed_path(run), dump_record(Ended(run=run)))

    def _closed_path(self, run: str) -> str:
        return f"{self.layout.run(run)}/closed.json"

    def read_run_info(self, run: str) -> RunInfo | None:
        """Read what a run is; None if it was killed before it could say."""
        path = f"{self.layout.run(run)}/run.json"
        try:
            return load_record(RunInfo, self.io.read_bytes(path), path=path)
        except FileNotFoundError:
            return None

    def fence_run(self, run: str) -> None:
        """Tell a run that it was taken for dead; it looks after each intent, we look for intents after this."""
        info = self.read_run_info(run)
        if info is None or info.fenced:
            return
        with contextlib.suppress(FileNotFoundError):  # somebody else who recovers was quicker and ended it
            self.io.replace(f"{self.layout.run(run)}/run.json", dump_record(replace(info, fenced=True)))

    def read_intents(self, run: str, *, partition: str | None = None) -> Iterator[SwapIntent]:
        """Yield the swaps of a run, or of one partition of it, one at a time, in the order of their names."""
        folder = self.layout.run(run)
        begin = "" if partition is None else f"{partition_id(partition)}~"
        names = (entry.name for entry in _entries(self.io, folder))
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
