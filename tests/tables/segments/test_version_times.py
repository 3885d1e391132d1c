"""Times of versions, though the clocks of writers differ: what `--as-of` finds and what clean keeps."""

import itertools
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from segment_calls import segment_clock, segment_create

from packstone.errors import InvalidInputError
from packstone.storage.memory import MemoryFileIO
from packstone.tables.segments.format.commit import commit_edit
from packstone.tables.segments.format.edits import alter_properties
from packstone.tables.segments.format.status_files import find_as_of, find_version, first_needed, list_runs, read_header

T = "/t"
START = 1_700_000_000_000
MINUTE, YEAR = 60_000, 365 * 86_400_000


def make_table(clocks):
    """A table whose versions are written by clocks that say this."""
    io, said = MemoryFileIO(), iter([*clocks])
    now = next(said)
    clock = segment_clock(now_ms=lambda: now)
    segment_create(io, T, clock=clock)
    for at, moment in enumerate(said, 1):
        writer = replace(clock, now_ms=lambda moment=moment: moment)
        changes = {"MAJOR_COMPACTION_SIZE": str(at)}
        commit_edit(io, T, lambda status, to=changes: alter_properties(status, to), clock=writer, operation="alter")
    return io


def as_of(io, moment):
    """The version of a moment; None if there is none."""
    try:
        return find_as_of(io, T, moment).version
    except InvalidInputError:
        return None


def test_a_commit_from_a_clock_a_year_ahead():
    """What follows it is found at its own time, and what was before it too."""
    clocks = [START + at * MINUTE for at in range(10)]
    clocks[5] += YEAR
    io = make_table(clocks)
    for at, moment in enumerate(clocks):
        if at != 5:
            assert as_of(io, moment) == at + 1
    assert as_of(io, START + 5 * MINUTE) == 5
    assert as_of(io, START + 2 * YEAR) == 10
    assert as_of(io, START - 1) is None


@pytest.mark.parametrize("behind", [YEAR, 2 * MINUTE, START])
def test_a_commit_from_a_clock_that_is_behind(behind):
    """It does not make older versions look older: each is found at its own time."""
    clocks = [START + at * MINUTE for at in range(10)]
    clocks[8] -= behind
    io = make_table(clocks)
    for at, moment in enumerate(clocks):
        if at not in (7, 8):  # the late one has the time of the version that it follows
            assert as_of(io, moment) == at + 1
    assert as_of(io, clocks[7]) == 9


def test_a_table_that_was_made_by_a_clock_ahead_recovers():
    """After as many commits with the right time as there were with the wrong one, the right time counts."""
    io = make_table([START + YEAR] * 3 + [START + at * MINUTE for at in range(1, 8)])
    assert as_of(io, START + 7 * MINUTE) == 10
    assert as_of(io, START + 6 * MINUTE) == 9


def test_clocks_that_differ_a_little_stay_in_order():
    """Minutes of difference, as in any cluster, never begin a new order: then halving finds a version."""
    rng = random.Random(1)
    io = make_table([START + at * MINUTE + rng.randrange(-4, 5) * MINUTE for at in range(40)])
    headers = [read_header(io, T, version) for version in range(1, 41)]
    assert {header.ordered_since for header in headers} == {0}
    assert all(a.written_ms <= b.written_ms for a, b in itertools.pairwise(headers))


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_halving_finds_what_looking_at_all_finds(seed):
    """Whatever the clocks said; and clean keeps what was the newest at the cutoff, and all that came after."""
    rng = random.Random(seed)
    clocks, now = [], START
    for _ in range(rng.randrange(1, 25)):
        now += rng.randrange(0, 30) * MINUTE
        clocks.append(now + rng.choice([0, 0, 0, 0, YEAR, -YEAR, MINUTE * 20, -MINUTE * 20]))
    io = make_table(clocks)
    versions = range(1 + rng.randrange(len(clocks)), len(clocks) + 1)
    times = {version: read_header(io, T, version).written_ms for version in versions}

    def read(version):
        return read_header(io, T, version)

    runs = list(list_runs(versions, read))
    assert [version for run in reversed(runs) for version in run] == list(versions)
    for moment in (*times.values(), *(time - 1 for time in times.values())):
        found = [version for version in versions if times[version] <= moment]
        assert find_version(versions, moment, read) == (found[-1] if found else None)
        first = first_needed(versions, moment, now_ms=now, read_header=read)
        # Nothing goes that was replaced after the cutoff by a version that is not of the future.
        replaced = [version for version in versions[1:] if moment < times[version] <= now]
        assert first in versions
        assert not replaced or first < replaced[0]
    assert first_needed(versions, now + 2 * YEAR, now_ms=now + 3 * YEAR, read_header=read) == versions[-1]
