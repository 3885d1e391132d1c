"""The text of a condition to sqlglot's tree, within limits: what both filter languages share.

Parsing takes about 70 microseconds for each test and 30 for each value of an IN list, so the limits below keep it to
some seconds whatever somebody pastes in. Text inside quotes is Spark's: a backslash escapes the next character, and a
quote that is written twice is one quote (``'it''s'``), as in Spark 4, DuckDB and the SQL standard. Spark 3 drops both
quotes; nobody writes that on purpose.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from packstone.errors import InvalidInputError

if TYPE_CHECKING:
    from sqlglot import exp
    from sqlglot.tokens import Token  # type: ignore[attr-defined]  # it is in all versions

MAX_CHARACTERS: Final = 4 << 20  # 100,000 UUIDs in an IN list
MAX_TOKENS: Final = 400_000  # words, values and signs; an IN list has two for each value
MAX_DIGITS: Final = 1_000  # of one number; Python converts at most 4,300
_SHOWN: Final = 300  # characters of a condition that a message repeats


def parse_condition(sql: str, *, what: str) -> exp.Expr:
    """Parse one condition; InvalidInputError, a sentence that begins with ``what``, if it is not valid or too long."""
    # Importing it takes half a second, which only commands with a condition should pay.
    import sqlglot  # noqa: PLC0415
    from sqlglot import errors, exp  # noqa: PLC0415

    shown = f"{what} {shorten(sql)!r}"
    try:
        tokens = tokenize(sql, what=what)
        # Not parse_one, which joins conditions around a semicolon to one block; that would pass as Unknown.
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
    """Cut text into words, values and signs; InvalidInputError if they are too many."""
    import sqlglot  # noqa: PLC0415 - as in parse_condition

    if len(sql) > MAX_CHARACTERS:
        raise InvalidInputError(f"{what} has {len(sql):,} characters; at most {MAX_CHARACTERS:,} are allowed.")
    tokens = sqlglot.Dialect.get_or_raise("spark").tokenize(sql)
    if len(tokens) > MAX_TOKENS:
        raise InvalidInputError(f"{what} has {len(tokens):,} words and values; at most {MAX_TOKENS:,} are allowed.")
    return list(_join_quotes(tokens, sql))


def shorten(text: str) -> str:
    """The beginning of a text that is too long to be repeated in a message."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def check_digits(number: str, *, what: str) -> None:
    """Refuse a number that is longer than any column can hold; converting it would take long or fail."""
    if len(number) > MAX_DIGITS:
        raise InvalidInputError(f"{what} has a number of {len(number):,} digits; at most {MAX_DIGITS:,} are allowed.")


def _join_quotes(tokens: list[Token], sql: str) -> Iterator[Token]:
    """Make one string of two that touch: their quotes are one quote, written twice."""
    from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]  # noqa: PLC0415 - as in parse_condition

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
