"""What holds of the small-files strategy for every folder, not only for the scenarios."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from packstone.strategy.pick import Decision, Pick, Skip
from packstone.strategy.small_files import (
    MIN_DROP_PCT,
    Candidate,
    SmallFilesOptions,
    apply_small_files,
    count_outputs,
    is_small,
    pick_small_files,
    split_adjacent,
)

candidates = st.builds(
    Candidate,
    size_bytes=st.one_of(st.integers(0, 50), st.integers(0, 2000)),
    group=st.integers(0, 3),
    is_known_output=st.booleans(),
)
folders = st.lists(candidates, max_size=60)
options = st.builds(
    SmallFilesOptions,
    threshold_bytes=st.integers(1, 1500),
    target_bytes=st.integers(1, 1500),
    min_files=st.integers(2, 8),
)


def picks_of(folder: list[Candidate], asked: SmallFilesOptions) -> list[Pick]:
    """The picks without the skips."""
    return [answer for answer in pick_small_files(folder, asked) if isinstance(answer, Pick)]


def apply(folder: list[Candidate], picks: list[Pick]) -> list[Candidate]:
    """The folder after the picks."""
    return list(apply_small_files(folder, Decision(answers=tuple(picks), steps=())))


@given(folders, options)
def test_planning_twice_is_equal(folder, asked):
    """A pick is a function of its arguments and of nothing else."""
    assert pick_small_files(folder, asked) == pick_small_files(list(folder), asked)


@given(folders, options)
def test_every_input_is_used_at_most_once(folder, asked):
    """No file goes into two outputs, and only small files go into any."""
    used = [at for pick in picks_of(folder, asked) for at in pick.inputs]
    assert len(used) == len(set(used))
    assert all(is_small(folder[at].size_bytes, asked) for at in used)


@given(folders, options)
def test_the_number_of_files_always_shrinks(folder, asked):
    """Every pick joins at least two files, and of a group that is touched at least a quarter of the files goes."""
    picks = picks_of(folder, asked)
    assert all(len(pick.inputs) >= 2 for pick in picks)
    for group in {folder[pick.inputs[0]].group for pick in picks}:
        mine = [pick for pick in picks if folder[pick.inputs[0]].group == group]
        saved = sum(len(pick.inputs) - 1 for pick in mine)
        small = [file for file in folder if file.group == group and is_small(file.size_bytes, asked)]
        fresh = [file for file in small if not file.is_known_output]
        has_enough = len(fresh) >= asked.min_files or (fresh and len(small) - len(fresh) >= asked.min_files)
        members = small if has_enough else fresh
        assert saved * 100 >= len(members) * MIN_DROP_PCT


@given(folders, options)
def test_groups_are_never_mixed(folder, asked):
    """All inputs of a pick agree."""
    for pick in picks_of(folder, asked):
        assert len({folder[at].group for at in pick.inputs}) == 1


@given(folders, options)
def test_adjacency_is_kept(folder, asked):
    """Inputs are in name order, and no small file of the group that takes part stands between two of them."""
    picks = picks_of(folder, asked)
    for group in range(4):
        mine = [pick for pick in picks if folder[pick.inputs[0]].group == group]
        flat = [at for pick in mine for at in pick.inputs]
        assert flat == sorted(flat)
        taken = set(flat)
        for pick in mine:
            between = set(range(pick.inputs[0], pick.inputs[-1])) - set(pick.inputs)
            assert not between & taken


@given(folders, options)
def test_outputs_stay_within_bounds(folder, asked):
    """No output is bigger than one and a half targets and the biggest file in it."""
    for pick in picks_of(folder, asked):
        sizes = [folder[at].size_bytes for at in pick.inputs]
        assert sum(sizes) <= 1.5 * asked.target_bytes + max(sizes)


@given(folders, options)
def test_too_few_fresh_files_are_left_alone(folder, asked):
    """Below ``min_files`` fresh small files nothing is picked, whatever was merged before."""
    fresh = [file for file in folder if is_small(file.size_bytes, asked) and not file.is_known_output]
    if len(fresh) < asked.min_files:
        (answer,) = pick_small_files(folder, asked)
        assert isinstance(answer, Skip)


@settings(max_examples=200)
@given(folders, options)
def test_repeated_picking_reaches_a_fixed_point(folder, asked):
    """Picking and applying ends, with every byte still there, and then nothing is picked any more."""
    total = sum(file.size_bytes for file in folder)
    for _ in range(len(folder) + 1):
        picks = picks_of(folder, asked)
        if not picks:
            break
        smaller = apply(folder, picks)
        assert len(smaller) < len(folder)
        folder = smaller
    assert picks_of(folder, asked) == []
    assert sum(file.size_bytes for file in folder) == total


arrivals_of_files = st.lists(
    st.lists(st.tuples(st.integers(1, 100), st.integers(0, 2)), min_size=1, max_size=8), min_size=1, max_size=40
)


@settings(max_examples=100)
@given(arrivals_of_files, st.integers(2, 6))
@example([[(10, 0), (10, 0), (10, 0), (10, 1), (10, 1), (10, 1)]] * 40, 5)
@example([[(10, 0), (10, 0), (10, 1), (10, 1), (10, 2)]] * 40, 5)
def test_appending_for_ever_keeps_the_number_of_files_bounded(arrivals, min_files):
    """Whatever arrives between the runs, in however many groups, what is left is full files and a bounded rest."""
    asked = SmallFilesOptions(threshold_bytes=400, target_bytes=400, min_files=min_files)
    folder: list[Candidate] = []
    for files in arrivals:
        folder += [Candidate(size_bytes=size, group=group) for size, group in files]
        while picks := picks_of(folder, asked):
            folder = apply(folder, picks)
        total = sum(file.size_bytes for file in folder)
        assert len(folder) <= 2 * total / asked.target_bytes + 3 * (2 * min_files + 2)


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=50), st.integers(1, 20))
def test_split_covers_all_files_in_order(sizes, outputs):
    """The runs are at most as many as asked, not empty, and together they are the row of files."""
    runs = split_adjacent(sizes, outputs=outputs)
    assert len(runs) <= outputs
    assert [at for first, last in runs for at in range(first, last)] == list(range(len(sizes)))
    assert all(first < last for first, last in runs)


@given(st.integers(0, 10**15), st.integers(1, 10**12))
def test_count_of_outputs_is_the_nearest(total, target):
    """At least one; otherwise within half a target of the bytes."""
    outputs = count_outputs(total, target)
    assert outputs >= 1
    assert outputs == 1 or abs(outputs * target - total) * 2 <= target
