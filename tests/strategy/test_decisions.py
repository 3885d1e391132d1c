"""The small parts that the scenarios do not show: how decisions print, and small files applied and repeated."""

import pytest

from packstone.errors import InvalidInputError
from packstone.model.segment import Segment, SegmentId
from packstone.model.sizes import ExactSize
from packstone.model.sorted_run import Level, SortedRun
from packstone.strategy.custom import CustomOptions, check_ids, pick_custom
from packstone.strategy.pick import Decision, Pick, Reason, Skip, to_fixpoint
from packstone.strategy.segment_view import SegmentView
from packstone.strategy.small_files import Candidate, SmallFilesOptions, small_files_strategy, split_adjacent
from packstone.strategy.tree_view import note_odd_runs

SMALL = SmallFilesOptions(threshold_bytes=100, target_bytes=100)


def test_a_decision_prints_and_gives_its_answers():
    """One line each; a rule that is off is a step, and no reason why nothing was picked."""
    pick = Pick(inputs=(0, 1), output=Level(4), reason=Reason.SIZE_RATIO, why="like sizes")
    skips = (Skip(why="too few"), Skip(why="not asked", is_off=True))
    decision = Decision(answers=(pick, *skips), steps=())
    assert [str(answer) for answer in decision] == ["0 1 -> L4  reason=size-ratio", "skip: too few", "skip: not asked"]
    assert decision.picks == (pick,)
    assert decision.why_not == "too few"


def test_small_files_are_applied_where_their_first_input_stood():
    """The output is known as ours, so the second round leaves it."""
    files = tuple(Candidate(size_bytes=size) for size in (10, 300, 10, 10, 10, 10))
    rounds = to_fixpoint(small_files_strategy(SMALL), files)
    assert len(rounds) == 2
    assert rounds[-1].after == (Candidate(size_bytes=ExactSize(50), is_known_output=True), Candidate(size_bytes=300))


@pytest.mark.parametrize("wrong", ["threshold_bytes", "target_bytes", "min_files"])
def test_small_files_refuse_what_no_folder_can_meet(wrong):
    """Before anything is decided by it."""
    with pytest.raises(InvalidInputError, match=f"{wrong} is 0; it must be at least 1"):
        SmallFilesOptions(**{"threshold_bytes": 1, "target_bytes": 1, "min_files": 1, wrong: 0})


def test_no_files_split_into_no_runs():
    """Nothing in, nothing out."""
    assert split_adjacent([], outputs=3) == []


def test_custom_needs_ids():
    """A call without any is a slip, and picks nothing; a table without segments has none to name."""
    options = CustomOptions(ids=())
    one = SegmentView(segments=(Segment(id=SegmentId(0)),))
    with pytest.raises(InvalidInputError, match="needs the ids"):
        check_ids(one, options)
    assert (pick_custom(one, options).picks, pick_custom(one, options).why_not) == ((), "custom: no segment is named")
    none = SegmentView(segments=())
    check_ids(none, options)
    assert pick_custom(none, options).why_not == "custom: there are no segments"


def test_a_level_above_the_top_is_noted():
    """The table counts as having more levels than it is configured with."""
    (note,) = note_odd_runs((SortedRun(level=7, size_bytes=1),), level_count=6)
    assert note == "a run is on level 7, so the table counts as having 8 levels"
