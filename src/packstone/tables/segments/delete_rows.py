"""Delete the rows that a filter selects: find their positions, write delete files, commit.

    1. read the newest version, and scan the columns of the filter in the row groups that may match
    2. for each segment with such rows, write a delete file: its deleted rows so far, and these
    3. commit, if every one of these segments still has the segment file and the delete file that were read;
       otherwise remove the new delete files and begin again

The filter is SQL: rows for which it is true are deleted, those for which it is false or null stay. The version that was
read is the moment of the delete: rows that are loaded while it runs are kept. A data file is never changed, so the
positions that were found in a segment are right even if another delete was faster; after a merge, the merged segment
is read. So a delete never waits for other writers, and a merge of a segment whose rows were deleted meanwhile is lost
instead.

A delete that is killed changes nothing. `clean` removes delete files that no kept version names when they are a day
old, as it does with chunks: a commit may be about to name a newer one.
"""

from __future__ import annotations

import contextlib
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from packstone.errors import (
    CommitUnknownError,
    ConflictError,
    CorruptionError,
    InvalidInputError,
    UnavailableError,
    storage_sentence,
)
from packstone.query.filter.expression import Filter
from packstone.query.scan.blocklet_scan import find_positions
from packstone.query.scan.caches import process_caches
from packstone.query.scan.read_split import check_pushed
from packstone.query.scan.request import ScanOptions, unpack_filter
from packstone.rewrite.merge_tree.spec import unpack_schema
from packstone.runs.clock import system_clock
from packstone.tables.segments.damage import check_no_lost_load
from packstone.tables.segments.format.commit import check_can_commit, commit_edit
from packstone.tables.segments.format.delete_file import make_delete_file, read_deletes, write_delete_file
from packstone.tables.segments.format.edits import Change, RowsChangedError, SegmentDelete, delete_rows
from packstone.tables.segments.format.layout import data_file_path, delete_file_path
from packstone.tables.segments.format.segment_file import read_segment
from packstone.tables.segments.format.status_files import read_latest
from packstone.tables.segments.scan import plan_segment_scan
from packstone.tables.segments.show import DeletedFromSegment, DeleteRowsReport

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from packstone.query.filter.expression import Expression
    from packstone.query.scan.plan import ScanFile
    from packstone.rewrite.formats.roaring import Positions
    from packstone.storage.fileio import FileIO
    from packstone.tables.segments.format.delete_file import DeleteFile
    from packstone.tables.segments.format.status import StatusEntry, TableStatus

_MOST_TRIES: Final = 100  # each of which lost the race against a merge or a delete of the same segment
_MOST_AGE_MS: Final = 3_600_000  # of delete files at the commit; `clean` may remove them after a day
_MOST_THREADS: Final = 8


def delete_matching(
    io: FileIO, table: str, where: str | Expression, *, zone: str = "UTC", dry_run: bool = False
) -> DeleteRowsReport:
    """Delete the rows for which a filter is true; a dry run finds them and writes nothing."""
    _check_filter(where)
    finder = _Finder(io, table, where, zone)
    try:
        if dry_run:
            return finder.report(read_latest(io, table), dry_run=True)
        check_can_commit(io, table)
        check_no_lost_load(io, table)
        for _ in range(_MOST_TRIES):
            report = finder.report(read_latest(io, table), dry_run=False)
            if not report.segments:
                return report
            with contextlib.suppress(RowsChangedError):
                return replace(report, version=_commit(io, table, finder.drafts))
    except FileNotFoundError as error:  # of the newest version, which `clean` leaves alone
        name = str(error.filename or error)
        raise CorruptionError(
            f"{name} is missing, but {table} needs it; restore it from a copy. Nothing was deleted.", file=name
        ) from error
    except OSError as error:
        raise UnavailableError(f"{storage_sentence(error)} Nothing was deleted.", table=table) from error
    raise ConflictError(
        f"{table}: the segments changed in each of {_MOST_TRIES} tries; nothing was deleted. Run it again when other "
        "writers are less busy."
    )


def _check_filter(where: object) -> None:
    """Raise InvalidInputError unless a filter is given: a scan without one reads all rows, and all would be deleted."""
    if isinstance(where, str) and not where.strip():
        raise InvalidInputError("The filter is empty; to delete all rows, write `true`.")
    if not isinstance(where, str | Filter):
        raise InvalidInputError(
            f"A {type(where).__name__} is not a filter, so nothing was deleted; give SQL text, or packstone.col('id') "
            "== 5 and the like. To delete all rows, write 'true'."
        )


def _commit(io: FileIO, table: str, drafts: Sequence[_Draft]) -> int:
    """Write delete files and commit them; return the version. If nothing was committed, the files are removed."""
    clock = system_clock()
    token, began_ms = clock.new_id(), clock.now_ms()
    deletes: list[SegmentDelete] = []
    files: list[DeleteFile] = []
    for number, draft in enumerate(drafts):
        content = draft.delete_file(f"{draft.entry.id}_{token}-{number}.json")
        deletes.append(
            SegmentDelete(
                key=draft.entry.key,
                content=draft.entry.content,
                delete_file=content.name,
                deleted_rows=content.rows,
            )
        )
        if content.rows < draft.entry.rows:  # a segment without rows is retired
            files.append(content)

    def edit(status: TableStatus) -> Change:
        if clock.now_ms() - began_ms > _MOST_AGE_MS:  # we were suspended
            raise RowsChangedError("The delete files are too old to be committed.")
        return delete_rows(status, deletes, now_ms=clock.now_ms())

    try:
        for content in files:
            write_delete_file(io, table, content)
        return commit_edit(io, table, edit, clock=clock, operation="delete-rows").version
    except CommitUnknownError:
        raise
    except BaseException:
        for content in files:
            with contextlib.suppress(OSError):
                io.remove(delete_file_path(table, content.name))
        raise


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    """The deleted rows of one segment after the delete."""

    entry: StatusEntry
    segment: Any
    positions: Mapping[str, Positions]

    @property
    def rows(self) -> int:
        return sum(map(len, self.positions.values()))

    def delete_file(self, name: str) -> DeleteFile:
        return make_delete_file(self.segment, self.positions, name=name)


class _Finder:
    """Finds the rows of a filter; what was found in a segment is kept for the next try."""

    def __init__(self, io: FileIO, table: str, where: str | Expression, zone: str) -> None:  # noqa: PLR0917
        self._io, self._table, self._where = io, table, where
        self._options = ScanOptions(zone=zone)
        self._found: dict[str, Mapping[str, Positions]] = {}  # by segment file: positions by data file
        self._text = ""
        self.drafts: tuple[_Draft, ...] = ()

    def report(self, status: TableStatus, *, dry_run: bool) -> DeleteRowsReport:
        """Find the rows to delete from a version, for ``drafts`` and for the report."""
        self._scan(status)
        drafts = (self._draft(entry) for entry in status.live if self._found.get(entry.segment_file or ""))
        self.drafts = tuple(draft for draft in drafts if draft.rows > draft.entry.deleted_rows)
        return DeleteRowsReport(
            table=self._table,
            version=status.version,
            dry_run=dry_run,
            filter=self._text,
            segments=tuple(
                DeletedFromSegment(
                    id=draft.entry.id,
                    rows=draft.rows - draft.entry.deleted_rows,
                    deleted_rows=draft.rows,
                    rows_before=draft.entry.live_rows,
                )
                for draft in self.drafts
            ),
            live_rows=sum(entry.live_rows for entry in status.live),
        )

    def _draft(self, entry: StatusEntry) -> _Draft:
        segment = read_segment(self._io, self._table, entry)
        before = read_deletes(self._io, self._table, entry, segment=segment)
        found = self._found[segment.name]
        empty: Positions = np.empty(0, dtype=np.int64)
        positions = {
            path: np.union1d(before.get(path, empty), found.get(path, empty)) for path in before.keys() | found.keys()
        }
        return _Draft(entry=entry, segment=segment, positions=positions)

    def _scan(self, status: TableStatus) -> None:
        """Find the rows in the segments that no earlier try has read, deleted ones included."""
        new = tuple(
            replace(entry, delete_file=None, deleted_rows=0)
            for entry in status.live
            if entry.segment_file is not None and entry.segment_file not in self._found
        )
        caches = process_caches()
        plan = plan_segment_scan(
            self._io,
            self._table,
            status=replace(status, entries=new, running=()),
            columns=(),
            where=self._where,
            caches=caches,
            options=self._options,
        )
        check_pushed(plan)
        self._text = plan.report.filter or "true"

        def find(work: tuple[ScanFile, Expression | None, pa.Schema]) -> tuple[str, Positions]:
            file, expression, schema = work
            at = find_positions(self._io, file, filter_schema=schema, expression=expression, caches=caches)
            return file.path, at

        works = [
            (
                file,
                unpack_filter(split.filter) if split.filter else None,
                unpack_schema(split.filter_schema) if split.filter_schema else unpack_schema(split.schema),
            )
            for split in plan.splits
            for file in split.files
        ]
        parts: dict[str, list[Positions]] = {}
        with ThreadPoolExecutor(min(_MOST_THREADS, os.cpu_count() or 1)) as threads:
            for path, at in threads.map(find, works):
                parts.setdefault(path, []).append(at)
        by_path = {path: np.sort(np.concatenate(some)) for path, some in parts.items()}
        for entry in new:
            segment = read_segment(self._io, self._table, entry) if by_path else None
            files = segment.files if segment is not None else ()
            paths = {file.path: by_path.get(data_file_path(self._table, file.path)) for file in files}
            self._found[entry.segment_file or ""] = {
                path: at for path, at in paths.items() if at is not None and len(at)
            }
