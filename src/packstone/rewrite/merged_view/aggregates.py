"""The aggregation engine: every column folds its values from the oldest record to the newest.

A fold that cannot be said as "the first (last, greatest) record for which …" is done by ``ufunc.at``, which takes the
rows one by one in their order: the bits of a floating-point sum are those of the plain loop over each key. What even
that cannot say (dividing out of a product, distinct lists, decimals that round) is the plain loop.

``remove-record-on-delete``: the last -D of a key replaces the row, so that older records no longer count; a
``first_value`` that had begun before it stays with the values of the -D.
"""

from __future__ import annotations

import decimal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from packstone.errors import RefusedError, VerificationError
from packstone.rewrite.merge.merge_spec import ColumnAggregate, EngineSpec, RowKind
from packstone.rewrite.merged_view.order_codes import Codes, Mask, rank_codes, read_validity
from packstone.rewrite.merged_view.row_lanes import read_fixed
from packstone.rewrite.merged_view.versions import Records, Versions, take_places
from packstone.rewrite.proof.value_hash import I64

if TYPE_CHECKING:
    from collections.abc import Callable

DEFAULT_FUNCTION: Final = "last_non_null_value"
# What Java's Character.isWhitespace accepts: no-break spaces are not among them.
_BLANKS: Final = (
    "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f \u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006"
    "\u2008\u2009\u200a\u2028\u2029\u205f\u3000"
)
_EXACT: Final = decimal.Context(prec=100, rounding=decimal.ROUND_HALF_UP)


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One column of the records, and which of them count for it."""

    records: Versions
    column: pa.Array
    rule: ColumnAggregate
    base: I64  # the record that replaced the row, by place, or -1
    counts: Mask
    is_retract: Mask  # of those that count

    @property
    def live(self) -> Mask:
        """Records that count and have a value."""
        return self.counts & read_validity(self.column)


def aggregate(
    records: Versions, engine: EngineSpec, *, names: tuple[str, ...], sequence_columns: tuple[str, ...]
) -> Records:
    """Fold each column by its function."""
    base = np.full(len(records.firsts), -1)
    if engine.remove_record_on_delete:
        base = records.last_where(records.kind == RowKind.DELETE)
    removed = base == records.lasts
    rules = {name: ColumnAggregate(column=name, function="last_value") for name in sequence_columns}
    rules |= {rule.column: rule for rule in engine.aggregates}
    columns = []
    for name, column in zip(names, records.columns, strict=True):
        rule = rules.get(name) or ColumnAggregate(column=name, function=DEFAULT_FUNCTION)
        columns.append(_fold(_field(records, column, rule, base=base)))
    kind = np.where(removed, RowKind.DELETE, RowKind.INSERT)
    return Records(columns=columns, sequence=records.sequence[records.lasts], kind=kind)


def _field(records: Versions, column: pa.Array, rule: ColumnAggregate, *, base: I64) -> Field:
    bases = base[records.group]
    counts = records.places >= bases
    is_retract = records.is_retract & (records.places != bases)
    if rule.ignore_retract:
        counts = counts & ~is_retract
    return Field(records=records, column=column, rule=rule, base=base, counts=counts, is_retract=is_retract & counts)


def _fold(field: Field) -> pa.Array:
    function = _FUNCTIONS.get(field.rule.function)
    if function is None:
        raise RefusedError(f"the aggregate function {field.rule.function} is not supported", column=field.rule.column)
    if field.rule.function not in _RETRACTING and field.is_retract.any():
        raise VerificationError(
            f"Column {field.rule.column} met a retract record, which {field.rule.function} does not know."
        )
    return function(field)


def _last_value(field: Field) -> pa.Array:
    last = field.records.last_where(field.counts)
    return take_places(field.column, np.where(field.is_retract[last], -1, last))


def _last_non_null_value(field: Field) -> pa.Array:
    last = field.records.last_where(field.live)
    return take_places(field.column, np.where(field.is_retract[last], -1, last))


def _primary_key(field: Field) -> pa.Array:
    return take_places(field.column, field.records.last_where(field.counts))


def _first_value(field: Field) -> pa.Array:
    return _first_of(field, np.ones(len(field.counts), dtype=np.bool_))


def _first_non_null_value(field: Field) -> pa.Array:
    return _first_of(field, read_validity(field.column))


def _first_of(field: Field, accepted: Mask) -> pa.Array:
    records = field.records
    adds = accepted & ~records.is_retract
    began = records.first_where(adds)
    first = records.first_where(adds & (records.places > field.base[records.group]))
    stays = (field.base >= 0) & (((began >= 0) & (began < field.base)) | (first < 0))
    return take_places(field.column, np.where(stays, field.base, first))


def _extreme(field: Field, *, greatest: bool) -> pa.Array:
    ranks = rank_codes(field.column)
    out = -1 if greatest else len(ranks) + 1
    ranks = np.where(field.live, ranks, out)
    best = (np.maximum if greatest else np.minimum).reduceat(ranks, field.records.firsts)
    return take_places(field.column, field.records.first_where(field.live & (ranks == best[field.records.group])))


def _maximum(field: Field) -> pa.Array:
    return _extreme(field, greatest=True)


def _minimum(field: Field) -> pa.Array:
    return _extreme(field, greatest=False)


def _sum(field: Field) -> pa.Array:
    if types.is_decimal(field.column.type):
        return _loop(field, _EXACT.add, _EXACT.subtract, start=_EXACT.minus)
    return _fold_at(field, np.add)


def _product(field: Field) -> pa.Array:
    if types.is_decimal(field.column.type) or (field.is_retract & field.live).any():
        return _loop(field, *_products(field.column.type), start=None)
    return _fold_at(field, np.multiply)


def _fold_at(field: Field, fold: np.ufunc) -> pa.Array:
    """Start with the first value of each key and take in the others in their order; retracted ones negated."""
    records, live, values = field.records, field.live, read_fixed(field.column)
    first = records.first_where(live)
    if np.issubdtype(values.dtype, np.integer) and _may_overflow(field, values, fold):
        values = values.astype(object)
    values = np.where(field.is_retract, -values, values)
    totals = values[first]
    rest = live & (records.places != first[records.group])
    with np.errstate(all="ignore"):
        fold.at(totals, records.group[rest], values[rest])
    return _to_column(field, totals, first < 0)


def _may_overflow(field: Field, values: Codes, fold: np.ufunc) -> bool:
    """Whether a total might leave the type's range on the way; then Python's integers are used, and the end checked."""
    sizes = np.where(field.live, np.abs(values.astype(np.float64)), 0.0 if fold is np.add else 1.0)
    if fold is not np.add:
        sizes = np.maximum(sizes, 1.0)
    with np.errstate(over="ignore"):
        return bool((fold.reduceat(sizes, field.records.firsts) > float(np.iinfo(values.dtype).max) / 2).any())


def _products(kind: pa.DataType) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
    """How to multiply and divide values of a type, as Java does."""
    if types.is_decimal(kind):
        unit = decimal.Decimal(1).scaleb(-kind.scale)
        return (
            lambda a, b: _EXACT.multiply(a, b).quantize(unit, context=_EXACT),
            lambda a, b: _EXACT.divide(a, b).quantize(unit, context=_EXACT),
        )
    if types.is_integer(kind):
        return lambda a, b: a * b, _divide_towards_zero
    single = np.float32 if types.is_float32(kind) else np.float64
    return lambda a, b: single(a) * single(b), lambda a, b: single(a) / single(b)


def _divide_towards_zero(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _loop(
    field: Field,
    take_in: Callable[[Any, Any], Any],
    take_out: Callable[[Any, Any], Any],
    *,
    start: Callable[[Any], Any] | None,
) -> pa.Array:
    """Fold value by value. A retract that comes first starts with ``start`` of its value, or leaves it empty."""
    totals: list[Any] = [None] * len(field.records.firsts)
    places = np.flatnonzero(field.live)
    values = field.column.take(pa.array(places)).to_pylist()
    with np.errstate(all="ignore"):
        for place, value in zip(places.tolist(), values, strict=True):
            group = int(field.records.group[place])
            total = totals[group]
            if field.is_retract[place]:
                totals[group] = (start and start(value)) if total is None else take_out(total, value)
            else:
                totals[group] = value if total is None else take_in(total, value)
    return _to_column(field, totals, None)


def _to_column(field: Field, totals: Any, is_null: Mask | None) -> pa.Array:  # noqa: ANN401 - a list or an array
    try:
        return pa.array(totals, type=field.column.type, mask=is_null)
    except (pa.ArrowInvalid, OverflowError) as error:
        raise VerificationError(f"Column {field.rule.column}: {field.rule.function} overflows its type.") from error


def _listagg(field: Field) -> pa.Array:
    blank = pc.equal(pc.binary_length(pc.utf8_trim(field.column, characters=_BLANKS)), 0)
    live = field.live & ~blank.fill_null(False).to_numpy(zero_copy_only=False)  # noqa: FBT003 - a value, not a switch
    counts = np.bincount(field.records.group[live], minlength=len(field.base))
    offsets = pa.array(np.concatenate(([0], np.cumsum(counts))), pa.int32())
    lists = pa.ListArray.from_arrays(offsets, field.column.filter(pa.array(live)))
    if field.rule.distinct:
        joined = pa.array([_join_distinct(texts, field.rule.delimiter) for texts in lists.to_pylist()], pa.string())
    else:
        joined = pc.binary_join(lists, field.rule.delimiter)
    # Without anything to join, what replaced the row stays, blank or null.
    return pc.if_else(pa.array(counts > 0), joined.cast(field.column.type), take_places(field.column, field.base))


def _join_distinct(texts: list[str], delimiter: str) -> str:
    """The first text as it is, then each token that was not there yet."""
    if not texts:
        return ""
    joined = [texts[0]]
    separator = delimiter or " "  # as Java has it
    seen = set(texts[0].split(separator))
    for token in (token for text in texts[1:] for token in text.split(separator)):
        if token.strip(_BLANKS) and token not in seen:
            seen.add(token)
            joined.append(token)
    return delimiter.join(joined)


_FUNCTIONS: Final[dict[str, Callable[[Field], pa.Array]]] = {
    "sum": _sum,
    "product": _product,
    "max": _maximum,
    "min": _minimum,
    "last_value": _last_value,
    "last_non_null_value": _last_non_null_value,
    "first_value": _first_value,
    "first_non_null_value": _first_non_null_value,
    "first_not_null_value": _first_non_null_value,
    "bool_and": _minimum,
    "bool_or": _maximum,
    "listagg": _listagg,
    "primary-key": _primary_key,
}
_RETRACTING: Final = frozenset({"sum", "product", "last_value", "last_non_null_value", "primary-key"})
