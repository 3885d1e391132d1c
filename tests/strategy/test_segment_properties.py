"""What holds of minor, major and custom for every segment table, not only for the scenarios."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from packstone.model.segment import Segment, SegmentId, SegmentStatus
from packstone.strategy.custom import CustomOptions, custom_strategy
from packstone.strategy.major import MajorOptions, major_strategy
from packstone.strategy.minor import MinorOptions, minor_strategy
from packstone.strategy.pick import run_round, to_fixpoint
from packstone.strategy.segment_view import VALID, DaysRule, SegmentView, SelectionOptions, begin_command

MB = 2**20
ids = st.builds(SegmentId, st.integers(0, 30), st.one_of(st.just(0), st.integers(0, 11)))
segments = st.builds(
    Segment,
    id=ids,
    size_bytes=st.integers(0, 1200).map(lambda mb: mb * MB),
    load_day=st.integers(-3, 9),
    status=st.sampled_from([SegmentStatus.SUCCESS] * 6 + list(SegmentStatus)),
    is_major=st.booleans(),
    is_external=st.sampled_from([False] * 5 + [True]),
)
views = st.lists(segments, max_size=30, unique_by=lambda segment: segment.id).map(
    lambda found: SegmentView(segments=tuple(sorted(found, key=lambda segment: segment.id)))
)
selections = st.builds(
    SelectionOptions,
    preserve=st.integers(0, 5),
    days=st.integers(0, 5),
    days_rule=st.sampled_from(DaysRule),
    as_coded=st.just(False),
)
minors = st.builds(
    MinorOptions,
    level_threshold=st.lists(st.integers(0, 5), min_size=1, max_size=3).map(tuple),
    minor_size_mb=st.one_of(st.none(), st.integers(1, 900)),
    selection=selections,
)
majors = st.builds(MajorOptions, major_size_mb=st.integers(0, 2000), selection=selections)
strategies = st.one_of(minors.map(minor_strategy), majors.map(major_strategy))
loads = st.lists(st.integers(0, 900), max_size=10)


@given(views, strategies)
def test_repeated_picking_ends_and_ids_are_never_reused(view, strategy):
    """Every round merges two or more into one new id; no id is ever seen twice."""
    seen = {segment.id for segment in view.segments}
    rounds = to_fixpoint(strategy, begin_command(view))
    assert len(rounds) <= len(view.segments) + 1
    for done in rounds:
        for pick in done.decision.picks:
            assert len(pick.inputs) >= 2
            assert pick.output not in seen
            seen.add(pick.output)
    assert not rounds[-1].decision.picks
    assert rounds[-1].decision.why_not


@given(views, strategies)
def test_only_finished_native_segments_are_merged_and_nothing_is_lost(view, strategy):
    """Bytes stay, and what was left out stays as it is."""
    done = run_round(strategy, view)
    picked = {at for pick in done.decision.picks for at in pick.inputs}
    for at in picked:
        assert view.segments[at].status in VALID
        assert not view.segments[at].is_external
    left = [segment for at, segment in enumerate(view.segments) if at not in picked]
    assert set(left) <= set(done.after.segments)
    assert sum(one.size_bytes for one in view.segments) == sum(one.size_bytes for one in done.after.segments)
    assert [one.id for one in done.after.segments] == sorted(one.id for one in done.after.segments)


@given(views, strategies, loads)
def test_what_came_after_the_start_is_never_picked(view, strategy, later):
    """Loads during a command change nothing of what it does."""
    begun = begin_command(view)
    first = (begun.last_load or 0) + 1
    more = tuple(Segment(id=SegmentId(first + at), size_bytes=mb * MB) for at, mb in enumerate(later))
    disturbed = replace(begun, segments=(*begun.segments, *more))
    calm = [done.decision.picks for done in to_fixpoint(strategy, begun)]
    busy = to_fixpoint(strategy, disturbed)
    assert calm == [done.decision.picks for done in busy]
    assert set(more) <= set(busy[-1].after.segments)


@given(views, strategies)
def test_planning_twice_is_equal_in_whatever_order_segments_stand(view, strategy):
    """A pick depends on ids, not on the order of the entries."""
    decision = strategy.pick(view)
    assert decision == strategy.pick(view)
    turned = SegmentView(segments=view.segments[::-1])
    names = [view.segments[at].id for pick in decision.picks for at in pick.inputs]
    assert names == [turned.segments[at].id for pick in strategy.pick(turned).picks for at in pick.inputs]


@given(views, majors)
def test_major_keeps_the_result_below_the_limit(view, asked):
    """The limit bounds what comes out."""
    for pick in major_strategy(asked).pick(view).picks:
        assert sum(view.segments[at].size_bytes for at in pick.inputs) < asked.major_size_mb * MB


@given(views, minors)
def test_a_merged_segment_keeps_the_latest_day(view, asked):
    """Otherwise the first merge would end what the days rule protects."""
    done = run_round(minor_strategy(asked), view)
    for pick in done.decision.picks:
        (merged,) = [one for one in done.after.segments if one.id == pick.output]
        assert merged.load_day == max(view.segments[at].load_day for at in pick.inputs)


@given(views, st.lists(ids, min_size=1, max_size=5).map(tuple))
def test_custom_takes_what_is_named_or_nothing(view, wanted):
    """All of the ids, or a reason."""
    decision = custom_strategy(CustomOptions(ids=wanted)).pick(view)
    taken = {view.segments[at].id for pick in decision.picks for at in pick.inputs}
    assert taken == set(wanted) if decision.picks else decision.why_not


@given(st.integers(1, 200))
def test_the_third_level_stops_the_pile(count):
    """With 4,3 the twice merged grow as loads / 12; with 4,3,3 they stay below three."""
    view = SegmentView(segments=tuple(Segment(id=SegmentId(at)) for at in range(count)))
    two = to_fixpoint(minor_strategy(MinorOptions()), view)[-1].after.segments
    assert sum(1 for one in two if one.id.merges == 2) == count // 12
    three = to_fixpoint(minor_strategy(MinorOptions(level_threshold=(4, 3, 3))), view)[-1].after.segments
    assert sum(1 for one in three if one.id.merges == 2) < 3


@given(segments)
def test_a_segment_parses_back(segment):
    """What is printed is what was meant."""
    assert Segment.parse(str(segment)) == segment


@given(ids, ids)
def test_ids_compare_as_pairs(one, other):
    """0.10 is neither 0.1 nor below 0.9."""
    assert SegmentId.parse(str(one)) == one
    assert (one < other) == ((one.load, one.merges) < (other.load, other.merges))
