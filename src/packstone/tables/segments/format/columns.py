"""Columns of a segment table, in Spark's notation: ``id long, ts timestamp not null, tags array<string>``.

The text is parsed once, on input; the canonical text of each type is stored, and parses back to itself. Timestamps have
microseconds: ``timestamp`` is an instant (UTC), ``timestamp_ntz`` a local date and time without a zone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from packstone.errors import InvalidInputError

if TYPE_CHECKING:
    import pyarrow as pa

ATOMIC_NAMES: Final = {
    "boolean": "boolean",
    "bool": "boolean",
    "byte": "byte",
    "tinyint": "byte",
    "short": "short",
    "smallint": "short",
    "int": "int",
    "integer": "int",
    "long": "long",
    "bigint": "long",
    "float": "float",
    "real": "float",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp_ltz": "timestamp",
    "timestamp_ntz": "timestamp_ntz",
}
MAX_PRECISION: Final = 38
_DEFAULT_DECIMAL: Final = (10, 0)  # Spark's
_TOKEN: Final = re.compile(r"\s*(?:(`(?:[^`]|``)+`)|([^\W\d]\w*|\d+\w*)|([<>(),:])|('(?:[^'\\]|''|\\.)*'))")
_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")  # Spark accepts others, such as größe, only in backquotes


@dataclass(frozen=True, slots=True)
class AtomicType:
    """A type without parts, by its canonical name."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class DecimalType:
    """Exact numbers of ``precision`` digits, ``scale`` of them fractional."""

    precision: int
    scale: int

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True, slots=True)
class ArrayType:
    """A list of values of one type."""

    element: ColumnType

    def __str__(self) -> str:
        return f"array<{self.element}>"


@dataclass(frozen=True, slots=True)
class MapType:
    """Pairs of a key and a value."""

    key: ColumnType
    value: ColumnType

    def __str__(self) -> str:
        return f"map<{self.key},{self.value}>"


@dataclass(frozen=True, slots=True)
class StructType:
    """Named parts."""

    fields: tuple[tuple[str, ColumnType], ...]

    def __str__(self) -> str:
        return f"struct<{','.join(f'{quote_name(name)}:{kind}' for name, kind in self.fields)}>"


ColumnType: TypeAlias = AtomicType | DecimalType | ArrayType | MapType | StructType


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumn:
    """One column; ``type_text`` is canonical."""

    name: str
    type_text: str
    nullable: bool = True

    @property
    def type(self) -> ColumnType:
        """The parsed type."""
        return parse_type(self.type_text, column=self.name)

    @property
    def is_atomic(self) -> bool:
        """Whether its values are ordered, so that it can be a sort column and has a minimum and a maximum."""
        return isinstance(self.type, AtomicType | DecimalType)

    def __str__(self) -> str:
        return f"{quote_name(self.name)} {self.type_text}{'' if self.nullable else ' not null'}"


def parse_columns(text: str) -> tuple[TableColumn, ...]:
    """Read ``id long, ts timestamp not null``; InvalidInputError names the column with the mistake."""
    tokens = _Tokens(text, column=None)
    columns: list[TableColumn] = []
    while True:
        name = tokens.name("a column name")
        tokens.column = name
        kind = _read_type(tokens)
        nullable = not tokens.take_words("not", "null")
        if tokens.take_words("comment"):  # not kept: a table has no place for it
            tokens.skip_text()
        columns.append(TableColumn(name=name, type_text=str(kind), nullable=nullable))
        if tokens.at_end():
            break
        tokens.expect(",")
    check_names([column.name for column in columns], what="column")
    return tuple(columns)


def parse_type(text: str, *, column: str) -> ColumnType:
    """Read one type."""
    tokens = _Tokens(text, column=column)
    kind = _read_type(tokens)
    if not tokens.at_end():
        raise tokens.error(f"has {tokens.peek()!r} after its type")
    return kind


def to_ddl(columns: Iterable[TableColumn]) -> str:
    """Return columns as the text that Spark and `parse_columns` read."""
    return ", ".join(map(str, columns))


def to_arrow(columns: Iterable[TableColumn]) -> pa.Schema:
    """The Arrow schema of data files with these columns."""
    import pyarrow as pa  # slow to import, not needed to plan

    return pa.schema([pa.field(column.name, arrow_type(column.type), column.nullable) for column in columns])


def arrow_type(kind: ColumnType) -> pa.DataType:
    """The Arrow type of a column type."""
    import pyarrow as pa  # slow to import, not needed to plan

    match kind:
        case AtomicType(name):
            return _atomic_arrow()[name]
        case DecimalType(precision, scale):
            return pa.decimal128(precision, scale)
        case ArrayType(element):
            return pa.list_(pa.field("element", arrow_type(element)))
        case MapType(key, value):
            return pa.map_(arrow_type(key), arrow_type(value))
        case StructType(fields):
            return pa.struct([pa.field(name, arrow_type(part)) for name, part in fields])


def columns_from_arrow(schema: pa.Schema) -> tuple[TableColumn, ...]:
    """The columns for an Arrow schema; InvalidInputError names a column whose type is not supported."""
    columns = tuple(
        TableColumn(name=field.name, type_text=str(_from_arrow(field.type, field.name)), nullable=field.nullable)
        for field in schema
    )
    if not columns:
        raise InvalidInputError("A table needs at least one column; write for example 'id long, name string'.")
    check_names([column.name for column in columns], what="column")
    return columns


def check_names(names: Iterable[str], *, what: str) -> None:
    """Refuse names that are empty or differ only in case: to Spark they are ambiguous."""
    seen: dict[str, str] = {}
    for name in names:
        if not name:
            raise InvalidInputError(f"A {what} has no name; give it one.", column=name)
        other = seen.setdefault(name.lower(), name)
        if other is not name:
            raise InvalidInputError(
                f"The {what}s {other!r} and {name!r} have the same name (case does not count); rename one.", column=name
            )


def quote_name(name: str) -> str:
    """Return a name so that it parses back: in backquotes unless it is a plain word."""
    return name if _PLAIN_NAME.fullmatch(name) else "`" + name.replace("`", "``") + "`"


class _Tokens:
    """The words and signs of a schema text, taken one after the other."""

    def __init__(self, text: str, *, column: str | None) -> None:
        self.column = column
        self._items: list[str] = []
        self._at = 0
        position, end = 0, len(text.rstrip())
        while position < end:
            match = _TOKEN.match(text, position)
            if match is None:
                raise InvalidInputError(
                    f"The schema cannot be read at {text[position:].strip()[:20]!r}; write for example "
                    "'id long, name string not null'.",
                    value=text,
                )
            self._items.append(match[1] or match[2] or match[3] or match[4])
            position = match.end()

    def at_end(self) -> bool:
        return self._at == len(self._items)

    def peek(self) -> str:
        return "" if self.at_end() else self._items[self._at]

    def take(self) -> str:
        item = self.peek()
        self._at += 1
        return item

    def name(self, what: str) -> str:
        if self.at_end() or self.peek() in "<>(),:" or self.peek().startswith("'"):
            raise self.error(f"lacks {what}" + (f" before {self.peek()!r}" if self.peek() else " at its end"))
        item = self.take()
        return item[1:-1].replace("``", "`") if item.startswith("`") else item

    def skip_text(self) -> None:
        if not self.peek().startswith("'"):
            raise self.error(f"has {self.peek() or 'its end'!r} where a text in quotes is expected")
        self._at += 1

    def expect(self, sign: str) -> None:
        if self.peek() != sign:
            raise self.error(f"has {self.peek() or 'its end'!r} where {sign!r} is expected")
        self._at += 1

    def take_words(self, *words: str) -> bool:
        found = [item.lower() for item in self._items[self._at : self._at + len(words)]]
        if found != list(words):
            return False
        self._at += len(words)
        return True

    def error(self, why: str) -> InvalidInputError:
        subject = f"Column {self.column!r}" if self.column is not None else "The schema"
        return InvalidInputError(f"{subject} {why}; write for example 'id long, tags array<string>'.")


def _read_type(tokens: _Tokens) -> ColumnType:
    word = tokens.name("a type")
    lower = word.lower()
    if lower in ATOMIC_NAMES:
        return AtomicType(ATOMIC_NAMES[lower])
    match lower:
        case "decimal" | "dec" | "numeric":
            return _read_decimal(tokens)
        case "varchar" | "char":
            return _read_text(tokens)
        case "array":
            tokens.expect("<")
            element = _read_type(tokens)
            tokens.expect(">")
            return ArrayType(element)
        case "map":
            tokens.expect("<")
            key = _read_type(tokens)
            tokens.expect(",")
            value = _read_type(tokens)
            tokens.expect(">")
            return MapType(key, value)
        case "struct":
            return _read_struct(tokens)
    known = ", ".join((*dict.fromkeys(ATOMIC_NAMES.values()), "decimal(p,s)", "array<…>", "map<…,…>", "struct<…>"))
    raise InvalidInputError(
        f"Column {tokens.column!r} has the type {word!r}, which is not one of {known}.", column=tokens.column
    )


def _read_decimal(tokens: _Tokens) -> DecimalType:
    precision, scale = _DEFAULT_DECIMAL
    if tokens.peek() == "(":
        tokens.take()
        precision, scale = _whole(tokens), 0
        if tokens.peek() == ",":
            tokens.take()
            scale = _whole(tokens)
        tokens.expect(")")
    if not (1 <= precision <= MAX_PRECISION and scale <= precision):
        raise tokens.error(
            f"is a decimal({precision},{scale}); it can have 1 to {MAX_PRECISION} digits, and no more fractional digits"
        )
    return DecimalType(precision, scale)


def _read_text(tokens: _Tokens) -> AtomicType:
    """A text of Hive or CarbonData with a greatest length, which is not enforced: Parquet has no place for it."""
    if tokens.peek() == "(":
        tokens.take()
        _whole(tokens)
        tokens.expect(")")
    return AtomicType("string")


def _whole(tokens: _Tokens) -> int:
    text = tokens.name("a number")
    if not (text.isascii() and text.isdecimal()):
        raise tokens.error(f"has {text!r} where a number is expected")
    return int(text)


def _read_struct(tokens: _Tokens) -> StructType:
    tokens.expect("<")
    fields: list[tuple[str, ColumnType]] = []
    while True:
        name = tokens.name("a field name")
        if tokens.peek() == ":":
            tokens.take()
        fields.append((name, _read_type(tokens)))
        if tokens.peek() != ",":
            break
        tokens.take()
    tokens.expect(">")
    check_names([name for name, _ in fields], what=f"fields of column {tokens.column!r}: the field")
    return StructType(tuple(fields))


def _atomic_arrow() -> dict[str, pa.DataType]:
    import pyarrow as pa  # slow to import, not needed to plan

    return {
        "boolean": pa.bool_(),
        "byte": pa.int8(),
        "short": pa.int16(),
        "int": pa.int32(),
        "long": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "string": pa.string(),
        "binary": pa.binary(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "timestamp_ntz": pa.timestamp("us"),
    }


def _from_arrow(kind: pa.DataType, column: str) -> ColumnType:
    from pyarrow import types  # slow to import, not needed to plan

    if types.is_dictionary(kind):
        return _from_arrow(kind.value_type, column)
    if types.is_list(kind) or types.is_large_list(kind):
        return ArrayType(_from_arrow(kind.value_type, column))
    if types.is_map(kind):
        return MapType(_from_arrow(kind.key_type, column), _from_arrow(kind.item_type, column))
    if types.is_struct(kind):
        fields = [kind.field(at) for at in range(kind.num_fields)]
        check_names([field.name for field in fields], what=f"fields of column {column!r}: the field")
        return StructType(tuple((field.name, _from_arrow(field.type, column)) for field in fields))
    if types.is_decimal(kind) and kind.precision <= MAX_PRECISION and 0 <= kind.scale <= kind.precision:
        return DecimalType(kind.precision, kind.scale)
    if types.is_timestamp(kind):
        return AtomicType("timestamp" if kind.tz else "timestamp_ntz")
    if types.is_large_string(kind) or types.is_large_binary(kind):
        return AtomicType("string" if types.is_large_string(kind) else "binary")
    for name, ours in _atomic_arrow().items():
        if kind == ours:
            return AtomicType(name)
    raise InvalidInputError(f"Column {column!r} has the Arrow type {kind}, which a segment table cannot hold.")
