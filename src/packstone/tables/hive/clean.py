"""Remove originals whose time is over: by recorded name, size and time, never by a wildcard (hazard 41)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packstone.tables.hive.journal import Mark, SwapIntent, has_mark, list_runs, read_intents, write_mark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packstone.storage.fileio import FileIO
    from packstone.tables.hive.layout import TableLayout


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaning:
    """The originals of one swap that may go, and those that differ from the record and stay."""

    intent: SwapIntent
    paths: tuple[str, ...]
    size_bytes: int
    changed: tuple[str, ...]


def plan_clean(io: FileIO, layout: TableLayout, *, now_seconds: float, run: str | None = None) -> Iterator[Cleaning]:
    """Yield, swap by swap, what is kept beyond its time."""
    for at in list_runs(io, layout):
        if run is not None and at != run:
            continue
        for intent in read_intents(io, layout, at):
            if now_seconds < intent.keep_until or not has_mark(io, layout, intent, "done"):
                continue
            # A restore that began must be finished from these very files.
            if any(has_mark(io, layout, intent, mark) for mark in ("restoring", "restored", "cleaned")):
                continue
            yield _look(io, intent)


def clean_swap(io: FileIO, layout: TableLayout, cleaning: Cleaning, *, now_seconds: float) -> None:
    """Remove the files of one swap; running it again after a crash removes the rest.

    The mark comes first: from then on ``restore`` refuses, so nobody starts to undo a run that is half gone.
    """
    intent = cleaning.intent
    write_mark(io, layout, intent, "cleaning", Mark(at=now_seconds))
    for path in cleaning.paths:
        io.remove(path)
    io.remove_empty_dir(intent.backup_directory)
    write_mark(io, layout, intent, "cleaned", Mark(at=now_seconds))


def _look(io: FileIO, intent: SwapIntent) -> Cleaning:
    paths: list[str] = []
    changed: list[str] = []
    size_bytes = 0
    for file in intent.inputs:
        kept = intent.kept(file)
        found = io.stat(kept)
        if found is None:
            continue
        if (found.size_bytes, found.mtime_ns) == (file.size_bytes, file.mtime_ns):
            paths.append(kept)
            size_bytes += found.size_bytes
        else:
            changed.append(kept)
    return Cleaning(intent=intent, paths=tuple(paths), size_bytes=size_bytes, changed=tuple(changed))
