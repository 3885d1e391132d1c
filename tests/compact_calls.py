"""Compactions and cleans of segment tables that tests kill or race; ``fork_server.py`` runs them in own processes."""

from packstone.model.segment_options import SegmentOptions
from packstone.runs.clock import now_ms, system_clock
from packstone.runs.engine import InlineEngine
from packstone.service.segment_compact import compact_segments
from packstone.tables.segments.clean import plan_clean
from packstone.tables.segments.remove_expired import remove_expired

DAY_MS = 86_400_000


def segment_compact(io, path, **options):
    """Compact, and say how it ended."""
    return compact_segments(io, path, SegmentOptions(**options), engine=InlineEngine(io)).to_json()


def segment_clean(io, path, days=0.0):
    """Clean as if so many days had gone by; say what went."""
    plan = plan_clean(io, path, now_ms=now_ms() + int(days * DAY_MS))
    remove_expired(io, plan, clock=system_clock())
    return {"files": plan.files, "segments": [str(one.id) for one in plan.segments], "unknown": plan.unknown.paths}
