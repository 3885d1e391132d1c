"""Where the files of a table stand.

::

    table/schema/schema-0              branch/branch-b1/{schema,snapshot,tag}   (manifests and data are shared)
          snapshot/snapshot-1          tag/tag-t1        changelog/changelog-1   consumer/consumer-c1
          manifest/manifest-<uuid>-0   manifest/manifest-list-<uuid>-0           manifest/index-manifest-<uuid>-0
          index/index-<uuid>-0         statistics/stat-<uuid>-0
          dt=2024-01-01/bucket-0/data-<uuid>-0.parquet
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Final

from packstone.errors import CorruptionError, InvalidInputError
from packstone.storage.fileio import FileIO
from packstone.tables.paimon.binary_row import Value, decode_row
from packstone.tables.paimon.data_file_meta import DataFileMeta
from packstone.tables.paimon.partition_text import DEFAULT_PARTITION, partition_folder, python_partition_folder
from packstone.tables.paimon.table_schema import TableSchema

POSTPONE_BUCKET: Final = -2
MAIN_BRANCH: Final = "main"


def schema_folder(table: str) -> str:
    """Where the versions of the schema stand."""
    return f"{table}/schema"


def snapshot_folder(table: str) -> str:
    """Where the snapshots stand."""
    return f"{table}/snapshot"


def manifest_folder(table: str) -> str:
    """Where manifests, manifest lists and index manifests stand."""
    return f"{table}/manifest"


def index_folder(table: str) -> str:
    """Where index files stand, deletion vectors among them."""
    return f"{table}/index"


def statistics_folder(table: str) -> str:
    """Where ANALYZE leaves its statistics."""
    return f"{table}/statistics"


def tag_folder(table: str) -> str:
    """Where tags stand."""
    return f"{table}/tag"


def changelog_folder(table: str) -> str:
    """Where changelogs stand that outlive their snapshots."""
    return f"{table}/changelog"


def consumer_folder(table: str) -> str:
    """Where the positions of streaming readers stand."""
    return f"{table}/consumer"


def branch_path(table: str, branch: str) -> str:
    """Where schemas, snapshots and tags of a branch stand; of the main branch it is the table itself."""
    return table if branch == MAIN_BRANCH else f"{table}/branch/branch-{branch}"


def manifest_names(commit_uuid: str) -> Iterator[str]:
    """Names for the manifests of one commit, without end."""
    return (f"manifest-{commit_uuid}-{number}" for number in count())


def manifest_list_names(commit_uuid: str) -> Iterator[str]:
    """Names for the manifest lists of one commit, without end."""
    return (f"manifest-list-{commit_uuid}-{number}" for number in count())


def index_manifest_names(commit_uuid: str) -> Iterator[str]:
    """Names for the index manifests of one commit, without end."""
    return (f"index-manifest-{commit_uuid}-{number}" for number in count())


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
    """The folders where files of a bucket may stand, Java's first: pypaimon spells some values differently."""
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


def bucket_folder(table: str, schema: TableSchema, *, partition: bytes, bucket: int) -> str:
    """The folder of a bucket as Java spells it."""
    return bucket_folders(table, schema, partition=partition, bucket=bucket)[0]


def find_bucket_folder(io: FileIO, folders: tuple[str, ...], file: DataFileMeta) -> str:
    """The folder of those that holds the file; the only one is believed without looking."""
    if len(folders) == 1:
        return folders[0]
    for folder in folders:
        if io.stat(f"{folder}/{file.file_name}") is not None:
            return folder
    raise CorruptionError(f"Data file {file.file_name} is in none of {', '.join(folders)}.", file=file.file_name)


def data_file_path(folder: str, file: DataFileMeta) -> str:
    """Where a data file stands: in its bucket's folder, unless it says otherwise."""
    return file.external_path or f"{folder}/{file.file_name}"


def extra_file_paths(folder: str, file: DataFileMeta) -> tuple[str, ...]:
    """Where the files stand that belong to a data file."""
    beside = file.external_path.rpartition("/")[0] if file.external_path else folder
    return tuple(f"{beside}/{name}" for name in file.extra_files)
