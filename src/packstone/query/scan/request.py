"""The request of a scan: the columns by name, and the filter, divided into parts that need Spark and parts that do not.

``pack_filter`` writes a resolved filter as text, so that it can be sent in a split: executors need no SQL parser, and
no literal is parsed twice. A node is a JSON list, its kind first; values are Arrow IPC bytes, so they keep their exact
type.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, assert_never

import pyarrow as pa

from packstone.errors import InvalidInputError
from packstone.query.filter.expression import (
    TRUE,
    And,
    Compare,
    Expression,
    IsNull,
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
    columns_of,
)
from packstone.query.filter.resolve import prepare_filter
from packstone.query.scan.plan import Split
from packstone.rewrite.merge_tree.spec import pack_schema

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanOptions:
    """Options of planning a scan.

    ``explain`` also finds out what each part of the filter excludes, which takes a test of all bounds for each part.
    """

    zone: str = "UTC"  # the session's time zone, which turns local times of the filter into instants
    parallelism: int | None = None  # number of concurrent tasks; None: the number of cores of this machine
    explain: bool = False


DEFAULT_OPTIONS: Final = ScanOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The requested columns and rows; ``columns`` None means all columns."""

    columns: tuple[str, ...] | None = None
    where: str | Expression | None = None
    options: ScanOptions = DEFAULT_OPTIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRequest:
    """The returned columns, and the resolved filter; ``unpushed`` are its parts that need Spark."""

    schema: pa.Schema
    filter_schema: pa.Schema
    expression: Expression | None = None
    unpushed: tuple[Expression, ...] = ()

    @property
    def text(self) -> str:
        """The whole filter as SQL."""
        parts = (*((self.expression,) if self.expression is not None else ()), *self.unpushed)
        return str(all_of(parts)) if parts else ""

    @property
    def parts(self) -> tuple[Expression, ...]:
        """The parts that are joined by AND."""
        if self.expression is None:
            return ()
        return self.expression.parts if isinstance(self.expression, And) else (self.expression,)

    def empty_split(self, *, is_tested: bool) -> Split:
        """A split without files; it has the filter only if its rows have to be tested."""
        schema = pack_schema(self.schema)
        if self.expression is None or not is_tested:
            return Split(schema=schema)
        packed = pack_filter(self.expression)
        return Split(schema=schema, filter=packed, filter_schema=pack_schema(self.filter_schema))


def read_request(
    table: pa.Schema, *, columns: Sequence[str] | None, where: str | Expression | None, zone: str
) -> ScanRequest:
    """Find the columns (names are case-insensitive) and resolve the filter; errors name the column."""
    schema = _select_columns(table, columns)
    if where is None:
        return ScanRequest(schema=schema, filter_schema=pa.schema([]))
    expression = prepare_filter(_parse(where), table, zone=zone)
    parts = expression.parts if isinstance(expression, And) else (expression,)
    pushed = all_of(part for part in parts if not _needs_spark(part))
    return ScanRequest(
        schema=schema,
        filter_schema=pa.schema([_field(table, name) for name in columns_of(pushed)]),
        expression=None if pushed == TRUE else pushed,
        unpushed=tuple(part for part in parts if _needs_spark(part)),
    )


def _parse(where: str | Expression) -> Expression:
    if not isinstance(where, str):
        return where
    # Importing the parser takes half a second, which only scans with a filter in SQL should pay.
    from packstone.query.filter.parse_filter import parse_filter

    return parse_filter(where)


def _select_columns(table: pa.Schema, columns: Sequence[str] | None) -> pa.Schema:
    if columns is None:
        return table.remove_metadata()
    if isinstance(columns, str):
        raise InvalidInputError(f"Columns must be a list of names, such as [{columns!r}].")
    fields = [_field(table, name) for name in columns]
    names = [field.name for field in fields]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidInputError(f"The column {twice} is requested twice; name it once.", column=twice)
    return pa.schema(fields)


def _field(table: pa.Schema, name: str) -> pa.Field:
    found = [field for field in table if field.name == name] or [
        field for field in table if field.name.lower() == name.lower()
    ]
    if len(found) != 1:
        what = "several columns" if found else "no column"
        raise InvalidInputError(f"The table has {what} {name!r}; it has: {', '.join(table.names)}.", column=name)
    return found[0]


def _needs_spark(expression: Expression) -> bool:
    match expression:
        case Unknown():
            return True
        case And() | Or():
            return any(map(_needs_spark, expression.parts))
        case Not():
            return _needs_spark(expression.part)
    return False


def pack_filter(expression: Expression) -> str:
    """Write a resolved filter as text."""
    return json.dumps(_to_plain(expression), separators=(",", ":"))


def unpack_filter(text: str) -> Expression:
    """Read a filter that ``pack_filter`` wrote."""
    return _from_plain(json.loads(text))


def _to_plain(node: Expression) -> list[Any]:
    match node:
        case And() | Or():
            return ["and" if isinstance(node, And) else "or", *map(_to_plain, node.parts)]
        case Not():
            return ["not", _to_plain(node.part)]
        case Truth():
            return ["truth", node.value]
        case Unknown():
            return ["unknown", node.text, *node.columns]
        case IsNull():
            return ["null", node.column, node.negated]
        case Compare():
            return ["compare", node.column, str(node.op), _pack(_scalars(node, node.literal))]
        case StartsWith():
            return ["prefix", node.column, node.negated, _pack(_scalars(node, node.prefix))]
        case OneOf():
            if not isinstance(node.literals, ValueSet):
                raise _unresolved(node)
            return ["in", node.column, node.negated, _pack(node.literals.array)]
        case _:
            assert_never(node)


def _from_plain(plain: list[Any]) -> Expression:
    kind, *rest = plain
    match kind:
        case "and":
            return And(parts=tuple(map(_from_plain, rest)))
        case "or":
            return Or(parts=tuple(map(_from_plain, rest)))
        case "not":
            return Not(part=_from_plain(rest[0]))
        case "truth":
            return Truth(value=rest[0])
        case "unknown":
            return Unknown(text=rest[0], columns=tuple(rest[1:]))
        case "null":
            return IsNull(column=rest[0], negated=rest[1])
        case "compare":
            return Compare(column=rest[0], op=Op(rest[1]), literal=_unpack(rest[2])[0])
        case "prefix":
            return StartsWith(column=rest[0], prefix=_unpack(rest[2])[0], negated=rest[1])
        case "in":
            return OneOf(column=rest[0], literals=ValueSet(array=_unpack(rest[2])), negated=rest[1])
    raise InvalidInputError(f"A filter of a newer packstone has a {kind!r}; use the same version on all machines.")


def _scalars(node: Expression, value: Literal | pa.Scalar) -> pa.Array:
    if isinstance(value, Literal):
        raise _unresolved(node)
    return pa.array([value], type=value.type)


def _unresolved(node: Expression) -> InvalidInputError:
    return InvalidInputError(f"The test {str(node)!r} must be resolved before it can be packed.")


def _pack(values: pa.Array) -> str:
    batch = pa.record_batch([values], names=["v"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return base64.b64encode(sink.getvalue().to_pybytes()).decode()


def _unpack(text: str) -> pa.Array:
    with pa.ipc.open_stream(pa.py_buffer(base64.b64decode(text))) as reader:
        return reader.read_next_batch().column(0)


def fallen_behind(table: str, version: int) -> InvalidInputError:
    """The error of a stream that asks for a version that no longer exists."""
    return InvalidInputError(
        f"{table}: version {version} has been cleaned, so the rows added since are no longer known; begin a new stream "
        "(a new checkpoint), and keep versions for longer than a stream pauses.",
        table=table,
    )
