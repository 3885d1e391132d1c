"""Dates and times in text, taken apart by one regular expression and put together as vectors.

For what PyArrow's own cast refuses: one-digit months, blanks, zones in some rows and not in others, named regions.
Rows that name no moment are told by a mask.
"""

from __future__ import annotations

import zoneinfo
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from packstone.rewrite.inputs.converted import to_mask
from packstone.rewrite.numpy_columns import to_column

if TYPE_CHECKING:
    from packstone.rewrite.inputs.converted import Mask

Longs: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]

_DATE: Final = r"^\s*(?P<y>[0-9]{4})-(?P<m>[0-9]{1,2})-(?P<d>[0-9]{1,2})"
_DAY: Final = _DATE + r"(?:[T ].*)?\s*$"
_TIME: Final = r"(?P<h>[0-9]{1,2}):(?P<n>[0-9]{1,2})(?::(?P<s>[0-9]{1,2})(?:\.(?P<f>[0-9]{1,9}))?)?"
_ZONE: Final = r"(?P<z>Z|z|[+-][0-9]{1,2}(?::?[0-9]{2})?|[A-Za-z][A-Za-z0-9_+/-]*)?"
_MOMENT: Final = _DATE + r"(?:[T ]" + _TIME + r"\s*" + _ZONE + r")?\s*$"
_MICRO_DIGITS: Final = 6
_DAY_MICROS: Final = 86_400_000_000
_MOST_OFFSET: Final = 24 * 3600 - 1  # as PyArrow's cast has it


def parse_dates(text: pa.Array) -> tuple[Longs, Mask]:
    """Days since 1970 and which rows are dates."""
    parts = pc.extract_regex(text, pattern=_DAY)
    return _days(parts, to_mask(parts.is_valid()))


def parse_moments(text: pa.Array, *, zone: str | None) -> tuple[Longs, Mask]:
    """Microseconds since 1970 and which rows are moments.

    In UTC, with ``zone`` for rows that name none; without a zone the wall clock's, whatever a row names.
    """
    parts = pc.extract_regex(text, pattern=_MOMENT)
    days, good = _days(parts, to_mask(parts.is_valid()))
    hours, minutes, seconds = (_whole(parts, name) for name in "hns")
    good &= (hours <= 23) & (minutes <= 59) & (seconds <= 59)  # noqa: PLR2004 - a clock's
    fraction = pc.struct_field(parts, "f").fill_null("")
    micros = _to_longs(pc.utf8_slice_codeunits(pc.utf8_rpad(fraction, _MICRO_DIGITS, "0"), 0, _MICRO_DIGITS))
    good &= ~to_mask(pc.match_substring_regex(fraction, r"^[0-9]{6}[0-9]*[1-9]"))  # digits that would be lost
    local = days * _DAY_MICROS + ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + micros
    return (local, good) if zone is None else _to_utc(local, good, pc.struct_field(parts, "z"), zone=zone)


def to_utc(local: Longs, zone: str) -> Longs:
    """Wall clock to UTC; of two equal hours the first, and an hour that was skipped becomes the moment after it."""
    if zone == "UTC":
        return local
    moments = to_column(local).view(pa.timestamp("us"))
    known = pc.assume_timezone(moments, zone, ambiguous="earliest", nonexistent="latest")
    return known.view(pa.int64()).to_numpy(zero_copy_only=False)


def to_wall_clock(moments: pa.Array, zone: str) -> pa.Array:
    """UTC to the wall clock of a zone."""
    if zone == "UTC":
        return moments.view(pa.timestamp("us"))
    return pc.local_timestamp(moments.view(pa.timestamp("us", zone)))


def is_zone(name: str) -> bool:
    """Whether there is such a zone: by the names of the system, for those are what PyArrow reads."""
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def _to_utc(local: Longs, good: Mask, zones: pa.Array, *, zone: str) -> tuple[Longs, Mask]:
    coded = zones.fill_null("").dictionary_encode()
    codes = coded.indices.to_numpy(zero_copy_only=False)
    moments = local.copy()
    for code, name in enumerate(coded.dictionary.to_pylist()):
        chosen = good & (codes == code)
        offset = _offset_seconds(name)
        if offset is not None:
            moments[chosen] -= offset * 1_000_000
        elif name == "" or is_zone(name):
            moments[chosen] = to_utc(local[chosen], name or zone)
        else:
            good &= ~chosen
    return moments, good


def _offset_seconds(name: str) -> int | None:
    """The seconds of ``Z`` or ``+02:00``; None if it is no offset, or none that exists."""
    if name in ("Z", "z", "UTC", "GMT"):
        return 0
    if not name.startswith(("+", "-")):
        return None
    digits = name[1:].replace(":", "")
    hours, minutes = (digits, "0") if len(digits) <= 2 else (digits[:-2], digits[-2:])  # noqa: PLR2004 - hours alone
    seconds = int(hours) * 3600 + int(minutes) * 60
    if int(minutes) > 59 or seconds > _MOST_OFFSET:  # noqa: PLR2004 - a clock's
        return None
    return -seconds if name[0] == "-" else seconds


def _days(parts: pa.Array, good: Mask) -> tuple[Longs, Mask]:
    year, month, day = (_whole(parts, name) for name in "ymd")
    good &= (year >= 1) & (month >= 1) & (month <= 12) & (day >= 1)  # noqa: PLR2004 - a calendar's
    months = (year - 1970) * 12 + month - 1
    first = months.astype("M8[M]").astype("M8[D]").astype(np.int64)
    following = (months + 1).astype("M8[M]").astype("M8[D]").astype(np.int64)
    good &= day <= following - first
    return first + day - 1, good


def _whole(parts: pa.Array, name: str) -> Longs:
    return _to_longs(pc.struct_field(parts, name))


def _to_longs(digits: pa.Array) -> Longs:
    """Numbers of digits; 0 for none."""
    plain = pc.if_else(pc.equal(digits, ""), "0", digits).fill_null("0")
    return plain.cast(pa.int64()).to_numpy(zero_copy_only=False)
