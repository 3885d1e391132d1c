"""Moments as people write them, ``2026-01-01 00:00:00``, and as tables keep them: milliseconds since 1970 in UTC.

A moment without an offset is UTC, whatever the machine's clock shows: the same command means the same everywhere.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from packstone.errors import InvalidInputError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def parse_moment(text: str) -> int:
    """Read ``2026-01-31``, ``2026-01-31 12:30:00`` or ``2026-01-31T12:30:00+01:00``."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InvalidInputError(
            f"{text!r} is no moment; write for example 2026-01-31, '2026-01-31 12:30:00' (UTC) or "
            "2026-01-31T12:30:00+01:00.",
            value=text,
        ) from None
    return moment_ms(moment)


def moment_ms(moment: datetime) -> int:
    """Milliseconds of a moment; one without an offset is UTC."""
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH) // _MILLISECOND


def format_moment(ms: int) -> str:
    """Write ``2026-01-31 12:30:00.000``, in UTC."""
    return (_EPOCH + ms * _MILLISECOND).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def iso_moment(ms: int) -> str:
    """Write a moment as JSON has it: ``2026-01-31T12:30:00.000+00:00``."""
    return (_EPOCH + ms * _MILLISECOND).isoformat(timespec="milliseconds")
