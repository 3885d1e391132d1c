"""An open table: its current and earlier schemas, its options, and the paths of its files."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from packstone.errors import InvalidInputError
from packstone.storage.fileio import FileIO
from packstone.tables.paimon.format.paths import (
    bucket_folders,
    bucket_name,
    find_bucket_folder,
    java_text,
    partition_folder,
    partition_values,
)
from packstone.tables.paimon.format.schema import list_schema_ids, read_latest_schema, read_schema
from packstone.tables.paimon.format.table_options import TableOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packstone.tables.paimon.format.data_file import BucketFiles
    from packstone.tables.paimon.format.schema import TableSchema


@dataclass(frozen=True, slots=True, kw_only=True)
class PaimonStore:
    """The facts of a table that every step of a compaction needs."""

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
        """The name of a partition in messages, ``dt=2024-01-01``; empty for a table without partitions."""
        values = partition_values(self.schema, partition)
        return partition_folder(values, self.schema.partition_fields, legacy=False)

    def partition_texts(self, partition: bytes) -> dict[str, str | None]:
        """The values of a partition as text, by column."""
        values = partition_values(self.schema, partition)
        fields = self.schema.partition_fields
        return {f.name: java_text(value, f.type, legacy=False) for f, value in zip(fields, values, strict=True)}

    def bucket_label(self, bucket: BucketFiles) -> str:
        """The name of a bucket in messages."""
        return "/".join(filter(None, (self.partition_name(bucket.partition), bucket_name(bucket.bucket))))

    def bucket_folder(self, bucket: BucketFiles) -> str:
        """The folder that holds the bucket's files; it may be spelled in more than one way."""
        folders = bucket_folders(self.path, self.schema, partition=bucket.partition, bucket=bucket.bucket)
        return find_bucket_folder(self.io, folders, bucket.files[0]) if bucket.files else folders[0]


def open_store(io: FileIO, path: str, *, overrides: tuple[tuple[str, str], ...] = ()) -> PaimonStore:
    """Open the table at a path, or the one that the path is inside."""
    location = find_table(io, path)
    schemas = {number: read_schema(io, location.path, number) for number in list_schema_ids(io, location.path)}
    latest = read_latest_schema(io, location.path)
    free = {one.key for one in TableOptions.free_options()} if overrides else set()
    for name, _ in overrides:
        if name not in free:
            why = TableOptions.why_not_free(name) or f"A compaction does not use the option {name}."
            raise InvalidInputError(why, option=name)
    schema = replace(latest, options=tuple({**dict(latest.options), **dict(overrides)}.items()))
    return PaimonStore(
        io=io,
        location=location,
        schema=schema,
        schemas=schemas,
        options=TableOptions.parse(schema.options, is_primary_key=schema.is_primary_key),
    )


# ---- from a path to a table; a file-system catalog keeps ``warehouse/<database>.db/<table>`` ----


_DATABASE: Final = ".db"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLocation:
    """The path of a table and its name in the catalog; a table outside a warehouse has no name."""

    path: str
    database: str | None = None
    name: str | None = None

    def __str__(self) -> str:
        return f"{self.database}.{self.name}" if self.database and self.name else self.path


def is_table(io: FileIO, path: str) -> bool:
    """Whether a folder is a Paimon table: it has a schema folder with a schema in it."""
    return bool(list_schema_ids(io, path))


def find_table(io: FileIO, path: str) -> TableLocation:
    """The table at a path, or the one that the path is inside: a partition, a bucket or a file of a table works too.

    The path of a branch is refused: a branch looks like a table of its own, but its data are those of the main branch.
    """
    at = path.rstrip("/") or "/"
    while True:
        if is_table(io, at):
            return _located(at)
        parent = posixpath.dirname(at)
        if parent == at:
            raise InvalidInputError(f"{path} is neither a Paimon table nor inside one.", path=path)
        at = parent


def _located(path: str) -> TableLocation:
    if posixpath.basename(path).startswith("branch-") and posixpath.basename(posixpath.dirname(path)) == "branch":
        raise InvalidInputError(f"{path} is a branch of a table; give the table itself.", path=path)
    folder, name = posixpath.split(path)
    database = posixpath.basename(folder)
    if not database.endswith(_DATABASE) or database == _DATABASE:
        return TableLocation(path=path)
    return TableLocation(path=path, database=database.removesuffix(_DATABASE), name=name)
