"""Give space back: what dead loads and compactions left, segments, versions and trash whose time is over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packstone.errors import UnavailableError, storage_sentence
from packstone.runs.clock import now_ms, system_clock
from packstone.runs.interrupts import finish_first
from packstone.tables.segments.clean import CleanPlan, plan_clean
from packstone.tables.segments.missing_files import check_no_lost_load
from packstone.tables.segments.remove_expired import remove_expired

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO

FAMILY = "segments"


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentCleanReport:
    """What was removed, or would be."""

    table: str
    dry_run: bool
    plan: CleanPlan

    @property
    def files(self) -> int:
        """How many files leave their place: removed for good, or moved to the trash."""
        return self.plan.files

    @property
    def bytes(self) -> int:
        """How many bytes come back now."""
        return self.plan.size_bytes

    def to_json(self) -> dict[str, Any]:
        """The documented keys."""
        plan = self.plan
        done = "planned" if self.dry_run else "cleaned"
        return {
            "format_version": 1,
            "table": self.table,
            "family": FAMILY,
            "status": "nothing-to-do" if plan.is_empty else done,
            "files": self.files,
            "bytes": self.bytes,
            "attempts": [
                {"attempt": one.attempt, "what": one.what, "files": len(one.files), "bytes": one.size_bytes}
                for one in plan.attempts
            ],
            "segments": [
                {"id": str(one.id), "files": len(one.files), "rows": one.rows, "bytes": one.size_bytes}
                for one in plan.segments
            ],
            "versions_removed": len(plan.versions),
            "first_version_kept": plan.versions.stop if plan.versions else None,
            "metadata_files": len(plan.metadata),
            "moved_to_trash_files": len(plan.trashed),
            "moved_to_trash_bytes": sum(file.size_bytes for file in plan.trashed),
            "trash_removed_bytes": sum(folder.size_bytes for folder in plan.trash),
            "trash_left_bytes": plan.trash_left_bytes + sum(file.size_bytes for file in plan.trashed),
            "waiting_segments": plan.waiting_segments,
            "waiting_bytes": plan.waiting_bytes,
            "left_alone": list(plan.left_alone),
            "unknown_files": list(plan.unknown.paths),
            "unknown_count": plan.unknown.count,
            "unknown_bytes": plan.unknown.size_bytes,
        }


def clean_segments(io: FileIO, table: str, *, dry_run: bool) -> SegmentCleanReport:
    """Look, and unless it is a dry run, remove; a dry run tells the same and changes nothing at all."""
    if not dry_run:
        check_no_lost_load(io, table)
    plan = plan_clean(io, table, now_ms=now_ms())
    if not dry_run:
        try:
            with finish_first():
                remove_expired(io, plan, clock=system_clock())
        except OSError as error:
            raise UnavailableError(f"{storage_sentence(error)} Run clean again: it removes what is left.") from error
    return SegmentCleanReport(table=table, dry_run=dry_run, plan=plan)
