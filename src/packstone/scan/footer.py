"""Footers of Parquet files, read once in a process, and what they tell of row groups that no index tells of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from packstone.pruning.expression import columns_of
from packstone.pruning.may_match import may_match, must_match
from packstone.rewrite.data_files.column_facts import has_order
from packstone.rewrite.data_files.parquet_output import footer_value
from packstone.rewrite.ordered.block_facts import is_bytes, leaf_numbers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from packstone.pruning.expression import Expression

# Parsed, a footer takes about so many times its size in the file.
_PARSED_RATIO = 4
# Codes of a dictionary take less than this, plain text more: its length alone takes four bytes.
_CODE_BYTES = 4
_LEAST_TEXT_BYTES = 16


@dataclass(slots=True)
class MissedGain:
    """What scans of a file would have saved so far, had they known where its pages are."""

    us: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Footer:
    """A footer, parsed; what is asked of every scan is worked out once, from the first row group."""

    metadata: pq.FileMetaData
    schema: pa.Schema
    group_rows: tuple[int, ...]
    widths: Mapping[str, int]  # about how many bytes a decoded value has, by column
    coded: frozenset[str]  # text columns whose rows are stored as codes of a dictionary, judged by their size
    missed: MissedGain = field(default_factory=MissedGain)

    @classmethod
    def of(cls, file: pq.ParquetFile) -> Footer:
        """Read what is needed off an open file."""
        metadata, schema = file.metadata, file.schema_arrow
        widths = {one.name: _width(one.type) for one in schema}
        coded = set()
        leaves = leaf_numbers(schema)
        group = metadata.row_group(0) if metadata.num_row_groups else None
        for one in schema:
            if group is None or one.name not in leaves or not is_bytes(one.type):
                continue
            chunk = group.column(leaves[one.name])
            stored, values = chunk.total_uncompressed_size, chunk.num_values
            widths[one.name] = max(_LEAST_TEXT_BYTES, stored // max(1, values))
            if stored <= _CODE_BYTES * values and chunk.has_dictionary_page:
                coded.add(one.name)
        rows = tuple(metadata.row_group(at).num_rows for at in range(metadata.num_row_groups))
        return cls(metadata=metadata, schema=schema, group_rows=rows, widths=widths, coded=frozenset(coded))

    @property
    def nbytes(self) -> int:
        """Memory, about."""
        return int(self.metadata.serialized_size) * _PARSED_RATIO + 8 * len(self.group_rows) + 100 * len(self.widths)

    def row_bytes(self, names: Iterable[str]) -> int:
        """About how wide a decoded row of these columns is."""
        return max(1, sum(self.widths[name] for name in names))


def prune_groups(
    footer: Footer, expression: Expression, sources: Mapping[str, str | None]
) -> tuple[list[int], frozenset[int]]:
    """The row groups that may match, and those of them that must, by the statistics in the footer."""
    index = _footer_index(footer, expression, sources)
    kept = np.flatnonzero(may_match(expression, index))
    must = must_match(expression, index)
    return kept.tolist(), frozenset(int(at) for at in kept if must[at])


def _footer_index(footer: Footer, expression: Expression, sources: Mapping[str, str | None]) -> pa.Table:
    """As the index of a segment, of the filter's columns only; NaN is in no statistics and so may be anywhere."""
    metadata, leaves = footer.metadata, leaf_numbers(footer.schema)
    groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
    columns: dict[str, pa.Array] = {"rows": pa.array(footer.group_rows, pa.int64())}
    for name in columns_of(expression):
        source = sources.get(name)
        if source is None:
            columns[f"nulls.{name}"] = columns["rows"]  # the file has no such column: its rows are null there
        elif source in leaves:
            found = [group.column(leaves[source]).statistics for group in groups]
            columns |= _column_facts(name, footer.schema.field(source).type, found)
    return pa.table(columns)


def _column_facts(name: str, kind: pa.DataType, found: Sequence[pq.Statistics | None]) -> dict[str, pa.Array]:
    nulls = [one.null_count if one is not None and one.has_null_count else None for one in found]
    facts = {f"nulls.{name}": pa.array(nulls, pa.int64())}
    if not has_order(kind) or pt.is_time(kind):
        return facts
    bound = pa.binary() if is_bytes(kind) else kind
    for end in ("min", "max"):
        values = [_bound(one, end, kind) for one in found]
        facts[f"{end}.{name}"] = pa.array(values, bound)
    return facts


def _bound(found: pq.Statistics | None, end: str, kind: pa.DataType) -> Any:  # noqa: ANN401 - a value of the column
    if found is None or not found.has_min_max:
        return None
    return footer_value(getattr(found, f"{end}_raw"), kind)


def _width(kind: pa.DataType) -> int:
    """Of a value of fixed width its width; nested ones are guessed."""
    try:
        return max(1, int(kind.bit_width) // 8)
    except ValueError:
        return _LEAST_TEXT_BYTES * (8 if pt.is_nested(kind) else 1)
