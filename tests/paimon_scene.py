"""Small Paimon values for tests: files with integer keys, edits, manifests. No table is needed to build them."""

from packstone.tables.paimon.conflicts import Edit
from packstone.tables.paimon.format.binary_row import comparable_key, decode_row, encode_row
from packstone.tables.paimon.format.data_file import EMPTY_ROW, DataFileMeta, FileSource, ManifestFileMeta, SimpleStats
from packstone.tables.paimon.format.data_type import DataType, TypeRoot

KEY = (DataType(root=TypeRoot.INT, nullable=False),)
MB = 1024 * 1024


def key(number):
    """One integer as a serialised key."""
    return encode_row((number,), KEY)


def key_order(data):
    """Paimon's order of such keys."""
    return comparable_key(decode_row(data, KEY), KEY)


def data_file(name, *, level=0, keys=(0, 9), rows=10, **other):
    """One file as a manifest describes it."""
    return DataFileMeta(
        file_name=name,
        file_size=100 * rows,
        row_count=rows,
        min_key=key(keys[0]),
        max_key=key(keys[1]),
        key_stats=SimpleStats(min_values=key(keys[0]), max_values=key(keys[1]), null_counts=(0,)),
        value_stats=SimpleStats(),
        value_stats_cols=(),
        min_sequence_number=0,
        max_sequence_number=rows - 1,
        schema_id=0,
        level=level,
        creation_time_ms=0,
        delete_row_count=0,
        file_source=FileSource.COMPACT if level else FileSource.APPEND,
        **other,
    )


def edit(before, after, *, bucket=0, partition=EMPTY_ROW, total_buckets=1, **other):
    """One bucket's change."""
    return Edit(
        partition=partition,
        bucket=bucket,
        total_buckets=total_buckets,
        before=tuple(before),
        after=tuple(after),
        **other,
    )


def manifest(name, megabytes, *, deleted=0):
    """One manifest as a list describes it."""
    return ManifestFileMeta(
        file_name=name,
        file_size=int(megabytes * MB),
        num_added_files=1,
        num_deleted_files=deleted,
        partition_stats=SimpleStats(),
        schema_id=0,
    )
