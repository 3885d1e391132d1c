"""Facts about tables and partitions from a Hive metastore, read from its database or through Spark's catalog.

``FolderFacts`` is what planning a merge needs to know about one folder; ``FormatRecord`` is a row of the table
``hive_format_type``, which keeps the formats as the metastore reported them at a refresh.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from packstone.model.files import FileFormat

HEADER = "skip.header.line.count"
FOOTER = "skip.footer.line.count"
PROVIDER = "spark.sql.sources.provider"
# Spark cannot leave the location of some of its own tables empty in Hive, so it writes one that is never used.
_PLACEHOLDER = "-__PLACEHOLDER__"

# The end of an input format's class name -> the format of its files. Third-party classes are not guessed.
_INPUT_FORMATS: Mapping[str, FileFormat] = {
    "MapredParquetInputFormat": FileFormat.PARQUET,
    "DeprecatedParquetInputFormat": FileFormat.PARQUET,
    "OrcInputFormat": FileFormat.ORC,
    "TextInputFormat": FileFormat.TEXT,
    "AvroContainerInputFormat": FileFormat.AVRO,
    "SequenceFileInputFormat": FileFormat.SEQUENCE_FILE,
    "RCFileInputFormat": FileFormat.RC_FILE,
}
_PACKAGES = ("org.apache.hadoop.", "parquet.hive.")
_PROVIDERS: Mapping[str, FileFormat] = {
    "parquet": FileFormat.PARQUET,
    "orc": FileFormat.ORC,
    "avro": FileFormat.AVRO,
    "csv": FileFormat.TEXT,
    "json": FileFormat.TEXT,
    "text": FileFormat.TEXT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageFacts:
    """A storage descriptor: the location of files, and their format."""

    location: str
    input_format: str
    serde: str
    serde_params: Mapping[str, str] = field(default_factory=dict)
    bucket_count: int = 0
    bucket_columns: tuple[str, ...] = ()
    sort_columns: tuple[str, ...] = ()

    @property
    def file_format(self) -> FileFormat:
        """The format that the input format reads; UNKNOWN for classes that are not Hive's own."""
        if not self.input_format.startswith(_PACKAGES):
            return FileFormat.UNKNOWN
        return _INPUT_FORMATS.get(self.input_format.rpartition(".")[2], FileFormat.UNKNOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """One table."""

    database: str
    name: str
    kind: str  # MANAGED_TABLE, EXTERNAL_TABLE, VIRTUAL_VIEW, MATERIALIZED_VIEW, INDEX_TABLE
    storage: StorageFacts
    partition_keys: tuple[str, ...] = ()
    params: Mapping[str, str] = field(default_factory=dict)
    number: int = 0  # its id in the metastore

    @property
    def full_name(self) -> str:
        """``db.table``."""
        return f"{self.database}.{self.name}"

    @property
    def provider(self) -> str:
        """Spark's name of the data source, in lower case; empty for a table of Hive's own."""
        return self.params.get(PROVIDER, "").lower()

    @property
    def location(self) -> str:
        """The folder of its files."""
        path = self.storage.serde_params.get("path", "")
        return path if path and self.storage.location.endswith(_PLACEHOLDER) else self.storage.location

    def file_format(self, storage: StorageFacts | None = None) -> FileFormat:
        """The format of its files, or of those of one of its partitions."""
        if self.provider and self.provider != "hive":
            return _PROVIDERS.get(self.provider, FileFormat.UNKNOWN)
        return (storage or self.storage).file_format

    def header_lines(self, partition: PartitionFacts | None = None) -> int | None:
        """The number of header lines of a text file; None if the metastore does not say."""
        if self.provider == "csv":  # Spark's own tables have an option of another name
            options = {key.lower(): value for key, value in self.storage.serde_params.items()}
            given = options.get("header")
            return None if given is None else int(given.lower() == "true")
        given = self._setting(HEADER, partition)
        return None if given is None else _count(given)

    def footer_lines(self, partition: PartitionFacts | None = None) -> int:
        """The number of footer lines of a text file."""
        return _count(self._setting(FOOTER, partition) or "0")

    def _setting(self, key: str, partition: PartitionFacts | None) -> str | None:
        serde = (partition.storage if partition is not None else self.storage).serde_params
        return serde.get(key) or self.params.get(key) or None

    def __str__(self) -> str:
        return f"{self.full_name} {self.file_format()} {self.location}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFacts:
    """One partition of a table."""

    name: str  # as Hive spells it: dt=a%3Ab/hour=3
    storage: StorageFacts
    params: Mapping[str, str] = field(default_factory=dict)
    number: int = 0  # its id in the metastore

    @property
    def is_archived(self) -> bool:
        """Whether its files are in a Hadoop archive."""
        return self.params.get("is_archived", "").lower() == "true"

    def __str__(self) -> str:
        return f"{self.name} {self.storage.file_format} {self.storage.location}"


def _count(text: str) -> int:
    try:
        return max(0, int(text))
    except ValueError:
        return 0


_TEXTS = frozenset(one for one in FileFormat if one.value.endswith("text"))


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderFacts:
    """The format, header and partition values of a folder; ``refused`` says why it must stay as it is."""

    name: str  # of the partition, as Hive spells it; empty for a table without partitions
    file_format: FileFormat
    header_lines: int | None = None  # None if the metastore does not say
    values: Mapping[str, str | None] | None = None
    refused: str | None = None

    def why_not(self, found: FileFormat) -> str | None:
        """Why a file of this format contradicts the metastore; None if it does not."""
        if found is self.file_format or (self.file_format is FileFormat.TEXT and found in _TEXTS):
            return None
        return f"it is {found}, but the metastore says that {self.file_format} is here"


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatRecord:
    """The format of a table (``partition`` is empty) or of one of its partitions."""

    metastore: str
    database: str
    table: str
    partition: str
    table_type: str
    file_format: str
    input_format: str
    serde: str
    location: str
    field_delimiter: str
    header_lines: int
    bucket_count: int

    @property
    def key(self) -> str:
        """The key of the row, short enough for an index of any database, which a partition's name may not be."""
        return digest(self.metastore, self.database, self.table, self.partition)

    @property
    def full_name(self) -> str:
        """``db.table`` or ``db.table/dt=1``."""
        return f"{self.database}.{self.table}" + (f"/{self.partition}" if self.partition else "")

    def __str__(self) -> str:
        return f"{self.full_name} {self.file_format} {self.location}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshCounts:
    """What a refresh did."""

    added: int = 0
    changed: int = 0
    same: int = 0
    removed: int = 0

    def plus(self, other: RefreshCounts) -> RefreshCounts:
        """Both together."""
        return RefreshCounts(
            added=self.added + other.added,
            changed=self.changed + other.changed,
            same=self.same + other.same,
            removed=self.removed + other.removed,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenFormat:
    """A row, and when it was last seen in its metastore and last changed."""

    record: FormatRecord
    seen_at: datetime
    changed_at: datetime


def digest(*parts: str) -> str:
    """A key of some texts, separated by NUL, which none of them contains."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()
