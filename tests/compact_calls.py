"""Compactions and cleans of segment tables that tests kill or race; ``fork_server.py`` runs them in own processes."""

from packstone.pipeline.table import Table
from packstone.runs.clock import now_ms
from packstone.tables.segments import table as segments
from packstone.tables.segments.options import SegmentOptions

DAY_MS = 86_400_000


def segment_compact(io, path, **options):
    """Compact, and say how it ended."""
    return Table(path, io=io).compact(SegmentOptions(**options)).to_json()


def segment_restore(io, path, run):
    """Undo a run, and say what that changed."""
    return Table(path, io=io).restore(run).to_json()


def segment_recover(io, path):
    """End what dead runs left."""
    return Table(path, io=io).recover().to_json()


def segment_clean(io, path, days=0.0):
    """Clean as if this many days had gone by; say what went."""
    own, segments.now_ms = segments.now_ms, lambda: now_ms() + int(days * DAY_MS)
    try:
        plan = Table(path, io=io).clean()
    finally:
        segments.now_ms = own
    return {"files": plan.files, "segments": [str(one.id) for one in plan.segments], "unknown": plan.unknown.paths}
