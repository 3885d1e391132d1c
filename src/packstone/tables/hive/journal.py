"""The journal of swaps: small files, one per fact, each written once and whole.

A swap of one partition is known as ``<partition>~<number>`` in its run's folder. Its state is which of these
exist: ``intent`` (what will be moved), then ``done`` or ``undone``; later ``restoring``, ``restored``, ``cleaned``, and
``emptied`` (the new folder of a switch that was undone).
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from packstone.model.codec import dump_record, load_record
from packstone.model.file_format import FileFormat
from packstone.model.files import FileEntry
from packstone.model.unit import How
from packstone.rewrite.kernels.merge_kernel import Written
from packstone.storage.ownership import ProcessIdentity
from packstone.tables.hive.layout import KEPT_SUFFIX, TableLayout, partition_id

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packstone.storage.fileio import FileIO

_INTENT = ".intent.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """What a run is, for those who find its folder later."""

    run: str
    command: str
    table: str
    process: ProcessIdentity
    started_at: str
    restores: str | None = None  # the run that this one undoes; it ended long ago, so this is how ``recover`` finds it
    fenced: bool = False  # somebody took the run for dead and mends it; if it lives after all, it must stop


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFile:
    """One merged file: where it waits, where it goes, and what was proved of it."""

    staged_path: str
    name: str
    size_bytes: int
    mtime_ns: int
    rows: int
    fingerprint: str
    verified: str
    how: str
    header_lines: int
    inputs: tuple[str, ...]
    ordered: bool = False  # whether the fingerprint is of the rows in their order
    copied_columns: tuple[int, ...] = ()  # of a splice: those that the fingerprint knows by their pages
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
    folder: str  # the new location as a path
    copies: tuple[FileEntry, ...]  # files of the old folder that are carried over as they are


@dataclass(frozen=True, slots=True, kw_only=True)
class SwapIntent:
    """All that is needed to finish or to undo a swap, by anybody, later."""

    run: str
    number: int
    partition: str
    directory: str
    backup_directory: str
    inputs: tuple[FileEntry, ...]
    outputs: tuple[OutputFile, ...]
    summaries: tuple[str, ...]
    keep_until: float
    switch: Switch | None = None

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


def remove_empty_backup(io: FileIO, intent: SwapIntent) -> None:
    """Remove the backup folder of a swap, up to that of its run, as far as nothing is in it."""
    at = intent.backup_directory
    if intent.switch is not None:  # a folder of the table itself, or of a version of it: what is above it stays
        if intent.partition:
            io.remove_empty_dir(at)
        return
    for _ in range(intent.partition.count("/") + 2 if intent.partition else 1):
        if not io.remove_empty_dir(at):
            return
        at = at.rpartition("/")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftFile:
    """A file of a folder that nobody is sent to any more."""

    name: str
    size_bytes: int
    mtime_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One fact about a swap, with when it became so."""

    at: float
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
        try:
            return sorted(entry.name for entry in self.io.list_dir(self.layout.runs))
        except FileNotFoundError:
            return []

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

    def read_intents(self, run: str) -> Iterator[SwapIntent]:
        """Yield the swaps of a run, one at a time, in the order of their names."""
        folder = self.layout.run(run)
        try:
            names = sorted(entry.name for entry in self.io.list_dir(folder) if entry.name.endswith(_INTENT))
        except FileNotFoundError:
            return
        for name in names:
            path = f"{folder}/{name}"
            yield load_record(SwapIntent, self.io.read_bytes(path), path=path)

    def _path(self, intent: SwapIntent, name: str) -> str:
        return f"{self.layout.run(intent.run)}/{intent.key}.{name}.json"
