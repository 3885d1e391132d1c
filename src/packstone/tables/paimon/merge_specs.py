"""From planned units to what the merge kernels are told.

A file may be older than the table's schema. Its columns are found by field id, not by name: a renamed column is read
under its old name, a new one is null in old files, a wider type is cast. What is more than that (a changed nested
type, a narrowing cast) is refused by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from packstone.errors import RefusedError
from packstone.rewrite.merge.merge_spec import (
    ColumnAggregate,
    ColumnSource,
    EngineSpec,
    FileFormat,
    InputFile,
    MergeEngine,
)
from packstone.tables.paimon.data_file_meta import FileSource
from packstone.tables.paimon.data_type import TypeRoot
from packstone.tables.paimon.refusals import file_format_name
from packstone.tables.paimon.table_schema import KEY_PREFIX, SEQUENCE_NUMBER, VALUE_KIND

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packstone.tables.paimon.data_file_meta import DataFileMeta
    from packstone.tables.paimon.data_type import DataType
    from packstone.tables.paimon.table_schema import TableSchema

_DEFAULT_AGGREGATE: Final = "last_non_null_value"
_KEY_AGGREGATE: Final = "primary-key"
_INTEGERS: Final = (TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT)
_TEXTS: Final = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR})
_BINARIES: Final = frozenset({TypeRoot.BINARY, TypeRoot.VARBINARY})
_SAME_WITH_MORE_DIGITS: Final = frozenset({TypeRoot.DECIMAL, TypeRoot.TIME, TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFiles:
    """Describes data files for the kernels, whichever schema wrote them."""

    schema: TableSchema
    schemas: Mapping[int, TableSchema]  # all versions by id

    def describe(self, meta: DataFileMeta, path: str, *, deleted: str = "") -> InputFile:
        """Say where each column of the output comes from in this file."""
        return InputFile(
            path=path,
            file_format=FileFormat(file_format_name(meta.file_name)),
            size_bytes=meta.file_size,
            rows=meta.row_count,
            columns=self._columns(self.schemas[meta.schema_id]),
            sequence_override=self._sequence_override(meta),
            deleted=deleted,
        )

    def _columns(self, written: TableSchema) -> tuple[ColumnSource, ...]:
        old = {field.id: field for field in written.fields}
        sources: dict[str, str | None] = {}
        for field in self.schema.fields:
            before = old.get(field.id)
            if before is not None:
                _check_cast(field.name, before.type, field.type)
            sources[field.name] = None if before is None else before.name
        if not self.schema.is_primary_key:
            return tuple(ColumnSource(target=name, source=source) for name, source in sources.items())
        keys = ((f"{KEY_PREFIX}{name}", f"{KEY_PREFIX}{sources[name]}") for name in self.schema.trimmed_primary_keys)
        system = ((name, name) for name in (SEQUENCE_NUMBER.name, VALUE_KIND.name))
        return tuple(ColumnSource(target=name, source=source) for name, source in (*keys, *system, *sources.items()))

    def _sequence_override(self, meta: DataFileMeta) -> int | None:
        is_ordered_by_snapshot = (self.schema.option("sequence.snapshot-ordering") or "").lower() == "true"
        if is_ordered_by_snapshot and meta.file_source is not FileSource.COMPACT:
            return meta.min_sequence_number
        return None


def engine_spec(schema: TableSchema) -> EngineSpec:
    """Read the merge engine and its options."""
    name = (schema.option("merge-engine") or MergeEngine.DEDUPLICATE).lower()
    options = dict(schema.options)
    ignore = any(_is_true(options.get(key)) for key in ("ignore-delete", f"{name}.ignore-delete"))
    return EngineSpec(
        name=name,
        ignore_delete=ignore,
        remove_record_on_delete=_is_true(options.get(f"{name}.remove-record-on-delete")),
        aggregates=_aggregates(schema, options) if name == MergeEngine.AGGREGATION else (),
    )


def sequence_columns(schema: TableSchema) -> tuple[str, ...]:
    """The user's own columns that order the versions of a key."""
    named = schema.option("sequence.field") or ""
    return tuple(name.strip() for name in named.split(",") if name.strip())


def _aggregates(schema: TableSchema, options: Mapping[str, str]) -> tuple[ColumnAggregate, ...]:
    default = options.get("fields.default-aggregate-function") or _DEFAULT_AGGREGATE
    by_name = dict.fromkeys(sequence_columns(schema), "last_value")
    by_name.update(dict.fromkeys(schema.primary_keys, _KEY_AGGREGATE))  # partition columns of the key too
    found = []
    for field in schema.fields:
        prefix = f"fields.{field.name}."
        function = by_name.get(field.name) or options.get(f"{prefix}aggregate-function") or default
        found.append(
            ColumnAggregate(
                column=field.name,
                function=function,
                ignore_retract=_is_true(options.get(f"{prefix}ignore-retract")),
                delimiter=options.get(f"{prefix}list-agg-delimiter", ","),
                distinct=_is_true(options.get(f"{prefix}distinct")),
            )
        )
    return tuple(found)


def _check_cast(name: str, before: DataType, after: DataType) -> None:
    """Refuse a change of type that is more than a widening."""
    if before.root is after.root:
        fits = _has_room(before, after)
    elif before.root in _INTEGERS and after.root in _INTEGERS:
        fits = _INTEGERS.index(before.root) < _INTEGERS.index(after.root)
    else:
        pairs = ((_TEXTS, _TEXTS), (_BINARIES, _BINARIES))
        fits = any(before.root in old and after.root in new for old, new in pairs)
        fits = fits or (before.root, after.root) == (TypeRoot.FLOAT, TypeRoot.DOUBLE)
    if not fits:
        raise RefusedError(
            f"Column {name} changed from {before} to {after}; only a widening of the type is carried over by this "
            "version. Compact with Java Paimon once.",
            column=name,
        )


def _has_room(before: DataType, after: DataType) -> bool:
    """The same family of types: nested ones must be equal, numbers and times may get more digits."""
    if before.root in _SAME_WITH_MORE_DIGITS:
        same_scale = before.scale == after.scale
        return same_scale and (before.precision or 0) <= (after.precision or 0)
    if not before.is_atomic:
        return _shape(before) == _shape(after)
    return True


def _shape(data_type: DataType) -> str:
    return str(data_type).replace(" NOT NULL", "")


def _is_true(value: str | None) -> bool:
    return (value or "").lower() == "true"
