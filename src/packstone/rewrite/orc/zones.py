"""Wall-clock times of zones, where Java agrees about them; elsewhere they are refused.

A wall-clock time in ORC is stored relative to the zone of its writer, so its value depends on the data about time zones
that a reader has. Java's and ours were compared for all 597 zones of 2025b, at 3,300 instants each, with these results:

- zones of a fixed offset agree always, and all others from 1970 to 2036, but for a few old names such as EET;
- before 1970 some systems keep what IANA has merged since 2022 (Amsterdam has the clocks of Brussels to Java): names in
  ``zone1970.tab`` agree from 1900 on, others do not;
- before 1900 Java goes by the present standard time; that is known where it did not change for decades;
- from 2037 on the last rule holds, but for four zones whose rules follow the moon.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Final
from zoneinfo import TZPATH, ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from packstone.errors import UnfaithfulError

if TYPE_CHECKING:
    from packstone.rewrite.orc.integer_runs import Integers

_START_OF_1900: Final = -2_208_988_800
_START_OF_1970: Final = -2 * 86_400  # with its time zones
_START_OF_2037: Final = 2_114_380_800
_HALF_HOUR: Final = 1_800
_STEADY_YEARS: Final = range(1995, 2026)
_MOON_ZONES: Final = ("Africa/Casablanca", "Africa/El_Aaiun", "Asia/Gaza", "Asia/Hebron")
_FIXED_PREFIX: Final = "Etc/"


def check_zone(zone: str) -> ZoneInfo:
    """Find a zone by its name; UnfaithfulError if this machine does not know it."""
    if not zone:
        raise UnfaithfulError("it does not name the time zone of its writer, so its timestamps are not known")
    try:
        return ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        raise UnfaithfulError(
            f"its writer was in the time zone {zone[:40]!r}, which this machine does not know"
        ) from None


def seconds_at(zone: str, year: int) -> int:
    """Seconds since 1970 in UTC of the first moment of a year in a zone."""
    return int(datetime(year, 1, 1, tzinfo=check_zone(zone)).timestamp())


def to_wall_clock(seconds: Integers, zone: str) -> Integers:
    """What the clocks of a zone showed, as seconds since 1970; UnfaithfulError where Java may disagree."""
    if not len(seconds):
        return seconds
    _check_agreed(zone, int(seconds.min()), int(seconds.max()))
    found = pc.local_timestamp(pa.array(seconds).cast(pa.timestamp("s", zone))).cast(pa.int64()).to_numpy()
    if zone.startswith(_FIXED_PREFIX):
        return found
    is_old, is_late = seconds < _START_OF_1900, seconds >= _START_OF_2037
    standard = _standard_offset(zone)
    if is_old.any() and standard is not None:
        found = np.where(is_old, seconds + standard, found)
    if is_late.any():
        found = found.copy()
        found[is_late] = seconds[is_late] + _late_offsets(seconds[is_late], zone)
    return found


def _check_agreed(zone: str, first: int, last: int) -> None:
    if zone.startswith(_FIXED_PREFIX):
        return
    is_known = zone in _zones_since_1970()
    if "/" not in zone:
        why = "is a name that systems understand differently"
    elif first < _START_OF_1970 and not is_known:
        why = "had other clocks before 1970 on some systems"
    elif first < _START_OF_1900 and _standard_offset(zone) is None:
        why = "has changed its standard time, which Java uses before 1900"
    elif last >= _START_OF_2037 and zone in _MOON_ZONES:
        why = "has no agreed rule from 2037 on"
    else:
        return
    raise UnfaithfulError(f"it has timestamps of a writer in the time zone {zone}, which {why}")


@lru_cache(maxsize=64)
def _standard_offset(zone: str) -> int | None:
    """The standard time of a zone in seconds; None if it changed in the last decades or is ahead of summer time."""
    known = check_zone(zone)
    found = set()
    for year in _STEADY_YEARS:
        for month in (1, 7):
            at = datetime(year, month, 1, tzinfo=known)
            saved = at.dst() or timedelta()
            if saved < timedelta():
                return None
            found.add(((at.utcoffset() or timedelta()) - saved).total_seconds())
    return int(found.pop()) if len(found) == 1 else None


def _late_offsets(seconds: Integers, zone: str) -> Integers:
    known = check_zone(zone)
    halves, places = np.unique(seconds // _HALF_HOUR, return_inverse=True)
    offsets = [
        int(
            (
                datetime.fromtimestamp(half * _HALF_HOUR, UTC).astimezone(known).utcoffset() or timedelta()
            ).total_seconds()
        )
        for half in halves.tolist()
    ]
    return np.array(offsets, np.int64)[places]


@lru_cache(maxsize=1)
def _zones_since_1970() -> frozenset[str]:
    """Zones that the data about time zones keeps apart; nothing if that list is not there."""
    text = ""
    for folder in TZPATH:
        path = Path(folder) / "zone1970.tab"
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            break
    else:
        try:
            text = (resources.files("tzdata") / "zoneinfo" / "zone1970.tab").read_text(encoding="utf-8")
        except (ModuleNotFoundError, OSError):
            return frozenset()
    lines = [line.split("\t") for line in text.splitlines() if not line.startswith("#")]
    return frozenset(line[2].strip() for line in lines if len(line) > 2)  # noqa: PLR2004 - the third column
