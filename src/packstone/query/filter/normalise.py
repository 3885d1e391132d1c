"""Rewrite a filter to the form that is cheapest to prune and evaluate; it stays TRUE for the same rows.

First NOT is pushed down to the leaves, which preserves three-valued logic. After that nothing negates, so a part that
is unknown selects no more rows than one that is FALSE, and the rules only have to preserve TRUE. They run over the tree
from the leaves up until none changes it.

======================================  ============================  ====================
before                                  after                         rule
======================================  ============================  ====================
``NOT (a < 5 OR b IS NULL)``            ``a >= 5 AND b IS NOT NULL``  push_not
``a = NULL``, ``a NOT IN (1, NULL)``    ``FALSE``                     settle_leaf
``a IN (7)``, ``a IN (7, NULL)``        ``a = 7``                     settle_leaf
``x AND TRUE``, ``x OR NULL``           ``x``                         fold_truths
``x AND x``                             ``x``                         drop_duplicates
``a > 3 AND a >= 5 AND a < 9``          ``a >= 5 AND a < 9``          merge_conjunction
``a < 1 AND a > 2``                     ``FALSE``                     merge_conjunction
``a = 1 OR a IN (2, 3)``                ``a IN (1, 2, 3)``            merge_disjunction
======================================  ============================  ====================

The last two compare literals, so they apply to *resolved* trees only: `a > '9' AND a > '10'` has different meanings for
text and for numbers. They merge the tests of one column under one AND or OR into the smallest set of tests that selects
the same rows. Only tests whose values are Arrow scalars take part; the others (prefixes, SQL text, nested ANDs) stay as
they are. Unresolved trees get the other rules.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final, assert_never

import pyarrow as pa
import pyarrow.types as pt

from packstone.query.filter.expression import (
    FALSE,
    TRUE,
    And,
    Compare,
    Expression,
    IsNull,
    Kind,
    Literal,
    Not,
    OneOf,
    Op,
    Or,
    StartsWith,
    Truth,
    Unknown,
    ValueSet,
    all_of,
    any_of,
)

# ---- merge_conjunction, merge_disjunction: they may turn unknown into FALSE, so they need trees without NOT ----

# A position between values: just before (0) or just after (1) one of them. `< 5` and `>= 5` are both just before 5.
Edge = tuple[Any, int]
_EDGE_AFTER: Final = {Op.LT: 0, Op.GE: 0, Op.LE: 1, Op.GT: 1}
_UPPER, _LOWER = frozenset({Op.LT, Op.LE}), frozenset({Op.GT, Op.GE})


def sort_key(scalar: pa.Scalar) -> Any:
    """A value with Spark's order: text by bytes, NaN last, times by their ticks."""
    kind = scalar.type
    if pt.is_timestamp(kind) or pt.is_date(kind):
        return scalar.value
    value = scalar.as_py()
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, float):
        return (True, 0.0) if math.isnan(value) else (False, value)
    return value


def merge_conjunction(node: Expression) -> Expression:
    """Merge the tests of each column under an AND."""
    if not isinstance(node, And):
        return node
    return all_of(_merged(node.parts, _merge_all))


def merge_disjunction(node: Expression) -> Expression:
    """Merge the tests of each column under an OR."""
    if not isinstance(node, Or):
        return node
    return any_of(_merged(node.parts, _merge_any))


def _merged(parts: tuple[Expression, ...], merge: Any) -> list[Expression]:
    """Replace the tests of a column by the merged ones, at the position of the first of them."""
    by_column: dict[str, list[Expression]] = {}
    for part in parts:
        if (column := _column_of(part)) is not None:
            by_column.setdefault(column, []).append(part)
    merged: list[Expression] = []
    for part in parts:
        column = _column_of(part)
        if column is None or len(by_column[column]) == 1:
            merged.append(part)
        elif part is by_column[column][0]:
            merged.extend(merge(column, by_column[column]))
    return merged


def _column_of(part: Expression) -> str | None:
    match part:
        case Compare() if not isinstance(part.literal, Literal):
            return part.column
        case OneOf() if isinstance(part.literals, ValueSet):
            return part.column
        case StartsWith() if not isinstance(part.prefix, Literal):
            return part.column
        case IsNull():
            return part.column
    return None


@dataclass(slots=True, kw_only=True)
class _Tests:
    """The tests of one column by kind, with values by their sort keys."""

    allowed: list[dict[Any, pa.Scalar]] = field(default_factory=list)
    refused: dict[Any, pa.Scalar] = field(default_factory=dict)
    lower: list[tuple[Edge, Compare]] = field(default_factory=list)
    upper: list[tuple[Edge, Compare]] = field(default_factory=list)
    null: set[bool] = field(default_factory=set)  # True: IS NULL, False: IS NOT NULL
    others: list[Expression] = field(default_factory=list)

    def add(self, part: Expression) -> None:
        match part:
            case Compare(op=Op.EQ):
                self.allowed.append({sort_key(part.literal): part.literal})
            case Compare(op=Op.NE):
                self.refused[sort_key(part.literal)] = part.literal
            case Compare():
                edge = (sort_key(part.literal), _EDGE_AFTER[part.op])
                (self.upper if part.op in _UPPER else self.lower).append((edge, part))
            case OneOf(literals=ValueSet() as values):
                keyed = {sort_key(value): value for value in values}
                if part.negated:
                    self.refused |= keyed
                else:
                    self.allowed.append(keyed)
            case IsNull():
                self.null.add(not part.negated)
            case _:
                self.others.append(part)


def _sort_tests(parts: Iterable[Expression]) -> _Tests:
    tests = _Tests()
    for part in parts:
        tests.add(part)
    return tests


def _merge_all(column: str, parts: list[Expression]) -> list[Expression]:
    tests = _sort_tests(parts)
    has_value_test = bool(tests.allowed or tests.refused or tests.lower or tests.upper or tests.others)
    if True in tests.null:
        return [FALSE] if has_value_test or False in tests.null else [IsNull(column=column)]
    if not has_value_test:
        return [IsNull(column=column, negated=True)]  # redundant beside a value test, which is unknown for NULL
    lower = max(tests.lower, key=lambda found: found[0], default=None)
    upper = min(tests.upper, key=lambda found: found[0], default=None)
    if tests.allowed:
        kept = {key: value for key, value in tests.allowed[0].items() if _is_between(key, lower, upper)}
        kept = {key: value for key, value in kept.items() if key not in tests.refused}
        kept = {key: value for key, value in kept.items() if all(key in others for others in tests.allowed[1:])}
        return [_one_of(column, kept), *tests.others] if kept else [FALSE]
    if lower and upper and lower[0] >= upper[0]:
        return [FALSE]
    refused = {key: value for key, value in tests.refused.items() if _is_between(key, lower, upper)}
    if lower and upper and lower[0] == (upper[0][0], 0) and upper[0][1] == 1:  # a >= 5 AND a <= 5
        return [FALSE] if refused else [Compare(column=column, op=Op.EQ, literal=lower[1].literal), *tests.others]
    ranges: list[Expression] = [found[1] for found in (lower, upper) if found]
    return [*ranges, *([_one_of(column, refused, negated=True)] if refused else []), *tests.others]


def _merge_any(column: str, parts: list[Expression]) -> list[Expression]:
    tests = _sort_tests(parts)
    if tests.null == {True, False}:
        return [TRUE]
    nulls: list[Expression] = [IsNull(column=column, negated=not wanted) for wanted in tests.null]
    if False in tests.null:
        return nulls  # every other test selects values only
    lower = min(tests.lower, key=lambda found: found[0], default=None)
    upper = max(tests.upper, key=lambda found: found[0], default=None)
    if lower and upper and lower[0] <= upper[0]:  # a < 5 OR a >= 3
        return [TRUE] if nulls else [IsNull(column=column, negated=True)]
    values = {key: value for found in tests.allowed for key, value in found.items()}
    values = {key: value for key, value in values.items() if not _is_beyond(key, lower, upper)}
    kept: list[Expression] = [found[1] for found in (lower, upper) if found]
    kept += [_one_of(column, values)] if values else []
    # NOT INs are not merged: under OR they mean NOT IN (their intersection), which is rare.
    kept += [part for part in parts if _is_refusal(part)]
    return [*kept, *tests.others, *nulls]


def _is_refusal(part: Expression) -> bool:
    return (isinstance(part, Compare) and part.op is Op.NE) or (isinstance(part, OneOf) and part.negated)


Bound = tuple[Edge, Compare] | None


def _is_between(key: Any, lower: Bound, upper: Bound) -> bool:
    """Whether a value is between the lower and the upper edge."""
    return (lower is None or lower[0] <= (key, 0)) and (upper is None or (key, 1) <= upper[0])


def _is_beyond(key: Any, lower: Bound, upper: Bound) -> bool:
    """Whether one of the ranges includes the value."""
    return (lower is not None and lower[0] <= (key, 0)) or (upper is not None and (key, 1) <= upper[0])


def _one_of(column: str, values: dict[Any, pa.Scalar], *, negated: bool = False) -> Expression:
    ordered = [values[key] for key in sorted(values)]
    if len(ordered) == 1:
        return Compare(column=column, op=Op.NE if negated else Op.EQ, literal=ordered[0])
    array = pa.array(ordered, type=ordered[0].type)
    return OneOf(column=column, literals=ValueSet(array=array), negated=negated)


# ---- normalise and its other rules ----

_OPPOSITE: Final = {Op.EQ: Op.NE, Op.NE: Op.EQ, Op.LT: Op.GE, Op.GE: Op.LT, Op.GT: Op.LE, Op.LE: Op.GT}


def normalise(expression: Expression) -> Expression:
    """Apply the rules until none changes anything."""
    current = push_not(expression)
    while True:
        after = _apply(current)
        if after == current:
            return after
        current = after


def push_not(expression: Expression) -> Expression:
    """Push NOT to the leaves; every row keeps its truth, unknown included."""
    match expression:
        case Not():
            return _negated(expression.part)
        case And():
            return all_of(push_not(part) for part in expression.parts)
        case Or():
            return any_of(push_not(part) for part in expression.parts)
        case _:
            return expression


def settle_leaf(leaf: Expression) -> Expression:
    """Replace a leaf that compares with NULL, and a list of one value."""
    match leaf:
        case Truth(value=None):
            return FALSE
        case Compare(literal=Literal(kind=Kind.NULL)) | StartsWith(prefix=Literal(kind=Kind.NULL)):
            return FALSE
        case OneOf():
            return _settle_list(leaf)
        case StartsWith(prefix=Literal(value=""), negated=negated):
            return FALSE if negated else IsNull(column=leaf.column, negated=True)
    return leaf


def fold_truths(node: Expression) -> Expression:
    """Drop constants that do not decide an AND or OR; replace it by a constant that does."""
    match node:
        case And():
            return FALSE if FALSE in node.parts else all_of(part for part in node.parts if part != TRUE)
        case Or():
            return TRUE if TRUE in node.parts else any_of(part for part in node.parts if part != FALSE)
    return node


def drop_duplicates(node: Expression) -> Expression:
    """Keep each part once."""
    match node:
        case And():
            return all_of(dict.fromkeys(node.parts))
        case Or():
            return any_of(dict.fromkeys(node.parts))
    return node


Rule = Callable[[Expression], Expression]
RULES: Final[tuple[Rule, ...]] = (settle_leaf, fold_truths, drop_duplicates, merge_conjunction, merge_disjunction)


def _apply(expression: Expression) -> Expression:
    match expression:
        case And():
            expression = all_of(_apply(part) for part in expression.parts)
        case Or():
            expression = any_of(_apply(part) for part in expression.parts)
    for rule in RULES:
        expression = rule(expression)
    return expression


def _negated(part: Expression) -> Expression:
    match part:
        case Not():
            return push_not(part.part)
        case And():
            return any_of(_negated(inner) for inner in part.parts)
        case Or():
            return all_of(_negated(inner) for inner in part.parts)
        case Compare():
            # Correct for NaN too: it has a position in the order, so either < or >= holds.
            return replace(part, op=_OPPOSITE[part.op])
        case OneOf():
            return OneOf(column=part.column, literals=part.literals, negated=not part.negated)
        case IsNull():
            return IsNull(column=part.column, negated=not part.negated)
        case StartsWith():
            return StartsWith(column=part.column, prefix=part.prefix, negated=not part.negated)
        case Truth():
            return part if part.value is None else Truth(value=not part.value)
        case Unknown():
            return Unknown(text=f"NOT ({part.text})", columns=part.columns)
        case _:
            assert_never(part)


def _settle_list(node: OneOf) -> Expression:
    if isinstance(node.literals, ValueSet):
        values: tuple[object, ...] = tuple(node.literals) if len(node.literals) < 2 else ()  # one
        if values:
            return Compare(column=node.column, op=Op.NE if node.negated else Op.EQ, literal=values[0])
        return node
    literals = tuple(dict.fromkeys(node.literals))
    if not literals:
        return TRUE if node.negated else FALSE
    present = tuple(value for value in literals if value.kind is not Kind.NULL)
    if not present or (node.negated and len(present) < len(literals)):
        return FALSE
    if len(present) == 1:
        return Compare(column=node.column, op=Op.NE if node.negated else Op.EQ, literal=present[0])
    return OneOf(column=node.column, literals=present, negated=node.negated)
