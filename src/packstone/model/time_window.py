"""The hours of the day in which Packstone may work: ``19:00-06:00 Asia/Shanghai``.

The window is a pair of *wall-clock* readings in a named zone, and an instant is inside if the clock on
that wall, at that instant, reads a time inside. This is the rule people mean by "after seven in the
evening", and it has no ambiguous case when the clocks change: the hour that happens twice in autumn is
inside twice (or outside twice), the hour skipped in spring happens not at all. The rejected choice,
start plus a length in hours, closes an hour late or early on two nights a year.

The zone is always named, never the machine's: a cluster in UTC serves people who sleep elsewhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, time
from typing import Self
from zoneinfo import ZoneInfo

from packstone.errors import InvalidInputError

_CLOCK = r"([0-9]{1,2}):([0-9]{2})"
_WINDOW = re.compile(rf"\s*{_CLOCK}\s*-\s*{_CLOCK}\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeWindow:
    """From ``start`` (inside) to ``end`` (outside) by the clock of ``timezone``; may run over midnight."""

    start: time
    end: time
    timezone: ZoneInfo

    @classmethod
    def parse(cls, text: str, *, timezone: str) -> Self:
        """Read ``19:00-06:00``; ``24:00`` as the end is midnight."""
        match = _WINDOW.fullmatch(text)
        if match is None:
            raise _bad_window(text, "is not a time window")
        start = _clock_time(text, hour=int(match[1]), minute=int(match[2]))
        ends_at_midnight = (match[3], match[4]) == ("24", "00")
        end = time(0) if ends_at_midnight else _clock_time(text, hour=int(match[3]), minute=int(match[4]))
        # An empty window and a whole day are both plausible readings, and one of them never runs.
        if start == end:
            raise _bad_window(text, "starts and ends at the same time")
        return cls(start=start, end=end, timezone=_zone(timezone))

    def contains(self, now: datetime) -> bool:
        """Tell whether the instant ``now`` (any zone, but a zone) falls inside."""
        if now.utcoffset() is None:
            raise InvalidInputError(f"The time {now.isoformat()} has no time zone; give an aware datetime.")
        clock = now.astimezone(self.timezone).time()
        if self.start < self.end:
            return self.start <= clock < self.end
        return clock >= self.start or clock < self.end

    def __str__(self) -> str:
        """Print as ``19:00-06:00 Asia/Shanghai``."""
        return f"{self.start:%H:%M}-{self.end:%H:%M} {self.timezone.key}"


def _clock_time(text: str, *, hour: int, minute: int) -> time:
    try:
        return time(hour, minute)
    except ValueError:
        raise _bad_window(text, f"has no clock time {hour:02}:{minute:02}") from None


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    # KeyError: unknown name; ValueError: a path such as "../x"; OSError: a folder such as "Asia".
    except (KeyError, ValueError, OSError):
        raise InvalidInputError(
            f"{name!r} is not a time zone; write a name such as Asia/Shanghai or UTC.", value=name
        ) from None


def _bad_window(text: str, why: str) -> InvalidInputError:
    return InvalidInputError(f"{text!r} {why}; write for example 19:00-06:00.", value=text)
