"""``clean`` by family: say what would go, ask, remove it, say what went."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packstone.cli import options
from packstone.cli.draw import draw_lines
from packstone.cli.output import many, show
from packstone.errors import InvalidInputError
from packstone.model.sizes import format_bytes, parse_duration

if TYPE_CHECKING:
    from packstone.service.maintenance import CleanReport
    from packstone.service.paimon_clean import ExpiryRequest, PaimonCleanReport
    from packstone.service.segment_clean import SegmentCleanReport

_EXPIRY = ("expire_snapshots", "retain_min", "retain_max", "older_than", "max_expired")
_SHOWN_PATHS = 10


def clean_hive(target: str, typed: dict[str, Any]) -> int:
    """Remove originals whose time is over."""
    check_no_expiry(typed, target, "a Hive directory")
    from packstone.cli.named_target import hive_table

    with hive_table(target, typed) as table:
        report = table.clean(dry_run=True)
        lines = [f"would remove {_originals(report)}"] if report.runs else ["Nothing to clean."]
        if report.runs and not typed["dry_run"]:
            if not options.confirm(f"Remove {_originals(report)}?", yes=typed["yes"]):
                return 0
            report = table.clean()
            lines = [f"removed {_originals(report)}"]
        elif not typed["dry_run"]:
            report = table.clean()
    lines += [f"left alone, it is not the file that was recorded: {path}" for path in report.changed]
    lines += [f"left alone: {why}" for why in report.damaged]
    lines += [f"left for the next time: {why}" for why in report.busy]
    lines += [f"{many(report.kept_runs, 'run')} still within the time to keep."] if report.kept_runs else []
    _show(report.to_json(), lines, typed)
    return 1 if report.damaged else 0


def clean_paimon(path: str, typed: dict[str, Any]) -> int:
    """Remove leftovers of dead runs; expire snapshots if asked to."""
    from packstone.service.paimon_table import PaimonTable

    request = _request(typed)
    cleaner = PaimonTable(path).cleaner(single_writer=typed["single_writer"])
    if not typed["dry_run"]:
        cleaner.check_allowed()
    report = cleaner.clean(dry_run=True, expiry=request)
    verb = "would remove"
    if report.files and not typed["dry_run"]:
        if not options.confirm(f"Remove {_what(report)}?", yes=typed["yes"]):
            return 0
        report = cleaner.clean(dry_run=False, expiry=request)
        verb = "removed"
    elif not typed["dry_run"]:
        report = cleaner.clean(dry_run=False, expiry=request)
    lines = [f"{verb} {_what(report)}"] if report.files else ["Nothing to clean."]
    lines += [f"  {one}" for one in report.leftovers.paths[:_SHOWN_PATHS]]
    lines += [f"left alone: {why}" for why in report.leftovers.kept]
    is_doubtful = report.expiry is not None and report.expiry.in_doubt
    if report.expiry is not None:
        lines.append(f"{'refused' if is_doubtful else 'no more snapshots go'}: {report.expiry.why}")
        lines += [f"left alone: {one}" for one in report.expiry.left_alone]
    _show(report.to_json(), lines, typed)
    return 3 if is_doubtful else 0


def clean_segments(path: str, typed: dict[str, Any]) -> int:
    """Remove what dead attempts left, and segments and versions whose retention is over."""
    check_no_expiry(typed, path, "a segment table")
    from packstone.service.segment_table import SegmentTable

    table = SegmentTable(path)
    report = table.clean(dry_run=True)
    verb = "would remove"
    if not report.plan.is_empty and not typed["dry_run"]:
        if not options.confirm(f"Remove {_retired(report)}?", yes=typed["yes"]):
            return 0
        report = table.clean()
        verb = "removed"
    plan = report.plan
    lines = ["Nothing to clean."] if plan.is_empty else [f"{verb} {_retired(report)}"]
    if plan.trashed:
        size = format_bytes(sum(file.size_bytes for file in plan.trashed))
        lines.append(f"{many(len(plan.trashed), 'data file')} of dead attempts, {size}, to the trash first")
    if plan.waiting_segments:
        waiting = f"{many(plan.waiting_segments, 'compacted or deleted segment')}, {format_bytes(plan.waiting_bytes)}"
        lines.append(f"{waiting}: still within the time to keep")
    lines += [f"left alone: {why}" for why in plan.left_alone]
    if plan.unknown.count:
        size = format_bytes(plan.unknown.size_bytes)
        lines.append(f"left alone: {many(plan.unknown.count, 'file')}, {size}, that no record names")
        lines += [f"  {one}" for one in plan.unknown.paths[:_SHOWN_PATHS]]
    _show(report.to_json(), lines, typed)
    return 0


def _retired(report: SegmentCleanReport) -> str:
    plan = report.plan
    parts = (
        (len(plan.segments), "retired segment"),
        (len(plan.versions), "old version"),
        (len(plan.attempts), "dead attempt"),
        (len(plan.metadata), "unused list"),
        (len(plan.trash), "trash folder"),
    )
    named = ", ".join(many(count, noun) for count, noun in parts if count)
    return f"{named}: {many(report.files, 'file')}, {format_bytes(report.bytes)}"


def check_no_expiry(typed: dict[str, Any], path: str, what: str) -> None:
    """Refuse options that only Paimon tables have."""
    for name in (*_EXPIRY, "single_writer"):
        if typed[name]:
            raise InvalidInputError(f"--{name.replace('_', '-')} is for Paimon tables; {path} is {what}.")


def _request(typed: dict[str, Any]) -> ExpiryRequest | None:
    from packstone.service.paimon_clean import ExpiryRequest

    if not typed["expire_snapshots"]:
        given = [name for name in _EXPIRY if typed[name] is not None and name != "expire_snapshots"]
        if given:
            raise InvalidInputError(f"--{given[0].replace('_', '-')} needs --expire-snapshots.")
        return None
    older = typed["older_than"]
    return ExpiryRequest(
        retain_min=typed["retain_min"],
        retain_max=typed["retain_max"],
        older_than_seconds=parse_duration(older).total_seconds() if older else None,
        limit=typed["max_expired"],
    )


def _originals(report: CleanReport) -> str:
    return f"{many(report.files, 'original')} of {many(len(report.runs), 'run')}, {format_bytes(report.bytes)}"


def _what(report: PaimonCleanReport) -> str:
    parts = [many(len(report.leftovers.paths), "leftover")] if report.leftovers.paths else []
    if report.expiry is not None and report.expiry.expired:
        parts.append(many(len(report.expiry.expired), "snapshot"))
        parts.append(many(len(report.expiry.data_files), "data file"))
        parts.append(many(len(report.expiry.metadata_files), "metadata file"))
    return f"{', '.join(parts)}: {format_bytes(report.bytes)}"


def _show(plain: dict[str, Any], lines: list[str], typed: dict[str, Any]) -> None:
    show(plain, output_format=typed["output_format"], draw=lambda console: draw_lines(console, lines))
