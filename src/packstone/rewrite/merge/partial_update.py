"""partial-update without sequence groups: of each column the newest value that is not null.

| record | ignore-delete | remove-record-on-delete | neither |
|---|---|---|---|
| adds | non-null values overwrite | the same | the same |
| -D | skipped | its values replace the row, kind -D | refused |
| -U | skipped | skipped, but counts as the last record | refused |

The first record of a key, if it retracts, gives the row its first values even where it is skipped. The kind is -D if
the last record deleted the row or if none ever added, else +I; the sequence number is that of the last record that was
not skipped, 0 if all were. (Facts of Java's PartialUpdateMergeFunction, whose rows we must reproduce.)
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from packstone.errors import CorruptionError, InvalidInputError, RefusedError
from packstone.rewrite.merge.key_order import Bools
from packstone.rewrite.merge.key_words import I64, column_values
from packstone.rewrite.merge.merge_spec import KIND_COLUMN, SEQUENCE_COLUMN, MergeSpec, RowKind
from packstone.rewrite.merge.merge_versions import Versions
from packstone.rewrite.merge.merge_window import Window
from packstone.rewrite.numpy_columns import to_column


class PartialUpdate:
    """The engine with its options."""

    def __init__(self, spec: MergeSpec, schema: pa.Schema) -> None:
        if spec.engine.aggregates:
            raise RefusedError("partial-update with aggregate functions (sequence groups) is not supported.")
        if spec.engine.ignore_delete and spec.engine.remove_record_on_delete:
            raise InvalidInputError("ignore-delete and partial-update.remove-record-on-delete cannot be set together.")
        self._ignore_delete = spec.engine.ignore_delete
        self._remove_on_delete = spec.engine.remove_record_on_delete
        self._keys = frozenset(spec.key_columns)
        self._schema = schema

    def merge(self, window: Window) -> pa.RecordBatch:
        """Merge all keys of a window."""
        versions = Versions(window)
        if versions.has_retracts and not (self._ignore_delete or self._remove_on_delete):
            raise RefusedError(
                "partial-update cannot merge delete or update-before records; set ignore-delete or "
                "partial-update.remove-record-on-delete on the table."
            )
        columns = [self._column(versions, field) for field in self._schema]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _column(self, versions: Versions, field: pa.Field) -> pa.Array:
        column = versions.window.column(field.name)
        if field.name in self._keys:
            return column.take(to_column(versions.newest))
        if field.name == SEQUENCE_COLUMN:
            return versions.place(column, to_column(self._sequences(versions, column)))
        if field.name == KIND_COLUMN:
            return versions.place(column, to_column(self._kinds(versions)))
        if not column.null_count and not versions.has_retracts:
            return column.take(to_column(versions.newest))
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        if not field.nullable:
            self._check_not_null(versions, valid, field.name)
        if not versions.has_retracts:
            return versions.place(column, _last_valid(versions, valid))
        return versions.place(column, self._fold(versions, valid))

    def _fold(self, versions: Versions, valid: Bools) -> I64:
        """Which row the value of each merged key comes from; -1 for none."""
        source = np.full(versions.count, -1, dtype=np.int64)
        filled = np.zeros(versions.count, dtype=bool)
        for step in versions.steps:
            replaces = step.retract & ~filled[step.keys]
            if self._remove_on_delete:
                replaces |= step.delete
            source[step.keys[replaces]] = step.rows[replaces]
            writes = ~step.retract & valid[step.rows]
            source[step.keys[writes]] = step.rows[writes]
            filled[step.keys] = True
        return np.where((source >= 0) & valid[source], source, -1)

    def _sequences(self, versions: Versions, column: pa.Array) -> I64:
        stored = column_values(column, np.dtype(np.int64))
        found = np.zeros(versions.count, dtype=np.int64)
        for step in versions.steps:
            counts = ~step.retract if self._ignore_delete else np.ones(len(step.rows), dtype=bool)
            found[step.keys[counts]] = stored[step.rows[counts]]
        return found

    def _kinds(self, versions: Versions) -> np.ndarray[Any, np.dtype[np.int8]]:
        added = np.zeros(versions.count, dtype=bool)
        deleted = np.zeros(versions.count, dtype=bool)
        for step in versions.steps:
            added[step.keys] |= ~step.retract
            deleted[step.keys] = step.delete if self._remove_on_delete else False
        return np.where(deleted | ~added, RowKind.DELETE, RowKind.INSERT).astype(np.int8)

    def _check_not_null(self, versions: Versions, valid: Bools, name: str) -> None:
        for at, step in enumerate(versions.steps):
            used = ~step.retract | (step.delete & self._remove_on_delete) | (at == 0)
            if not valid[step.rows[used]].all():
                raise CorruptionError(f"Column {name} is NOT NULL and holds a null.")


def _last_valid(versions: Versions, valid: Bools) -> I64:
    """The newest row of each merged key with a value; -1 for none."""
    window = versions.window
    at = np.where(valid[window.order], np.arange(window.rows), -1)
    last = np.maximum.reduceat(at, window.starts)[versions.merged]
    return np.where(last >= window.starts[versions.merged], window.order[last], -1)
