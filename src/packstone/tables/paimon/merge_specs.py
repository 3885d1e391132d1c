"""From planned units to the specs of the merge kernels.

A file may be older than the table's schema. Its columns are found by field id, not by name: a renamed column is read
under its old name, a new one is null in old files, a wider type is cast. Any other change is refused, naming the
column: a narrowing cast, a nested type whose fields changed in any way (a field that was dropped and added again has
another id, and readers show null for it), a text or binary that the current length would truncate or pad.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from packstone.errors import RefusedError
from packstone.rewrite.merge_tree.spec import (
    ColumnAggregate,
    ColumnSource,
    DataFormat,
    EngineSpec,
    InputFile,
    MergeEngine,
)
from packstone.tables.paimon.format.data_file import FileSource
from packstone.tables.paimon.format.data_type import MAX_LENGTH, DataField, DataType, TypeRoot
from packstone.tables.paimon.format.schema import KEY_PREFIX, SEQUENCE_NUMBER, VALUE_KIND
from packstone.tables.paimon.refusals import file_format_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packstone.tables.paimon.format.data_file import DataFileMeta
    from packstone.tables.paimon.format.schema import TableSchema

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
            file_format=DataFormat(file_format_name(meta.file_name)),
            size_bytes=meta.file_size,
            rows=meta.row_count,
            columns=self.columns_of(self.schemas[meta.schema_id]),
            sequence_override=self._sequence_override(meta),
            deleted=deleted,
        )

    def columns_of(self, written: TableSchema) -> tuple[ColumnSource, ...]:
        """Say where each column comes from in files of a schema; RefusedError if one cannot be carried over."""
        old = {field.id: field for field in written.fields}
        sources: dict[str, ColumnSource] = {}
        for field in self.schema.fields:
            before = old.get(field.id)
            low, high = (0, None) if before is None else _lengths(field.name, before.type, field.type)
            source = None if before is None else before.name
            sources[field.name] = ColumnSource(target=field.name, source=source, min_length=low, max_length=high)
        if not self.schema.is_primary_key:
            return tuple(sources.values())
        keys = (_key_source(sources[name]) for name in self.schema.trimmed_primary_keys)
        system = (ColumnSource(target=name, source=name) for name in (SEQUENCE_NUMBER.name, VALUE_KIND.name))
        return (*keys, *system, *sources.values())

    def _sequence_override(self, meta: DataFileMeta) -> int | None:
        is_ordered_by_snapshot = (self.schema.option("sequence.snapshot-ordering") or "").lower() == "true"
        if is_ordered_by_snapshot and meta.file_source is not FileSource.COMPACT:
            return meta.min_sequence_number
        return None


def _key_source(value: ColumnSource) -> ColumnSource:
    """The key column that mirrors a value column."""
    return replace(value, target=f"{KEY_PREFIX}{value.target}", source=f"{KEY_PREFIX}{value.source}")


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


def refuse_schema(schema: TableSchema, written: TableSchema) -> str | None:
    """Say why files of an older schema cannot be rewritten in the current one, or None."""
    try:
        InputFiles(schema=schema, schemas={}).columns_of(written)
    except RefusedError as error:
        return error.message
    return None


def is_same_type(before: DataType, after: DataType) -> bool:
    """Whether values need no cast: the same lengths and digits, and at every depth the same fields by id and name."""
    return _bare(before) == _bare(after)


def _bare(data_type: DataType) -> DataType:
    """The type without attributes that need no cast: nullability, comments and defaults of its fields."""
    return replace(
        data_type,
        nullable=True,
        element=None if data_type.element is None else _bare(data_type.element),
        key=None if data_type.key is None else _bare(data_type.key),
        value=None if data_type.value is None else _bare(data_type.value),
        fields=tuple(DataField(id=one.id, name=one.name, type=_bare(one.type)) for one in data_type.fields),
    )


def _lengths(name: str, before: DataType, after: DataType) -> tuple[int, int | None]:
    """The shortest and the longest value that a cast leaves unchanged; RefusedError if the types alone forbid it.

    Readers cast a value of an old file to the current type: they truncate longer values, and pad CHAR and BINARY. A
    rewritten file has the current schema, so readers no longer cast.
    """
    if is_same_type(before, after):
        return 0, None
    families = (_TEXTS, _BINARIES)
    if any(before.root in family and after.root in family for family in families):
        length = after.length or 0
        is_padded = after.root in (TypeRoot.CHAR, TypeRoot.BINARY)
        return length if is_padded else 0, None if length == MAX_LENGTH else length
    if not _is_widening(before, after):
        raise RefusedError(
            f"Column {name} changed from {before} to {after}{_what_changed(before, after)}; this version carries over "
            "only a widening of a plain type. Compact with Java Paimon once.",
            column=name,
        )
    return 0, None


def _is_widening(before: DataType, after: DataType) -> bool:
    """Whether every value of the one type is the same value in the other; nested types never are."""
    if before.root in _INTEGERS and after.root in _INTEGERS:
        return _INTEGERS.index(before.root) < _INTEGERS.index(after.root)
    if before.root is after.root and before.root in _SAME_WITH_MORE_DIGITS:
        return before.scale == after.scale and (before.precision or 0) <= (after.precision or 0)
    return (before.root, after.root) == (TypeRoot.FLOAT, TypeRoot.DOUBLE)


def _what_changed(before: DataType, after: DataType) -> str:
    return " (fields with other ids)" if str(before) == str(after) else ""


def _is_true(value: str | None) -> bool:
    return (value or "").lower() == "true"
