"""What a manifest list says of a manifest, gathered while its entries are written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from packstone.tables.paimon.binary_row import Value, comparable_key, decode_row, encode_row
from packstone.tables.paimon.data_file_meta import SimpleStats
from packstone.tables.paimon.data_type import DataType
from packstone.tables.paimon.manifest_entry import FileKind, ManifestEntry
from packstone.tables.paimon.manifest_file_meta import ManifestFileMeta


class ManifestSummary:
    """Counts and spans of the entries added so far."""

    def __init__(self, partition_types: tuple[DataType, ...]) -> None:
        self._types = partition_types
        self._kinds: Counter[FileKind] = Counter()
        self._partitions: Counter[bytes] = Counter()
        self._buckets: set[int] = set()
        self._totals: set[int] = set()
        self._levels: set[int] = set()
        self._schema_id = 0
        self._row_ids: tuple[int, int] | None = None
        self._all_have_row_ids = True

    @property
    def entries(self) -> int:
        """How many entries were added."""
        return self._kinds.total()

    def add(self, entry: ManifestEntry) -> None:
        """Take one entry into account."""
        file = entry.file
        self._kinds[entry.kind] += 1
        self._partitions[entry.partition] += 1
        self._buckets.add(entry.bucket)
        self._totals.add(entry.total_buckets)
        self._levels.add(file.level)
        self._schema_id = max(self._schema_id, file.schema_id)
        if file.first_row_id is None:
            self._all_have_row_ids = False
        else:
            first, last = self._row_ids or (file.first_row_id, file.first_row_id)
            end = file.first_row_id + file.row_count - 1
            self._row_ids = min(first, file.first_row_id), max(last, end)

    def meta(self, *, file_name: str, file_size: int) -> ManifestFileMeta:
        """The line of the manifest list."""
        row_ids = self._row_ids if self._all_have_row_ids else None
        total = next(iter(self._totals)) if len(self._totals) == 1 else None  # after a rescale there are several
        return ManifestFileMeta(
            file_name=file_name,
            file_size=file_size,
            num_added_files=self._kinds[FileKind.ADD],
            num_deleted_files=self._kinds[FileKind.DELETE],
            partition_stats=_partition_stats(self._partitions, self._types),
            schema_id=self._schema_id,
            min_bucket=min(self._buckets),
            max_bucket=max(self._buckets),
            min_level=min(self._levels),
            max_level=max(self._levels),
            min_row_id=row_ids[0] if row_ids else None,
            max_row_id=row_ids[1] if row_ids else None,
            total_buckets=total if total and total > 0 else None,
        )


def _partition_stats(partitions: Counter[bytes], types: tuple[DataType, ...]) -> SimpleStats:
    rows = [(decode_row(partition, types), count) for partition, count in partitions.items()]
    columns = range(len(types))
    return SimpleStats(
        min_values=encode_row([_extreme((r[i] for r, _ in rows), types[i], last=False) for i in columns], types),
        max_values=encode_row([_extreme((r[i] for r, _ in rows), types[i], last=True) for i in columns], types),
        null_counts=tuple(sum(count for row, count in rows if row[i] is None) for i in columns),
    )


def _extreme(values: Iterable[Value], data_type: DataType, *, last: bool) -> Value:
    present = [value for value in values if value is not None]
    if not present:
        return None
    return (max if last else min)(present, key=lambda value: comparable_key([value], [data_type]))
