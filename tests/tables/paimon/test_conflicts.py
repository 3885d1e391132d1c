"""Edits against a table that moved on: what is a conflict, in which bucket, and what is none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paimon_scene import EMPTY_ROW, data_file, edit, key_order

from packstone.errors import ConflictError, InvalidInputError
from packstone.tables.paimon.conflicts import Touched, check_edits, find_conflicts, raise_conflicts
from packstone.tables.paimon.format.data_file import FileKind

OLD = data_file("old", keys=(0, 9))
NEW = data_file("new", level=5, keys=(0, 9))


def touched(*files, buckets=(1,), bucket=0, **other):
    """A table whose only partition holds these files in one bucket."""
    return Touched(
        files={(EMPTY_ROW, bucket): files}, total_buckets={EMPTY_ROW: frozenset(buckets)} if buckets else {}, **other
    )


def why(change, table):
    """The reason of the only conflict, or None."""
    found = find_conflicts([change], table, key_order=key_order)
    return found[0].why if found else None


def test_an_edit_of_live_files_fits():
    """Inputs that are still live, and newer level-0 files beside them, are no conflict."""
    assert why(edit([OLD], [NEW]), touched(OLD, data_file("appended", keys=(0, 9)))) is None


def test_a_gone_input_is_a_conflict():
    """An input that somebody else compacted or overwrote names the file."""
    assert why(edit([OLD], [NEW]), touched(data_file("other"))) == "the input old is no longer live"
    assert "old" in why(edit([OLD], [NEW]), Touched(files={}, total_buckets={}))


def test_an_upgraded_input_is_a_conflict():
    """The same name on another level is another line: deleting the old one would leave a line without its ADD."""
    assert why(edit([OLD], [NEW]), touched(data_file("old", level=3))) == "the input old moved from level 0 to 3"


def test_an_input_with_other_extra_files_is_a_conflict():
    """Extra files are part of a line's identity (a file index was rebuilt)."""
    assert "extra files" in why(edit([OLD], [NEW]), touched(data_file("old", extra_files=("old.index",))))


def test_a_repeated_commit_is_a_conflict():
    """An output that is live already was committed before."""
    assert why(edit([], [NEW]), touched(NEW)) == "the output new is live already"


def test_an_upgrade_fits():
    """DELETE on level 0 and ADD on level 5 of one name is how a file moves."""
    upgrade = edit([OLD], [data_file("old", level=5)])
    assert why(upgrade, touched(OLD)) is None
    assert [entry.kind for entry in upgrade.entries()] == [FileKind.DELETE, FileKind.ADD]
    assert upgrade.rewritten == ()


@pytest.mark.parametrize(
    ("keys", "level", "conflict"),
    [
        ((10, 19), 5, False),
        ((9, 19), 5, True),  # equal border keys overlap
        ((3, 4), 5, True),
        ((-5, 20), 5, True),
        ((-9, -1), 5, False),
        ((0, 9), 4, False),  # another level
        ((0, 9), 0, False),  # level 0 may overlap
    ],
)
def test_key_ranges_of_a_level_must_not_overlap(keys, level, conflict):
    """Two jobs may each compact their own level 0 to one level; the second must see the first one's range."""
    found = why(edit([OLD], [NEW]), touched(OLD, data_file("rival", level=level, keys=keys)))
    assert (found is not None) is conflict
    if conflict:
        assert "overlap on level 5" in found
        assert "rival" in found


def test_append_tables_have_no_key_ranges():
    """Without a key nothing can overlap."""
    rival = data_file("rival", level=5, keys=(0, 9))
    assert find_conflicts([edit([OLD], [NEW])], touched(OLD, rival), key_order=None) == ()


@pytest.mark.parametrize(("there", "planned", "conflict"), [((4,), 4, False), ((4,), 8, True), ((-1,), -1, False)])
def test_a_rescaled_partition_is_a_conflict(there, planned, conflict):
    """A partition keeps one number of buckets; -1 means that a table has none."""
    found = why(edit([OLD], [NEW], total_buckets=planned), touched(OLD, buckets=there))
    assert (found is not None) is conflict


def test_new_deletion_vectors_are_a_conflict():
    """A DELETE of rows of an input, committed during the merge, would be undone by the edit."""
    table = touched(OLD, vectors={(EMPTY_ROW, 0): {"old": "index-1"}}, covered={"index-1": frozenset({"old"})})
    assert "deletion vectors" in why(edit([OLD], [NEW]), table)
    assert why(edit([OLD], [NEW], index_files=("index-1",)), table) is None
    assert "index-0" in why(edit([OLD], [NEW], index_files=("index-0", "index-1")), table)


def test_an_upgraded_file_keeps_its_vectors():
    """A vector is bound to a file's name, which an upgrade does not change."""
    table = touched(OLD, vectors={(EMPTY_ROW, 0): {"old": "index-1"}}, covered={"index-1": frozenset({"old"})})
    assert why(edit([OLD], [data_file("old", level=5)]), table) is None


def test_vectors_of_files_that_stay_are_kept():
    """An index file that also covers other files cannot go with the inputs."""
    table = touched(
        OLD,
        data_file("stays", level=5, keys=(50, 60)),
        vectors={(EMPTY_ROW, 0): {"old": "index-1", "stays": "index-1"}},
        covered={"index-1": frozenset({"old", "stays"})},
    )
    assert "files that stay (stays)" in why(edit([OLD], [NEW], index_files=("index-1",)), table)


def test_only_the_touched_bucket_conflicts():
    """One busy bucket does not cost the others their commit."""
    table = Touched(files={(EMPTY_ROW, 0): (), (EMPTY_ROW, 1): (OLD,)}, total_buckets={EMPTY_ROW: frozenset({2})})
    edits = [edit([OLD], [NEW], bucket=number, total_buckets=2) for number in (0, 1)]
    found = find_conflicts(edits, table, key_order=key_order)
    assert [conflict.bucket for conflict in found] == [0]
    with pytest.raises(ConflictError, match="in 1 buckets: bucket-0: the input old") as caught:
        raise_conflicts(found)
    assert caught.value.facts["conflicts"][0].bucket == 0
    assert find_conflicts(edits[1:], table, key_order=key_order) == ()


@pytest.mark.parametrize(
    ("edits", "told"),
    [
        ([edit([OLD], [NEW]), edit([], [NEW])], "Two edits"),
        ([edit([OLD], [NEW]), edit([OLD], [NEW], bucket=1, total_buckets=2)], "disagree"),
        ([edit([], [])], "changes nothing"),
        ([edit([OLD, OLD], [NEW])], "twice"),
        ([edit([OLD], [OLD])], "twice"),
        ([edit([OLD], [NEW, data_file("new", level=4)])], "adds a file twice"),
    ],
)
def test_edits_must_agree_among_themselves(edits, told):
    """A set of edits that contradicts itself is refused before anything is read."""
    with pytest.raises(InvalidInputError, match=told):
        check_edits(edits)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 10), st.integers(1, 3)), max_size=8))
def test_overlap_is_found_as_by_comparing_all_pairs(ranges):
    """Sorting by the smallest key finds an overlap exactly if some pair of a level overlaps."""
    files = [data_file(f"f{n}", level=level, keys=(low, low + more)) for n, (low, more, level) in enumerate(ranges)]
    pairs = [
        (one, other)
        for n, one in enumerate(ranges)
        for other in ranges[n + 1 :]
        if one[2] == other[2] and one[0] <= other[0] + other[1] and other[0] <= one[0] + one[1]
    ]
    change = edit([OLD], [data_file("new", level=9, keys=(0, 9))])
    assert (why(change, touched(OLD, *files)) is not None) is bool(pairs)
