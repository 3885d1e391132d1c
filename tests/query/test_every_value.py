"""Every value of the awkward ones against every other: what random tests meet seldom is met here each time."""

from itertools import product

import pytest
from blocklet_model import POOL, SCHEMA, scalar, slow_index, sort_order, truth, value_set

from packstone.query.filter.expression import And, Compare, IsNull, Not, OneOf, Op, StartsWith
from packstone.query.filter.key_search import build_sorted_keys, find_key_ranges
from packstone.query.filter.may_match import may_match, must_match


def every_leaf(name):
    """Every filter on one column with one value, and some with two."""
    yield from (IsNull(column=name), IsNull(column=name, negated=True))
    for value in POOL[name]:
        yield from (Compare(column=name, op=op, literal=scalar(name, value)) for op in Op)
        for negated in (False, True):
            yield OneOf(column=name, literals=value_set(name, [value, POOL[name][0]]), negated=negated)
            yield OneOf(column=name, literals=value_set(name, [value, POOL[name][-1]]), negated=negated)
            if name in "sy":
                yield StartsWith(column=name, prefix=scalar(name, value), negated=negated)
                yield StartsWith(column=name, prefix=scalar(name, value[:1]), negated=negated)


@pytest.mark.parametrize("size", [1, 256])
@pytest.mark.parametrize("name", SCHEMA.names)
@pytest.mark.sample(3)
def test_every_pair_of_values_under_every_filter(name, size):
    """Blocklets of each two values, nulls among them: sound, with NOT and without."""
    if size == 1 and name not in "sy":
        return
    values = [None, *POOL[name]]
    blocklets = [[{name: low}, {name: high}] for low, high in product(values, values)]
    index = slow_index(blocklets, size=size)
    for leaf in every_leaf(name):
        for node in (leaf, Not(part=leaf)):
            may, must = may_match(node, index), must_match(node, index)
            truths = [[truth(node, row) for row in rows] for rows in blocklets]
            assert [at for at, found in enumerate(truths) if True in found and not may[at]] == [], str(node)
            assert [at for at, found in enumerate(truths) if found != [True, True] and must[at]] == [], str(node)


@pytest.mark.parametrize(("first", "second"), [("s", "h"), ("f", "h"), ("h", "f"), ("d", "e"), ("b", "y")])
def test_every_key_of_two_columns_is_found(first, second):
    """A sorted segment of all pairs, cut in several ways: an equal first column and any filter on the second."""
    pairs = sorted(product([None, *POOL[first]], [None, *POOL[second]]), key=lambda pair: [*map(sort_order, pair)])
    rows = [{first: one, second: other} for one, other in pairs]
    cuts = [[rows[at : at + size] for at in range(0, len(rows), size)] for size in (1, 3, len(POOL[second]) + 2)]
    cut_keys = [
        build_sorted_keys(slow_index(blocklets, sort_columns=(first, second)), (first, second)) for blocklets in cuts
    ]
    heads = [Compare(column=first, op=Op.EQ, literal=scalar(first, value)) for value in POOL[first]]
    for head, leaf in product([*heads, IsNull(column=first)], every_leaf(second)):
        node = And(parts=(head, leaf))
        matching = [truth(node, row) is True for row in rows]
        if not any(matching):
            continue
        for blocklets, keys in zip(cuts, cut_keys, strict=True):
            ranges = find_key_ranges(node, keys.columns, max_ranges=3)
            found = {at for wanted in ranges for begin, end in keys.find(wanted) for at in range(begin, end)}
            size = len(blocklets[0])
            assert {at // size for at, matches in enumerate(matching) if matches} <= found, str(node)
