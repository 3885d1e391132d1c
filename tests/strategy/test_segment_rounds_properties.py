"""One walk over the segments plans what asking the strategy again and again plans: on random tables."""

from hypothesis import given, settings
from hypothesis import strategies as st

from packstone.model.segment import Segment, SegmentId, SegmentStatus
from packstone.strategy.major import MajorOptions, major_strategy
from packstone.strategy.minor import MinorOptions, minor_strategy
from packstone.strategy.pick import to_fixpoint
from packstone.strategy.segment_rounds import first_wave, plan_rounds
from packstone.strategy.segment_view import DaysRule, SegmentView, SelectionOptions, begin_command

MB = 2**20
segments = st.builds(
    Segment,
    id=st.builds(SegmentId, st.integers(0, 60), st.sampled_from([0, 0, 0, 0, 0, 0, 1, 1, 2, 10])),
    size_bytes=st.one_of(st.integers(0, 100), st.integers(0, 1200)).map(lambda mb: mb * MB),
    load_day=st.integers(-3, 9),
    status=st.sampled_from([SegmentStatus.SUCCESS] * 20 + list(SegmentStatus)),
    is_major=st.sampled_from([False] * 5 + [True]),
)
views = st.lists(segments, min_size=8, max_size=60, unique_by=lambda segment: segment.id.load).map(
    lambda found: begin_command(SegmentView(segments=tuple(sorted(found, key=lambda one: one.id)), today=9))
)
selections = st.builds(
    SelectionOptions, preserve=st.integers(0, 5), days=st.integers(0, 5), days_rule=st.sampled_from(DaysRule)
)
minors = st.builds(
    MinorOptions,
    level_threshold=st.lists(st.sampled_from([2, 3, 4, 2, 3, 0, 1]), min_size=1, max_size=3).map(tuple),
    minor_size_mb=st.one_of(st.none(), st.integers(1, 900)),
    selection=selections,
)
majors = st.builds(MajorOptions, major_size_mb=st.integers(0, 3000), selection=selections)


def reference(view, strategy):
    """The picks of all rounds by id, as the strategy itself gives them."""
    rounds = to_fixpoint(strategy, view)
    found = []
    for done in rounds:
        ids = [segment.id for segment in done.before.segments]
        found += [(tuple(ids[at] for at in pick.inputs), pick.output, pick.reason) for pick in done.decision.picks]
    return found, rounds[-1].decision.why_not


def planned(view, options):
    """The same of the one walk."""
    rounds = plan_rounds(view, options)
    return [(tuple(one.id for one in merge.members), merge.result.id, merge.reason) for merge in rounds.merges]


@settings(max_examples=400, deadline=None)
@given(views, minors)
def test_minor_in_one_walk_is_minor_in_rounds(view, options):
    """The same members, names and reasons in the same order, and the same reason why there are no more."""
    picks, why_not = reference(view, minor_strategy(options))
    assert planned(view, options) == picks
    assert plan_rounds(view, options).why_not == why_not[:2000]


@settings(max_examples=400, deadline=None)
@given(views, majors)
def test_major_in_one_walk_is_major_in_rounds(view, options):
    """So too by size."""
    picks, why_not = reference(view, major_strategy(options))
    assert planned(view, options) == picks
    assert plan_rounds(view, options).why_not.removesuffix(" …") == why_not[:2000]


@given(views, st.one_of(minors, majors))
def test_a_wave_needs_only_what_exists(view, options):
    """Merges of the first wave share no member, and all their members are there."""
    rounds = plan_rounds(view, options)
    members = [member.id for merge in first_wave(rounds) for member in merge.members]
    assert len(set(members)) == len(members)
    assert set(members) <= {segment.id for segment in view.segments}
    assert bool(rounds.merges) == bool(first_wave(rounds))
