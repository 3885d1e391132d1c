"""Off-peak hours: at night a merge tree may merge runs that differ more in size.

The ratio is *added* to the size ratio while the hour lies in the window (start inclusive, end exclusive; a window
whose start is the later one runs over midnight). The caller reads the clock and hands the hour in.

    window 22-6, ratio 10    hour 21 -> 0    hour 22 -> 10    hour 5 -> 10    hour 6 -> 0

Source: Paimon's `compaction.offpeak.*` (research notes 1.4).
"""

from __future__ import annotations

from dataclasses import dataclass

from packstone.errors import InvalidInputError

HOURS_A_DAY = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class OffPeakHours:
    """When merging may be bolder, and by how much."""

    start_hour: int
    end_hour: int
    ratio_pct: int

    def __post_init__(self) -> None:
        """Refuse what is no hour of the day, and a ratio below zero."""
        for hour in (self.start_hour, self.end_hour):
            if not 0 <= hour < HOURS_A_DAY:
                raise InvalidInputError(f"Hour {hour} is none of the day; give 0 to 23.", hour=hour)
        if self.ratio_pct < 0:
            raise InvalidInputError(f"The off-peak ratio is {self.ratio_pct}; it must be at least 0.")

    def ratio_pct_at(self, hour: int) -> int:
        """What to add to the size ratio at this hour; a window that starts where it ends is never open."""
        if self.start_hour <= self.end_hour:
            is_inside = self.start_hour <= hour < self.end_hour
        else:
            is_inside = hour >= self.start_hour or hour < self.end_hour
        return self.ratio_pct if is_inside else 0
