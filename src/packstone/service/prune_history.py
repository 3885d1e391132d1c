"""Which runs the history shows, and which it forgets."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from packstone.errors import InvalidInputError
from packstone.history.store import RunFilters, open_history
from packstone.model.moment import parse_moment
from packstone.model.sizes import parse_duration


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneReport:
    """How many runs were forgotten, or would be."""

    dry_run: bool
    before: datetime
    runs: int

    def to_json(self) -> dict[str, Any]:
        """The documented keys."""
        status = "nothing-to-do" if not self.runs else "planned" if self.dry_run else "pruned"
        return {"format_version": 1, "status": status, "before": self.before.isoformat(), "runs": self.runs}


def parse_when(text: str) -> datetime:
    """Read a moment, ``2026-01-31 12:30``, or an age, ``7d``: so long ago."""
    if any(mark in text for mark in "-:T"):
        return datetime.fromtimestamp(parse_moment(text) / 1000, UTC)
    try:
        return datetime.now(UTC) - parse_duration(text)
    except (InvalidInputError, OverflowError):
        raise InvalidInputError(
            f"{text!r} is neither a moment nor an age; write for example 2026-01-31, '2026-01-31 12:30' (UTC) or 7d.",
            value=text,
        ) from None


def prune_history(url: str, *, before: datetime, dry_run: bool) -> PruneReport:
    """Forget the runs that started before a moment, with all that belongs to them."""
    old = RunFilters(until=before)
    with open_history(url) as history:
        runs = history.count_runs(old) if dry_run else history.remove_runs(old)
    return PruneReport(dry_run=dry_run, before=before, runs=runs)
