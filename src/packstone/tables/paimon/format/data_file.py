"""One data file as a manifest describes it, with the statistics of its columns.

Keys and statistics stay in Paimon's own bytes (see binary_row.py): most are only copied from one manifest to the next,
and bytes that are not decoded cannot be changed by accident. The metadata of a new file is computed from the rows
written, never copied. Its statistics have the mode that the table requests::

    none         nothing
    counts       the number of nulls
    truncate(n)  also smallest and largest value, strings and binaries truncated to n characters (bytes)
    full         the same, not truncated

A truncated smallest value is a prefix; a truncated largest one is a prefix whose last character is raised by one, so
that it is still not smaller than the value. If no character can be raised, neither value is kept.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Final, TypeAlias

from packstone.errors import InvalidInputError
from packstone.rewrite.merge_tree.spec import ColumnFacts, PlainValue
from packstone.tables.paimon.format.avro_schemas import UnknownField
from packstone.tables.paimon.format.binary_row import encode_row
from packstone.tables.paimon.format.data_type import DataField
from packstone.tables.paimon.format.table_options import TableOptions

if TYPE_CHECKING:
    from packstone.rewrite.merge_tree.spec import WrittenFile
    from packstone.tables.paimon.format.schema import TableSchema

EMPTY_ROW: Final = bytes(12)  # a row without fields: arity 0, then the header


class FileSource(IntEnum):
    """Who wrote a data file."""

    APPEND = 0
    COMPACT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleStats:
    """Smallest and largest value, as serialised rows, and number of nulls of some columns."""

    min_values: bytes = EMPTY_ROW
    max_values: bytes = EMPTY_ROW
    null_counts: tuple[int | None, ...] | None = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFileMeta:
    """The manifest's metadata of a data file; None where the writer left a field out or did not know it yet."""

    file_name: str
    file_size: int
    row_count: int
    min_key: bytes
    max_key: bytes
    key_stats: SimpleStats
    value_stats: SimpleStats
    min_sequence_number: int
    max_sequence_number: int
    schema_id: int
    level: int
    extra_files: tuple[str, ...] = ()
    creation_time_ms: int | None = None  # the writer's local wall clock, without a zone
    delete_row_count: int | None = None
    embedded_file_index: bytes | None = None
    file_source: FileSource | None = None
    value_stats_cols: tuple[str, ...] | None = None  # None: every value column has statistics
    external_path: str | None = None
    first_row_id: int | None = None
    write_cols: tuple[str, ...] | None = None
    write_cols_sequences: tuple[int, ...] | None = None
    unknown: tuple[UnknownField, ...] = ()

    def __str__(self) -> str:
        return f"L{self.level} {self.file_name} {self.row_count} rows {self.file_size}B"


# ---- statistics ----


_MODE: Final = re.compile(r"(?P<name>none|counts|full|truncate)(?:\((?P<length>[0-9]+)\))?")
_LAST_CHARACTER: Final = 0x10FFFF
_SURROGATES: Final = range(0xD800, 0xE000)  # not characters


class StatsKind(StrEnum):
    """Which statistics of a column are kept."""

    NONE = "none"
    COUNTS = "counts"
    TRUNCATE = "truncate"
    FULL = "full"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsMode:
    """A kind, and for ``truncate`` the length."""

    kind: StatsKind
    length: int = 0

    def __str__(self) -> str:
        return f"truncate({self.length})" if self.kind is StatsKind.TRUNCATE else str(self.kind)


KEY_MODE: Final = StatsMode(kind=StatsKind.TRUNCATE, length=128)  # of key columns, whatever the table's mode


def parse_stats_mode(text: str) -> StatsMode:
    """Read ``none``, ``counts``, ``truncate(16)`` or ``full``."""
    match = _MODE.fullmatch(text.strip().lower())
    if match is None or (match["name"] == "truncate") != bool(int(match["length"] or 0)):
        raise InvalidInputError(
            f"{text!r} is not a statistics mode; write none, counts, truncate(16) or full.", value=text
        )
    return StatsMode(kind=StatsKind(match["name"]), length=int(match["length"] or 0))


def stats_modes(
    fields: Sequence[DataField], options: TableOptions, *, level: int, given: Mapping[str, str]
) -> tuple[StatsMode, ...]:
    """The mode of each value column: ``fields.<name>.stats-mode``, else the level's, for the first columns kept."""
    default = parse_stats_mode(options.stats_mode_of(level))
    kept = options.stats_keep_first_columns
    modes = []
    for number, field in enumerate(fields):
        own = given.get(f"fields.{field.name}.stats-mode")
        beyond = 0 <= kept <= number
        modes.append(parse_stats_mode(own) if own else StatsMode(kind=StatsKind.NONE) if beyond else default)
    return tuple(modes)


def value_stats(
    facts: Sequence[ColumnFacts], fields: Sequence[DataField], modes: Sequence[StatsMode], *, dense: bool = True
) -> tuple[SimpleStats, tuple[str, ...] | None]:
    """Statistics of the value columns, and the names of those that have some; None if all have.

    Dense (Paimon's default) leaves the others out of the rows; otherwise they are nulls in the rows.
    """
    columns = [_column(*three) for three in zip(facts, fields, modes, strict=True)]
    if not dense:
        return _stats(columns), None
    having = [column for column in columns if column.null_count is not None]
    names = tuple(column.field.name for column in having)
    return _stats(having), None if len(having) == len(fields) else names


def key_stats(facts: Sequence[ColumnFacts], fields: Sequence[DataField]) -> SimpleStats:
    """Statistics of the key columns."""
    return _stats([_column(fact, field, KEY_MODE) for fact, field in zip(facts, fields, strict=True)])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    field: DataField
    minimum: PlainValue = None
    maximum: PlainValue = None
    null_count: int | None = None  # None: there are no statistics of this column


def _stats(columns: Sequence[_Column]) -> SimpleStats:
    types = [column.field.type for column in columns]
    return SimpleStats(
        min_values=encode_row([column.minimum for column in columns], types),
        max_values=encode_row([column.maximum for column in columns], types),
        null_counts=tuple(column.null_count for column in columns),
    )


def _column(facts: ColumnFacts, field: DataField, mode: StatsMode) -> _Column:
    if mode.kind is StatsKind.NONE or not field.type.is_atomic:
        return _Column(field=field)
    if mode.kind is StatsKind.COUNTS:
        return _Column(field=field, null_count=facts.null_count)
    minimum, maximum = facts.minimum, facts.maximum
    if mode.kind is StatsKind.TRUNCATE:
        minimum, maximum = _truncate(minimum, mode.length), _truncate_up(maximum, mode.length)
    if minimum is None or maximum is None:
        minimum = maximum = None
    return _Column(field=field, minimum=minimum, maximum=maximum, null_count=facts.null_count)


def _truncate(value: PlainValue, length: int) -> PlainValue:
    return value[:length] if isinstance(value, str | bytes) else value


def _truncate_up(value: PlainValue, length: int) -> PlainValue:
    if not isinstance(value, str | bytes) or len(value) <= length:
        return value
    return _raise_text(value[:length]) if isinstance(value, str) else _raise_bytes(value[:length])


def _raise_text(prefix: str) -> str | None:
    """The smallest text that is greater than every text with this prefix."""
    for end in range(len(prefix) - 1, -1, -1):
        following = ord(prefix[end]) + 1
        if following in _SURROGATES:
            following = _SURROGATES.stop
        if following <= _LAST_CHARACTER:
            return prefix[:end] + chr(following)
    return None


def _raise_bytes(prefix: bytes) -> bytes | None:
    """The same for bytes; no byte is raised to 0x80, which is negative for Java Paimon up to 1.4."""
    kept = prefix.rstrip(b"\x7f\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None


# ---- metadata of a new file ----


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaWriter:
    """Describes the outputs of one table at one level."""

    schema: TableSchema
    level: int
    created_ms: int

    def describe(self, written: WrittenFile, *, first_sequence: int | None = None) -> DataFileMeta:
        """The metadata of a written file; ``first_sequence`` numbers the rows of a table without keys."""
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


# ---- manifest entry ----
# Entries of manifests (a data file was added to or deleted from a bucket) and of manifest lists (one manifest).


# The identity by which two entries refer to the same file: an upgrade changes the level, so it is another file.
FileIdentity: TypeAlias = tuple[bytes, int, int, str, tuple[str, ...], bytes | None, str | None]


class FileKind(IntEnum):
    """What happened to the file."""

    ADD = 0
    DELETE = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestEntry:
    """A change of one file."""

    kind: FileKind
    partition: bytes  # a serialised row of the partition columns
    bucket: int
    total_buckets: int
    file: DataFileMeta

    @property
    def identity(self) -> FileIdentity:
        """The key by which an ADD and a DELETE are matched."""
        file = self.file
        return (
            self.partition,
            self.bucket,
            file.level,
            file.file_name,
            file.extra_files,
            file.embedded_file_index,
            file.external_path,
        )

    def __str__(self) -> str:
        return f"{self.kind.name} bucket-{self.bucket} {self.file}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketFiles:
    """The live files of one bucket of one partition."""

    partition: bytes
    bucket: int
    total_buckets: int
    files: tuple[DataFileMeta, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFileMeta:
    """One manifest in a manifest list: name, size and the ranges of its entries; None where an old writer omits it."""

    file_name: str
    file_size: int
    num_added_files: int
    num_deleted_files: int
    partition_stats: SimpleStats
    schema_id: int
    min_bucket: int | None = None
    max_bucket: int | None = None
    min_level: int | None = None
    max_level: int | None = None
    min_row_id: int | None = None
    max_row_id: int | None = None
    total_buckets: int | None = None
    extra_files: tuple[str, ...] | None = None
    unknown: tuple[UnknownField, ...] = ()

    def __str__(self) -> str:
        return f"{self.file_name} +{self.num_added_files} -{self.num_deleted_files} {self.file_size}B"
