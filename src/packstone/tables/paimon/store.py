"""An open table: its schema with all earlier ones, its options, and where its files stand."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from packstone.errors import InvalidInputError
from packstone.tables.paimon.catalog import TableLocation, find_table
from packstone.tables.paimon.partition_text import java_text, partition_folder
from packstone.tables.paimon.paths import bucket_folders, bucket_name, find_bucket_folder, partition_values
from packstone.tables.paimon.table_options import TableOptions
from packstone.tables.paimon.table_schema import list_schema_ids, read_latest_schema, read_schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packstone.storage.fileio import FileIO
    from packstone.tables.paimon.manifest_entry import BucketFiles
    from packstone.tables.paimon.table_schema import TableSchema

# What one run may choose for itself: when and how files are written. Anything else says what the table is, or which
# rows it has; to change that for one run would write files that the table's readers understand differently.
_FREE_OPTIONS = (
    "num-sorted-run.",
    "num-levels",
    "compaction.",
    "lookup-compact",
    "target-file-size",
    "file.compression",
    "file.format",
    "file.block-size",
    "metadata.stats-",
    "manifest.",
    "commit.",
    "snapshot.",
    "source.split.",
    "write-only",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PaimonStore:
    """What every part of a compaction needs to know of its table."""

    io: FileIO
    location: TableLocation
    schema: TableSchema  # the newest, with the options of this run
    schemas: Mapping[int, TableSchema]  # all versions by id
    options: TableOptions

    @property
    def path(self) -> str:
        """The table's folder."""
        return self.location.path

    def partition_name(self, partition: bytes) -> str:
        """A partition as people read it, ``dt=2024-01-01``; empty for a table without."""
        values = partition_values(self.schema, partition)
        return partition_folder(values, self.schema.partition_fields, legacy=False)

    def partition_texts(self, partition: bytes) -> dict[str, str | None]:
        """The values of a partition as text, by column."""
        values = partition_values(self.schema, partition)
        fields = self.schema.partition_fields
        return {f.name: java_text(value, f.type, legacy=False) for f, value in zip(fields, values, strict=True)}

    def bucket_label(self, bucket: BucketFiles) -> str:
        """A bucket as people read it."""
        return "/".join(filter(None, (self.partition_name(bucket.partition), bucket_name(bucket.bucket))))

    def bucket_folder(self, bucket: BucketFiles) -> str:
        """The folder that really holds the bucket's files."""
        folders = bucket_folders(self.path, self.schema, partition=bucket.partition, bucket=bucket.bucket)
        return find_bucket_folder(self.io, folders, bucket.files[0]) if bucket.files else folders[0]


def open_store(io: FileIO, path: str, *, overrides: tuple[tuple[str, str], ...] = ()) -> PaimonStore:
    """Open the table at a path, or around it."""
    location = find_table(io, path)
    schemas = {number: read_schema(io, location.path, number) for number in list_schema_ids(io, location.path)}
    latest = read_latest_schema(io, location.path)
    for name, _ in overrides:
        if not name.startswith(_FREE_OPTIONS) or name == "manifest.format":
            raise InvalidInputError(f"--option {name} cannot be changed for one run; it says what the table is.")
    schema = replace(latest, options=tuple({**dict(latest.options), **dict(overrides)}.items()))
    return PaimonStore(
        io=io,
        location=location,
        schema=schema,
        schemas=schemas,
        options=TableOptions.parse(schema.options, is_primary_key=schema.is_primary_key),
    )
