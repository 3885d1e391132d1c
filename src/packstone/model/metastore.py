"""What a Hive metastore says of a table and of its partitions, whoever was asked: its database, or Spark's catalog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from packstone.model.file_format import FileFormat

HEADER = "skip.header.line.count"
FOOTER = "skip.footer.line.count"
PROVIDER = "spark.sql.sources.provider"
# Spark cannot leave the location of some of its own tables empty in Hive, so it writes one that nobody uses.
_PLACEHOLDER = "-__PLACEHOLDER__"

# The end of an input format's class name -> what its files are. Classes of other people are not guessed.
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
    """A storage descriptor: where files are, and what they are."""

    location: str
    input_format: str
    serde: str
    serde_params: Mapping[str, str] = field(default_factory=dict)
    bucket_count: int = 0
    bucket_columns: tuple[str, ...] = ()
    sort_columns: tuple[str, ...] = ()
    skewed_columns: tuple[str, ...] = ()
    has_subfolders: bool = False  # skewed values have folders of their own

    @property
    def file_format(self) -> FileFormat:
        """What the input format reads; UNKNOWN for classes that are not Hive's own."""
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
    number: int = 0  # in its metastore

    @property
    def full_name(self) -> str:
        """``db.table``."""
        return f"{self.database}.{self.name}"

    @property
    def provider(self) -> str:
        """Whose table it is, if not Hive's: Spark's name of a data source, in lower case."""
        return self.params.get(PROVIDER, "").lower()

    @property
    def location(self) -> str:
        """Where its files are."""
        path = self.storage.serde_params.get("path", "")
        return path if path and self.storage.location.endswith(_PLACEHOLDER) else self.storage.location

    def file_format(self, storage: StorageFacts | None = None) -> FileFormat:
        """What its files are, or those of one of its partitions."""
        if self.provider and self.provider != "hive":
            return _PROVIDERS.get(self.provider, FileFormat.UNKNOWN)
        return (storage or self.storage).file_format

    def header_lines(self, partition: PartitionFacts | None = None) -> int | None:
        """How many lines at the beginning of a text file are no rows; None if the metastore does not say."""
        if self.provider == "csv":  # Spark's own tables have an option of another name
            options = {key.lower(): value for key, value in self.storage.serde_params.items()}
            given = options.get("header")
            return None if given is None else int(given.lower() == "true")
        given = self._setting(HEADER, partition)
        return None if given is None else _count(given)

    def footer_lines(self, partition: PartitionFacts | None = None) -> int:
        """How many lines at the end of a text file are no rows."""
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
    number: int = 0  # in its metastore

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
