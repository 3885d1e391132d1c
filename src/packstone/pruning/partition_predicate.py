"""A SQL condition on partition columns: ``dt < '2019-07-01' AND region IN ('eu', 'us')``.

The condition chooses which partitions are rewritten, so it is never guessed at. It is parsed in Spark's
dialect by sqlglot into the few forms below; anything else (a function, arithmetic, a subquery, a
comparison of two columns) is refused by name. After parsing only plain values remain: they pickle, and
matching a partition needs no parser.

What a partition value is compared as follows from the *literal*, because a directory name has no type:

======================  ======================================  =========================================
literal                 ``hour=09`` against it                  a value that does not fit (``hour=tmp``)
======================  ======================================  =========================================
``'09'``                as text, by code point                  cannot happen
``9``, ``9.5``          as exact decimal numbers                ``InvalidInputError``
``DATE '2019-07-01'``   as days, from ``YYYY-MM-DD``            ``InvalidInputError``
======================  ======================================  =========================================

Spark would turn a value that does not fit into NULL; under NOT that silently selects or drops
partitions, so it is an error here, and it is raised whatever the other side of an AND or OR says: an
error that depends on the order of the operands would come and go with unrelated edits. NULL
(``__HIVE_DEFAULT_PARTITION__``) follows SQL's three-valued logic; only TRUE selects.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeVar, assert_never

from packstone.errors import InvalidInputError
from packstone.pruning.like_pattern import LikePattern, parse_like
from packstone.pruning.sql_condition import check_digits, parse_condition, shorten

if TYPE_CHECKING:
    from sqlglot import exp

Truth = bool | None  # None is SQL's UNKNOWN
Scalar = str | Decimal | date
_Ordered = TypeVar("_Ordered", str, Decimal, date)

MAX_TESTS: Final = 20_000  # beside lists; about 40 ms for each partition
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?|[+-]?\.[0-9]+")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


class Order(StrEnum):
    """The comparisons that need an order; equality is ``OneOf``."""

    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """TRUE, FALSE or NULL as a whole condition."""

    truth: Truth


@dataclass(frozen=True, slots=True, kw_only=True)
class IsNull:
    """``column IS NULL``."""

    column: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Compare:
    """``column < literal`` and its like; a literal of None is NULL."""

    column: str
    order: Order
    literal: Scalar | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OneOf:
    """``column IN (...)`` and ``=``; sets, because a year's days may meet 100,000 partitions."""

    column: str
    texts: frozenset[str]
    numbers: frozenset[Decimal]
    dates: frozenset[date]
    has_null: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Like:
    """``column LIKE pattern``; a pattern of None is NULL."""

    column: str
    pattern: LikePattern | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Not:
    """``NOT part``."""

    part: Condition


@dataclass(frozen=True, slots=True, kw_only=True)
class AllOf:
    """``part AND part AND ...``."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyOf:
    """``part OR part OR ...``."""

    parts: tuple[Condition, ...]


Condition = Constant | IsNull | Compare | OneOf | Like | Not | AllOf | AnyOf


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPredicate:
    """A parsed condition; ``sql`` is what the user wrote, for plans and messages."""

    sql: str
    condition: Condition

    def matches(self, values: Mapping[str, str | None]) -> bool:
        """Tell whether the partition with these values is selected; None is a NULL value."""
        return _truth(self.condition, {name.lower(): value for name, value in values.items()}) is True

    def __str__(self) -> str:
        """Print the condition as it was written."""
        return self.sql


def parse_predicate(sql: str, columns: tuple[str, ...]) -> PartitionPredicate:
    """Parse a condition on the partition columns ``columns``; names compare without regard to case."""
    tree = parse_condition(sql, what="The condition")
    try:
        condition = _Reader(sql=sql, columns=columns).condition(tree)
    except RecursionError:
        raise InvalidInputError("The condition is nested too deeply.", sql=sql) from None
    _check_size(condition)
    return PartitionPredicate(sql=sql, condition=condition)


def _check_size(condition: Condition) -> None:
    """Every partition is tested against every test, so their number has a limit."""
    count, waiting = 0, [condition]
    while waiting:
        match waiting.pop():
            case AllOf(parts=parts) | AnyOf(parts=parts):
                waiting += parts
            case Not(part=part):
                waiting.append(part)
            case _:
                count += 1
    if count > MAX_TESTS:
        raise InvalidInputError(
            f"The condition has {count:,} tests; at most {MAX_TESTS:,} are allowed beside lists: write column IN (…)."
        )


_ORDERS = {"lt": Order.LT, "lte": Order.LE, "gt": Order.GT, "gte": Order.GE}
_MIRRORED = {"lt": "gt", "lte": "gte", "gt": "lt", "gte": "lte"}


class _Reader:
    """Turns sqlglot's tree into ours; holds the text and the columns, which every message needs."""

    def __init__(self, *, sql: str, columns: tuple[str, ...]) -> None:
        self._sql = sql
        self._columns = columns

    def condition(self, node: exp.Expr) -> Condition:
        # sqlglot marks some negations by a flag (NOT LIKE) and others by a node (NOT IN), and has moved
        # forms from one to the other between releases; reading the flag on every node survives that.
        if node.args.get("negate"):
            plain = node.copy()
            plain.set("negate", None)
            return Not(part=self.condition(plain))
        # By key, not by class: a subclass may mean something else (TRY_CAST is a CAST to Python).
        match node.key:
            case "paren":
                return self.condition(node.this)
            case "not":
                return Not(part=self.condition(node.this))
            case "and":
                return _all_of([self.condition(part) for part in node.flatten()])
            case "or":
                return _any_of([self.condition(part) for part in node.flatten()])
            case "boolean":
                return Constant(truth=bool(node.this))
            case "null":
                return Constant(truth=None)
        return self._test_of_column(node)

    def _test_of_column(self, node: exp.Expr) -> Condition:
        match node.key:
            case "in" if node.expressions and _has_only(node, "this", "expressions"):
                return _one_of(self._column(node.this), (self._literal(item) for item in node.expressions))
            case "between" if _has_only(node, "this", "low", "high"):
                return self._between(node)
            case "like" if _has_only(node, "this", "expression"):
                return self._like(node)
            case "is" if node.expression.key == "null":
                return IsNull(column=self._column(node.this))
            case "eq" | "neq" | "lt" | "lte" | "gt" | "gte":
                return self._comparison(node)
            case "column" | "literal":
                raise self._unsupported(node, hint="a test such as dt = '2019-07-01' is needed")
        raise self._unsupported(node)

    def _comparison(self, node: exp.Expr) -> Condition:
        left, right, comparison = node.this.unnest(), node.expression.unnest(), node.key
        if left.key != "column":  # 5 > hour
            left, right, comparison = right, left, _MIRRORED.get(comparison, comparison)
        literal, column = self._literal(right), self._column(left)
        if comparison in _ORDERS:
            return Compare(column=column, order=_ORDERS[comparison], literal=literal)
        equal = _one_of(column, (literal,))
        return equal if comparison == "eq" else Not(part=equal)

    def _between(self, node: exp.Expr) -> Condition:
        column = self._column(node.this)
        low, high = self._literal(node.args["low"]), self._literal(node.args["high"])
        above = Compare(column=column, order=Order.GE, literal=low)
        return AllOf(parts=(above, Compare(column=column, order=Order.LE, literal=high)))

    def _like(self, node: exp.Expr) -> Condition:
        column, pattern = self._column(node.this), self._literal(node.expression)
        if pattern is None:
            return Like(column=column, pattern=None)
        if not isinstance(pattern, str):
            raise self._unsupported(node.expression, hint="LIKE needs a quoted pattern")
        return Like(column=column, pattern=parse_like(pattern))

    def _column(self, node: exp.Expr) -> str:
        """Return the lower-case name of a partition column."""
        column = node.unnest()
        if column.key != "column":
            raise self._unsupported(column, hint="each test compares one partition column with literals")
        if not _has_only(column, "this"):
            raise self._unsupported(column, hint="write the column without the table")
        if column.name.lower() not in (known.lower() for known in self._columns):
            known = ", ".join(self._columns) or "none, for the table is not partitioned"
            raise InvalidInputError(
                f"The condition {shorten(self._sql)!r} names {column.name!r}, which is no partition column; there are: "
                f"{known}.",
                sql=self._sql,
                columns=self._columns,
            )
        return column.name.lower()

    def _literal(self, node: exp.Expr) -> Scalar | None:
        """Return the value of a literal; None is NULL."""
        literal = node.unnest()
        match literal.key:
            case "null":
                return None
            case "literal" if literal.is_string:
                return str(literal.this)
            case "literal" if _NUMBER.fullmatch(literal.this):
                check_digits(literal.this, what="The condition")
                return Decimal(literal.this)
            case "neg" if isinstance(number := self._literal(literal.this), Decimal):
                return -number
            case "cast" if literal.is_type("date") and literal.this.is_string:
                return self._date(literal.this.this)
            case "column":
                self._column(literal)  # a misspelt name is the likelier slip than a comparison of two columns
                raise self._unsupported(literal, hint="a literal is needed there; text goes in single quotes")
            case "concat":
                hint = "two strings side by side; write a quote inside a string as ''"
                raise self._unsupported(literal, hint=hint)
        raise self._unsupported(literal)

    def _date(self, text: str) -> date:
        day = _parse_date(text)
        if day is None:
            raise InvalidInputError(
                f"DATE {text!r} is not a day; write for example DATE '2019-07-01'.", sql=self._sql, value=text
            )
        return day

    def _unsupported(self, node: exp.Expr, *, hint: str = "") -> InvalidInputError:
        construct = shorten(node.sql(dialect="spark"))
        reason = hint or f"{node.key.upper()} is not supported in a condition on partitions"
        return InvalidInputError(
            f"The condition {shorten(self._sql)!r} cannot be used because of {construct!r}: {reason}.",
            sql=self._sql,
            construct=construct,
        )


def _has_only(node: exp.Expr, *names: str) -> bool:
    """Tell whether no other part is set: a part we do not know would change the meaning unseen."""
    return all(name in names for name, part in node.args.items() if part not in (None, False, []))


def _one_of(column: str, literals: Iterable[Scalar | None]) -> OneOf:
    items = tuple(literals)
    return OneOf(
        column=column,
        texts=frozenset(item for item in items if isinstance(item, str)),
        numbers=frozenset(item for item in items if isinstance(item, Decimal)),
        dates=frozenset(item for item in items if isinstance(item, date)),
        has_null=None in items,
    )


def _any_of(parts: list[Condition]) -> Condition:
    """Join by OR; lists of one column become one list, which costs one look whatever its length."""
    merged = _merge_lists(parts)
    return merged[0] if len(merged) == 1 else AnyOf(parts=tuple(merged))


def _all_of(parts: list[Condition]) -> Condition:
    """Join by AND; ``a <> 1 AND a <> 2`` is NOT of a list."""
    negated = [part.part for part in parts if isinstance(part, Not) and isinstance(part.part, OneOf)]
    others = [part for part in parts if not (isinstance(part, Not) and isinstance(part.part, OneOf))]
    merged = [*others, *(Not(part=part) for part in _merge_lists(negated))]
    return merged[0] if len(merged) == 1 else AllOf(parts=tuple(merged))


def _merge_lists(parts: Sequence[Condition]) -> list[Condition]:
    lists: dict[str, list[OneOf]] = {}
    merged: list[Condition] = []
    for part in parts:
        if isinstance(part, OneOf):
            lists.setdefault(part.column, []).append(part)
        else:
            merged.append(part)
    for column, found in lists.items():
        merged.append(
            OneOf(
                column=column,
                texts=frozenset().union(*(one.texts for one in found)),
                numbers=frozenset().union(*(one.numbers for one in found)),
                dates=frozenset().union(*(one.dates for one in found)),
                has_null=any(one.has_null for one in found),
            )
        )
    return merged


def _truth(condition: Condition, values: Mapping[str, str | None]) -> Truth:
    match condition:
        case Constant():
            return condition.truth
        case IsNull():
            return _value(condition.column, values) is None
        case Compare():
            return _compare(condition, _value(condition.column, values))
        case OneOf():
            return _is_one_of(condition, _value(condition.column, values))
        case Like():
            value = _value(condition.column, values)
            if value is None or condition.pattern is None:
                return None
            return condition.pattern.matches(value)
        case Not():
            part = _truth(condition.part, values)
            return None if part is None else not part
        case AllOf():
            return _fold([_truth(part, values) for part in condition.parts], decisive=False)
        case AnyOf():
            return _fold([_truth(part, values) for part in condition.parts], decisive=True)
        case _:
            assert_never(condition)


def _fold(truths: list[Truth], *, decisive: bool) -> Truth:
    """AND (False is decisive) or OR (True is): the decisive value beats UNKNOWN, UNKNOWN beats the other."""
    if decisive in truths:
        return decisive
    return None if None in truths else not decisive


def _value(column: str, values: Mapping[str, str | None]) -> str | None:
    if column not in values:
        raise InvalidInputError(f"The partition {dict(values)} has no value for the column {column!r}.", column=column)
    return values[column]


def _compare(condition: Compare, value: str | None) -> Truth:
    if value is None or condition.literal is None:
        return None
    literal = condition.literal
    match literal:
        case str():
            return _ordered(condition.order, value, literal)
        case Decimal():
            return _ordered(condition.order, _number(condition.column, value), literal)
        case date():
            return _ordered(condition.order, _day(condition.column, value), literal)
        case _:
            assert_never(literal)


def _ordered(order: Order, left: _Ordered, right: _Ordered) -> bool:
    match order:
        case Order.LT:
            return left < right
        case Order.LE:
            return left <= right
        case Order.GT:
            return left > right
        case Order.GE:
            return left >= right
        case _:
            assert_never(order)


def _is_one_of(condition: OneOf, value: str | None) -> Truth:
    if value is None:
        return None
    found = value in condition.texts
    # Converted even when already found, so that a value that does not fit is always reported.
    if condition.numbers:
        found |= _number(condition.column, value) in condition.numbers
    if condition.dates:
        found |= _day(condition.column, value) in condition.dates
    return True if found else (None if condition.has_null else False)


def _number(column: str, value: str) -> Decimal:
    if _NUMBER.fullmatch(value) is None:
        raise _does_not_fit(column, value, "a number")
    return Decimal(value)


def _day(column: str, value: str) -> date:
    day = _parse_date(value)
    if day is None:
        raise _does_not_fit(column, value, "a day as YYYY-MM-DD")
    return day


def _parse_date(text: str) -> date | None:
    # The pattern comes first because fromisoformat also takes 20190701 and 2019-W27-1.
    if _DATE.fullmatch(text) is None:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def _does_not_fit(column: str, value: str, what: str) -> InvalidInputError:
    return InvalidInputError(
        f"The partition {column}={value} cannot be compared as {what}; "
        f"put the literal in quotes to compare {column} as text.",
        column=column,
        value=value,
    )
