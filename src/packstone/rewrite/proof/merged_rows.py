"""Merge rows group by group for the proof, in a *wide* or a *slim* form.

Wide rows are the rows themselves, for merge engines that make a new record of several. Slim rows are for engines that
keep one record unchanged: the hash of the record replaces it, at 40 bytes per row.

Rows come in any order of the runs, since a merge reads them alternately. So each has the number of its run: of records
that are equal in all versions, the one of the later run is newer. In the slim form that number and the kind take the
low bits of the second lane of the key, which leaves more than 100 bits for the key.

Every step is an operation on all groups at once: a rule is expressed as "the last row of each group for which …".
Nothing is shared with the kernel, which walks over sorted windows.
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
from packstone.rewrite.merge_tree.spec import ColumnAggregate, EngineSpec, MergeEngine, MergeSpec, RowKind
from packstone.rewrite.proof.order_codes import Codes, Mask, rank_codes, read_validity, version_codes
from packstone.rewrite.proof.row_lanes import QuickLanes, Scratch, read_fixed
from packstone.rewrite.proof.spread import HI, LO
from packstone.rewrite.proof.value_hash import I64, U64

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from packstone.rewrite.proof.merged_view import Block, Layout


def make_wide(block: Block, layout: Layout) -> pa.RecordBatch:
    """Keep the values with the hash of the key; sequence columns even where values are not requested."""
    names = list(dict.fromkeys((*layout.payload, *layout.sequence)))
    run = np.full(block.batch.num_rows, block.run, dtype=np.uint32)
    arrays: dict[str, Codes] = {LO: block.key.lo, HI: block.key.hi}
    arrays |= {SEQUENCE: block.sequence, KIND: block.kind, _RUN: run}
    system = [(pa.array(array), pa.field(name, _arrow_type(array), nullable=False)) for name, array in arrays.items()]
    # Prefixed, because a column of the table may have any name.
    values = [(block.batch.column(name), pa.field(f"={name}", block.batch.column(name).type)) for name in names]
    columns, fields = zip(*system, *values, strict=True)
    return pa.record_batch(list(columns), schema=pa.schema(list(fields)))


def merge_wide(part: pa.Table, spec: MergeSpec, layout: Layout, *, scratch: Scratch) -> tuple[QuickLanes, QuickLanes]:
    """Return the lanes of the keys and of the rows that remain of a part."""
    part = part.combine_chunks()
    lo, hi, sequence, kind, run = (part.column(name).to_numpy() for name in (LO, HI, SEQUENCE, KIND, _RUN))
    groups = group_by_key(lo, hi)
    versions = [_version(part.column(f"={name}"), descending=spec.sequence_descending) for name in layout.sequence]
    versions += [sequence, (kind & 1) ^ 1, run]
    values = [_whole(part.column(f"={name}")) for name in layout.payload]
    records = Records(columns=values, sequence=sequence, kind=kind)
    keys = QuickLanes(lo, hi, scratch=scratch)
    if spec.engine.name in {MergeEngine.DEDUPLICATE.value, MergeEngine.FIRST_ROW.value}:
        rows = pick_records(groups, versions, kind, engine=spec.engine)
        return _hash_rows(keys, rows, _take(records, rows), drop_deletes=spec.drop_deletes)
    alone = groups.counts == 1
    single_rows = groups.rows[groups.starts[alone]]
    merged = [(single_rows, _take(records, single_rows))]
    several = sort_versions(groups.only_groups(~alone), versions)
    if len(several.rows):
        versions_of = GroupVersions(_take(records, several.rows), several)
        merged.append((several.rows[several.starts], _apply(versions_of, spec, layout)))
    parts = [_hash_rows(keys, rows, record, drop_deletes=spec.drop_deletes) for rows, record in merged]
    return _join([key for key, _ in parts], scratch), _join([row for _, row in parts], scratch)


def _apply(records: GroupVersions, spec: MergeSpec, layout: Layout) -> Records:
    if spec.engine.name == MergeEngine.PARTIAL_UPDATE.value:
        return partial_update(records, spec.engine)
    if spec.engine.name == MergeEngine.AGGREGATION.value:
        return aggregate(records, spec.engine, names=layout.payload, sequence_columns=layout.sequence)
    raise RefusedError(f"the merge engine {spec.engine.name} is not supported", engine=spec.engine.name)


def _take(records: Records, rows: I64) -> Records:
    places = pa.array(rows)
    columns = [column.take(places) for column in records.columns]
    return Records(columns=columns, sequence=records.sequence[rows], kind=records.kind[rows])


def _hash_rows(
    keys: QuickLanes, key_rows: I64, merged: Records, *, drop_deletes: bool
) -> tuple[QuickLanes, QuickLanes]:
    """Hash the merged records, each starting from the key of its row in ``key_rows``."""
    if drop_deletes:
        keep = np.flatnonzero(merged.kind & 1 == 0)
        key_rows, merged = key_rows[keep], _take(merged, keep)
    kept = keys.take(key_rows)
    rows = kept.copy()
    rows.add_columns(merged.columns)
    rows.add_words(merged.sequence.view(np.uint64))
    rows.add_words(merged.kind.astype(np.uint64))
    return kept, rows


def _join(lanes: list[QuickLanes], scratch: Scratch) -> QuickLanes:
    lo, hi = (np.concatenate([getattr(lane, name) for lane in lanes]) for name in ("lo", "hi"))
    return QuickLanes(lo, hi, scratch=scratch)


def _version(column: pa.ChunkedArray, *, descending: bool) -> Codes:
    ranks = rank_codes(_whole(column))
    return np.where(ranks > 0, len(ranks) + 1 - ranks, 0) if descending else ranks


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


_ROW_LO, _ROW_HI, SEQUENCE, KIND, _RUN = "row_lo", "row_hi", "sequence", "kind", "run"


class Ages:
    """Packs the kind and the run of a record into the low bits of a lane, such that a newer record is greater."""

    def __init__(self, runs: int) -> None:
        self._run_bits = np.uint64(max(1, runs - 1).bit_length())
        self._mask = (np.uint64(2) << self._run_bits) - np.uint64(1)

    def pack(self, lane: U64, *, kind: Codes, run: int) -> U64:
        """Replace the low bits: an addition is newer than a retraction, and a later run newer than an earlier one."""
        adds = (kind & 1 ^ 1).astype(np.uint64)
        return self.strip(lane) | (adds << self._run_bits) | np.uint64(run)

    def strip(self, lane: U64) -> U64:
        """Return the lane with zeros in the low bits."""
        return lane & ~self._mask

    def ages(self, lane: U64) -> U64:
        """Return the low bits."""
        return lane & self._mask

    def retracts(self, lane: U64) -> Codes:
        """Return 1 for retractions, 0 for additions."""
        return (lane >> self._run_bits & np.uint64(1) ^ np.uint64(1)).astype(np.uint8)


def make_slim(block: Block, layout: Layout, *, descending: bool, ages: Ages) -> pa.RecordBatch:
    """Reduce rows to the hashes of key and row, and the columns that decide between versions."""
    row = block.row_lanes(layout.payload)
    kind = block.kind
    row.add_words(block.sequence.view(np.uint64))
    row.add_words(kind.astype(np.uint64))
    arrays: dict[str, Codes] = {LO: block.key.lo, HI: ages.pack(block.key.hi, kind=kind, run=block.run)}
    arrays |= {_ROW_LO: row.lo, _ROW_HI: row.hi, SEQUENCE: block.sequence}
    for column in layout.sequence:
        codes = version_codes(block.batch.column(column), descending=descending)
        arrays |= {f"{column}.{place}": code for place, code in enumerate(codes)}
    fields = [pa.field(name, _arrow_type(array), nullable=False) for name, array in arrays.items()]
    return pa.record_batch([pa.array(array) for array in arrays.values()], schema=pa.schema(fields))


def _arrow_type(array: Codes) -> pa.DataType:
    return pa.from_numpy_dtype(array.dtype)


def merge_slim(
    part: pa.Table, engine: EngineSpec, *, drop_deletes: bool, ages: Ages, scratch: Scratch
) -> tuple[QuickLanes, QuickLanes]:
    """Return the lanes of the keys and of the rows that remain of a part, one row for each key."""
    columns = {name: part.column(name).to_numpy() for name in part.column_names}
    hi = ages.strip(columns[HI])
    groups = group_by_key(columns[LO], hi)
    retracts = ages.retracts(columns[HI])
    versions = [columns[name] for name in part.column_names if "." in name]
    versions += [columns[SEQUENCE], ages.ages(columns[HI])]
    rows = pick_records(groups, versions, retracts, engine=engine)
    if drop_deletes:
        rows = rows[retracts[rows] == 0]
    keys = QuickLanes(columns[LO][rows], hi[rows], scratch=scratch)
    return keys, QuickLanes(columns[_ROW_LO][rows], columns[_ROW_HI][rows], scratch=scratch)


def pick_records(groups: Groups, versions: list[Codes], kind: Codes, *, engine: EngineSpec) -> I64:
    """Return the row that deduplicate or first-row keeps for each key; a single record is always kept."""
    newest = engine.name == MergeEngine.DEDUPLICATE.value
    if engine.ignore_delete or not newest:
        is_single = groups.spread(groups.counts) == 1
        is_add = kind[groups.rows] & 1 == 0
        if not (engine.ignore_delete or (is_single | is_add).all()):
            raise VerificationError("First-row has a retract record, but ignore-delete is not set.")
        groups = groups.only_rows(is_single | is_add)
    return pick_rows(groups, versions, newest=newest)


# ---- engines that make a new record ----
# Apply the aggregation and partial-update engines to all keys at once, as the independent side of the proof.
#
# **Aggregation** folds the values of every column from the oldest record to the newest. A fold that cannot be
# expressed as "the first (last, greatest) record for which …" uses ``ufunc.at``, which processes the rows one by one
# in their order: the bits of a floating-point sum are those of the plain loop over each key. What this cannot express
# either (dividing out of a product, distinct lists, decimals that round) is a plain loop.
#
# ``remove-record-on-delete``: the last -D of a key replaces the row, so that older records no longer count; a
# ``first_value`` that began before it keeps the values of the -D.
#
# **Groups.** ``group_by_key`` groups rows by the 128-bit hash of their key. It sorts by 48 bits of the first lane, in
# three stable passes over 16 bits each, which NumPy sorts by counting: 4 ns per row and pass, where sorting 64-bit
# words takes 36 ns. Rows of two keys that share those bits may be interleaved; this is detected, since whole keys are
# compared afterwards, and the rare part where it happens is sorted again by all 128 bits.


_SORTED_BITS: Final = np.uint64((1 << 48) - 1)
DEFAULT_FUNCTION: Final = "last_non_null_value"
# The characters that Java's Character.isWhitespace accepts, which excludes no-break spaces.
_BLANKS: Final = (
    "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f \u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006"
    "\u2008\u2009\u200a\u2028\u2029\u205f\u3000"
)
_EXACT: Final = decimal.Context(prec=100, rounding=decimal.ROUND_HALF_UP)


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One column of the records, and which of them count for it."""

    records: GroupVersions
    column: pa.Array
    rule: ColumnAggregate
    base: I64  # the record that replaced the row, by place, or -1
    counts: Mask
    is_retract: Mask  # only records that count

    @property
    def live(self) -> Mask:
        """Records that count and have a value."""
        return self.counts & read_validity(self.column)


def aggregate(
    records: GroupVersions, engine: EngineSpec, *, names: tuple[str, ...], sequence_columns: tuple[str, ...]
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


def _field(records: GroupVersions, column: pa.Array, rule: ColumnAggregate, *, base: I64) -> Field:
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
            f"Column {field.rule.column} has a retract record, which {field.rule.function} does not support."
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
    """Start with the first value of each key and fold in the others in their order, retracted ones negated."""
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
    """Whether an intermediate total might overflow; then Python integers are used, and the result is checked."""
    sizes = np.where(field.live, np.abs(values.astype(np.float64)), 0.0 if fold is np.add else 1.0)
    if fold is not np.add:
        sizes = np.maximum(sizes, 1.0)
    with np.errstate(over="ignore"):
        return bool((fold.reduceat(sizes, field.records.firsts) > float(np.iinfo(values.dtype).max) / 2).any())


def _products(kind: pa.DataType) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
    """Return the functions that multiply and divide values of a type as Java does."""
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
    """Fold value by value. If a retract is first, begin with ``start`` of its value, or with null without ``start``."""
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


def _to_column(field: Field, totals: Any, is_null: Mask | None) -> pa.Array:
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
    # Without anything to join, the value of the replacing record stays, blank or null.
    return pc.if_else(pa.array(counts > 0), joined.cast(field.column.type), take_places(field.column, field.base))


def _join_distinct(texts: list[str], delimiter: str) -> str:
    """Join the first text unchanged with each token that has not occurred yet."""
    if not texts:
        return ""
    joined = [texts[0]]
    separator = delimiter or " "  # as in Java
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


def partial_update(records: GroupVersions, engine: EngineSpec) -> Records:
    """Take for each field its latest non-null value from the records that count; without sequence groups."""
    is_add = ~records.is_retract
    has_add = records.last_where(is_add) >= 0
    sequence, kind = records.sequence[records.lasts], np.where(has_add, RowKind.INSERT, RowKind.DELETE)
    # A retract that is first fills the empty row, even if later ones are ignored.
    base = np.where(records.is_retract[records.firsts], records.firsts, -1)
    if engine.ignore_delete:
        # Without any record that counts the sequence number is that of an empty row.
        sequence = np.where(has_add, records.sequence[records.last_where(is_add)], 0)
    elif engine.remove_record_on_delete:
        removed = records.last_where(records.kind == RowKind.DELETE)
        base = np.where(removed >= 0, removed, base)
        kind = np.where(removed == records.lasts, RowKind.DELETE, kind)
    elif records.is_retract.any():
        raise VerificationError(
            "Partial-update has a retract record, but neither ignore-delete nor remove-record-on-delete is set."
        )
    bases = base[records.group]
    counts = (is_add & (records.places > bases)) | (records.places == bases)
    columns = [take_places(column, records.last_where(counts & read_validity(column))) for column in records.columns]
    return Records(columns=columns, sequence=sequence, kind=kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """Input or output records of a merge: values, sequence number and kind."""

    columns: list[pa.Array]
    sequence: I64
    kind: Codes


class GroupVersions:
    """The records of keys that have several, grouped by key, from the oldest to the newest."""

    def __init__(self, records: Records, groups: Groups) -> None:
        kind = records.kind
        self.columns, self.sequence, self.kind = records.columns, records.sequence, kind
        self.firsts, self.lasts = groups.starts, groups.lasts
        self.places = np.arange(len(kind))
        self.group = np.repeat(np.arange(len(groups.starts)), groups.counts)
        self.is_retract: Mask = kind & 1 == 1

    def last_where(self, mask: Mask) -> I64:
        """Return the last position in each group where the mask is true, or -1."""
        return np.maximum.reduceat(np.where(mask, self.places, -1), self.firsts)

    def first_where(self, mask: Mask) -> I64:
        """Return the first position in each group where the mask is true, or -1."""
        end = len(self.places)
        found = np.minimum.reduceat(np.where(mask, self.places, end), self.firsts)
        return np.where(found == end, -1, found)


def take_places(column: pa.Array, places: I64) -> pa.Array:
    """Take values by position; a negative position gives a null."""
    return column.take(pa.array(places, mask=places < 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """Row numbers, group by group; ``starts`` says where in ``rows`` each group begins. No group is empty."""

    rows: I64
    starts: I64

    @property
    def counts(self) -> I64:
        """The number of rows of each group."""
        return np.diff(self.starts, append=len(self.rows))

    @property
    def lasts(self) -> I64:
        """The position of the last row of each group."""
        return np.append(self.starts, len(self.rows))[1:] - 1

    def spread(self, per_group: Codes) -> Codes:
        """Repeat the value of each group for all its rows."""
        return np.repeat(per_group, self.counts)

    def only_rows(self, keep: Mask) -> Groups:
        """Keep some rows, by position; groups without rows are removed."""
        group = np.repeat(np.arange(len(self.starts)), self.counts)[keep]
        begins = np.ones(len(group), dtype=np.bool_)
        begins[1:] = group[1:] != group[:-1]
        return Groups(rows=self.rows[keep], starts=np.flatnonzero(begins))

    def only_groups(self, keep: Mask) -> Groups:
        """Keep some groups."""
        counts = self.counts
        ends = np.cumsum(counts[keep])
        return Groups(rows=self.rows[np.repeat(keep, counts)], starts=ends - counts[keep])


def group_by_key(lo: U64, hi: U64) -> Groups:
    """Group rows by key, each group in the order of its rows."""
    rows = len(lo)
    if not rows:
        return Groups(rows=np.empty(0, dtype=np.int64), starts=np.empty(0, dtype=np.int64))
    digits = np.ascontiguousarray(lo).view(np.uint16).reshape(rows, -1)
    order = np.argsort(digits[:, 0], kind="stable")
    for place in (1, 2):
        order = order.take(np.argsort(digits[:, place].take(order), kind="stable"))
    begins = _find_begins(lo, hi, order)
    sorted_bits = (lo & _SORTED_BITS).take(order)
    if (begins[1:] & (sorted_bits[1:] == sorted_bits[:-1])).any():
        order = np.lexsort((hi, lo))
        begins = _find_begins(lo, hi, order)
    return Groups(rows=order, starts=np.flatnonzero(begins))


def _find_begins(lo: U64, hi: U64, order: I64) -> Mask:
    sorted_lo, sorted_hi = lo.take(order), hi.take(order)
    begins = np.ones(len(order), dtype=np.bool_)
    np.not_equal(sorted_lo[1:], sorted_lo[:-1], out=begins[1:])
    begins[1:] |= sorted_hi[1:] != sorted_hi[:-1]
    return begins


def pick_rows(groups: Groups, versions: Sequence[Codes], *, newest: bool) -> I64:
    """Return one row number per group: greatest (or smallest) by the versions, the first being the most significant.

    Of records equal in all versions, the last one is the newest, the first one the oldest.
    """
    best = np.maximum if newest else np.minimum
    for version in versions:
        if len(groups.starts) == len(groups.rows):
            break
        values = version.take(groups.rows)
        keep = values == groups.spread(best.reduceat(values, groups.starts))
        kept = np.cumsum(keep)
        ends = kept[groups.lasts]
        groups = Groups(rows=groups.rows[keep], starts=np.concatenate(([0], ends[:-1])))
    return groups.rows[groups.lasts if newest else groups.starts]


def sort_versions(groups: Groups, versions: Sequence[Codes]) -> Groups:
    """Sort the rows of each group from the oldest to the newest."""
    group = np.repeat(np.arange(len(groups.starts)), groups.counts)
    keys = [group, *(version.take(groups.rows) for version in versions)]
    if _is_sorted(keys):
        return groups
    return Groups(rows=groups.rows[np.lexsort(keys[::-1])], starts=groups.starts)


def _is_sorted(keys: list[Codes]) -> bool:
    """Whether neighbours are in order, which is common: runs are usually read from the oldest to the newest."""
    undecided = np.ones(max(0, len(keys[0]) - 1), dtype=np.bool_)
    for key in keys:
        if (undecided & (key[:-1] > key[1:])).any():
            return False
        undecided &= key[:-1] == key[1:]
    return True
