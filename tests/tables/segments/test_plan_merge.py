"""How a merge is cut: sections, runs and key ranges from what the indexes tell."""

from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packstone.errors import CorruptionError
from packstone.rewrite.merge_tree.spec import unpack_value
from packstone.rewrite.sorted_merge.spec import OrderedFile
from packstone.tables.segments.plan import (
    keyed_files,
    needs_sorting_first,
    plan_joining,
    plan_pieces,
    plan_sorting,
    split_sections,
)


def make_file(name, size=100):
    """A file of this many bytes."""
    return OrderedFile(path=f"/t/{name}", size_bytes=size, rows=10)


def make_index(groups, kind=None):
    """An index of (file, first key, last key, bytes) for each row group."""
    kind = kind or pa.int64()
    counts = {}
    rows = []
    for file, first, last, size in groups:
        counts[file] = counts.get(file, -1) + 1
        rows.append((file, counts[file], size, first, last))
    names = ["file", "row_group", "size_bytes", "start.k", "end.k"]
    types = [pa.int32(), pa.int32(), pa.int64(), kind, kind]
    columns = list(zip(*rows, strict=True)) or [()] * 5
    arrays = [pa.array(list(column), one) for column, one in zip(columns, types, strict=True)]
    return pa.table(arrays, names=names)


def keyed(runs, size=100):
    """Files named a, b, … with one row group each, from their (first, last) keys."""
    files = [make_file(chr(97 + at), size) for at in range(len(runs))]
    return keyed_files(files, make_index([(at, *run, size) for at, run in enumerate(runs)]), ["k"])


def names(section):
    """Runs as strings of file names."""
    return ["".join(file.path[-1] for file in run) for run in section]


def shape(sections):
    """Sections of keyed files as strings."""
    return [[("".join(one.file.path[-1] for one in run)) for run in section] for section in sections]


def test_files_that_do_not_meet_follow_each_other():
    """Files a and b overlap, c begins where b ends: c is a section of its own."""
    assert shape(split_sections(keyed([(0, 5), (3, 8), (8, 9)]))) == [["a", "b"], ["c"]]


def test_a_key_that_fills_many_files_is_one_run_of_them():
    """Equal keys may follow each other, so no run of its own is opened for each file."""
    assert shape(split_sections(keyed([(7, 7), (7, 7), (7, 7), (6, 8)]))) == [["d", "abc"]]


def test_nulls_come_first():
    """A file that begins with null stands before all others."""
    assert shape(split_sections(keyed([(0, 1), (None, None), (None, 0)]))) == [["b"], ["c"], ["a"]]


def test_sections_are_gathered_to_the_size_of_a_task():
    """Small neighbours go together in the order of keys; no range is needed between them."""
    pieces = plan_pieces(keyed([(0, 1), (1, 2), (2, 3), (3, 4)]), task_bytes=200)
    assert [[names(section) for section in piece.sections] for piece in pieces] == [
        [["a"], ["b"]],
        [["c"], ["d"]],
    ]
    assert all(piece.key_range is None for piece in pieces)


def bounds(piece):
    """Lower and upper bound as plain values."""
    ends = (piece.key_range.lower, piece.key_range.upper)
    return tuple(None if end is None else unpack_value(end).as_py() for end in ends)


def test_a_big_section_is_cut_at_keys_of_its_row_groups():
    """Four runs over the same keys become ranges of about a task each, without gaps, open at both ends."""
    groups = [(file, first, first + 9, 25) for file in range(4) for first in range(0, 100, 10)]
    files = [make_file(chr(97 + at), 250) for at in range(4)]
    pieces = plan_pieces(keyed_files(files, make_index(groups), ["k"]), task_bytes=250)
    assert len(pieces) == 4
    found = [bounds(piece) for piece in pieces]
    assert (found[0][0], found[-1][1]) == (None, None)
    assert all(before[1] == after[0] for before, after in pairwise(found))
    assert [low for low, _ in found[1:]] == sorted({low for low, _ in found[1:]})
    assert all(20 <= high - low <= 30 for low, high in found[1:-1])


def test_a_range_reads_only_files_that_have_keys_in_it():
    """A run of many files is not opened whole by every piece."""
    runs = [(at * 10, at * 10 + 9) for at in range(10)]
    cross = [(0, 99)]
    pieces = plan_pieces(keyed([*runs, *cross]), task_bytes=300)
    assert len(pieces) > 2
    for piece in pieces:
        (section,) = piece.sections
        own = {file.path[-1] for run in section for file in run}
        low, high = bounds(piece)
        wanted = {
            chr(97 + at)
            for at, (first, last) in enumerate([*runs, *cross])
            if (high is None or first < high) and (low is None or last >= low)
        }
        assert own == wanted


def test_one_hot_key_stays_in_one_piece():
    """There is nothing to cut at."""
    (piece,) = plan_pieces(keyed([(7, 7), (7, 7), (6, 7)]), task_bytes=10)[-1:]
    assert piece.size_bytes > 10


def test_booleans_are_not_cut_and_floats_are():
    """Two values are no range; NaN and infinities have their place in the order."""
    flags = keyed_files(
        [make_file("a"), make_file("b")], make_index([(0, False, True, 50), (1, False, True, 50)], pa.bool_()), ["k"]
    )
    assert len(plan_pieces(flags, task_bytes=20)) == 1
    nan, low = float("nan"), float("-inf")
    groups = [(file, low, 0.0, 25) for file in range(2)] + [(file, 0.0, nan, 25) for file in range(2)]
    files = keyed_files(
        [make_file("a"), make_file("b")], make_index(sorted(groups, key=lambda one: one[0]), pa.float64()), ["k"]
    )
    assert [bounds(piece) for piece in plan_pieces(files, task_bytes=100)] == [(None, 0.0), (0.0, None)]


def test_unsorted_files_are_sorted_first_only_where_several_pieces_would_read_them():
    """In one piece they go in with the rest; otherwise in chunks of a task."""
    files = keyed([(0, 9)])
    extra = [make_file(name) for name in "xyz"]
    assert not needs_sorting_first(files, extra, task_bytes=1000)
    (piece,) = plan_pieces(files, extra, task_bytes=1000)
    assert len(piece.unsorted) == 3
    assert needs_sorting_first(files, extra, task_bytes=200)
    assert [len(piece.unsorted) for piece in plan_sorting(extra, task_bytes=200)] == [2, 1]


def test_joining_keeps_the_order():
    """Neighbours together, one after the other; a file bigger than a task is a task."""
    files = [make_file("a"), make_file("b"), make_file("c", 900), make_file("d")]
    pieces = plan_joining(files, task_bytes=250)
    assert [names(piece.sections[0]) for piece in pieces] == [["ab"], ["c"], ["d"]]


def test_an_index_that_misses_a_file_is_damage():
    """Its rows would be lost."""
    with pytest.raises(CorruptionError, match="/t/b"):
        keyed_files([make_file("a"), make_file("b")], make_index([(0, 1, 2, 10)]), ["k"])


files_of_runs = st.lists(
    st.tuples(st.one_of(st.none(), st.integers(0, 50)), st.one_of(st.none(), st.integers(0, 50)), st.integers(1, 500)),
    min_size=1,
    max_size=20,
)


@given(files_of_runs, st.integers(50, 2000))
def test_every_key_of_every_file_is_in_exactly_one_piece(found, task_bytes):
    """Whatever overlaps: pieces are in the order of keys, and a file's keys are read where they belong."""
    order = lambda key: -1 if key is None else key  # noqa: E731 - nulls first
    groups = [(at, *sorted(one[:2], key=order), one[2]) for at, one in enumerate(found)]
    files = [make_file(f"{at}", size) for at, (_, _, _, size) in enumerate(groups)]
    pieces = plan_pieces(keyed_files(files, make_index(groups), ["k"]), task_bytes=task_bytes)
    for at, first, last, _ in groups:
        for key in {first, last}:
            holding = [piece for piece in pieces if _has(piece, files[at], key)]
            assert len(holding) == 1
    for piece in pieces:
        for section in piece.sections:
            for run in section:
                keys = [groups[int(file.path.rpartition("/")[2])] for file in run]
                assert all(order(before[2]) <= order(after[1]) for before, after in pairwise(keys))


def _has(piece, file, key):
    if file not in [one for section in piece.sections for run in section for one in run]:
        return False
    if piece.key_range is None:
        return True
    low, high = bounds(piece)
    if key is None:
        return low is None
    return (low is None or key >= low) and (high is None or key < high)
