"""SQL text of a filter, in Spark's dialect, to an ``Expression``.

=============================================  ==========================================================
text                                           becomes
=============================================  ==========================================================
``a = 5``, ``5 < a``, ``a <> 5``, ``a != 5``   Compare, the column first
``a <=> 5``, ``a IS NOT DISTINCT FROM 5``      ``a = 5 AND a IS NOT NULL``; with NULL: ``a IS NULL``
``a [NOT] IN (1, NULL)``                       OneOf
``a BETWEEN 1 AND 2``                          ``a >= 1 AND a <= 2``
``a IS [NOT] NULL``, ``a IS TRUE``             IsNull; ``a <=> TRUE``
``a LIKE 'x'``                                 Compare, as texts: there is no wildcard
``a LIKE 'x%'``, ``startswith(a, 'x')``        StartsWith; any other pattern is Unknown
``flag``                                       ``flag = TRUE``
``1 = 1``                                      Truth
``upper(a) = 'X'``, ``a = b``, ``s.f = 1``     Unknown: Spark's business
=============================================  ==========================================================

A number with a point is an exact decimal, one with an exponent or D a double, as in Spark.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from packstone.errors import InvalidInputError
from packstone.pruning.expression import (
    NULL,
    Compare,
    Expression,
    IsNull,
    Kind,
    Literal,
    Not,
    OneOf,
    Op,
    StartsWith,
    Truth,
    Unknown,
    all_of,
    any_of,
    literal,
)
from packstone.pruning.like_pattern import split_like
from packstone.pruning.sql_condition import check_digits, parse_condition, shorten
from packstone.pruning.text_values import text_to_date, text_to_double, text_to_timestamp

if TYPE_CHECKING:
    from sqlglot import exp

_OPS: Final = {"eq": Op.EQ, "neq": Op.NE, "lt": Op.LT, "lte": Op.LE, "gt": Op.GT, "gte": Op.GE}
MIRRORED: Final = {Op.EQ: Op.EQ, Op.NE: Op.NE, Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE}
_INTEGER_BITS: Final = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_EXACT = frozenset({Kind.INTEGER, Kind.DECIMAL})


def parse_filter(sql: str) -> Expression:
    """Parse a filter; InvalidInputError, one sentence, if it is no SQL or could not be one of rows."""
    # Importing it takes half a second, which only commands with a filter should pay.
    from sqlglot import exp  # noqa: PLC0415

    tree = parse_condition(sql, what="The filter")
    try:
        if tree.find(exp.Query, exp.AggFunc, exp.Window, exp.Command, exp.Placeholder):
            raise InvalidInputError(
                f"The filter {shorten(sql)!r} must be one test of each row, without queries, sums or parameters.",
                sql=sql,
            )
        return _Reader(sql).condition(tree)
    except RecursionError:
        raise InvalidInputError("The filter is nested too deeply.", sql=sql) from None


class _NotUnderstoodError(Exception):
    """Inside one test: it is not of a form we know, so it stays SQL text."""


class _Reader:
    """Turns sqlglot's tree into ours; holds the text, which every message needs."""

    def __init__(self, sql: str) -> None:
        self._sql = sql

    def condition(self, node: exp.Expr) -> Expression:
        # sqlglot marks some negations by a flag (NOT LIKE) and others by a node (NOT IN), and has moved
        # forms from one to the other between releases; reading the flag on every node survives that.
        if node.args.get("negate"):
            plain = node.copy()
            plain.set("negate", None)
            return _negate_leaf(self.condition(plain))
        match node.key:
            case "paren":
                return self.condition(node.this)
            case "not":
                inner = self.condition(node.this)
                return Not(part=inner) if node.this.key == "paren" else _negate_leaf(inner)
            case "and" | "or":
                parts = [self.condition(part) for part in node.flatten(unnest=False)]
                return all_of(parts) if node.key == "and" else any_of(parts)
            case "boolean":
                return Truth(value=bool(node.this))
            case "null":
                return NULL
            case "literal":
                raise self._refuse(node, "a test such as id = 5 is needed there")
        try:
            return self._test(node)
        except _NotUnderstoodError:
            return _unknown(node)

    def _test(self, node: exp.Expr) -> Expression:
        match node.key:
            case "column":
                return Compare(column=_column(node), op=Op.EQ, literal=literal(value=True))
            case key if key in _OPS and _has_only(node, "this", "expression"):
                return self._comparison(node)
            case "in" if node.expressions and _has_only(node, "this", "expressions"):
                return OneOf(column=_column(node.this), literals=tuple(map(self._literal, node.expressions)))
            case "between" if _has_only(node, "this", "low", "high"):
                return self._between(node)
            case "is" if _has_only(node, "this", "expression"):
                return self._same(_column(node.this), self._literal(node.expression))
            case "nullsafeeq" | "nullsafeneq":
                return self._null_safe(node)
            case "like" | "escape" | "startswith":
                return self._prefix(node)
        raise _NotUnderstoodError

    def _comparison(self, node: exp.Expr) -> Expression:
        left, right, op = node.this.unnest(), node.expression.unnest(), _OPS[node.key]
        if right.key == "column":  # 5 < a
            left, right, op = right, left, MIRRORED[op]
        if left.key != "column":
            return _compare_literals(op, self._literal(left), self._literal(right))
        return Compare(column=_column(left), op=op, literal=self._literal(right))

    def _between(self, node: exp.Expr) -> Expression:
        column = _column(node.this)
        low, high = self._literal(node.args["low"]), self._literal(node.args["high"])
        return all_of(
            (Compare(column=column, op=Op.GE, literal=low), Compare(column=column, op=Op.LE, literal=high)),
        )

    def _null_safe(self, node: exp.Expr) -> Expression:
        left, right = node.this.unnest(), node.expression.unnest()
        if left.key != "column":
            left, right = right, left
        same = self._same(_column(left), self._literal(right))
        return same if node.key == "nullsafeeq" else _negate_leaf(same)

    @staticmethod
    def _same(column: str, value: Literal) -> Expression:
        """Equal or both NULL, and never unknown."""
        if value.kind is Kind.NULL:
            return IsNull(column=column)
        return all_of((Compare(column=column, op=Op.EQ, literal=value), IsNull(column=column, negated=True)))

    def _prefix(self, node: exp.Expr) -> Expression:
        escape = "\\"
        if node.key == "escape":
            escape_literal, node = self._literal(node.expression), node.this
            escape = str(escape_literal.value)
            if escape_literal.kind is not Kind.STRING or len(escape) != 1:
                raise _NotUnderstoodError
        if node.key not in {"like", "startswith"} or not _has_only(node, "this", "expression"):
            raise _NotUnderstoodError
        column, pattern = _column(node.this), self._literal(node.expression)
        if pattern.kind is Kind.NULL:
            return Compare(column=column, op=Op.EQ, literal=pattern)  # unknown for every row, and names the column
        if node.key == "like":
            if not isinstance(pattern.value, str):
                raise _NotUnderstoodError
            return _like(column, pattern.value, escape=escape)
        if pattern.kind not in {Kind.STRING, Kind.BINARY}:
            raise _NotUnderstoodError
        return StartsWith(column=column, prefix=pattern)

    def _literal(self, node: exp.Expr) -> Literal:
        value = node.unnest()
        match value.key:
            case "null":
                return literal(None)
            case "boolean":
                return literal(bool(value.this))
            case "literal" | "rawstring":
                return literal(str(value.this)) if value.is_string or value.key == "rawstring" else _number(value.this)
            case "hexstring":
                digits = str(value.this)
                return literal(bytes.fromhex(digits.rjust(len(digits) + len(digits) % 2, "0")))
            case "neg":
                return _minus(self._literal(value.this))
            case "cast" | "trycast" if value.this.key == "literal":
                return self._cast(value)
            case "concat":
                raise self._refuse(value, "two strings side by side; write a quote inside a string as ''")
        raise _NotUnderstoodError

    def _cast(self, node: exp.Expr) -> Literal:
        """DATE '…' and CAST('…' AS DATE) are one to the parser, and so are 5L and CAST(5 AS BIGINT)."""
        text, target = str(node.this.this), node.args["to"]
        kind = target.this.name
        if kind in _READERS and (node.this.is_string or kind in {"DOUBLE", "FLOAT"}):
            read, what = _READERS[kind]
            value = read(text)
            if value is None:
                raise self._refuse(node, f"{text!r} is not {what}")
            return literal(value)
        if kind in _INTEGER_BITS and not node.this.is_string and text.isdigit():
            # CAST(128 AS TINYINT) is an error to Spark; 128 under a minus sign is not ours to tell.
            if int(text) < 1 << _INTEGER_BITS[kind] - 1:
                return literal(int(text))
        elif kind == "DECIMAL" and target.expressions:
            return _fitting_decimal(text, *(int(part.this.this) for part in target.expressions))
        raise _NotUnderstoodError

    def _refuse(self, node: exp.Expr, reason: str) -> InvalidInputError:
        construct = shorten(node.sql(dialect="spark"))
        message = f"The filter {shorten(self._sql)!r} cannot be used because of {construct!r}: {reason}."
        return InvalidInputError(message, sql=self._sql, construct=construct)


def _text_to_wall(text: str) -> object:
    found = text_to_timestamp(text)
    return None if found is None or found.tzinfo is not None else found


def _text_to_float(text: str) -> float | None:
    """A double that went through 32 bits, as 0.1F does."""
    value = text_to_double(text)
    if value is None:
        return None
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


_READERS: Final[dict[str, tuple[Callable[[str], object], str]]] = {
    "DATE": (text_to_date, "a day, such as DATE '2024-07-01'"),
    "TIMESTAMPTZ": (text_to_timestamp, "a moment, such as TIMESTAMP '2024-07-01 12:00:00'"),
    "TIMESTAMPLTZ": (text_to_timestamp, "a moment, such as TIMESTAMP '2024-07-01 12:00:00'"),
    "TIMESTAMP": (text_to_timestamp, "a moment, such as TIMESTAMP '2024-07-01 12:00:00'"),
    "TIMESTAMPNTZ": (_text_to_wall, "a time without zone, such as TIMESTAMP_NTZ '2024-07-01 12:00:00'"),
    "DOUBLE": (text_to_double, "a number"),
    "FLOAT": (_text_to_float, "a number"),
}


def _negate_leaf(expression: Expression) -> Expression:
    """``NOT a IN (…)`` without brackets is the leaf NOT IN; so are IS NOT NULL and NOT startswith."""
    match expression:
        case OneOf(negated=False):
            return OneOf(column=expression.column, literals=expression.literals, negated=True)
        case IsNull(negated=False):
            return IsNull(column=expression.column, negated=True)
        case Compare(as_text=True, op=Op.EQ):
            return replace(expression, op=Op.NE)
        case StartsWith(negated=False):
            return StartsWith(column=expression.column, prefix=expression.prefix, negated=True)
    return Not(part=expression)


def _column(node: exp.Expr) -> str:
    column = node.unnest()
    if column.key != "column" or not _has_only(column, "this") or column.this.key != "identifier":
        raise _NotUnderstoodError
    return str(column.name)


def _has_only(node: exp.Expr, *names: str) -> bool:
    """Tell whether no other part is set: a part we do not know would change the meaning unseen."""
    return all(name in names for name, part in node.args.items() if part not in (None, False, []))


def _unknown(node: exp.Expr) -> Unknown:
    from sqlglot import exp  # noqa: PLC0415 - as in parse_filter

    bound = {part.name for function in node.find_all(exp.Lambda) for part in function.expressions}
    # Of s.field or t.id the first name; whether that is a struct or a table, only the schema can tell.
    names = [str(column.parts[0].name) for column in node.find_all(exp.Column)]
    columns = dict.fromkeys(name for name in names if name not in bound)
    return Unknown(text=node.sql(dialect="spark"), columns=tuple(columns))


def _like(column: str, pattern: str, *, escape: str) -> Expression:
    """A comparison if there is no wildcard, a prefix if there is nothing but ``%`` at the end."""
    text: list[str] = []
    ends = 0
    for character, is_wildcard in split_like(pattern, escape=escape):
        if is_wildcard and character == "%":
            ends += 1
        elif is_wildcard or ends:
            raise _NotUnderstoodError
        else:
            text.append(character)
    value = literal("".join(text))
    if ends:
        return StartsWith(column=column, prefix=value)
    return Compare(column=column, op=Op.EQ, literal=value, as_text=True)


def _number(text: str) -> Literal:
    check_digits(text, what="The filter")
    if text.isdigit():
        return literal(int(text))
    return literal(float(text) if "e" in text.lower() else Decimal(text))


def _minus(number: Literal) -> Literal:
    if isinstance(number.value, bool) or not isinstance(number.value, int | float | Decimal):
        raise _NotUnderstoodError
    return literal(number.value.copy_negate() if isinstance(number.value, Decimal) else -number.value)


def _fitting_decimal(text: str, precision: int, scale: int = 0) -> Literal:
    """1.5BD comes as a cast; a cast that would round is not ours."""
    if text_to_double(text) is None or "n" in text.lower():
        raise _NotUnderstoodError
    value = Decimal(text)
    digits = value.as_tuple()
    if -int(digits.exponent) > scale or value.adjusted() >= precision - scale:
        raise _NotUnderstoodError
    return literal(value)


def _compare_literals(op: Op, left: Literal, right: Literal) -> Expression:
    """``1 = 1``, which programs write to begin a list of ANDs."""
    if Kind.NULL in {left.kind, right.kind}:
        return NULL
    # Doubles and times have rules of their own, and nobody writes them so.
    if not {left.kind, right.kind} <= _EXACT and not (left.kind is right.kind and left.kind is Kind.STRING):
        raise _NotUnderstoodError
    first, second = _sort_key(left), _sort_key(right)
    order = (first > second) - (first < second)  # type: ignore[operator]
    wanted = {Op.EQ: (0,), Op.NE: (-1, 1), Op.LT: (-1,), Op.LE: (-1, 0), Op.GT: (1,), Op.GE: (0, 1)}
    return Truth(value=order in wanted[op])


def _sort_key(value: Literal) -> object:
    return value.value.encode() if isinstance(value.value, str) else value.value
