"""The hours of the day in which Packstone may work."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from packstone.errors import InvalidInputError
from packstone.model.times import TimeWindow

BERLIN = "Europe/Berlin"  # clocks: 2025-03-30 02:00 -> 03:00, 2025-10-26 03:00 -> 02:00


@pytest.mark.parametrize(
    ("clock", "inside"),
    [("18:59", False), ("19:00", True), ("23:59", True), ("00:00", True), ("05:59", True), ("06:00", False)],
)
def test_window_over_midnight(clock, inside):
    """The start is inside, the end is not, midnight lies between; the zone is the window's."""
    window = TimeWindow.parse("19:00-06:00 Asia/Shanghai")
    now = datetime.fromisoformat(f"2025-06-01T{clock}").replace(tzinfo=ZoneInfo("Asia/Shanghai"))
    assert window.contains(now) is inside
    assert window.contains(now.astimezone(UTC)) is inside


@pytest.mark.parametrize(("clock", "inside"), [("08:59", False), ("09:00", True), ("16:59", True), ("17:00", False)])
def test_window_within_a_day(clock, inside):
    """A window that starts before it ends lies within the day."""
    window = TimeWindow.parse("9:00 - 17:00")
    assert window.contains(datetime.fromisoformat(f"2025-06-01T{clock}+00:00")) is inside


def test_window_until_midnight():
    """24:00 as the end is midnight."""
    window = TimeWindow.parse("19:00-24:00")
    assert window.contains(datetime(2025, 6, 1, 23, 59, 59, 999_999, tzinfo=UTC))
    assert not window.contains(datetime(2025, 6, 2, tzinfo=UTC))


def test_last_moment_is_inside():
    """The end is exact to the microsecond."""
    window = TimeWindow.parse("19:00-06:00")
    assert window.contains(datetime(2025, 6, 1, 5, 59, 59, 999_999, tzinfo=UTC))


def minutes_inside(window: TimeWindow, start: datetime, hours: int) -> int:
    """Count the minutes of some hours that fall inside."""
    return sum(window.contains(start + timedelta(minutes=minute)) for minute in range(hours * 60))


@pytest.mark.parametrize(
    ("day", "text", "minutes"),
    [
        (
            datetime(2025, 10, 25, 12, tzinfo=UTC),
            "19:00-06:00",
            12 * 60,
        ),  # the longest night: an hour happens twice
        (
            datetime(2025, 3, 29, 12, tzinfo=UTC),
            "19:00-06:00",
            10 * 60,
        ),  # the shortest: an hour never happens
        (datetime(2025, 10, 25, 12, tzinfo=UTC), "02:00-03:00", 2 * 60),
        (datetime(2025, 3, 29, 12, tzinfo=UTC), "02:00-03:00", 0),
        (datetime(2025, 3, 29, 12, tzinfo=UTC), "23:00-02:30", 3 * 60),  # ends in the hour that never happens
        (datetime(2025, 6, 1, 12, tzinfo=UTC), "19:00-06:00", 11 * 60),
    ],
)
def test_clock_changes(day, text, minutes):
    """On the nights the clocks change the window still opens and closes by the clock on the wall."""
    assert minutes_inside(TimeWindow.parse(f"{text} {BERLIN}"), day, hours=20) == minutes


@given(
    st.datetimes(min_value=datetime(1990, 1, 1), max_value=datetime(2037, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
    st.sampled_from([BERLIN, "Asia/Shanghai", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]),
    st.times(),
    st.times(),
)
def test_a_window_and_its_opposite_share_the_day(now, zone, start, end):
    """Every instant, on every day of every zone, is in a window or in the opposite one, never in both."""
    start, end = f"{start:%H:%M}", f"{end:%H:%M}"
    if start != end:
        inside = TimeWindow.parse(f"{start}-{end} {zone}").contains(now)
        assert TimeWindow.parse(f"{end}-{start} {zone}").contains(now) is not inside


@pytest.mark.parametrize(
    "text",
    ["", "19:00", "19-06", "19:00-6", "25:00-06:00", "19:60-06:00", "24:00-06:00", "19:00-24:01", "a:b-c:d"],
)
def test_bad_window_is_refused(text):
    """What is not a window is refused by its text, with a good example."""
    with pytest.raises(InvalidInputError) as caught:
        TimeWindow.parse(text)
    assert repr(text) in caught.value.message
    assert "19:00-06:00" in caught.value.message


@pytest.mark.parametrize("text", ["19:00-19:00", "00:00-24:00"])
def test_equal_ends_are_refused(text):
    """A window that is nothing or everything, nobody knows which, is refused."""
    with pytest.raises(InvalidInputError, match="same time"):
        TimeWindow.parse(text)


@pytest.mark.parametrize("zone", ["Nowhere/Here", "../etc/passwd", "Asia", "/etc/passwd", "a\0b"])
def test_bad_zone_is_refused(zone):
    """A zone that does not exist is refused by its name."""
    with pytest.raises(InvalidInputError) as caught:
        TimeWindow.parse(f"19:00-06:00 {zone}")
    assert repr(zone) in caught.value.message


def test_naive_time_is_refused():
    """A time without a zone is not an instant."""
    window = TimeWindow.parse("19:00-06:00")
    with pytest.raises(InvalidInputError, match="no time zone"):
        window.contains(datetime(2025, 6, 1))  # noqa: DTZ001


def test_window_prints_and_travels():
    """A window prints in one line and survives pickling."""
    window = TimeWindow.parse("19:00-6:05 Asia/Shanghai")
    assert str(window) == "19:00-06:05 Asia/Shanghai"
    assert pickle.loads(pickle.dumps(window)) == window  # noqa: S301


def test_without_a_zone_it_is_utc():
    """The machine's own zone never counts."""
    assert TimeWindow.parse("19:00-06:00 ") == TimeWindow.parse("19:00-06:00 UTC")
