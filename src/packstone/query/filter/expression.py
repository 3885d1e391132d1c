"""Filters as trees of frozen values, made from SQL text (``parse_filter``) or with Python operators.

    (col("id") >= 5) & col("name").startswith("a") & ~col("day").is_null()
    id >= 5 AND startswith(name, 'a') AND day IS NOT NULL

A tree has two states with the same nodes. *Unresolved*: its values are ``Literal``, as the user wrote them.
*Resolved* (``resolve``): its values are Arrow scalars of the column's own type, names are those of the schema, and no
value is NULL. Nodes name a column by a plain string; ``Column`` is only the start of a Python expression, because its
``==`` makes a filter and so cannot compare two nodes.

Truth is three-valued: a comparison with NULL is unknown. ``str()`` is SQL that parses back to the same tree.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, NoReturn, final

from packstone.errors import InvalidInputError

if TYPE_CHECKING:
    import pyarrow as pa

Plain = bool | int | Decimal | float | str | bytes | date | datetime | None


_HASHED_VALUES = 16


class Kind(StrEnum):
    """The kind of a literal as written. Values alone do not show it: in Python, 1, 1.0 and True are equal."""

    NULL = "null"
    BOOLEAN = "boolean"
    INTEGER = "integer"
    DECIMAL = "decimal"  # 1.5 is an exact decimal, 1.5D and 15E-1 are doubles
    DOUBLE = "double"
    STRING = "string"
    BINARY = "binary"
    DATE = "date"
    TIMESTAMP = "timestamp"  # an instant if it has a zone; else a local time, in the session's zone if needed


class Op(StrEnum):
    """How a column is compared with a literal."""

    EQ = "="
    NE = "<>"
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="


@dataclass(frozen=True, slots=True, kw_only=True)
class Literal:
    """A value as it was written; make one with ``literal``."""

    value: Plain
    kind: Kind

    def __str__(self) -> str:
        """Print it as SQL."""
        return _literal_sql(self.value)


class Filter:
    """The operators of every node: ``&``, ``|`` and ``~``."""

    __slots__ = ()

    def __and__(self, other: Expression) -> Expression:
        """``self AND other``."""
        return all_of((_as_expression(self), other))

    def __or__(self, other: Expression) -> Expression:
        """``self OR other``."""
        return any_of((_as_expression(self), other))

    def __invert__(self) -> Expression:
        """``NOT self``; unknown stays unknown."""
        return Not(part=_as_expression(self))

    def __bool__(self) -> NoReturn:
        """Refuse: ``a and b`` and ``1 < col("x") < 5`` would silently drop one half."""
        raise TypeError("A filter has no truth value; join filters with &, | and ~, not with and, or and not.")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Compare(Filter):
    """``column op literal``; unknown if either is NULL.

    ``as_text``: written as LIKE without a wildcard, which compares as text whatever the column's type (`=` or `<>`).
    """

    column: str
    op: Op
    literal: Literal | pa.Scalar
    as_text: bool = False

    def __str__(self) -> str:
        """Print it as SQL."""
        if self.as_text and isinstance(self.literal, Literal):
            pattern = re.sub(r"[\\%_]", r"\\\g<0>", str(self.literal.value))
            return f"{_name_sql(self.column)} {'NOT ' if self.op is Op.NE else ''}LIKE {_literal_sql(pattern)}"
        return f"{_name_sql(self.column)} {self.op} {_value_sql(self.literal)}"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ValueSet:
    """The values of a resolved IN: one Arrow array of the column's type, ascending (NaN last), distinct, no nulls."""

    array: pa.Array

    def __len__(self) -> int:
        """The number of values."""
        return len(self.array)

    def __iter__(self) -> Iterator[pa.Scalar]:
        """The values, ascending."""
        return iter(self.array)

    def __eq__(self, other: object) -> bool:
        """Whether both have the same values of the same type."""
        if not isinstance(other, ValueSet):
            return NotImplemented
        if self.array.type != other.array.type:
            return False
        # Compare by bits too, because NaN differs from itself in Arrow.
        return self.array.equals(other.array) or _bits(self.array) == _bits(other.array)

    def __hash__(self) -> int:
        """Hash only some values, because sets may be long; but all of a short set, because filters may have many."""
        step = max(1, len(self.array) // _HASHED_VALUES)
        return hash((str(self.array.type), len(self.array), *map(_hashable, self.array[::step])))


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OneOf(Filter):
    """``column [NOT] IN (literals)``; unresolved literals are a tuple (NULL may be in it), resolved a ``ValueSet``."""

    column: str
    literals: tuple[Literal, ...] | ValueSet
    negated: bool = False

    def __str__(self) -> str:
        """Print it as SQL; an empty list, which SQL cannot express, is printed as TRUE or FALSE."""
        if not len(self.literals):
            return str(TRUE if self.negated else FALSE)
        values = ", ".join(_value_sql(value) for value in self.literals)
        return f"{_name_sql(self.column)} {'NOT ' if self.negated else ''}IN ({values})"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class IsNull(Filter):
    """``column IS [NOT] NULL``; never unknown."""

    column: str
    negated: bool = False

    def __str__(self) -> str:
        """Print it as SQL."""
        return f"{_name_sql(self.column)} IS {'NOT ' if self.negated else ''}NULL"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class StartsWith(Filter):
    """``[NOT] startswith(column, prefix)``, by bytes; the prefix is a string or binary literal, or its Arrow scalar."""

    column: str
    prefix: Literal | pa.Scalar
    negated: bool = False

    def __str__(self) -> str:
        """Print it as SQL."""
        return f"{'NOT ' if self.negated else ''}startswith({_name_sql(self.column)}, {_value_sql(self.prefix)})"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Truth(Filter):
    """TRUE, FALSE or NULL (None) for every row."""

    value: bool | None

    def __str__(self) -> str:
        """Print it as SQL."""
        return _literal_sql(self.value)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown(Filter):
    """A test that is not understood (a function, two columns), as SQL text: any row may match."""

    text: str
    columns: tuple[str, ...]
    pattern: str | None = None  # of ``column LIKE pattern``, escaped by backslashes, to match partition values

    def __str__(self) -> str:
        """Print it as it was written."""
        return f"({self.text})"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Not(Filter):
    """``NOT part``."""

    part: Expression

    def __str__(self) -> str:
        """Print it as SQL; the brackets distinguish it from a negated leaf."""
        return f"NOT ({self.part})"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class And(Filter):
    """``part AND part …``: two parts or more, none of them an AND; make one with ``all_of``."""

    parts: tuple[Expression, ...]

    def __post_init__(self) -> None:
        """Flatten nested ANDs, so that equal meanings have one form."""
        object.__setattr__(self, "parts", _flat(self.parts, And))

    def __str__(self) -> str:
        """Print it as SQL."""
        return " AND ".join(f"({part})" if isinstance(part, Or) else str(part) for part in self.parts)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Or(Filter):
    """``part OR part …``: two parts or more, none of them an OR; make one with ``any_of``."""

    parts: tuple[Expression, ...]

    def __post_init__(self) -> None:
        """Flatten nested ORs, so that equal meanings have one form."""
        object.__setattr__(self, "parts", _flat(self.parts, Or))

    def __str__(self) -> str:
        """Print it as SQL."""
        return " OR ".join(f"({part})" if isinstance(part, And) else str(part) for part in self.parts)


Leaf = Compare | OneOf | IsNull | StartsWith | Truth | Unknown
Expression = Leaf | Not | And | Or

TRUE, FALSE, NULL = Truth(value=True), Truth(value=False), Truth(value=None)


@final
class Column:
    """A column by name, for Python operators: ``col("id") == 5``."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, value: object) -> Compare:  # type: ignore[override]
        """``column = value``; unknown for None, as in SQL: use ``is_null``."""
        return self._compare(Op.EQ, value)

    def __ne__(self, value: object) -> Compare:  # type: ignore[override]
        """``column <> value``."""
        return self._compare(Op.NE, value)

    def __lt__(self, value: object) -> Compare:
        """``column < value``."""
        return self._compare(Op.LT, value)

    def __le__(self, value: object) -> Compare:
        """``column <= value``."""
        return self._compare(Op.LE, value)

    def __gt__(self, value: object) -> Compare:
        """``column > value``."""
        return self._compare(Op.GT, value)

    def __ge__(self, value: object) -> Compare:
        """``column >= value``."""
        return self._compare(Op.GE, value)

    __hash__ = None  # type: ignore[assignment]  # == makes a filter, so a column cannot be hashed

    def isin(self, *values: object) -> OneOf:
        """``column IN (values)``."""
        return OneOf(column=self.name, literals=tuple(literal(value) for value in values))

    def between(self, low: object, high: object) -> Expression:
        """``column BETWEEN low AND high``, both included."""
        return all_of((self >= low, self <= high))

    def startswith(self, prefix: str | bytes) -> StartsWith:
        """``startswith(column, prefix)``."""
        return StartsWith(column=self.name, prefix=literal(prefix))

    def is_null(self) -> IsNull:
        """``column IS NULL``; its ``~`` is IS NOT NULL."""
        return IsNull(column=self.name)

    def _compare(self, op: Op, value: object) -> Compare:
        return Compare(column=self.name, op=op, literal=literal(value))


def col(name: str) -> Column:
    """Start a filter on a column."""
    return Column(name)


def literal(value: object) -> Literal:
    """Make a literal of a Python value; InvalidInputError if no column has values of its type."""
    if isinstance(value, Literal):
        return value
    kind = _kind_of(value)
    if kind is Kind.DOUBLE and math.isnan(value):  # type: ignore[arg-type]
        value = math.nan  # always the same object, so that equal filters compare equal
    return Literal(value=value, kind=kind)  # type: ignore[arg-type]


def all_of(parts: Iterable[Expression]) -> Expression:
    """Join with AND; TRUE for no parts, the part itself for one."""
    found = tuple(parts)
    return And(parts=found) if len(found) > 1 else (found[0] if found else TRUE)


def any_of(parts: Iterable[Expression]) -> Expression:
    """Join with OR; FALSE for no parts, the part itself for one."""
    found = tuple(parts)
    return Or(parts=found) if len(found) > 1 else (found[0] if found else FALSE)


def columns_of(expression: Expression) -> tuple[str, ...]:
    """The columns that a filter names, each once, in the order of the text."""
    return tuple(dict.fromkeys(_columns(expression)))


def _columns(expression: Expression) -> Iterator[str]:
    match expression:
        case And() | Or():
            for part in expression.parts:
                yield from _columns(part)
        case Not():
            yield from _columns(expression.part)
        case Unknown():
            yield from expression.columns
        case Truth():
            return
        case _:
            yield expression.column


def _hashable(scalar: pa.Scalar) -> object:
    """A value that can be hashed: ticks of times, which need no pandas; a number for NaN, as it must equal itself."""
    value = scalar.value if hasattr(scalar, "value") else scalar.as_py()
    return 0.0 if isinstance(value, float) and math.isnan(value) else value


_FLOATS = frozenset({"halffloat", "float", "double"})  # as Arrow prints its types


def _bits(array: pa.Array) -> object:
    return array.to_numpy(zero_copy_only=False).tobytes() if str(array.type) in _FLOATS else id(array)


def _flat(parts: tuple[Expression, ...], kind: type[And | Or]) -> tuple[Expression, ...]:
    flat: list[Expression] = []
    for part in parts:
        flat.extend(part.parts if isinstance(part, And | Or) and isinstance(part, kind) else (part,))
    if len(flat) < 2:  # AND and OR join two
        raise InvalidInputError(f"{kind.__name__} needs two parts or more; make it with all_of or any_of.")
    return tuple(flat)


def _as_expression(node: Filter) -> Expression:
    return node  # type: ignore[return-value]  # every subclass is one


_KINDS: tuple[tuple[type, Kind], ...] = (
    (type(None), Kind.NULL),
    (bool, Kind.BOOLEAN),  # before int: in Python, a bool is an int
    (int, Kind.INTEGER),
    (Decimal, Kind.DECIMAL),
    (float, Kind.DOUBLE),
    (str, Kind.STRING),
    (bytes, Kind.BINARY),
    (datetime, Kind.TIMESTAMP),  # before date: in Python, a datetime is a date
    (date, Kind.DATE),
)
_MAX_EXPONENT = 400  # more than any double has; a larger one is a mistake, and would be printed digit by digit


def _kind_of(value: object) -> Kind:
    kind = next((kind for types, kind in _KINDS if isinstance(value, types)), None)
    if kind is None:
        raise InvalidInputError(f"A filter cannot compare with {value!r}, a {type(value).__name__}.", value=value)
    if isinstance(value, str) and not value.isprintable() and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise InvalidInputError(f"A filter cannot compare with {value!r}, which is half a character.", value=value)
    if isinstance(value, Decimal) and not (value.is_finite() and abs(value.adjusted()) <= _MAX_EXPONENT):
        raise InvalidInputError(f"A filter cannot compare with the decimal {value}.", value=value)
    return kind


_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _name_sql(name: str) -> str:
    if _PLAIN_NAME.fullmatch(name) and name.upper() not in _RESERVED:
        return name
    return "`" + name.replace("`", "``") + "`"


def _value_sql(value: Literal | pa.Scalar) -> str:
    if isinstance(value, Literal):
        return _literal_sql(value.value)
    plain = value.as_py()
    # With BD it has exactly the digits of the column. With another number of digits, Spark compares in a type that may
    # have fewer fractional digits: in Spark 4.3, 2 = 1.5 is true if the 2 is a decimal(38,0).
    return f"{plain:f}BD" if isinstance(plain, Decimal) else _literal_sql(plain)


def _literal_sql(value: Plain) -> str:
    match value:
        case None:
            return "NULL"
        case bool() | int():
            return str(value).upper()
        case Decimal():
            text = f"{value:f}"
            return text if "." in text else f"{text}.0"
        case float():
            return f"{value!r}D" if math.isfinite(value) else f"CAST('{value}' AS DOUBLE)"
        case str():
            return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        case bytes():
            return f"X'{value.hex()}'"
        case datetime():
            # Not TIMESTAMP for a local time: comparing it with a column without zone, Spark converts both to instants
            # in the session's zone, and on the day its clocks go forward 03:00 is not after 02:30.
            if value.tzinfo is None:
                return f"TIMESTAMP_NTZ '{value.isoformat(' ')}'"
            return f"TIMESTAMP '{value.astimezone(UTC).replace(tzinfo=None).isoformat(' ')}Z'"
        case _:
            return f"DATE '{value.isoformat()}'"


# Words that SQL, or the parser of parse_filter, does not read as a column's name.
_RESERVED = frozenset(
    """
    ALL ALTER AND ANY ARRAY AS BETWEEN CALL CASE CONNECT_BY_ROOT CREATE CROSS CURRENT_DATE CURRENT_TIMESTAMP
    CURRENT_USER DESCRIBE DISTINCT DROP ELSE END EXCEPT EXECUTE EXISTS EXPLAIN FALSE FETCH FOR FROM GLOB GRANT GROUP
    HAVING IF ILIKE IN INNER INSERT INTERSECT INTERVAL INTO IS JOIN LATERAL LIKE LIMIT LIST MAP MINUS NOT NOTNULL NULL
    NULLABLE OBJECT ON OPTIMIZE OR ORDER OUTER PARTITIONED_BY PREPARE QUALIFY RANGE REGEXP RENAME RETURNING REVOKE
    RLIKE ROLLBACK SELECT SERDEPROPERTIES SESSION_USER SHOW STRUCT TABLESAMPLE THEN TRUE UNCACHE UNION USING VACUUM
    VALUES WHEN WHERE WITH XOR
    """.split()  # noqa: SIM905 - shorter than eighty quoted words
)
