"""Footers of Parquet files, read once in a process, and what they tell of row groups that no index tells of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from packstone.pruning.expression import columns_of
from packstone.pruning.may_match import may_match, must_match
from packstone.rewrite.block_facts import is_bytes, leaf_numbers
from packstone.rewrite.data_files.column_facts import has_order
from packstone.rewrite.data_files.parquet_output import footer_value
from packstone.rewrite.parquet_footer import open_parquet

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from packstone.pruning.expression import Expression
    from packstone.scan.caches import ScanCaches
    from packstone.scan.scan_plan import ScanFile
    from packstone.storage.fileio import FileIO

# Parsed, a footer takes about so many times its size in the file.
_PARSED_RATIO = 4
# Codes of a dictionary take less than this, plain text more: its length alone takes four bytes.
_CODE_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Footer:
    """A footer, parsed."""

    metadata: pq.FileMetaData
    schema: pa.Schema

    def group_starts(self) -> list[int]:
        """The position of the first row of each row group."""
        rows = [self.metadata.row_group(at).num_rows for at in range(self.metadata.num_row_groups)]
        return [0, *np.cumsum(rows).tolist()]

    def coded_columns(self, names: Sequence[str], group: int) -> list[str]:
        """Those of the text columns whose rows are stored as codes of a dictionary, judged by their size."""
        leaves, found = leaf_numbers(self.schema), []
        for name in names:
            if name not in leaves or not is_bytes(self.schema.field(name).type):
                continue
            chunk = self.metadata.row_group(group).column(leaves[name])
            is_small = chunk.total_uncompressed_size <= _CODE_BYTES * chunk.num_values
            if chunk.has_dictionary_page and is_small:
                found.append(name)
        return found

    def row_bytes(self, names: Sequence[str], group: int) -> int:
        """About how wide a decoded row is."""
        facts = self.metadata.row_group(group)
        wanted, stored, width = set(names), 0, 0
        for at in range(facts.num_columns):
            chunk = facts.column(at)
            if chunk.path_in_schema.partition(".")[0] in wanted:
                stored += chunk.total_uncompressed_size
        for field in self.schema:
            if field.name in wanted:
                width += _width(field.type)
        return max(1, width, stored // max(1, facts.num_rows))


def read_footer(io: FileIO, file: ScanFile, caches: ScanCaches) -> Footer:
    """The footer of a file. Data files are never written twice, so path and size name one version of one."""

    def load() -> Footer:
        with open_parquet(io, file.path) as opened:
            return Footer(metadata=opened.metadata, schema=opened.schema_arrow)

    key = (file.path, file.size_bytes)
    found: Footer = caches.footer.get_or_load(key, load, lambda one: one.metadata.serialized_size * _PARSED_RATIO)
    return found


def prune_groups(
    footer: Footer, expression: Expression, sources: Mapping[str, str | None]
) -> tuple[list[int], set[int]]:
    """The row groups that may match, and those of them that must, by the statistics in the footer."""
    index = _footer_index(footer, expression, sources)
    kept = np.flatnonzero(may_match(expression, index))
    must = must_match(expression, index)
    return kept.tolist(), {int(at) for at in kept if must[at]}


def _footer_index(footer: Footer, expression: Expression, sources: Mapping[str, str | None]) -> pa.Table:
    """As the index of a segment, of the filter's columns only; NaN is in no statistics and so may be anywhere."""
    metadata, leaves = footer.metadata, leaf_numbers(footer.schema)
    groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
    rows = [group.num_rows for group in groups]
    columns: dict[str, pa.Array] = {"rows": pa.array(rows, pa.int64())}
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
    try:
        return int(kind.bit_width) // 8
    except ValueError:  # of any length
        return 16
