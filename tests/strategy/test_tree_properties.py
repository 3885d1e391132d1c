"""What holds of the merge-tree strategies for every table, not only for the scenarios."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from section_model import apply_section_plan

from packstone.model.sorted_run import SortedRun, TreeFile
from packstone.strategy.force_up_level0 import ForceUpLevel0Options, force_up_level0_strategy
from packstone.strategy.full import FullOptions, full_strategy
from packstone.strategy.pick import run_round, to_fixpoint
from packstone.strategy.sections import SectionOptions, plan_sections, split_sections
from packstone.strategy.tree_view import TreeView
from packstone.strategy.universal import Generation, UniversalOptions, top_level, universal_strategy

sizes = st.one_of(st.integers(0, 20), st.integers(0, 10**12))
maybe = st.one_of(st.none(), st.integers(0, 2000))


@st.composite
def trees(draw) -> TreeView:
    """Tables as they can be: some runs on level 0, at most one on each level above."""
    fresh = draw(st.lists(sizes, max_size=10))
    above = draw(st.dictionaries(st.integers(1, 8), sizes, max_size=8))
    runs = [SortedRun(level=0, size_bytes=size) for size in fresh]
    runs += [SortedRun(level=level, size_bytes=above[level]) for level in sorted(above)]
    return TreeView(
        runs=tuple(run for run in runs),
        ms_since_full=draw(maybe),
        offpeak_ratio_pct=draw(st.integers(0, 200)),
        calls_since_force=draw(st.integers(0, 5)),
    )


options = st.builds(
    UniversalOptions,
    max_size_amp_pct=st.integers(0, 400),
    size_ratio_pct=st.integers(0, 100),
    trigger=st.integers(1, 8),
    levels=st.one_of(st.none(), st.integers(2, 9)),
    rules=st.sampled_from(Generation),
    early_total_bytes=maybe,
    early_incremental_bytes=maybe,
    early_interval_ms=maybe,
)
strategies = st.one_of(
    options.map(universal_strategy),
    st.builds(ForceUpLevel0Options, universal=options, interval=st.integers(1, 5)).map(force_up_level0_strategy),
    options.map(lambda one: full_strategy(FullOptions(universal=one))),
)


@given(trees(), strategies)
def test_a_pick_is_a_prefix_and_leaves_no_level_0_behind(view, strategy):
    """Whatever fires, the newest runs go, all of level 0 among them."""
    for pick in strategy.pick(view).picks:
        assert pick.inputs == tuple(range(len(pick.inputs)))
        assert pick.inputs
        assert all(run.level > 0 for run in view.runs[len(pick.inputs) :])


@given(trees(), strategies)
def test_the_output_is_never_level_0_and_never_meets_another_run(view, strategy):
    """After every round the table is one that can exist: runs ascend, one on each level above 0."""
    done = run_round(strategy, view)
    for pick in done.decision.picks:
        assert pick.output > 0
        assert max(view.runs[at].level for at in pick.inputs) <= pick.output
    levels = [run.level for run in done.after.runs]
    assert all(a < b or a == b == 0 for a, b in pairwise(levels))


@given(trees(), strategies)
def test_repeated_picking_ends_with_every_byte_still_there(view, strategy):
    """A round merges runs or lifts one, so there are at most as many rounds as runs and levels."""
    rounds = to_fixpoint(strategy, view)
    assert len(rounds) <= 2 * len(view.runs) + 2
    assert not rounds[-1].decision.picks
    assert rounds[-1].decision.why_not
    assert rounds[-1].after.total_bytes == view.total_bytes


@given(trees(), strategies)
def test_planning_twice_is_equal(view, strategy):
    """A pick is a function of its arguments and of nothing else; it says each rule it asked."""
    assert strategy.pick(view) == strategy.pick(view)
    assert strategy.pick(view).steps


@given(trees(), options)
def test_universal_leaves_at_most_trigger_runs(view, asked):
    """What the run-count rule is for: readers never merge more than the trigger."""
    after = to_fixpoint(universal_strategy(asked), view)[-1].after
    assert len(after.runs) <= asked.trigger


@given(trees(), options)
def test_radical_empties_level_0(view, asked):
    """What force-up-level0 is for."""
    strategy = force_up_level0_strategy(ForceUpLevel0Options(universal=asked))
    assert all(run.level > 0 for run in to_fixpoint(strategy, view)[-1].after.runs)


@given(trees(), options, st.integers(1, 6))
def test_gentle_forces_on_every_interval(view, asked, interval):
    """Called again and again without new data, level 0 is empty after at most one interval of quiet calls."""
    strategy = force_up_level0_strategy(ForceUpLevel0Options(universal=asked, interval=interval))
    for _ in range(interval + len(view.runs) + 1):
        view = run_round(strategy, view).after
    assert all(run.level > 0 for run in view.runs)


@given(trees(), options)
def test_full_leaves_one_run_on_top(view, asked):
    """What full is for."""
    after = to_fixpoint(full_strategy(FullOptions(universal=asked)), view)[-1].after
    assert [run.level for run in after.runs] == [top_level(view, asked)] * min(1, len(view.runs))


def test_a_forced_rewrite_ends():
    """Told to rewrite all files, the loop stops after one round that changes nothing."""
    file = TreeFile(name="a", level=5, size_bytes=1, min_key=1, max_key=2)
    view = TreeView(runs=(SortedRun(level=5, size_bytes=1, files=(file,)),))
    rounds = to_fixpoint(full_strategy(FullOptions(force_rewrite=True)), view)
    assert len(rounds) == 1
    assert rounds[0].decision.picks


@st.composite
def buckets(draw) -> tuple[TreeFile, ...]:
    """Files of any key ranges on levels 0 to 2."""
    ranges = draw(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 12)), min_size=1, max_size=12))
    return tuple(
        TreeFile(
            name=f"f{at}",
            level=draw(st.integers(0, 2)),
            size_bytes=draw(st.integers(0, 6)),
            min_key=first,
            max_key=first + length,
            delete_rows=draw(st.sampled_from([0, 0, 3, None])),
            may_be_expired=draw(st.booleans()),
        )
        for at, (first, length) in enumerate(ranges)
    )


@given(buckets())
def test_sections_never_meet_and_their_runs_are_sorted(files):
    """Every file is in one section; keys of two sections never meet; within a run they ascend strictly."""
    sections = split_sections(files)
    flat = [[file for run in section for file in run] for section in sections]
    assert sorted(file.name for section in flat for file in section) == sorted(file.name for file in files)
    for before, after in pairwise(flat):
        assert max(file.max_key for file in before) < min(file.min_key for file in after)
    for section in sections:
        assert all(a.max_key < b.min_key for run in section for a, b in pairwise(run))
        deepest = max(
            sum(1 for run in section for file in run if file.min_key <= key <= file.max_key) for key in range(73)
        )
        assert len(section) == deepest  # the fewest runs that can be: as many as files share one key


@given(buckets(), st.builds(SectionOptions, min_file_bytes=st.integers(0, 6), force_rewrite=st.booleans()))
def test_every_file_is_rewritten_upgraded_or_kept_and_nothing_overlaps(files, asked):
    """Each file is used once, and what comes out could be one sorted run on the output level."""
    plan = plan_sections(files, asked, output_level=2, top_level=2, highest_level=2)
    used = [file.name for work in plan.work for file in work.files]
    assert sorted(used + [file.name for file in plan.untouched]) == sorted(file.name for file in files)
    if not plan.is_no_op:
        after = sorted(apply_section_plan(files, plan), key=lambda file: file.min_key)
        assert {file.level for file in after} == {2}
        assert all(a.max_key < b.min_key for a, b in pairwise(after))
    assert plan == plan_sections(files, asked, output_level=2, top_level=2, highest_level=2)
