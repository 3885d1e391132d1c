"""What a snapshot tells of partitions and files before they are opened, as the index that `pruning.may_match` tests.

Statistics are those of the schema that wrote the file: columns are found by field id. What is not told (no statistics
of a column, a type that changed by more than a widening, NaN as a bound) is unknown and excludes nothing. A NaN may be
in a file whatever its bounds say.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pt

from packstone.pruning.expression import And, Compare, Expression, Op, all_of, columns_of
from packstone.pruning.may_match import may_match
from packstone.rewrite.data_files.column_facts import has_order
from packstone.rewrite.merge.merge_spec import KeyRange, pack_value
from packstone.rewrite.ordered.block_facts import is_bytes
from packstone.tables.paimon.binary_row import decode_row, row_arity
from packstone.tables.paimon.data_type import to_arrow, to_arrow_field
from packstone.tables.paimon.merge_specs import is_same_type
from packstone.tables.paimon.paths import partition_values

if TYPE_CHECKING:
    from packstone.pruning.blocklet_facts import Mask
    from packstone.tables.paimon.data_file_meta import DataFileMeta, SimpleStats
    from packstone.tables.paimon.data_type import DataField, DataType
    from packstone.tables.paimon.table_schema import TableSchema


@dataclass(frozen=True, slots=True)
class _Facts:
    """Of one column of one file; None: unknown."""

    low: Any = None
    high: Any = None
    nulls: int | None = None
    type: DataType | None = None  # when the file was written


_UNKNOWN = _Facts()


def may_hold_partition(expression: Expression, schema: TableSchema, partition: bytes) -> bool:
    """Whether a row of this partition can match, by the values that all its rows have."""
    columns: dict[str, pa.Array] = {"rows": pa.array([1], pa.int64())}
    for field, value in zip(schema.partition_fields, partition_values(schema, partition), strict=True):
        known = _Facts(low=value, high=value, nulls=0 if value is not None else 1)
        columns |= _columns(field, [known])
    return bool(may_match(expression, pa.table(columns))[0])


def may_hold_files(
    expression: Expression,
    files: Sequence[DataFileMeta],
    *,
    schema: TableSchema,
    schemas: Mapping[int, TableSchema],
    keys_only: bool = False,
) -> Mask:
    """Which files can hold a matching row; ``keys_only`` asks the statistics of the key, which every version shares."""
    wanted = set(columns_of(expression))
    fields = [field for field in schema.fields if field.name in wanted]
    if keys_only:
        fields = [field for field in fields if field.name in schema.trimmed_primary_keys]
    found = [_file_facts(file, schemas[file.schema_id], keys_only=keys_only) for file in files]
    columns: dict[str, pa.Array] = {"rows": pa.array([file.row_count for file in files], pa.int64())}
    for field in fields:
        facts = (one.get(field.id, _UNKNOWN) for one in found)
        columns |= _columns(field, [one if _is_same(one, field) else _UNKNOWN for one in facts])
    return may_match(expression, pa.table(columns))


def key_part(expression: Expression | None, schema: TableSchema) -> Expression | None:
    """The parts of a filter (joined by AND) that ask for the key only: they say the same of all versions of a row."""
    if expression is None:
        return None
    names = {*schema.primary_keys, *schema.partition_keys}
    parts = [part for part in _parts(expression) if (used := columns_of(part)) and names.issuperset(used)]
    return all_of(parts) if parts else None


def find_key_range(expression: Expression | None, schema: TableSchema) -> KeyRange | None:
    """The share of the first key column that the filter leaves, so that a merge reads only that; rows are tested after.

    A bound that is too wide does no harm; an upper one is left out, so it must lie above the value.
    """
    name = schema.trimmed_primary_keys[0]
    kind = to_arrow_field(schema.field(name)).type
    lower = upper = None
    for part in _parts(expression) if expression is not None else ():
        if not isinstance(part, Compare) or part.column != name or part.op is Op.NE:
            continue
        if part.op in (Op.EQ, Op.GE, Op.GT):
            lower = part.literal
        if part.op in (Op.EQ, Op.LE, Op.LT):
            upper = _above(part.literal, kind)
    if (lower is None and upper is None) or pt.is_floating(kind):  # NaN and the zeros have an order of their own
        return None
    return KeyRange(
        lower=None if lower is None else pack_value(lower), upper=None if upper is None else pack_value(upper)
    )


def _parts(expression: Expression) -> tuple[Expression, ...]:
    return expression.parts if isinstance(expression, And) else (expression,)


def _above(value: pa.Scalar, kind: pa.DataType) -> pa.Scalar | None:
    """The next value, where there is one."""
    plain = value.as_py()
    if pt.is_signed_integer(kind):
        return pa.scalar(plain + 1, kind) if plain + 1 < 1 << (kind.bit_width - 1) else None
    if pt.is_string(kind):
        return pa.scalar(plain + "\x00", kind)
    return None


def _file_facts(file: DataFileMeta, written: TableSchema, *, keys_only: bool) -> dict[int, _Facts]:
    """By field id."""
    if keys_only:
        return dict(_read_stats(file.key_stats, written.trimmed_key_fields))
    names = file.value_stats_cols
    fields = written.value_fields if names is None else tuple(written.field(name) for name in names)
    return dict(_read_stats(file.value_stats, fields))


def _read_stats(stats: SimpleStats, fields: Sequence[DataField]) -> Iterable[tuple[int, _Facts]]:
    types = tuple(field.type for field in fields)
    if any(row_arity(row) != len(types) for row in (stats.min_values, stats.max_values)):
        return
    lows, highs = decode_row(stats.min_values, types), decode_row(stats.max_values, types)
    counts = stats.null_counts if stats.null_counts and len(stats.null_counts) == len(types) else (None,) * len(types)
    for field, low, high, nulls in zip(fields, lows, highs, counts, strict=True):
        if _is_nan(low) or _is_nan(high):  # Java orders NaN after every number; others are between the bounds too
            low = high = None  # noqa: PLW2901 - unknown
        yield field.id, _Facts(low=low, high=high, nulls=nulls, type=field.type)


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _is_same(facts: _Facts, field: DataField) -> bool:
    """Whether the values mean now what they meant when the file was written.

    A time in another unit would not, nor a text that readers cut to a shorter length.
    """
    if facts.type is None or is_same_type(facts.type, field.type):
        return True
    return bool(pt.is_signed_integer(to_arrow(facts.type)) and pt.is_signed_integer(to_arrow(field.type)))


def _columns(field: DataField, facts: Sequence[_Facts]) -> dict[str, pa.Array]:
    """The columns of the index that tell of one column of the table."""
    kind = to_arrow_field(field).type
    name = field.name
    columns = {f"nulls.{name}": pa.array([one.nulls for one in facts], pa.int64())}
    if not has_order(kind) or pt.is_time(kind):
        return columns
    for end, values in (("min", [one.low for one in facts]), ("max", [one.high for one in facts])):
        bounds = _bounds(values, kind)
        if bounds is None:
            return {f"nulls.{name}": columns[f"nulls.{name}"]}
        columns[f"{end}.{name}"] = bounds
    return columns


def _bounds(values: Sequence[Any], kind: pa.DataType) -> pa.Array | None:
    """As Arrow; None if some value does not fit, because the column had another type when the file was written."""
    if is_bytes(kind):
        return pa.array([value.encode() if isinstance(value, str) else value for value in values], pa.binary())
    try:
        return pa.array(values, kind)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return None
