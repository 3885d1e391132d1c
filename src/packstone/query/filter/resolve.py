"""Convert literals to Arrow scalars of the column's own type, once, so that pruning and evaluation convert nothing.

A literal that no value of the column equals becomes an exact bound or a constant; three-valued logic is preserved:

========================  ==============================================
``id = 3.5`` (long)       ``id IS NULL AND NULL``: never true, null for null
``id < 3.5``              ``id <= 3``
``b < 300`` (byte)        ``b IS NOT NULL OR NULL``: true, null for null
``a IN (1, NULL)``        ``a IN (1) OR NULL``
========================  ==============================================

InvalidInputError names the column if SQL would fail too (text that is not a number), if there is no such column, or if
its type cannot be compared. A comparison for which Spark converts the *column* (a string column with a number) stays
SQL text, as ``Unknown``. Column names are case-insensitive, and are replaced by those of the schema.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import tzinfo
from typing import Final, TypeVar, assert_never

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from packstone.errors import InvalidInputError
from packstone.query.filter.column_domain import (
    Cut,
    Domain,
    MisfitError,
    as_double,
    find_domain,
    reads_as_double,
    text_to_zone,
)
from packstone.query.filter.expression import (
    FALSE,
    NULL,
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
from packstone.query.filter.normalise import normalise, push_not

MAX_DEPTH: Final = 100
MAX_TESTS: Final = 20_000  # not counting the values of lists
_Made = TypeVar("_Made")


def resolve(expression: Expression, schema: pa.Schema, *, zone: str = "UTC") -> Expression:
    """Resolve every literal; the filter stays true for the same rows. ``zone`` turns local times into instants."""
    found = read_zone(zone)
    check_size(expression)
    return _Resolver(schema, found).resolve(expression)


def read_zone(text: str) -> tzinfo:
    """The time zone of this name; InvalidInputError if there is none."""
    found = text_to_zone(text)
    if found is None:
        raise InvalidInputError(f"{text!r} is not a time zone; use a region such as Europe/Berlin.", zone=text)
    return found


def check_size(expression: Expression) -> None:
    """Refuse a filter that is too deep or too long for the later steps, which walk the tree."""
    count, waiting = 0, [(expression, 1)]
    while waiting:
        node, depth = waiting.pop()
        if depth > MAX_DEPTH:
            raise InvalidInputError(f"The filter is nested more than {MAX_DEPTH} deep.")
        if isinstance(node, And | Or):
            waiting += ((part, depth + 1) for part in node.parts)
        elif isinstance(node, Not):
            waiting.append((node.part, depth + 1))
        else:
            count += 1
    if count > MAX_TESTS:
        raise InvalidInputError(
            f"The filter has {count:,} tests; at most {MAX_TESTS:,} are allowed: write column IN (…) for many values."
        )


def prepare_filter(expression: Expression, schema: pa.Schema, *, zone: str = "UTC") -> Expression:
    """Resolve, then normalise: the same rows are TRUE, and ranges are merged in the column's own order."""
    return normalise(resolve(expression, schema, zone=zone))


def is_text(kind: pa.DataType) -> bool:
    """Whether values are strings of characters."""
    return bool(pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind))


def is_binary(kind: pa.DataType) -> bool:
    """Whether values are strings of bytes."""
    is_variable = pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_binary_view(kind)
    return bool(is_variable or pt.is_fixed_size_binary(kind))


class _Resolver:
    def __init__(self, schema: pa.Schema, zone: tzinfo) -> None:
        self._schema, self._zone = schema, zone
        self._fields: dict[str, list[pa.Field]] = {}
        for field in schema:
            self._fields.setdefault(field.name.lower(), []).append(field)
        self._domains: dict[pa.DataType, Domain | None] = {}

    def resolve(self, expression: Expression) -> Expression:
        match expression:
            case And():
                return all_of(self.resolve(part) for part in expression.parts)
            case Or():
                return any_of(self.resolve(part) for part in expression.parts)
            case Not():
                return Not(part=self.resolve(expression.part))
            case Truth():
                return expression
            case Unknown():
                columns = tuple(self._field(name).name for name in expression.columns)
                return Unknown(text=expression.text, columns=columns)
            case IsNull():
                return IsNull(column=self._field(expression.column).name, negated=expression.negated)
            case Compare():
                return self._compare(expression)
            case OneOf():
                return self._one_of(expression)
            case StartsWith():
                return self._starts_with(expression)
            case _:
                assert_never(expression)

    def _field(self, name: str) -> pa.Field:
        fields = self._fields.get(name.lower(), [])
        if not fields:
            known = ", ".join(self._schema.names)
            raise InvalidInputError(
                f"The filter names {name!r}, which is not a column; there are: {known}.", column=name
            )
        if len(fields) > 1:
            names = " and ".join(field.name for field in fields)
            raise InvalidInputError(f"The filter names {name!r}, which may be {names}.", column=name)
        return fields[0]

    def _compare(self, node: Compare) -> Expression:
        field, value = self._field(node.column), node.literal
        kind = value_type(field.type)
        if not isinstance(value, Literal):
            return node
        if value.kind is Kind.NULL or pt.is_null(kind):
            return NULL
        if (scalar := _bytes_scalar(value, kind)) is not None:
            return Compare(column=field.name, op=node.op, literal=scalar)
        if is_text(kind) or is_binary(kind) or node.as_text:
            return _as_text(node, field.name)
        domain = self._domain(field, kind)
        return _compare_cut(field.name, node.op, cut=self._cut(field, domain, value), domain=domain)

    def _one_of(self, node: OneOf) -> Expression:
        field = self._field(node.column)
        kind = value_type(field.type)
        if isinstance(node.literals, ValueSet):
            return node
        if not node.literals:
            return TRUE if node.negated else FALSE
        values = [value for value in node.literals if value.kind is not Kind.NULL]
        has_null = len(values) < len(node.literals)
        if pt.is_null(kind):
            return NULL
        if is_text(kind) or is_binary(kind):
            scalars = [_bytes_scalar(value, kind) for value in values]
            if None in scalars:
                return _as_text(node, field.name)
            parts = _members(field.name, scalars, kind)
        else:
            parts = self._numbered_members(field, kind, values)
        found = any_of([*parts, *([NULL] if has_null else [])])
        return push_not(Not(part=found)) if node.negated else found

    def _numbered_members(self, field: pa.Field, kind: pa.DataType, values: list[Literal]) -> list[Expression]:
        domain = self._domain(field, kind)
        is_number = pt.is_integer(kind) or pt.is_decimal(kind)
        if is_number and any(reads_as_double(kind, value) for value in values):
            values = [self._checked(field, value, as_double) for value in values]
        cuts = {self._cut(field, domain, value): None for value in values}
        single = sorted({cut.first for cut in cuts if cut.after - cut.first == 1 and _is_inside(cut.first, domain)})
        parts = _members(field.name, [domain.scalar(at) for at in single], kind)
        wide = [cut for cut in cuts if cut.after - cut.first > 1]
        return parts + [_compare_cut(field.name, Op.EQ, cut=cut, domain=domain) for cut in wide]

    def _starts_with(self, node: StartsWith) -> Expression:
        field = self._field(node.column)
        if not isinstance(node.prefix, Literal):
            return node
        kind = value_type(field.type)
        if pt.is_null(kind) or node.prefix.kind is Kind.NULL:
            return NULL
        scalar = _bytes_scalar(node.prefix, kind)
        if scalar is None:
            return _as_text(node, field.name)
        if not node.prefix.value:
            return never_true(field.name) if node.negated else always_true(field.name)
        return StartsWith(column=field.name, prefix=scalar, negated=node.negated)

    def _domain(self, field: pa.Field, kind: pa.DataType) -> Domain:
        if kind not in self._domains:
            self._domains[kind] = find_domain(kind, self._zone)
        domain = self._domains[kind]
        if domain is None:
            raise InvalidInputError(
                f"The column {field.name} ({kind}) cannot be compared in a filter.", column=field.name
            )
        return domain

    def _cut(self, field: pa.Field, domain: Domain, value: Literal) -> Cut:
        return self._checked(field, value, domain.cut)

    @staticmethod
    def _checked(field: pa.Field, value: Literal, convert: Callable[[Literal], _Made]) -> _Made:
        try:
            return convert(value)
        except MisfitError as misfit:
            message = f"The column {field.name} ({field.type}) cannot be compared with {value}, only with {misfit}."
            raise InvalidInputError(message, column=field.name, value=value.value) from None
        except OverflowError:
            message = f"The column {field.name} cannot be compared with {value}: in this zone the year is out of range."
            raise InvalidInputError(message, column=field.name, value=value.value) from None


def value_type(kind: pa.DataType) -> pa.DataType:
    """The type of the values, also of a dictionary-encoded column."""
    return kind.value_type if pt.is_dictionary(kind) else kind


def never_true(column: str) -> Expression:
    """FALSE for every value, unknown for NULL."""
    return all_of((IsNull(column=column), NULL))


def always_true(column: str) -> Expression:
    """TRUE for every value, unknown for NULL."""
    return any_of((IsNull(column=column, negated=True), NULL))


def _as_text(node: Compare | OneOf | StartsWith, column: str) -> Unknown:
    """Keep the test as SQL text: Spark converts the column value by value, which is not reimplemented here."""
    return Unknown(text=str(node), columns=(column,))


def _bytes_scalar(value: Literal, kind: pa.DataType) -> pa.Scalar | None:
    """A literal as text for a text column, as bytes of any length for a binary one; None if the kinds differ."""
    if is_text(kind) and value.kind is Kind.STRING:
        return pa.scalar(value.value, kind)
    if is_binary(kind) and value.kind is Kind.BINARY:
        return pa.scalar(value.value, pa.binary() if pt.is_fixed_size_binary(kind) else kind)
    return None


def _members(column: str, scalars: Sequence[pa.Scalar | None], kind: pa.DataType) -> list[Expression]:
    if not scalars:
        return [never_true(column)]
    wanted = pa.binary() if pt.is_fixed_size_binary(kind) else kind
    array = pa.array(scalars, type=wanted)
    if is_text(kind) or is_binary(kind):  # the others are sorted and distinct
        # As large binary, because views lack these kernels; it has the order of text.
        array = pc.unique(array.cast(pa.large_binary()))
        array = array.take(pc.sort_indices(array)).cast(wanted)
    return [OneOf(column=column, literals=ValueSet(array=array))]


def _is_inside(number: int, domain: Domain) -> bool:
    return domain.low <= number <= domain.high


def _compare_cut(column: str, op: Op, *, cut: Cut, domain: Domain) -> Expression:
    match op:
        case Op.EQ:
            return _equal(column, cut, domain)
        case Op.NE:
            return push_not(Not(part=_equal(column, cut, domain)))
        case Op.LT:
            return _below(column, cut.first, domain, is_value=cut.after > cut.first)
        case Op.GE:
            return push_not(Not(part=_below(column, cut.first, domain, is_value=cut.after > cut.first)))
        case Op.LE:
            return _up_to(column, cut.after - 1, domain)
        case Op.GT:
            return push_not(Not(part=_up_to(column, cut.after - 1, domain)))
        case _:
            assert_never(op)


def _equal(column: str, cut: Cut, domain: Domain) -> Expression:
    first, last = max(cut.first, domain.low), min(cut.after - 1, domain.high)
    if first > last:
        return never_true(column)
    if first == last:
        return Compare(column=column, op=Op.EQ, literal=domain.scalar(first))
    ends = ((Op.GE, first), (Op.LE, last))
    return all_of(Compare(column=column, op=op, literal=domain.scalar(at)) for op, at in ends)


def _below(column: str, number: int, domain: Domain, *, is_value: bool) -> Expression:
    """``< number``; written as ``<= number - 1`` if the literal is not a value of the column."""
    if is_value and domain.low < number <= domain.high:
        return Compare(column=column, op=Op.LT, literal=domain.scalar(number))
    return _up_to(column, number - 1, domain)


def _up_to(column: str, number: int, domain: Domain) -> Expression:
    """``<= number``."""
    if number < domain.low:
        return never_true(column)
    if number >= domain.high:
        return always_true(column)
    return Compare(column=column, op=Op.LE, literal=domain.scalar(number))
