"""Points in time, and the hours of the day in which Packstone may work.

A point in time is written ``2026-01-01 00:00:00`` and stored as milliseconds since 1970 in UTC. Without an offset it is
UTC, whatever the machine's time zone: the same command means the same everywhere.

A time window, ``19:00-06:00 Asia/Shanghai``, is a pair of *wall-clock* times in a named zone, and an instant is inside
if the wall clock of that zone shows a time inside. This is the rule people mean by "after seven in the evening", and it
has no ambiguous case when the clocks change: the hour that happens twice in autumn is inside twice (or outside twice),
the hour skipped in spring does not happen. The rejected choice, a start plus a length in hours, closes an hour late or
early on two nights a year. The zone is named, or it is UTC, never the machine's: a cluster in UTC serves people who
sleep elsewhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Self, TypeAlias
from zoneinfo import ZoneInfo

from packstone.errors import InvalidInputError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)

Moment: TypeAlias = str | datetime | int  # text, a datetime, or milliseconds since 1970


def read_moment(moment: Moment) -> int:
    """Return a moment as milliseconds since 1970."""
    if isinstance(moment, datetime):
        return moment_ms(moment)
    return parse_moment(moment) if isinstance(moment, str) else moment


def parse_moment(text: str) -> int:
    """Read ``2026-01-31``, ``2026-01-31 12:30:00`` or ``2026-01-31T12:30:00+01:00``."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InvalidInputError(
            f"{text!r} is not a time; write for example 2026-01-31, '2026-01-31 12:30:00' (UTC) or "
            "2026-01-31T12:30:00+01:00.",
            value=text,
        ) from None
    return moment_ms(moment)


def moment_ms(moment: datetime) -> int:
    """A datetime as milliseconds since 1970; one without an offset is UTC."""
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH) // _MILLISECOND


def format_moment(ms: int) -> str:
    """Write ``2026-01-31 12:30:00.000``, in UTC."""
    return (_EPOCH + ms * _MILLISECOND).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def iso_moment(ms: int) -> str:
    """Write a time as in JSON: ``2026-01-31T12:30:00.000+00:00``."""
    return (_EPOCH + ms * _MILLISECOND).isoformat(timespec="milliseconds")


_CLOCK = r"([0-9]{1,2}):([0-9]{2})"
_WINDOW = re.compile(rf"\s*{_CLOCK}\s*-\s*{_CLOCK}(?:\s+(\S+))?\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeWindow:
    """From ``start`` (inside) to ``end`` (outside) by the clock of ``timezone``; may run over midnight."""

    start: time
    end: time
    timezone: ZoneInfo

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``19:00-06:00 Europe/Berlin``; without a zone it is UTC. ``24:00`` as the end is midnight."""
        match = _WINDOW.fullmatch(text)
        if match is None:
            raise _bad_window(text, "is not a time window")
        start = _clock_time(text, hour=int(match[1]), minute=int(match[2]))
        ends_at_midnight = (match[3], match[4]) == ("24", "00")
        end = time(0) if ends_at_midnight else _clock_time(text, hour=int(match[3]), minute=int(match[4]))
        # An empty window and a whole day are both plausible readings, and one of them never runs.
        if start == end:
            raise _bad_window(text, "starts and ends at the same time")
        return cls(start=start, end=end, timezone=_zone(match[5] or "UTC"))

    def contains(self, now: datetime) -> bool:
        """Whether the instant ``now`` (timezone-aware, in any zone) is inside."""
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
    return InvalidInputError(f"{text!r} {why}; write for example 19:00-06:00 Europe/Berlin.", value=text)
