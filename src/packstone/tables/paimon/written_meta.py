"""From a file that a kernel wrote to what a manifest says of it: recomputed from the rows written, never carried."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packstone.tables.paimon.binary_row import encode_row
from packstone.tables.paimon.column_stats import key_stats, stats_modes, value_stats
from packstone.tables.paimon.data_file_meta import EMPTY_ROW, DataFileMeta, FileSource, SimpleStats
from packstone.tables.paimon.table_options import TableOptions

if TYPE_CHECKING:
    from packstone.rewrite.merge.merge_spec import ColumnFacts, WrittenFile
    from packstone.tables.paimon.table_schema import TableSchema


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaWriter:
    """Describes the outputs of one table at one level."""

    schema: TableSchema
    level: int
    created_ms: int

    def describe(self, written: WrittenFile, *, first_sequence: int | None = None) -> DataFileMeta:
        """Fill in a manifest's line; ``first_sequence`` numbers the rows of a table without keys."""
        facts = {column.name: column for column in written.columns}
        stats, names = self._value_stats(facts)
        keys = self.schema.key_fields
        for key, mirrored in zip(keys, self.schema.trimmed_key_fields, strict=True):
            facts.setdefault(key.name, facts[mirrored.name])  # thin files leave the key columns out
        is_tree = self.schema.is_primary_key
        low, high = written.min_sequence, written.max_sequence
        if first_sequence is not None:
            low, high = first_sequence, first_sequence + written.rows - 1
        types = self.schema.key_types
        return DataFileMeta(
            file_name=posixpath.basename(written.path),
            file_size=written.size_bytes,
            row_count=written.rows,
            min_key=encode_row(written.first_key, types) if is_tree else EMPTY_ROW,
            max_key=encode_row(written.last_key, types) if is_tree else EMPTY_ROW,
            key_stats=key_stats([facts[field.name] for field in keys], keys) if is_tree else SimpleStats(),
            value_stats=stats,
            min_sequence_number=low,
            max_sequence_number=high,
            schema_id=self.schema.id,
            level=self.level,
            creation_time_ms=self.created_ms,
            delete_row_count=written.delete_rows,
            file_source=FileSource.COMPACT,
            value_stats_cols=names,
        )

    def _value_stats(self, facts: dict[str, ColumnFacts]) -> tuple[SimpleStats, tuple[str, ...] | None]:
        options = TableOptions.parse(self.schema.options, is_primary_key=self.schema.is_primary_key)
        fields = self.schema.value_fields
        modes = stats_modes(fields, options, level=self.level, given=dict(self.schema.options))
        return value_stats([facts[field.name] for field in fields], fields, modes, dense=options.stats_dense_store)
