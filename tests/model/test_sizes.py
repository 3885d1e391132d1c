"""Sizes and durations as people write them."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from packstone.errors import InvalidInputError
from packstone.model.sizes import MAX_BYTES, format_bytes, format_duration, parse_bytes, parse_duration


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("120M", 120 * 2**20),
        ("120m", 120 * 2**20),
        ("120MB", 120 * 2**20),
        ("120 MiB", 120 * 2**20),
        ("120Mi", 120 * 2**20),
        ("1.5g", 3 * 2**29),
        ("2t", 2**41),
        ("1k", 1024),
        ("0.3k", 307),
        ("7", 7),
        ("7b", 7),
        (" 7 B ", 7),
        (str(MAX_BYTES), MAX_BYTES),
    ],
)
def test_size_is_read(text, size_bytes):
    """Each spelling of a size gives the bytes by powers of 1024."""
    assert parse_bytes(text) == size_bytes


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "0",
        "0M",
        "0.0001k",
        "-1M",
        "+1M",
        "M",
        "1x",
        "1bb",
        "1i",
        "1.5",
        "1.5b",
        "1,5M",
        ".5g",
        "1e3",
        "1 2M",
        "\uff11M",
        "nan",
        "inf",
        "1M2k",
        str(MAX_BYTES + 1),
        "8388608t",
        "9" * 5000,
    ],
)
def test_bad_size_is_refused(text):
    """A size that is nothing, negative, too big or nonsense is refused by its value, with a good example."""
    with pytest.raises(InvalidInputError) as caught:
        parse_bytes(text)
    assert repr(text) in caught.value.message
    assert "120M" in caught.value.message


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KB"),
        (123_941_683, "118.2 MB"),
        (2**20 - 1, "1.0 MB"),
        (2**30, "1.0 GB"),
        (5000 * 2**40, "5000.0 TB"),
        (-3 * 2**20, "-3.0 MB"),
    ],
)
def test_size_is_written(size_bytes, text):
    """A size is written with one decimal, and never as 1024 of a unit."""
    assert format_bytes(size_bytes) == text


@given(st.integers(min_value=1, max_value=2**52))
def test_written_size_reads_back(size_bytes):
    """What is written can be read again and is within the rounding."""
    assert abs(parse_bytes(format_bytes(size_bytes)) - size_bytes) <= size_bytes * 0.05


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("180d", timedelta(days=180)),
        ("1h30m", timedelta(minutes=90)),
        ("1H 30M", timedelta(minutes=90)),
        ("2w1d", timedelta(days=15)),
        ("1.5h", timedelta(minutes=90)),
        ("0.25s", timedelta(milliseconds=250)),
        ("90 s", timedelta(seconds=90)),
        ("0", timedelta(0)),
        ("0d", timedelta(0)),
    ],
)
def test_duration_is_read(text, duration):
    """Each spelling of a duration gives its length; zero is a duration, as in ``--min-age 0``."""
    assert parse_duration(text) == duration


@pytest.mark.parametrize(
    "text", ["", " ", "7", "-1d", "1x", "d", "30m1h", "1h1h", "500ms", "1mo", "1d-", "9" * 30 + "w"]
)
def test_bad_duration_is_refused(text):
    """A duration without unit, out of order, negative or nonsense is refused, with a good example."""
    with pytest.raises(InvalidInputError) as caught:
        parse_duration(text)
    assert repr(text) in caught.value.message
    assert "180d" in caught.value.message


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0 s"),
        (0.012, "12 ms"),
        (0.0994, "99 ms"),
        (0.0996, "0.1 s"),
        (1.24, "1.2 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min 0 s"),
        (184, "3 min 4 s"),
        (3599.4, "59 min 59 s"),
        (3599.6, "1 h 0 min"),
        (7500, "2 h 5 min"),
        (86_399, "1 d 0 h"),
        (273_600, "3 d 4 h"),
        (-184, "-3 min 4 s"),
    ],
)
def test_duration_is_written(seconds, text):
    """A duration is written in its two biggest units, and never as 60 of a unit."""
    assert format_duration(seconds) == text


@given(st.floats(min_value=0, max_value=1e8))
def test_written_duration_is_never_sixty(seconds):
    """No rounding leaves a full unit standing: no "60 s", no "60 min", no "24 h"."""
    words = format_duration(seconds).split()
    assert not {("60", "s"), ("60.0", "s"), ("60", "min"), ("24", "h"), ("1000", "ms")} & set(pairwise(words))
