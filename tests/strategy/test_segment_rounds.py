"""One walk over the segments plans what asking the strategy again and again plans: by example."""

import pytest

from packstone.errors import InvalidInputError
from packstone.model.segment import Segment, SegmentId
from packstone.strategy.custom import CustomOptions
from packstone.strategy.major import MajorOptions, major_strategy
from packstone.strategy.minor import MinorOptions, minor_strategy
from packstone.strategy.pick import to_fixpoint
from packstone.strategy.segment_rounds import first_wave, plan_rounds
from packstone.strategy.segment_view import DaysRule, SegmentView, SelectionOptions, begin_command

MB = 2**20


def view_of(text, *, today=0):
    """A table in the grammar of segments, at the beginning of a command."""
    return begin_command(SegmentView(segments=tuple(map(Segment.parse, text.split())), today=today))


@pytest.mark.parametrize("make", [MinorOptions, MajorOptions])
def test_segments_with_many_deleted_rows_are_rewritten(make):
    """At the threshold, if no merge takes them, preserved or not; major stays major; later loads and 0 are left out."""
    view = view_of("0:900-19% 1:900-20% 2:1000+major-99% 3:900=in-progress-50%")
    found = plan_rounds(view, make(selection=SelectionOptions(deleted_pct=20, preserve=3)))
    assert [str(merge) for merge in found.merges] == ["1 -> 1.1  reason=deleted-rows", "2 -> 2.1  reason=deleted-rows"]
    assert [(merge.wave, merge.result.is_major) for merge in found.merges] == [(0, False), (0, True)]
    assert found.merges[0].why == "deleted-rows: 20% of the rows of 1 are deleted >= 20%"
    assert plan_rounds(view, make()).merges == ()
    late = SegmentView(segments=view.segments, last_load=1)
    assert len(plan_rounds(late, make(selection=SelectionOptions(deleted_pct=20))).merges) == 1


def test_a_merge_removes_deleted_rows_by_itself():
    """No segment is merged and rewritten in the same plan."""
    options = MinorOptions(level_threshold=(2, 0), selection=SelectionOptions(deleted_pct=20))
    assert [str(one) for one in plan_rounds(view_of("0-50% 1 2-50%"), options).merges] == [
        "0 1 -> 0.1  reason=level-1",
        "2 -> 2.1  reason=deleted-rows",
    ]


def days(number, rule=DaysRule.WINDOW):
    """Only segments of about the same time."""
    return SelectionOptions(days=number, days_rule=rule)


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("0 1 2.2 3+major 4 5", MinorOptions(), ["0 1 4 5 -> 0.1"]),
        ("0 1 2 3.1 4.1", MinorOptions(level_threshold=(3, 3)), ["0 1 2 -> 0.1", "0.1 3.1 4.1 -> 0.2"]),
        # The merge of 0 and 1 has the day of 1, so 2 is in its window now.
        (
            "0@0 1@1 2@2 3@9 4@9",
            MinorOptions(level_threshold=(2, 2), selection=days(2)),
            ["0 1 -> 0.1", "3 4 -> 3.1"],
        ),
        ("0@0 1@1 2.1@2", MinorOptions(level_threshold=(2, 2), selection=days(2)), ["0 1 -> 0.1", "0.1 2.1 -> 0.2"]),
        ("0@0 1@1 2@5 3@6", MinorOptions(level_threshold=(2, 2), selection=days(3, DaysRule.RECENT)), ["2 3 -> 2.1"]),
        ("0:60 1:30 2:900 3:20 4:90 5:5", MajorOptions(major_size_mb=100), ["0 1 -> 0.1", "4 5 -> 4.1"]),
        ("0:60 1:50 2:50 3:40", MajorOptions(major_size_mb=100), ["2 3 -> 2.1"]),
        # Its first two fill a segment; their merge reaches the day of 2, which does not fit, and of 3, which does.
        (
            "0:20@0 1:20@1 2:70@1 3:10@2",
            MajorOptions(major_size_mb=100, selection=days(2)),
            ["0 1 -> 0.1", "2 3 -> 2.1"],
        ),
        ("0:20@0 1:20@1 2:20@2", MajorOptions(major_size_mb=100, selection=days(2)), ["0 1 -> 0.1", "0.1 2 -> 0.2"]),
    ],
)
def test_all_rounds_are_planned_at_once(text, options, expected):
    """The strategy itself, called again and again, gives the same answer."""
    view = view_of(text, today=6)
    rounds = plan_rounds(view, options)
    assert [str(merge).partition("  ")[0] for merge in rounds.merges] == expected
    strategy = minor_strategy(options) if isinstance(options, MinorOptions) else major_strategy(options)
    picks = [(done.before, pick) for done in to_fixpoint(strategy, view) for pick in done.decision.picks]
    named = [(" ".join(str(before.segments[at].id) for at in pick.inputs), pick.output) for before, pick in picks]
    assert [f"{inputs} -> {output}" for inputs, output in named] == expected


def test_a_table_is_not_compacted_as_carbondata_codes_it():
    """That is for `explain` only: its faults would be written to disk."""
    with pytest.raises(InvalidInputError, match="explain"):
        plan_rounds(view_of("0 1"), MinorOptions(selection=SelectionOptions(as_coded=True)))


def test_twelve_loads_are_three_merges_and_then_one():
    """Example E7 of the notes: 0-3, 4-7 and 8-11 side by side, then their results."""
    view = begin_command(SegmentView(segments=tuple(Segment(id=SegmentId(at)) for at in range(12))))
    rounds = plan_rounds(view, MinorOptions())
    assert [(str(merge.result.id), merge.wave) for merge in rounds.merges] == [
        ("0.1", 0),
        ("4.1", 0),
        ("8.1", 0),
        ("0.2", 1),
    ]
    assert [str(merge.result.id) for merge in first_wave(rounds)] == ["0.1", "4.1", "8.1"]


def test_custom_is_one_merge():
    """Named ids, in id order."""
    view = begin_command(SegmentView(segments=tuple(Segment(id=SegmentId(at)) for at in range(5))))
    (merge,) = plan_rounds(view, CustomOptions(ids=(SegmentId(3), SegmentId(1)))).merges
    assert str(merge) == "1 3 -> 1.1  reason=custom"


def test_a_hundred_thousand_segments_are_planned_in_one_walk():
    """Asking again after each of 33,333 merges would outlast the test's limit many times."""
    view = begin_command(SegmentView(segments=tuple(Segment(id=SegmentId(at), size_bytes=MB) for at in range(100_000))))
    assert len(plan_rounds(view, MinorOptions()).merges) == 25_000 + 8_333
    assert len(plan_rounds(view, MajorOptions()).merges) == 98
