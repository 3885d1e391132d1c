"""Row groups that the bloom filters in a Parquet file exclude: no row of them can equal a value that is asked for.

Bounds do not help where many row groups span a value and few hold it, as in overlapping segments; a bloom filter does,
for ``=`` and ``IN``, and for what is put together of them with AND and OR. Asking one takes two small reads, so filters
are asked only for lists that are not too long, and only about columns whose file has the very type of the table.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow.types as pt

from packstone.pruning.expression import And, Compare, Expression, OneOf, Op, Or, ValueSet
from packstone.rewrite.ordered.block_facts import leaf_numbers
from packstone.rewrite.parquet.bloom_filter import Hashes, hash_value, read_bloom_filter

if TYPE_CHECKING:
    import pyarrow as pa

    from packstone.scan.footer import Footer

_MOST_VALUES: Final = 256
_INTEGERS: Final[Mapping[str, str]] = {"INT32": "<i", "INT64": "<q"}


def asked_columns(expression: Expression, known: Collection[str]) -> frozenset[str]:
    """The columns whose bloom filters could exclude something, if these columns have some."""
    match expression:
        case Compare(op=Op.EQ, column=name) | OneOf(negated=False, column=name):
            is_asked = name in known and len(_values(expression)) <= _MOST_VALUES
            return frozenset({name}) if is_asked else frozenset()
        case And(parts=parts):
            return frozenset().union(*(asked_columns(part, known) for part in parts))
        case Or(parts=parts):
            found = [asked_columns(part, known) for part in parts]
            return frozenset().union(*found) if all(found) else frozenset()
    return frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class BloomTest:
    """A filter, and the file whose bloom filters it asks; ``sources`` are the file's names of the columns."""

    expression: Expression
    filter_schema: pa.Schema
    footer: Footer
    sources: Mapping[str, str | None]
    _hashes: dict[int, Hashes] = field(default_factory=dict)  # by the identity of a part of the expression

    def is_worth_asking(self) -> bool:
        """Whether the file has a bloom filter that could exclude something; it is not opened for this."""
        if not self.footer.group_rows:
            return False
        leaves = self._leaves()
        known = [name for name, leaf in leaves.items() if _filter_offset(self._chunk(0, leaf)) is not None]
        return bool(asked_columns(self.expression, known))

    def choose(self, source: Any, groups: Sequence[int]) -> list[int]:  # noqa: ANN401 - a pyarrow file
        """Those of the row groups that may still hold a match."""
        leaves = self._leaves()
        return [group for group in groups if self._may_match(self.expression, _Asked(source, group, leaves))]

    def _leaves(self) -> dict[str, int]:
        """The number of the column chunk of each column that may be asked about."""
        numbers, schema, found = leaf_numbers(self.footer.schema), self.footer.schema, {}
        for column in self.filter_schema:
            name = self.sources.get(column.name)
            if name in numbers and schema.field(name).type == column.type and _is_exact(column.type):
                found[column.name] = numbers[name]
        return found

    def _may_match(self, expression: Expression, asked: _Asked) -> bool:
        match expression:
            case And(parts=parts):
                return all(self._may_match(part, asked) for part in parts)
            case Or(parts=parts):
                return any(self._may_match(part, asked) for part in parts)
            case Compare(op=Op.EQ, column=name) | OneOf(negated=False, column=name) if name in asked.leaves:
                return self._may_hold(expression, asked, leaf=asked.leaves[name])
        return True

    def _may_hold(self, expression: Compare | OneOf, asked: _Asked, *, leaf: int) -> bool:
        chunk = self._chunk(asked.group, leaf)
        offset = _filter_offset(chunk)
        if offset is None or len(_values(expression)) > _MOST_VALUES:
            return True
        if id(expression) not in self._hashes:
            stored = self.footer.metadata.schema.column(leaf)
            hashes = [hash_value(_plain(value, stored)) for value in _values(expression)]
            self._hashes[id(expression)] = np.array(hashes, dtype=np.uint64)
        bloom = read_bloom_filter(asked.source, offset, chunk.bloom_filter_length)
        return bloom is None or bloom.may_hold_any(self._hashes[id(expression)])

    def _chunk(self, group: int, leaf: int) -> Any:  # noqa: ANN401 - a pq.ColumnChunkMetaData
        return self.footer.metadata.row_group(group).column(leaf)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A row group of the open file, and the column chunks in it."""

    source: Any
    group: int
    leaves: Mapping[str, int]


def _filter_offset(chunk: Any) -> int | None:  # noqa: ANN401 - a pq.ColumnChunkMetaData
    """Where the filter is; None also for times in 96 bits, and with a PyArrow that does not tell."""
    return None if chunk.physical_type == "INT96" else getattr(chunk, "bloom_filter_offset", None)


def _values(expression: Compare | OneOf) -> Sequence[Any]:
    if isinstance(expression, Compare):
        return (expression.literal,)
    assert isinstance(expression.literals, ValueSet)  # noqa: S101 - it is resolved
    return expression.literals.array


def _is_exact(kind: pa.DataType) -> bool:
    """Whether equal values have equal bytes, and we know them: not so of floats, nor of times in other units."""
    is_time = pt.is_timestamp(kind) and kind.unit == "us"
    is_number = (pt.is_signed_integer(kind) or pt.is_decimal128(kind)) and not pt.is_duration(kind)
    return bool(is_number or is_time or pt.is_date32(kind) or pt.is_string(kind) or pt.is_binary(kind))


def _plain(value: pa.Scalar, stored: Any) -> bytes:  # noqa: ANN401 - a pq.ColumnSchema
    """A value as Parquet stores it plainly, without the length of a string."""
    if pt.is_string(value.type) or pt.is_binary(value.type):
        return bytes(value.as_buffer())
    if pt.is_decimal(value.type):
        sign, digits, _ = value.as_py().as_tuple()  # Arrow gives all digits of the scale
        number = int("".join(map(str, digits))) * (-1 if sign else 1)
    else:
        number = value.as_py() if pt.is_integer(value.type) else value.value
    if stored.physical_type in _INTEGERS:
        return struct.pack(_INTEGERS[stored.physical_type], number)
    return number.to_bytes(stored.length, "big", signed=True)
