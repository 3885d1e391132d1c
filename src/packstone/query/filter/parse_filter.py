"""Parse the SQL text of a filter, in Spark's dialect, into an ``Expression``.

=============================================  ==========================================================
text                                           becomes
=============================================  ==========================================================
``a = 5``, ``5 < a``, ``a <> 5``, ``a != 5``   Compare, the column first
``a <=> 5``, ``a IS NOT DISTINCT FROM 5``      ``a = 5 AND a IS NOT NULL``; with NULL: ``a IS NULL``
``a [NOT] IN (1, NULL)``                       OneOf
``a BETWEEN 1 AND 2``                          ``a >= 1 AND a <= 2``
``a IS [NOT] NULL``, ``a IS TRUE``             IsNull; ``a <=> TRUE``
``a LIKE 'x'``                                 Compare as text, because there is no wildcard
``a LIKE 'x%'``, ``startswith(a, 'x')``        StartsWith; any other pattern is Unknown
``flag``                                       ``flag = TRUE``
``1 = 1``                                      Truth
``upper(a) = 'X'``, ``a = b``, ``s.f = 1``     Unknown: only Spark evaluates it
=============================================  ==========================================================

A number with a decimal point is an exact decimal, one with an exponent or D a double, as in Spark.

sqlglot parses the text (``parse_condition``), within limits: parsing takes about 70 microseconds for each test and 30
for each value of an IN list, so the limits keep it to a few seconds whatever the input. Inside quotes Spark's rules
apply: a backslash escapes the next character, and a quote that is written twice is one quote (``'it''s'``), as in
Spark 4, DuckDB and the SQL standard. Spark 3 drops both quotes, which is never intended.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from packstone.errors import InvalidInputError
from packstone.query.filter.column_domain import text_to_date, text_to_double, text_to_timestamp
from packstone.query.filter.expression import (
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

if TYPE_CHECKING:
    from sqlglot import exp
    from sqlglot.tokens import Token  # type: ignore[attr-defined]  # all versions have it

_OPS: Final = {"eq": Op.EQ, "neq": Op.NE, "lt": Op.LT, "lte": Op.LE, "gt": Op.GT, "gte": Op.GE}
MIRRORED: Final = {Op.EQ: Op.EQ, Op.NE: Op.NE, Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE}
_INTEGER_BITS: Final = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_EXACT = frozenset({Kind.INTEGER, Kind.DECIMAL})


def parse_filter(sql: str) -> Expression:
    """Parse a filter; InvalidInputError if it is not valid SQL or not a test of single rows."""
    # Importing sqlglot takes half a second, which only commands with a filter should pay.
    from sqlglot import exp

    tree = parse_condition(sql, what="The filter")
    try:
        found = tree.find(exp.Query, exp.AggFunc, exp.Window, exp.Command, exp.Placeholder)
        if found is not None:
            construct = shorten(found.sql(dialect="spark"))
            raise InvalidInputError(
                f"The filter {shorten(sql)!r} must be one test of each row, without queries, sums or parameters such "
                f"as {construct!r}.",
                sql=sql,
                construct=construct,
            )
        return _Reader(sql).condition(tree)
    except RecursionError:
        raise InvalidInputError("The filter is nested too deeply.", sql=sql) from None


class _NotUnderstoodError(Exception):
    """A test has an unknown form, so it stays SQL text; raised and caught within this module."""

    def __init__(self, *, pattern: str | None = None) -> None:
        super().__init__()
        self.pattern = pattern  # of a LIKE that is more than a prefix


class _Reader:
    """Converts sqlglot's tree to an ``Expression``; keeps the SQL text for error messages."""

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
        except _NotUnderstoodError as error:
            return _unknown(node, pattern=error.pattern)

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
        """Equal or both NULL; never unknown."""
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
                raise self._refuse(value, "there are two adjacent strings; write a quote inside a string as ''")
        raise _NotUnderstoodError

    def _cast(self, node: exp.Expr) -> Literal:
        """The value of a cast; the parser turns DATE '…' into CAST('…' AS DATE), and 5L into CAST(5 AS BIGINT)."""
        text, target = str(node.this.this), node.args["to"]
        kind = target.this.name
        if kind in _READERS and (node.this.is_string or kind in {"DOUBLE", "FLOAT"}):
            read, what = _READERS[kind]
            value = read(text)
            if value is None:
                raise self._refuse(node, f"{text!r} is not {what}")
            return literal(value)
        if kind in _INTEGER_BITS and not node.this.is_string and text.isdigit():
            # CAST(128 AS TINYINT) is an error in Spark; whether a minus sign precedes the 128 is not known here.
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
    """A double rounded to 32 bits, as 0.1F is."""
    value = text_to_double(text)
    if value is None:
        return None
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


_READERS: Final[dict[str, tuple[Callable[[str], object], str]]] = {
    "DATE": (text_to_date, "a day, such as DATE '2024-07-01'"),
    "TIMESTAMPTZ": (text_to_timestamp, "a timestamp, such as TIMESTAMP '2024-07-01 12:00:00'"),
    "TIMESTAMPLTZ": (text_to_timestamp, "a timestamp, such as TIMESTAMP '2024-07-01 12:00:00'"),
    "TIMESTAMP": (text_to_timestamp, "a timestamp, such as TIMESTAMP '2024-07-01 12:00:00'"),
    "TIMESTAMPNTZ": (_text_to_wall, "a timestamp without zone, such as TIMESTAMP_NTZ '2024-07-01 12:00:00'"),
    "DOUBLE": (text_to_double, "a number"),
    "FLOAT": (_text_to_float, "a number"),
}


def _negate_leaf(expression: Expression) -> Expression:
    """Negate: ``NOT a IN (…)`` without brackets is the leaf NOT IN; likewise IS NOT NULL and NOT startswith."""
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
    """Whether no other part is set: ignoring an unknown part would silently change the meaning."""
    return all(name in names for name, part in node.args.items() if part not in (None, False, []))


def _unknown(node: exp.Expr, *, pattern: str | None) -> Unknown:
    from sqlglot import exp

    bound = {part.name for function in node.find_all(exp.Lambda) for part in function.expressions}
    # Take the first name of s.field or t.id; only the schema shows whether it is a struct or a table.
    names = [str(column.parts[0].name) for column in node.find_all(exp.Column)]
    columns = dict.fromkeys(name for name in names if name not in bound)
    return Unknown(text=node.sql(dialect="spark"), columns=tuple(columns), pattern=pattern)


def _like(column: str, pattern: str, *, escape: str) -> Expression:
    """A comparison if there is no wildcard, a prefix test if the only wildcard is ``%`` at the end."""
    text: list[str] = []
    ends = 0
    characters = tuple(split_like(pattern, escape=escape))
    for character, is_wildcard in characters:
        if is_wildcard and character == "%":
            ends += 1
        elif is_wildcard or ends:
            plain = "".join(f"\\{one}" if one in "%_\\" and not is_wild else one for one, is_wild in characters)
            raise _NotUnderstoodError(pattern=plain)
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
    """The value of 1.5BD, which the parser turns into a cast; a cast that would round is not understood."""
    if text_to_double(text) is None or "n" in text.lower():
        raise _NotUnderstoodError
    value = Decimal(text)
    digits = value.as_tuple()
    if -int(digits.exponent) > scale or value.adjusted() >= precision - scale:
        raise _NotUnderstoodError
    return literal(value)


def _compare_literals(op: Op, left: Literal, right: Literal) -> Expression:
    """The truth of ``1 = 1``, with which programs start a list of ANDs."""
    if Kind.NULL in {left.kind, right.kind}:
        return NULL
    # Doubles and times have their own rules, and comparing two such literals is not useful.
    if not {left.kind, right.kind} <= _EXACT and not (left.kind is right.kind and left.kind is Kind.STRING):
        raise _NotUnderstoodError
    first, second = _sort_key(left), _sort_key(right)
    order = (first > second) - (first < second)  # type: ignore[operator]
    wanted = {Op.EQ: (0,), Op.NE: (-1, 1), Op.LT: (-1,), Op.LE: (-1, 0), Op.GT: (1,), Op.GE: (0, 1)}
    return Truth(value=order in wanted[op])


def _sort_key(value: Literal) -> object:
    return value.value.encode() if isinstance(value.value, str) else value.value


MAX_CHARACTERS: Final = 4 << 20  # 100,000 UUIDs in an IN list
MAX_TOKENS: Final = 400_000  # an IN list has two for each value
MAX_DIGITS: Final = 1_000  # in one number; Python converts at most 4,300
_SHOWN: Final = 300  # characters of a condition that an error message shows


def parse_condition(sql: str, *, what: str) -> exp.Expr:
    """Parse one condition; InvalidInputError, beginning with ``what``, if it is not valid or too long."""
    # Importing sqlglot takes half a second, which only commands with a condition should pay.
    import sqlglot
    from sqlglot import errors, exp

    shown = f"{what} {shorten(sql)!r}"
    try:
        tokens = tokenize(sql, what=what)
        # Not parse_one: it joins conditions around a semicolon into one block, which would be accepted as Unknown.
        trees = sqlglot.Dialect.get_or_raise("spark").parser().parse_into(exp.Condition, tokens, sql)
    except errors.ParseError as error:
        raise InvalidInputError(f"{shown} is not valid SQL{_near(error)}.", sql=sql) from None
    except errors.SqlglotError:
        raise InvalidInputError(f"{shown} is not valid SQL: a quote is not closed.", sql=sql) from None
    except RecursionError:
        raise InvalidInputError(f"{what} is nested too deeply.", sql=sql) from None
    if len(trees) != 1 or trees[0] is None:
        raise InvalidInputError(f"{shown} is not valid SQL: one condition is needed.", sql=sql)
    return trees[0]


def tokenize(sql: str, *, what: str) -> list[Token]:
    """Split text into tokens; InvalidInputError if there are too many."""
    import sqlglot

    if len(sql) > MAX_CHARACTERS:
        raise InvalidInputError(f"{what} has {len(sql):,} characters; at most {MAX_CHARACTERS:,} are allowed.")
    tokens = sqlglot.Dialect.get_or_raise("spark").tokenize(sql)
    if len(tokens) > MAX_TOKENS:
        raise InvalidInputError(f"{what} has {len(tokens):,} words and values; at most {MAX_TOKENS:,} are allowed.")
    return list(_join_quotes(tokens, sql))


def shorten(text: str) -> str:
    """The text, cut if it is too long for an error message."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def check_digits(number: str, *, what: str) -> None:
    """Refuse a number with more digits than any column can hold; converting it would take long or fail."""
    if len(number) > MAX_DIGITS:
        raise InvalidInputError(f"{what} has a number of {len(number):,} digits; at most {MAX_DIGITS:,} are allowed.")


def _join_quotes(tokens: list[Token], sql: str) -> Iterator[Token]:
    """Join two adjacent strings into one: the quotes between them are one quote, written twice."""
    from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

    last: Token | None = None
    for token in tokens:
        is_doubled = (
            last is not None
            and last.token_type is token.token_type is TokenType.STRING
            and token.start == last.end + 1
            and sql[token.start] == sql[last.end]
        )
        if last is not None and is_doubled:
            text = f"{last.text}{sql[last.end]}{token.text}"
            last = Token(TokenType.STRING, text, last.line, last.col, last.start, token.end, last.comments)
            continue
        if last is not None:
            yield last
        last = token
    if last is not None:
        yield last


def _near(error: Exception) -> str:
    details = getattr(error, "errors", None)
    if not details:
        return ""
    return f" near {shorten(str(details[0]['highlight']))!r} (column {details[0]['col']})"


MAX_PATTERN: Final = 10_000  # characters; building the masks takes quadratic time


@dataclass(frozen=True, slots=True, kw_only=True)
class LikePattern:
    """A pattern of SQL's LIKE: ``%`` is any text, ``_`` any one character, a backslash escapes the next character.

    Matching does not backtrack. A regular expression with many ``.*`` tries every way to divide the text among them,
    which takes extremely long for ``%a%a%a%b`` on a long run of ``a``. Here the set of positions reached in the
    pattern is one integer, a bit for each position, and every character of the text advances all of them by one shift.
    The time is the length of the text times the length of the pattern divided by 64.
    """

    steps: tuple[tuple[str, int], ...]  # character -> the positions from which it advances, underscores included
    other: int  # the positions from which any other character advances: the underscores
    stays: int  # the positions after a %: any character of the text may be skipped there
    end: int  # the position after the last character

    def matches(self, text: str) -> bool:
        """Whether the whole text matches."""
        steps, reached = dict(self.steps), 1
        for character in text:
            reached = ((reached & steps.get(character, self.other)) << 1) | (reached & self.stays)
            if not reached:
                return False
        return bool(reached & self.end)


def parse_like(pattern: str) -> LikePattern:
    """Parse a pattern; InvalidInputError if it is too long or has an escape without a wildcard after it."""
    if len(pattern) > MAX_PATTERN:
        raise InvalidInputError(
            f"A LIKE pattern has {len(pattern):,} characters; at most {MAX_PATTERN:,} are allowed.", pattern=pattern
        )
    steps: defaultdict[str, int] = defaultdict(int)
    other, stays, at = 0, 0, 0
    for character, is_wildcard in split_like(pattern, escape="\\"):
        if is_wildcard and character == "%":
            stays |= 1 << at
            continue
        if is_wildcard:
            other |= 1 << at
        else:
            steps[character] |= 1 << at
        at += 1
    with_other = tuple((character, positions | other) for character, positions in steps.items())
    return LikePattern(steps=with_other, other=other, stays=stays, end=1 << at)


def split_like(pattern: str, *, escape: str) -> Iterator[tuple[str, bool]]:
    """Yield the characters of a pattern, each with whether it is a wildcard."""
    characters = iter(pattern)
    for character in characters:
        if character != escape:
            yield character, character in {"%", "_"}
            continue
        escaped = next(characters, "")
        if escaped not in {"%", "_", escape}:
            raise InvalidInputError(f"The LIKE pattern {pattern!r} has a {escape!r} that is not followed by % or _.")
        yield escaped, False
