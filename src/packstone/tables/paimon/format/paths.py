"""The paths of a table's files.

::

    table/schema/schema-0              branch/branch-b1/{schema,snapshot,tag}   (manifests and data are shared)
          snapshot/snapshot-1          tag/tag-t1        changelog/changelog-1   consumer/consumer-c1
          manifest/manifest-<uuid>-0   manifest/manifest-list-<uuid>-0           manifest/index-manifest-<uuid>-0
          index/index-<uuid>-0         statistics/stat-<uuid>-0
          dt=2024-01-01/bucket-0/data-<uuid>-0.parquet

Java formats the partition values in folder names in two ways: *legacy* (the default, ``partition.legacy-name``), where
a DATE is its number of days, and as a cast to text would. pypaimon formats them in a third way, without escaping. Files
are looked up under all spellings.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Final

import numpy as np

from packstone.errors import CorruptionError, InvalidInputError
from packstone.storage.fileio import FileIO
from packstone.tables.paimon.format.binary_row import Value, decode_row
from packstone.tables.paimon.format.data_file import DataFileMeta
from packstone.tables.paimon.format.data_type import DataField, DataType, TypeRoot, time_unit
from packstone.tables.paimon.format.schema import TableSchema

POSTPONE_BUCKET: Final = -2
MAIN_BRANCH: Final = "main"


def manifest_folder(table: str) -> str:
    """The folder of manifests, manifest lists and index manifests."""
    return f"{table}/manifest"


def tag_folder(table: str) -> str:
    """The folder of tags."""
    return f"{table}/tag"


def changelog_folder(table: str) -> str:
    """The folder of changelogs that outlive their snapshots."""
    return f"{table}/changelog"


def consumer_folder(table: str) -> str:
    """The folder of the positions of streaming readers."""
    return f"{table}/consumer"


def branch_path(table: str, branch: str) -> str:
    """The folder of a branch's schemas, snapshots and tags; for the main branch, the table itself."""
    return table if branch == MAIN_BRANCH else f"{table}/branch/branch-{branch}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFileNames:
    """How a table names its data files: ``<prefix><uuid>-<number>.<format>``."""

    prefix: str = "data-"
    include_compression: bool = False

    def name(self, number: int, *, uuid: str, file_format: str, compression: str = "") -> str:
        """The name of one file."""
        codec = f".{compression}" if self.include_compression and compression else ""
        return f"{self.prefix}{uuid}-{number}{codec}.{file_format}"


def bucket_name(bucket: int) -> str:
    """The name of a bucket's folder."""
    return "bucket-postpone" if bucket == POSTPONE_BUCKET else f"bucket-{bucket}"


def partition_values(schema: TableSchema, partition: bytes) -> tuple[Value, ...]:
    """The values of a partition."""
    return decode_row(partition, schema.partition_types)


def bucket_folders(table: str, schema: TableSchema, *, partition: bytes, bucket: int) -> tuple[str, ...]:
    """The folders where files of a bucket may be, Java's first: pypaimon spells some values differently."""
    values = partition_values(schema, partition)
    default = schema.option("partition.default-name") or DEFAULT_PARTITION
    legacy = (schema.option("partition.legacy-name") or "true").lower() == "true"
    spelled = []
    with suppress(InvalidInputError):  # only pypaimon can spell a binary one
        spelled.append(partition_folder(values, schema.partition_fields, legacy=legacy, default=default))
    spelled.append(python_partition_folder(values, schema.partition_fields, default=default))
    root = "/".join(filter(None, (table, (schema.option("data-file.path-directory") or "").strip("/"))))
    folders = ("/".join(filter(None, (root, folder, bucket_name(bucket)))) for folder in spelled)
    return tuple(dict.fromkeys(folders))


def find_bucket_folder(io: FileIO, folders: tuple[str, ...], file: DataFileMeta) -> str:
    """The folder that holds the file; a single candidate is returned without a check."""
    if len(folders) == 1:
        return folders[0]
    for folder in folders:
        if io.stat(f"{folder}/{file.file_name}") is not None:
            return folder
    raise CorruptionError(f"Data file {file.file_name} is in none of {', '.join(folders)}.", file=file.file_name)


def data_file_path(folder: str, file: DataFileMeta) -> str:
    """The path of a data file: in its bucket's folder, unless it has an external path."""
    return file.external_path or f"{folder}/{file.file_name}"


def extra_file_paths(folder: str, file: DataFileMeta) -> tuple[str, ...]:
    """The paths of a data file's extra files."""
    parent = file.external_path.rpartition("/")[0] if file.external_path else folder
    return tuple(f"{parent}/{name}" for name in file.extra_files)


# ---- partition values in folder names ----


DEFAULT_PARTITION: Final = "__DEFAULT_PARTITION__"
_ESCAPED: Final = frozenset("\"#%'*/:=?\\{}[]^\x7f") | frozenset(map(chr, range(32)))
_NANOS: Final = {"ms": 1_000_000, "us": 1_000, "ns": 1}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PLAIN_FLOATS: Final = (1e-3, 1e7)  # outside these Java writes an exponent


def escape_name(text: str) -> str:
    """Escape a name so that it is one component of a path, as Java does."""
    return "".join(f"%{ord(char):02X}" if char in _ESCAPED else char for char in text)


def java_text(value: Value, data_type: DataType, *, legacy: bool) -> str | None:
    """A partition value as Java spells it, before escaping; None for a null."""
    if value is None:
        return None
    match data_type.root:
        case TypeRoot.BOOLEAN:
            return "true" if value else "false"
        case TypeRoot.FLOAT | TypeRoot.DOUBLE:
            return _java_float(float(value), single=data_type.root is TypeRoot.FLOAT)  # type: ignore[arg-type]
        case TypeRoot.DECIMAL:
            return format(Decimal(value), "f")  # type: ignore[arg-type]
        case TypeRoot.BINARY | TypeRoot.VARBINARY:
            return _binary_text(value, legacy=legacy)
        case TypeRoot.DATE | TypeRoot.TIME if legacy:
            return str(value)
        case TypeRoot.DATE:
            return _date(int(value)).isoformat()  # type: ignore[arg-type]
        case TypeRoot.TIME:
            return _time_text(int(value), data_type.precision or 0)  # type: ignore[arg-type]
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            return _timestamp_text(int(value), data_type, legacy=legacy)  # type: ignore[arg-type]
        case _:
            return str(value)


def python_text(value: Value, data_type: DataType) -> str | None:
    """A partition value as pypaimon spells it: Python's ``str`` of the value."""
    if value is None:
        return None
    match data_type.root:
        case TypeRoot.DATE:
            return str(_date(int(value)))  # type: ignore[arg-type]
        case TypeRoot.TIME:
            moment = _EPOCH + timedelta(milliseconds=int(value))  # type: ignore[arg-type]
            return str(moment.time())
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            nanos = int(value) * _NANOS[time_unit(data_type)]  # type: ignore[arg-type]
            moment = _EPOCH + timedelta(microseconds=nanos // 1000)
            return str(moment if data_type.root is TypeRoot.TIMESTAMP_LTZ else moment.replace(tzinfo=None))
        case _:
            return str(value)


def partition_folder(
    values: tuple[Value, ...], fields: tuple[DataField, ...], *, legacy: bool = True, default: str = DEFAULT_PARTITION
) -> str:
    """The folders of a partition as Java names them, ``dt=2024-01-01/hour=7``; empty without partition columns."""
    texts = (java_text(value, field.type, legacy=legacy) for value, field in zip(values, fields, strict=True))
    parts = (
        f"{escape_name(field.name)}={escape_name(text if text and not text.isspace() else default)}"
        for text, field in zip(texts, fields, strict=True)
    )
    return "/".join(parts)


def python_partition_folder(
    values: tuple[Value, ...], fields: tuple[DataField, ...], *, default: str = DEFAULT_PARTITION
) -> str:
    """The folders of a partition as pypaimon names them."""
    texts = (python_text(value, field.type) for value, field in zip(values, fields, strict=True))
    return "/".join(
        f"{field.name}={text if text and not text.isspace() else default}"
        for text, field in zip(texts, fields, strict=True)
    )


def _date(days: int) -> date:
    return date.fromordinal(_EPOCH.toordinal() + days)


def _binary_text(value: Value, *, legacy: bool) -> str:
    if legacy or not isinstance(value, bytes):
        raise InvalidInputError("The folder of a partition by a binary column cannot be derived from its value.")
    return value.decode(errors="replace")


def _time_text(millis: int, precision: int) -> str:
    seconds, rest = divmod(millis % 86_400_000, 1000)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    digits = f"{rest:03}"[:precision].rstrip("0") or "0"
    return f"{text}.{digits}" if precision else text


def _timestamp_text(value: int, data_type: DataType, *, legacy: bool) -> str:
    """Java's LocalDateTime, or its cast to text; a zoned one in UTC (Java's cast would use its own machine's zone)."""
    seconds, nanos = divmod(value * _NANOS[time_unit(data_type)], 1_000_000_000)
    moment = (_EPOCH + timedelta(seconds=seconds)).replace(tzinfo=None)
    fraction = f"{nanos:09}"
    if legacy:
        if not nanos:
            return moment.isoformat(timespec="seconds" if moment.second else "minutes")
        while fraction.endswith("000"):
            fraction = fraction[:-3]
        return f"{moment.isoformat(timespec='seconds')}.{fraction}"
    while len(fraction) > (data_type.precision or 0) and fraction.endswith("0"):
        fraction = fraction[:-1]
    return moment.isoformat(sep=" ", timespec="seconds") + (f".{fraction}" if fraction else "")


def _java_float(value: float, *, single: bool) -> str:
    """The shortest digits that read back the same, as Java 19 and later print them."""
    if value != value:  # noqa: PLR0124 - true for NaN only
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    number = np.float32(value) if single else np.float64(value)
    low, high = _PLAIN_FLOATS
    if value == 0 or low <= abs(value) < high:
        return str(np.format_float_positional(number, unique=True, trim="0"))
    mantissa, _, exponent = np.format_float_scientific(number, unique=True, trim="0").partition("e")
    return f"{mantissa}E{int(exponent)}"
