"""Tests of one column under one AND or OR, as the smallest set of tests that selects the same rows.

Only tests whose values are Arrow scalars take part; the others (prefixes, SQL text, nested ANDs) stay as they are.
All of it may turn unknown into FALSE, so it is for trees without NOT.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as pt

from packstone.pruning.expression import (
    FALSE,
    TRUE,
    And,
    Compare,
    Expression,
    IsNull,
    Literal,
    OneOf,
    Op,
    Or,
    StartsWith,
    ValueSet,
    all_of,
    any_of,
)

# A place between values: just before (0) or just after (1) one of them. `< 5` and `>= 5` are both just before 5.
Edge = tuple[Any, int]
_EDGE_AFTER: Final = {Op.LT: 0, Op.GE: 0, Op.LE: 1, Op.GT: 1}
_UPPER, _LOWER = frozenset({Op.LT, Op.LE}), frozenset({Op.GT, Op.GE})


def sort_key(scalar: pa.Scalar) -> Any:  # noqa: ANN401 - of whatever type orders as the column does
    """What orders as Spark orders the values: text by bytes, NaN last, times by their ticks."""
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


def _merged(parts: tuple[Expression, ...], merge: Any) -> list[Expression]:  # noqa: ANN401 - one of the two below
    """Replace the tests of a column by the merged ones, where the first of them stood."""
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
    """The tests of one column, sorted by what they say; values by their sort keys."""

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
        return [IsNull(column=column, negated=True)]  # every other test is unknown for NULL, which selects as little
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
    # NOT INs are left one by one: what OR makes of them is their intersection, which nobody writes.
    kept += [part for part in parts if _is_refusal(part)]
    return [*kept, *tests.others, *nulls]


def _is_refusal(part: Expression) -> bool:
    return (isinstance(part, Compare) and part.op is Op.NE) or (isinstance(part, OneOf) and part.negated)


Bound = tuple[Edge, Compare] | None


def _is_between(key: Any, lower: Bound, upper: Bound) -> bool:  # noqa: ANN401 - a sort key
    """Whether a value is above the lower and below the upper edge."""
    return (lower is None or lower[0] <= (key, 0)) and (upper is None or (key, 1) <= upper[0])


def _is_beyond(key: Any, lower: Bound, upper: Bound) -> bool:  # noqa: ANN401 - a sort key
    """Whether one of the ranges has the value already."""
    return (lower is not None and lower[0] <= (key, 0)) or (upper is not None and (key, 1) <= upper[0])


def _one_of(column: str, values: dict[Any, pa.Scalar], *, negated: bool = False) -> Expression:
    ordered = [values[key] for key in sorted(values)]
    if len(ordered) == 1:
        return Compare(column=column, op=Op.NE if negated else Op.EQ, literal=ordered[0])
    array = pa.array(ordered, type=ordered[0].type)
    return OneOf(column=column, literals=ValueSet(array=array), negated=negated)
