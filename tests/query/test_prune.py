"""Search or vector test: the same blocklets either way, the rule is kept, and what was done is reported."""

import random

import numpy as np
import pyarrow as pa
import pytest

from packstone.query.filter.expression import And, Compare, IsNull, OneOf, Op, Or, StartsWith, ValueSet
from packstone.query.filter.key_search import SEARCH_COST_BLOCKLETS, PrunedBy, build_sorted_keys, prune
from packstone.query.filter.may_match import may_match

COUNT = 20 * SEARCH_COST_BLOCKLETS


def column(values):
    """Numbers as a column."""
    return pa.array(values.tolist(), pa.int64())


def make_index(starts):
    """An index of blocklets of `a` that are ten wide, with `b` in any order and `s` as `a` in text."""
    text = pa.array([f"k{start:09d}" for start in starts.tolist()])
    other = np.arange(len(starts)) * 7919 % 1000
    zeros = column(np.zeros(len(starts), dtype=np.int64))
    return pa.table(
        {
            "rows": column(np.full(len(starts), 10)),
            "start.a": column(starts),
            "end.a": column(starts + 9),
            "start.s": text,
            "end.s": text,
            "min.a": column(starts),
            "max.a": column(starts + 9),
            "nulls.a": zeros,
            "min.b": column(other),
            "max.b": column(other + 1),
            "nulls.b": zeros,
            "min.s": text.cast(pa.binary()),
            "max.s": text.cast(pa.binary()),
            "nulls.s": zeros,
        }
    )


SORTED = make_index(np.arange(COUNT) * 10)
FOUR_RUNS = make_index(np.tile(np.arange(COUNT // 4) * 40, 4))


def compare(name, op, value):
    """A comparison of a number."""
    return Compare(column=name, op=Op(op), literal=pa.scalar(value, pa.int64()))


def one_of(*values):
    """``a IN (values)``."""
    return OneOf(column="a", literals=ValueSet(array=pa.array(sorted(values), pa.int64())))


FILTERS = [
    (compare("a", "=", 5005), "tree", 1),
    (compare("a", "=", -5), "tree", 1),
    (compare("a", "<", 95), "tree", 1),
    (compare("a", ">", 10 * COUNT - 95), "tree", 1),
    (compare("a", ">=", 0), "tree", 1),
    (And(parts=(compare("b", "<", 100), compare("a", ">=", 5000), compare("a", "<", 9000))), "tree", 1),
    (one_of(5, 50_005), "tree", 2),
    (one_of(*range(0, 10 * COUNT, 10_000)), "tree", 1),
    (Or(parts=(compare("a", "<", 55), compare("a", "=", 70_000))), "tree", 2),
    (And(parts=(Or(parts=(compare("a", "<", 55), compare("a", "=", 70_000))), compare("b", "<", 500))), "tree", 2),
    (IsNull(column="a"), "tree", 1),
    (compare("a", "<>", 5), "vector", 0),
    (compare("b", "=", 5), "vector", 0),
    (Or(parts=(compare("a", "<", 55), compare("b", "=", 5))), "vector", 0),
]


@pytest.mark.parametrize(("node", "by", "ranges"), FILTERS, ids=[str(node)[:40] for node, _, _ in FILTERS])
@pytest.mark.parametrize("index", [SORTED, FOUR_RUNS], ids=["one run", "four runs"])
def test_a_search_keeps_what_the_vector_test_keeps(index, node, by, ranges):
    """Whatever is chosen, the positions are the same, and the choice is the one the rule says."""
    keys = build_sorted_keys(index, ("a",))
    found = prune(node, index, keys=keys)
    assert found.kept.tolist() == np.flatnonzero(may_match(node, index)).tolist()
    assert found.blocklets == index.num_rows
    assert found.by == by
    if keys.run_count == 1:
        assert found.searches == ranges
        assert len(found.kept) <= found.tested <= index.num_rows


def test_a_search_tests_only_what_it_found():
    """A point in a sorted segment looks at one blocklet."""
    found = prune(compare("a", "=", 5005), SORTED, keys=build_sorted_keys(SORTED, ("a",)))
    assert (found.kept.tolist(), found.tested) == ([500], 1)
    assert str(found) == "1 of 81920 blocklets by tree (1 range of sort keys; 1 searches, 1 tested)"


def test_a_prefix_is_searched_in_a_composite_key():
    """Text first, then a number."""
    keys = build_sorted_keys(SORTED, ("s", "a"))
    prefix = StartsWith(column="s", prefix=pa.scalar("k00000100"))
    assert prune(prefix, SORTED, keys=keys).kept.tolist() == [100]
    both = And(parts=(Compare(column="s", op=Op.EQ, literal=pa.scalar("k000001000")), compare("a", "=", 1003)))
    found = prune(both, SORTED, keys=keys)
    assert (found.kept.tolist(), found.by, found.tested) == ([100], PrunedBy.TREE, 1)


def test_without_a_worth_there_is_no_search():
    """An unsorted segment, a small one, one of too many runs: the vector test, and it says why."""
    node = compare("a", "=", 5005)
    assert prune(node, SORTED).why == "not sorted"
    small = SORTED.slice(0, 2 * SEARCH_COST_BLOCKLETS - 1)
    assert prune(node, small, keys=build_sorted_keys(small, ("a",))).why == "too small to search"
    order = np.arange(COUNT)
    random.Random(1).shuffle(order)
    mixed = make_index(order * 10)
    found = prune(node, mixed, keys=build_sorted_keys(mixed, ("a",)))
    assert (found.by, found.why, len(found.kept)) == (PrunedBy.VECTOR, "too many runs", 1)


def test_an_empty_index_has_nothing_to_read():
    """No blocklets, no keys, no error."""
    empty = SORTED.slice(0, 0)
    assert build_sorted_keys(empty, ("a",)) is None
    assert prune(compare("a", "=", 1), empty).kept.tolist() == []
