"""A status and its properties in the strategies' own terms."""

from dataclasses import replace

import pytest

from packstone.errors import InvalidInputError
from packstone.model.segment import SegmentId, SegmentStatus
from packstone.strategy.custom import CustomOptions
from packstone.strategy.major import MajorOptions
from packstone.strategy.minor import MinorOptions
from packstone.strategy.segment_view import DaysRule
from packstone.tables.segments.format.columns import parse_columns
from packstone.tables.segments.format.edits import new_table
from packstone.tables.segments.format.properties import SortScope, parse_properties
from packstone.tables.segments.format.segment_file import DataFile, SegmentFile
from packstone.tables.segments.format.status import DAY_MS, StatusEntry
from packstone.tables.segments.options import (
    SegmentOptions,
    may_resort,
    merge_options,
    parse_segment_ids,
    run_properties,
    view_status,
)

COLUMNS = parse_columns("a long, b long, c string")


def make_status(*entries, **properties):
    """A status of these entries."""
    made = new_table(COLUMNS, properties, table_id="t", commit="c", now_ms=0)
    return replace(made, entries=entries)


def make_entry(load, *, status=SegmentStatus.SUCCESS, **more):
    """One segment."""
    return StatusEntry(
        id=SegmentId(load), status=status, load_start_ms=0, newest_load_ms=5 * DAY_MS + 1, attempt="x", **more
    )


def make_segment(columns, *, scope=SortScope.LOCAL_SORT, runs=1):
    """A segment file sorted by these columns."""
    return SegmentFile(
        id=SegmentId(0),
        attempt="x",
        files=tuple(DataFile(path=f"Fact/Segment_0/{run}", run=run, rows=1, size_bytes=1) for run in range(runs)),
        sort_columns=columns,
        sort_scope=scope,
        schema="",
        index_file="0_x.arrow",
        rows=runs,
        data_bytes=runs,
    )


def test_what_others_are_merging_is_not_there():
    """The rest is there with size, day and status."""
    running = make_entry(2, status=SegmentStatus.IN_PROGRESS)
    status = make_status(make_entry(0), make_entry(1, data_bytes=7, is_major=True), running)
    view = view_status(status, left_out={SegmentId(0)}, now_ms=9 * DAY_MS)
    assert [str(one.id) for one in view.segments] == ["1", "2"]
    assert (view.segments[0].size_bytes, view.segments[0].load_day, view.segments[0].is_major) == (7, 5, True)
    assert view.segments[1].status is SegmentStatus.IN_PROGRESS
    assert view.today == 9


def test_properties_become_options_and_a_run_may_set_its_own():
    """Each strategy gets what is its own."""
    status = make_status(
        COMPACTION_LEVEL_THRESHOLD="4,3,2",
        MINOR_COMPACTION_SIZE="5",
        MAJOR_COMPACTION_SIZE="77",
        ALLOWED_COMPACTION_DAYS="2",
        COMPACTION_DAYS_RULE="recent",
    )
    asked = SegmentOptions(overrides=(("major_compaction_size", "88"),))
    properties = run_properties(status, asked)
    minor = merge_options(properties, asked)
    assert isinstance(minor, MinorOptions)
    assert (minor.level_threshold, minor.minor_size_mb) == ((4, 3, 2), 5)
    assert (minor.selection.days, minor.selection.days_rule) == (2, DaysRule.RECENT)
    major = merge_options(properties, SegmentOptions(strategy="major"))
    assert isinstance(major, MajorOptions)
    assert major.major_size_mb == 88
    ids = parse_segment_ids("0.2, 4")
    custom = merge_options(properties, SegmentOptions(strategy="custom", ids=ids), resort=True)
    assert custom == CustomOptions(ids=(SegmentId(0, 2), SegmentId(4)), resort=True)


@pytest.mark.parametrize(
    ("columns", "scope", "runs", "expected"),
    [
        (("a",), SortScope.LOCAL_SORT, 1, False),
        (("a", "b"), SortScope.LOCAL_SORT, 3, False),  # sorted by more is sorted by fewer
        (("b", "a"), SortScope.LOCAL_SORT, 1, True),
        (("a",), SortScope.NO_SORT, 1, True),
        ((), SortScope.NO_SORT, 1, True),
    ],
)
def test_one_segment_is_written_anew_if_it_is_sorted_otherwise(columns, scope, runs, expected):
    """The table is sorted by a, each load for itself."""
    properties = parse_properties({"SORT_COLUMNS": "a"}, COLUMNS)
    assert may_resort(make_segment(columns, scope=scope, runs=runs), properties) is expected


def test_a_table_of_global_order_writes_a_segment_of_several_runs_anew():
    """And one without sort columns none."""
    properties = parse_properties({"SORT_COLUMNS": "a", "SORT_SCOPE": "global"}, COLUMNS)
    assert may_resort(make_segment(("a",), runs=2), properties)
    assert not may_resort(make_segment(("a",), runs=1), properties)
    assert not may_resort(make_segment((), runs=3), parse_properties({}, COLUMNS))


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"strategy": "full"}, "not a strategy for segment tables"),
        ({"strategy": "custom"}, "needs the ids"),
        ({"ids": (SegmentId(1),)}, "goes with --strategy custom"),
        ({"strategy": "custom", "ids": (SegmentId(1), SegmentId(1))}, "names a segment twice"),
        ({"task_bytes": 0}, "larger than zero"),
    ],
)
def test_wrong_options_are_refused(wrong, why):
    """With a sentence that says what to do."""
    with pytest.raises(InvalidInputError, match=why):
        SegmentOptions(**wrong)
