"""Find what a run published, from its records: to verify it again, and to undo it.

A merge is identified by the segment that it made (id and run) and by the segment files that it read, whose names are
never reused. Ids alone are not enough: the id of an undone merge is used again by the next one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from packstone.errors import PackstoneError, RefusedError
from packstone.model.maintenance import ProvedUnit, RestorePlan, ToProve
from packstone.model.segment import SegmentId
from packstone.model.unit import Fingerprint, Verify
from packstone.runs.clock import now_ms, system_clock
from packstone.tables.segments.format.commit import commit_edit
from packstone.tables.segments.format.delete_file import positions_of, read_delete_file, read_deletes
from packstone.tables.segments.format.edits import Change, MadeMerge, undo_merges
from packstone.tables.segments.format.layout import data_file_path, delete_file_path
from packstone.tables.segments.format.segment_file import read_segment, read_segment_file
from packstone.tables.segments.format.status_files import read_history, read_latest, read_retired
from packstone.tables.segments.units import ordered_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packstone.rewrite.sorted_merge.spec import OrderedFile, WrittenBlockFile
    from packstone.runs.folder import PartRecord
    from packstone.storage.fileio import FileIO
    from packstone.tables.segments.format.status import StatusEntry, TableStatus
    from packstone.tables.segments.tasks import MergeUnit

    MergeRecord = PartRecord[MergeUnit, WrittenBlockFile]


def output_of(part: MergeRecord) -> SegmentId:
    """The segment that a recorded merge made."""
    return SegmentId.parse(part.outcomes[0].partition)


# ---- prove ----


def find_claims(io: FileIO, table: str, part: MergeRecord) -> Iterator[ToProve[MergeUnit, WrittenBlockFile]]:
    """Yield what can be proved about a merge whose segment is live: each piece, or the whole if it was sorted first."""
    label = f"{part.part} -> {output_of(part)}"
    outputs = [file.path for result in part.results for file in result.outputs]
    gone = next((path for path in outputs if io.stat(path) is None), None)
    if gone is not None:
        yield ToProve(label=label, proved=None, problem=f"{label}: {gone} is gone")
        return
    originals = _find_originals(io, table, part.units[0])
    if originals is not None and any(unit.is_sorted_first for unit in part.units):
        yield _whole_claim(part, originals, label=label)
        return
    for unit, result in part.proofs:
        yield ToProve(
            label=label,
            proved=ProvedUnit(unit=unit, outputs=result.outputs, has_inputs=originals is not None),
            rows=result.rows_out,
            fingerprint=result.fingerprint,
            is_counted=unit.spec.verify is Verify.COUNT,
        )


def _whole_claim(
    part: MergeRecord, originals: tuple[OrderedFile, ...], *, label: str
) -> ToProve[MergeUnit, WrittenBlockFile]:
    """Compare all pieces with all inputs: the sorted runs that the pieces were cut from were removed with the run."""
    first, results = part.units[0], [result for _, result in part.proofs]
    spec = replace(first.spec, sections=(), unsorted=originals, key_range=None)
    unit = replace(first, spec=spec, input_bytes=sum(file.size_bytes for file in originals))
    total = sum((Fingerprint.parse(result.fingerprint) for result in results), start=Fingerprint.zero())
    outputs = tuple(file for result in results for file in result.outputs)
    return ToProve(
        label=label,
        proved=ProvedUnit(unit=unit, outputs=outputs, has_inputs=True),
        rows=sum(result.rows_out for result in results),
        fingerprint=str(total),
        is_counted=first.spec.verify is Verify.COUNT,
    )


def _find_originals(io: FileIO, table: str, unit: MergeUnit) -> tuple[OrderedFile, ...] | None:
    """The data files that were merged, with the rows that were deleted then; None if a file is missing."""
    found: list[OrderedFile] = []
    try:
        deletes = {one.segment_file: one for one in (read_delete_file(io, table, name) for name in unit.deletes)}
        for name in unit.members:
            segment, deleted = read_segment_file(io, table, name), deletes.get(name)
            path = "" if deleted is None else delete_file_path(table, deleted.name)
            positions = {} if deleted is None else positions_of(deleted, segment, path=path)
            found += ordered_files(table, segment, positions)
    except (OSError, PackstoneError):
        return None
    return tuple(found) if all(io.stat(file.path) is not None for file in found) else None


# ---- undo ----


@dataclass(frozen=True, slots=True, kw_only=True)
class _Undo:
    """The merges of a run, the last one first, with their part names."""

    table: str
    run: str
    merges: tuple[MadeMerge, ...]
    parts: tuple[str, ...]

    def edit(self, io: FileIO, table: str, status: TableStatus) -> Change:
        """Return the change that undoes them on a status; RefusedError if one cannot be undone."""
        retired, history = read_retired(io, table, status), read_history(io, table, status)
        return undo_merges(status, self.merges, retired=retired, history=history, now_ms=now_ms())

    def report(self, before: TableStatus, change: Change) -> RestorePlan:
        """Return the change as readers see it."""
        was, now = ({entry.key: entry for entry in status.entries} for status in (before, change.status))
        back = [entry for key, entry in now.items() if key not in was]
        undone = {entry.key for entry in change.retired}
        return RestorePlan(
            table=self.table,
            run=self.run,
            parts=tuple(part for merge, part in zip(self.merges, self.parts, strict=True) if merge.key in undone),
            files_restored=sum(entry.files for entry in back),
            files_removed=sum(entry.files for key, entry in was.items() if key not in now),
            bytes_restored=sum(entry.data_bytes for entry in back),
            note="The merged segments stay readable in earlier versions until `clean` removes them.",
            detail=self,
        )


def plan_undo(io: FileIO, table: str, *, run: str, parts: Sequence[MergeRecord]) -> RestorePlan:
    """Return what undoing the merges of a run would change; RefusedError if they cannot be undone."""
    undo = _Undo(
        table=table,
        run=run,
        merges=tuple(
            MadeMerge(output=output_of(part), run=run, members=part.units[0].members) for part in reversed(parts)
        ),
        parts=tuple(part.part for part in reversed(parts)),
    )
    status = read_latest(io, table)
    change = undo.edit(io, table, status)
    live = {entry.key for entry in status.entries}
    for entry in change.status.entries:
        if entry.key not in live:
            _check_there(io, table, entry)
    return undo.report(status, change)


def _check_there(io: FileIO, table: str, entry: StatusEntry) -> None:
    """Refuse to make a segment live whose files are damaged or missing."""
    try:
        segment = read_segment(io, table, entry)
        read_deletes(io, table, entry, segment=segment)
        paths = [data_file_path(table, file.path) for file in segment.files]
        gone = next((path for path in paths if io.stat(path) is None), None)
        why = None if gone is None else f"{gone} is gone."
    except FileNotFoundError as error:
        why = f"{error.filename or entry.segment_file} is gone."
    except PackstoneError as error:
        why = error.message
    if why is not None:
        raise RefusedError(
            f"Segment {entry.id} cannot be made live again: {why} Nothing was changed.", segment=str(entry.id)
        )


def undo_planned(io: FileIO, table: str, plan: RestorePlan) -> RestorePlan:
    """Undo all merges of a plan in one commit, on the newest status even if it changed since the plan."""
    undo: _Undo = plan.detail
    done: list[RestorePlan] = []

    def edit(status: TableStatus) -> Change:
        change = undo.edit(io, table, status)
        done[:] = [undo.report(status, change)]  # if the commit is retried, the last try counts
        return change

    commit_edit(io, table, edit, clock=system_clock(), operation="restore")
    return done[0]
