"""A filter on partition values: ``dt < '2019-07-01' AND region IN ('eu', 'us')``.

The filter chooses which partitions are rewritten, so nothing in it is guessed: ``parse_filter`` parses it, and a test
that does not compare one partition column with literals (a function, arithmetic, two columns) is refused by name.

A directory name has no type, so the *literal* decides how the value of a partition is compared:

======================  ======================================  =========================================
literal                 ``hour=09`` is compared                 a value that does not fit (``hour=tmp``)
======================  ======================================  =========================================
``'09'``                as text, by code point                  cannot happen
``9``, ``9.5``          as exact decimal numbers                ``InvalidInputError``
``DATE '2019-07-01'``   as days, from ``YYYY-MM-DD``            ``InvalidInputError``
======================  ======================================  =========================================

Spark would turn a value that does not fit into NULL; under NOT that silently selects or drops partitions, so it is an
error here, and it is raised whatever the other side of an AND or OR is: an error that depends on the order of the
operands would come and go with unrelated edits. NULL (``__HIVE_DEFAULT_PARTITION__``) follows SQL's three-valued logic;
only TRUE selects.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date
from decimal import Decimal
from typing import Any, Final, assert_never

from packstone.errors import InvalidInputError
from packstone.query.filter.expression import (
    And,
    Compare,
    Expression,
    IsNull,
    Kind,
    Leaf,
    Literal,
    Not,
    OneOf,
    Op,
    Or,
    StartsWith,
    Truth,
    Unknown,
    columns_of,
)
from packstone.query.filter.parse_filter import parse_filter, parse_like, shorten
from packstone.query.filter.resolve import check_size

Values = Mapping[str, str | None]  # of a partition, by the column's lower-case name; None is NULL
Test = Callable[[Values], bool | None]  # None is SQL's UNKNOWN

_NUMBER: Final = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?|[+-]?\.[0-9]+")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_ORDERS: Final = {Op.LT: operator.lt, Op.LE: operator.le, Op.GT: operator.gt, Op.GE: operator.ge}


class PartitionFilter:
    """A parsed filter; prints as the user wrote it, and can be pickled without the parser."""

    def __init__(self, sql: str, expression: Expression) -> None:
        self._sql, self._expression = sql, expression
        self._test = _compile(expression)

    def matches(self, values: Mapping[str, str | None]) -> bool:
        """Whether the partition with these values is selected; None is a NULL value."""
        return self._test({name.lower(): value for name, value in values.items()}) is True

    def __str__(self) -> str:
        return self._sql

    def __reduce__(self) -> tuple[type[PartitionFilter], tuple[str, Expression]]:
        return PartitionFilter, (self._sql, self._expression)


def parse_partition_filter(sql: str, columns: tuple[str, ...]) -> PartitionFilter:
    """Parse a filter on the partition columns ``columns``; names are case-insensitive."""
    expression = parse_filter(sql)
    check_size(expression)
    for leaf in _leaves(expression):
        why = _why_not(leaf)
        if why is not None:
            construct = shorten(leaf.text if isinstance(leaf, Unknown) else str(leaf))
            raise InvalidInputError(
                f"The filter {shorten(sql)!r} cannot be used because of {construct!r}: {why}"
                f"{_unknown_column(leaf, columns)}.",
                sql=sql,
                construct=construct,
            )
    known = {column.lower() for column in columns}
    for name in columns_of(expression):
        if name.lower() not in known:
            there = ", ".join(columns) or "none, because the table is not partitioned"
            raise InvalidInputError(
                f"The filter {shorten(sql)!r} names {name!r}, which is not a partition column; there are: {there}.",
                sql=sql,
                columns=columns,
            )
    return PartitionFilter(sql, expression)


def _leaves(expression: Expression) -> Iterator[Leaf]:
    match expression:
        case And() | Or():
            for part in expression.parts:
                yield from _leaves(part)
        case Not():
            yield from _leaves(expression.part)
        case _:
            yield expression


def _why_not(leaf: Leaf) -> str | None:
    """Why a test cannot be evaluated on directory names, or None."""
    match leaf:
        case Unknown():
            return None if leaf.pattern is not None else "each test compares one partition column with literals"
        case StartsWith():
            return None if leaf.prefix.kind is Kind.STRING else "a prefix is text in single quotes"
        case Compare() | OneOf():
            kinds = {literal.kind for literal in _literals(leaf)}
            if Kind.BOOLEAN in kinds:
                return "a test such as dt = '2019-07-01' is needed"
            others = kinds - {Kind.NULL, Kind.STRING, Kind.INTEGER, Kind.DECIMAL, Kind.DATE}
            return f"partitions are compared with text, numbers and days, not with {min(others)}" if others else None
    return None


def _unknown_column(leaf: Leaf, columns: tuple[str, ...]) -> str:
    """A hint at a misspelt name, which is more likely than an intended comparison of two columns."""
    known = {column.lower() for column in columns}
    names = [name for name in columns_of(leaf) if name.lower() not in known]
    return f"; {names[0]!r} is not a partition column, there are: {', '.join(columns)}" if columns and names else ""


def _literals(leaf: Compare | OneOf) -> tuple[Literal, ...]:
    return (leaf.literal,) if isinstance(leaf, Compare) else tuple(leaf.literals)


def _compile(node: Expression) -> Test:
    match node:
        case Truth():
            return lambda _: node.value
        case IsNull():
            return lambda values: (_value(node.column, values) is None) != node.negated
        case Not():
            part = _compile(node.part)
            return lambda values: None if (truth := part(values)) is None else not truth
        case And():
            return _join(node.parts, decisive=False)
        case Or():
            return _join(node.parts, decisive=True)
        case StartsWith():
            prefix = str(node.prefix.value)
            return _text_test(node.column, lambda text: text.startswith(prefix) != node.negated)
        case Unknown():
            return _text_test(node.columns[0], parse_like(node.pattern or "").matches)
        case OneOf() | Compare(op=Op.EQ | Op.NE):
            return _is_member(node.column, _literals(node), negated=_is_negated(node))
        case Compare():
            return _compare(node)
        case _:
            assert_never(node)


def _join(parts: Iterable[Expression], *, decisive: bool) -> Test:
    """AND (False is decisive) or OR (True is): the decisive value beats UNKNOWN, UNKNOWN beats the other.

    ``a = 1 OR a = 2`` becomes one list, and so does ``a <> 1 AND a <> 2``: one lookup whatever its length.
    """
    lists: dict[str, list[Literal]] = {}
    tests: list[Test] = []
    for part in parts:
        if isinstance(part, OneOf | Compare) and _is_negated(part) is not decisive and _is_list(part):
            lists.setdefault(part.column.lower(), []).extend(_literals(part))
        else:
            tests.append(_compile(part))
    tests += [_is_member(column, literals, negated=not decisive) for column, literals in lists.items()]

    def test(values: Values) -> bool | None:
        truths = [one(values) for one in tests]  # all of them: a value that does not fit is always reported
        if decisive in truths:
            return decisive
        return None if None in truths else not decisive

    return test


def _is_list(leaf: OneOf | Compare) -> bool:
    return isinstance(leaf, OneOf) or leaf.op in {Op.EQ, Op.NE}


def _is_negated(leaf: OneOf | Compare) -> bool:
    return leaf.negated if isinstance(leaf, OneOf) else leaf.op is Op.NE


def _is_member(column: str, literals: Iterable[Literal], *, negated: bool) -> Test:
    wanted: dict[Callable[[str, str], Any], set[Any]] = {}
    has_null = False
    for literal in literals:
        if literal.kind is Kind.NULL:
            has_null = True
        else:
            wanted.setdefault(_reader(literal), set()).add(literal.value)

    def test(values: Values) -> bool | None:
        value = _value(column, values)
        if value is None:
            return None
        # All readers, because a value that does not fit is reported even if it was found already.
        found = True in [read(column, value) in members for read, members in wanted.items()]
        return found is not negated if found or not has_null else None

    return test


def _compare(leaf: Compare) -> Test:
    column, order = leaf.column, _ORDERS[leaf.op]
    wanted: Any = leaf.literal.value
    if leaf.literal.kind is Kind.NULL:
        return _text_test(column, lambda _: None)
    read = _reader(leaf.literal)
    return _text_test(column, lambda text: order(read(column, text), wanted))


def _text_test(column: str, test: Callable[[str], bool | None]) -> Test:
    """A test of a value; it is unknown for NULL."""
    return lambda values: None if (value := _value(column, values)) is None else test(value)


def _value(column: str, values: Values) -> str | None:
    name = column.lower()
    if name not in values:
        raise InvalidInputError(f"The partition {dict(values)} has no value for the column {name!r}.", column=name)
    return values[name]


def _reader(literal: Literal) -> Callable[[str, str], Any]:
    """The function that reads a value to compare it with this literal: (column, text) -> value."""
    if literal.kind is Kind.STRING:
        return _text
    return _day if literal.kind is Kind.DATE else _number


def _text(_column: str, value: str) -> str:
    return value


def _number(column: str, value: str) -> Decimal:
    if _NUMBER.fullmatch(value) is None:
        raise _does_not_fit(column, value, "a number")
    return Decimal(value)


def _day(column: str, value: str) -> date:
    try:
        # Check the pattern first, because fromisoformat also accepts 20190701 and 2019-W27-1.
        if _DATE.fullmatch(value) is not None:
            return date.fromisoformat(value)
    except ValueError:
        pass
    raise _does_not_fit(column, value, "a day as YYYY-MM-DD")


def _does_not_fit(column: str, value: str, what: str) -> InvalidInputError:
    return InvalidInputError(
        f"The partition {column}={value} cannot be compared as {what}; "
        f"put the literal in quotes to compare {column} as text.",
        column=column,
        value=value,
    )
