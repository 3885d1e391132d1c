"""What holds of the append strategies for every set of files, not only for the scenarios."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from packstone.strategy.append_bins import AppendFile, AppendOptions, AppendView, append_strategy, is_candidate, roll
from packstone.strategy.bucketed_append import BucketedAppendOptions, bucketed_append_strategy
from packstone.strategy.pick import run_round, to_fixpoint

sizes = st.one_of(st.integers(0, 30), st.integers(0, 600))
files = st.builds(
    AppendFile,
    size_bytes=sizes,
    rows=st.integers(0, 100),
    deleted_rows=st.one_of(st.none(), st.integers(0, 100)),
    dv_index=st.sampled_from(["", "", "", "x", "y"]),
    is_compacted=st.booleans(),
)
views = st.builds(AppendView, files=st.lists(files, max_size=40).map(tuple), rounds_waited=st.integers(0, 12))
ratios = st.floats(0, 1)
bins = st.builds(
    AppendOptions,
    target_bytes=st.integers(1, 300),
    min_files=st.integers(1, 8),
    open_cost_bytes=st.integers(0, 20),
    small_ratio=ratios,
    delete_ratio=ratios,
    max_files=st.integers(1, 50),
    leftovers=st.booleans(),
)
buckets = st.builds(
    BucketedAppendOptions,
    target_bytes=st.integers(1, 300),
    min_files=st.integers(2, 8),
    small_ratio=ratios,
    full=st.booleans(),
)
strategies = st.one_of(bins.map(append_strategy), buckets.map(bucketed_append_strategy))


@given(views, strategies)
def test_repeated_picking_ends_with_every_byte_still_there(view, strategy):
    """Each round uses up small files or deletion vectors, so it ends, and then it says why."""
    rounds = to_fixpoint(strategy, view)
    assert len(rounds) <= len(view.files) + 2
    assert not rounds[-1].decision.picks
    total = sum(file.size_bytes for file in view.files)
    assert total == sum(file.size_bytes for file in rounds[-1].after.files)


@given(views, strategies)
def test_every_input_is_used_at_most_once_and_outputs_add_up(view, strategy):
    """No file goes into two outputs."""
    decision = strategy.pick(view)
    used = [at for pick in decision.picks for at in pick.inputs]
    assert len(used) == len(set(used))
    for pick in decision.picks:
        assert pick.output == sum(view.files[at].size_bytes for at in pick.inputs)
    assert decision == strategy.pick(view)


@given(views, bins)
def test_bins_hold_candidates_only_and_leave_few(view, asked):
    """Big files without many deletes are never read; without vectors fewer than min_files small ones are left."""
    decision = append_strategy(asked).pick(view)
    assert all(is_candidate(view.files[at], asked) for pick in decision.picks for at in pick.inputs)
    asked = replace(asked, max_files=100)
    after = to_fixpoint(append_strategy(asked), view)[-1].after
    assert sum(1 for file in after.files if is_candidate(file, asked)) < max(2, asked.min_files)


@given(views, buckets)
def test_a_bucket_keeps_the_order_of_its_rows(view, asked):
    """Inputs are neighbours."""
    for pick in run_round(bucketed_append_strategy(asked), view).decision.picks:
        assert pick.inputs == tuple(range(pick.inputs[0], pick.inputs[-1] + 1))


@given(files)
def test_a_file_parses_back(file):
    """What is printed is what was meant."""
    assert AppendFile.parse(str(file)) == file


@given(st.integers(0, 5000), st.integers(1, 500))
def test_rolling_cuts_at_the_target(total, target):
    """Every file but the last is full, none is bigger, and there is always one."""
    parts = roll(total, target_bytes=target)
    assert sum(parts) == total
    assert parts
    assert all(part == target for part in parts[:-1])
    assert parts[-1] <= target
