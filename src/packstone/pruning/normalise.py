"""A filter in the form that is cheapest to prune and to evaluate; the rows for which it is TRUE stay the same.

First NOT is pushed down to the leaves, which keeps all three truths. From then on nothing negates, so a part that is
unknown can select no more rows than one that is FALSE, and the rules need to keep only TRUE. They run over the tree
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

The last two compare literals, so they work on *resolved* trees only: `a > '9' AND a > '10'` means one thing on a
column of text and another on one of numbers. Unresolved trees get the other rules.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, assert_never

from packstone.pruning.expression import (
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
from packstone.pruning.merge_ranges import merge_conjunction, merge_disjunction

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
    """Push NOT to the leaves; every row keeps its truth, also unknown."""
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
    """Take NULL out of a leaf, and lists of one value."""
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
    """Drop what does not decide an AND or OR, or all but what does."""
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
            # Right for NaN too: it has its place in the order, so of < and >= one always holds.
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
        values: tuple[object, ...] = tuple(node.literals) if len(node.literals) < 2 else ()  # noqa: PLR2004 - one
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
