"""What must hold for a Paimon table after every commit, checked from its files alone.

``problems_of(table)`` returns a line for each thing that is wrong, beginning with the name of the check, e.g.
``overlap: ...``. No check trusts what another file says of a file: sizes, counts, ranges and statistics are recomputed.
"""

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from paimon_interop.binary_row import decode
from paimon_interop.table_files import ADD, DELETE, Entry, Identity, TableFiles, read_data

Problems = Iterator[str]
Live = dict[Identity, Entry]
COMPACT_SOURCE = 1
RETRACTS = frozenset({1, 3})
TRUSTED_LEVEL = 1  # pypaimon counts no delete markers in its own files of level 0


def problems_of(path: Path | str) -> list[str]:
    """Everything that is wrong with a table."""
    table = TableFiles(Path(path))
    return [*check_ids(table), *check_history(table), *check_live_files(table)]


# ---- snapshots -------------------------------------------------------------------------------------------------------


def check_ids(table: TableFiles) -> Problems:
    """Numbers follow each other, a file says the number of its name, the hint is not ahead."""
    ids = [snapshot["id"] for snapshot in table.snapshots]
    if ids != list(range(ids[0], ids[0] + len(ids))):
        yield f"gap: snapshots {ids}"
    names = sorted(int(file.name.partition("-")[2]) for file in (table.path / "snapshot").glob("snapshot-*"))
    if names != ids:
        yield f"gap: files {names} hold the snapshots {ids}"
    hint = table.path / "snapshot" / "LATEST"
    if hint.exists() and int(hint.read_text(encoding="utf-8")) not in ids:
        yield f"hint: LATEST is {hint.read_text(encoding='utf-8')}, the snapshots are {ids}"


def check_history(table: TableFiles) -> Problems:
    """Each snapshot builds on the one before, and its numbers are those of its entries."""
    before: Live | None = None
    previous: dict[str, Any] | None = None
    seen: set[str] = set()
    past = Past(is_whole=table.snapshots[0]["id"] == 1)
    for snapshot in table.snapshots:
        live: Live = {}
        yield from apply(live, list(table.entries(snapshot["baseManifestList"])), f"base of {snapshot['id']}")
        if before is not None and set(live) != set(before):
            yield f"base: {snapshot['id']} does not begin with the files of the one before"
        delta = list(table.entries(snapshot["deltaManifestList"]))
        yield from apply(live, delta, f"delta of {snapshot['id']}")
        yield from check_counts(snapshot, live, delta)
        yield from check_lists(table, snapshot, seen)
        if previous:
            yield from check_inherited(previous, snapshot)
        if snapshot["commitKind"] == "COMPACT":
            yield from check_compaction(table, snapshot, delta, past)
        yield from past.check(snapshot, delta)
        before, previous = live, snapshot
    yield from past.check_doomed(before or {})


class Past:
    """What the deltas so far deleted: by identity, by path, and by all that was recorded of it but its name."""

    def __init__(self, *, is_whole: bool) -> None:
        self.is_whole = is_whole  # False: snapshots have expired, so some of it is not known
        self.lines: set[str] = set()
        self._identities: set[Identity] = set()
        self._doomed: dict[tuple[bytes, int, str], int] = {}

    def check(self, snapshot: dict[str, Any], delta: list[Entry]) -> Problems:
        """Nothing is added that was deleted under the same identity: readers match the two in no order."""
        fates: dict[tuple[bytes, int, str], int] = {}
        for entry in delta:
            fates[entry.partition, entry.bucket, entry.file["_FILE_NAME"]] = entry.kind
            if entry.kind == DELETE:
                self._identities.add(entry.identity)
                self.lines.add(line_of(entry))
            elif entry.identity in self._identities:
                yield f"again: {snapshot['id']} adds {entry}, which was deleted before"
        self._doomed.update({path: snapshot["id"] for path, kind in fates.items() if kind == DELETE})

    def check_doomed(self, live: Live) -> Problems:
        """No live path was ever deleted by a delta that does not add it again: expiry goes by single deltas."""
        for entry in live.values():
            number = self._doomed.get((entry.partition, entry.bucket, entry.file["_FILE_NAME"]))
            if number is not None:
                yield f"doomed: {entry} is live and goes when snapshot {number} is the oldest"


def line_of(entry: Entry) -> str:
    """All that is recorded of a file but its name; a field that an older writer does not know is empty."""
    known = {field: value for field, value in entry.file.items() if value is not None and field != "_FILE_NAME"}
    return repr((entry.partition, entry.bucket, sorted(known.items())))


def apply(live: Live, entries: list[Entry], where: str) -> Problems:
    """Take entries in their order: nothing is added twice, nothing is deleted that is not there."""
    for entry in entries:
        if entry.kind == ADD:
            if entry.identity in live:
                yield f"twice: {where} adds {entry} again"
            live[entry.identity] = entry
        elif live.pop(entry.identity, None) is None:
            yield f"dangling: {where} deletes {entry}, which is not live"
    paths = Counter((entry.partition, entry.bucket, entry.file["_FILE_NAME"]) for entry in live.values())
    yield from (f"twice: {where} leaves {path[2]} on {count} levels" for path, count in paths.items() if count > 1)


def check_counts(snapshot: dict[str, Any], live: Live, delta: list[Entry]) -> Problems:
    """The record counts of a snapshot are sums over its files."""
    total = sum(entry.file["_ROW_COUNT"] for entry in live.values())
    change = sum(entry.file["_ROW_COUNT"] * (1 if entry.kind == ADD else -1) for entry in delta)
    if snapshot["totalRecordCount"] != total:
        yield f"total: snapshot {snapshot['id']} says {snapshot['totalRecordCount']} rows, its files hold {total}"
    if snapshot["deltaRecordCount"] != change:
        yield f"delta: snapshot {snapshot['id']} says {snapshot['deltaRecordCount']} rows, its entries {change}"


def check_lists(table: TableFiles, snapshot: dict[str, Any], seen: set[str]) -> Problems:
    """Sizes and counts that lists and snapshots give for manifests."""
    for which in ("baseManifestList", "deltaManifestList"):
        size = (table.path / "manifest" / snapshot[which]).stat().st_size
        if snapshot.get(f"{which}Size") not in {None, size}:
            yield f"list-size: {which} of {snapshot['id']} has {size} bytes, not {snapshot[f'{which}Size']}"
        for manifest in table.manifests(snapshot[which]):
            if (told := repr(manifest)) not in seen:  # a long history tells the same over and over
                seen.add(told)
                yield from check_manifest(table, manifest)


def check_manifest(table: TableFiles, manifest: dict[str, Any]) -> Problems:
    """What a list says of one manifest, recomputed."""
    name = manifest["_FILE_NAME"]
    entries = table.entries_of(name)
    kinds = Counter(entry.kind for entry in entries)
    found = {
        "_FILE_SIZE": (table.path / "manifest" / name).stat().st_size,
        "_NUM_ADDED_FILES": kinds[ADD],
        "_NUM_DELETED_FILES": kinds[DELETE],
        "_MIN_BUCKET": min(entry.bucket for entry in entries),
        "_MAX_BUCKET": max(entry.bucket for entry in entries),
        "_MIN_LEVEL": min(entry.file["_LEVEL"] for entry in entries),
        "_MAX_LEVEL": max(entry.file["_LEVEL"] for entry in entries),
    }
    for field, value in found.items():
        if manifest.get(field) not in {None, value}:
            yield f"manifest: {name} has {field} {value}, the list says {manifest[field]}"
    partitions = [table.partition(entry) for entry in entries]
    yield from check_partition_stats(table, manifest, partitions)


def check_partition_stats(table: TableFiles, manifest: dict[str, Any], partitions: list[list[Any]]) -> Problems:
    """The partitions of a manifest lie within the range that the list gives; readers skip manifests by it."""
    types = table.types(table.schema["partitionKeys"])
    stats = manifest["_PARTITION_STATS"]
    low, high = decode(stats["_MIN_VALUES"], types), decode(stats["_MAX_VALUES"], types)
    for at, name in enumerate(table.schema["partitionKeys"]):
        values = [partition[at] for partition in partitions if partition[at] is not None]
        if values and (low[at] != min(values) or high[at] != max(values)):
            told = f"{low[at]!r} to {high[at]!r}"
            yield f"manifest: {name} of {manifest['_FILE_NAME']} is {min(values)!r} to {max(values)!r}, not {told}"


def check_inherited(previous: dict[str, Any], snapshot: dict[str, Any]) -> Problems:
    """A compaction hands on what it did not change."""
    if snapshot["commitKind"] != "COMPACT":
        return
    inherited = ["indexManifest", "watermark"]
    if snapshot["schemaId"] == previous["schemaId"]:
        inherited.append("statistics")
    for field in inherited:
        if snapshot.get(field) != previous.get(field):
            yield f"inherited: {field} of {snapshot['id']} is {snapshot.get(field)}, before it {previous.get(field)}"
    if snapshot["schemaId"] < previous["schemaId"]:
        yield f"inherited: snapshot {snapshot['id']} goes back to schema {snapshot['schemaId']}"


def check_compaction(table: TableFiles, snapshot: dict[str, Any], delta: list[Entry], past: Past) -> Problems:
    """Within a COMPACT delta an upgrade deletes before it adds: expiry takes the last entry of a path for its fate.

    What is added was written by a compaction, or is the copy of a file that was deleted before: a run was undone.
    """
    if snapshot["schemaId"] not in table.schemas:
        yield f"schema: snapshot {snapshot['id']} has the schema {snapshot['schemaId']}, which does not exist"
    seen: dict[tuple[bytes, int, str], int] = {}
    for entry in delta:
        path = (entry.partition, entry.bucket, entry.file["_FILE_NAME"])
        if entry.kind == DELETE and seen.get(path) == ADD:
            yield f"upgrade: {snapshot['id']} adds {entry} before it deletes it"
        is_marked = entry.file.get("_FILE_SOURCE") == COMPACT_SOURCE
        is_copy = line_of(entry) in past.lines or not past.is_whole
        if entry.kind == ADD and path not in seen and not is_marked and not is_copy:
            yield f"source: {entry}, written by compaction {snapshot['id']}, is not marked so"
        seen[path] = entry.kind
    totals = {(entry.partition, entry.total_buckets) for entry in delta}
    if len(totals) != len({partition for partition, _ in totals}):
        yield f"buckets: compaction {snapshot['id']} gives a partition several bucket counts"


# ---- live files ------------------------------------------------------------------------------------------------------


def check_live_files(table: TableFiles) -> Problems:
    """The latest snapshot's files are there and are what their entries say."""
    entries = live_entries(table)
    for entry in entries:
        path = table.data_path(entry)
        if not path.exists():
            yield f"missing: {entry}"
        elif path.stat().st_size != entry.file["_FILE_SIZE"]:
            yield f"size: {entry} has {path.stat().st_size} bytes, not {entry.file['_FILE_SIZE']}"
        else:
            yield from check_data(table, entry, read_data(path))
    if table.key_names:
        yield from check_overlaps(table, entries)


def live_entries(table: TableFiles) -> list[Entry]:
    """The files of the latest snapshot."""
    live: Live = {}
    for which in ("baseManifestList", "deltaManifestList"):
        list(apply(live, list(table.entries(table.snapshots[-1][which])), ""))
    return list(live.values())


def check_data(table: TableFiles, entry: Entry, columns: dict[str, list[Any]]) -> Problems:
    """One file against its metadata."""
    rows = len(next(iter(columns.values()), []))
    if rows != entry.file["_ROW_COUNT"]:
        yield f"rows: {entry} has {rows}, not {entry.file['_ROW_COUNT']}"
        return
    if wrong := list(check_columns(table, entry, columns)):
        yield from wrong
        return
    yield from check_value_stats(table, entry, columns)
    if table.key_names:
        yield from check_keys(table, entry, columns)
        yield from check_sequences(entry, columns)


def check_columns(table: TableFiles, entry: Entry, columns: dict[str, list[Any]]) -> Problems:
    """The columns of the file's schema in their order, before them those of the merge tree."""
    fields = [field["name"] for field in table.schemas[entry.file["_SCHEMA_ID"]]["fields"]]
    keys = [f"_KEY_{name}" for name in old_key_names(table, entry)]
    system = ["_SEQUENCE_NUMBER", "_VALUE_KIND"] if table.key_names else []
    wanted = [[*keys, *system, *fields], [*system, *fields]]  # the second: thin mode
    if columns and list(columns) not in wanted:
        yield f"columns: {entry} has {list(columns)}, not {wanted[0]}"


def old_key_names(table: TableFiles, entry: Entry) -> list[str]:
    """The key's columns by the names they had when the file was written."""
    schema = table.schemas[entry.file["_SCHEMA_ID"]]
    return [name for name in schema["primaryKeys"] if name not in schema["partitionKeys"]]


def check_keys(table: TableFiles, entry: Entry, columns: dict[str, list[Any]]) -> Problems:
    """Sorted, each key once, the first and the last recorded."""
    names = old_key_names(table, entry)
    held = [columns.get(f"_KEY_{name}", columns.get(name, [])) for name in names]
    keys = [sort_key(key) for key in zip(*held, strict=True)]
    if any(left >= right for left, right in itertools.pairwise(keys)):
        yield f"order: {entry} is not sorted with each key once"
    types = table.types(names, entry.file["_SCHEMA_ID"])
    for which, wanted in (("_MIN_KEY", keys[0]), ("_MAX_KEY", keys[-1])):
        if sort_key(decode(entry.file[which], types)) != wanted:
            yield f"key-range: {which} of {entry} is {decode(entry.file[which], types)}, its rows say {wanted}"
    yield from check_stats(entry, "_KEY_STATS", types, held)


def check_sequences(entry: Entry, columns: dict[str, list[Any]]) -> Problems:
    """The range of sequence numbers and the number of delete markers."""
    numbers = columns["_SEQUENCE_NUMBER"]
    told = entry.file["_MIN_SEQUENCE_NUMBER"], entry.file["_MAX_SEQUENCE_NUMBER"]
    if told != (min(numbers), max(numbers)):
        yield f"sequence-range: {entry} says {told}, its rows {min(numbers)} to {max(numbers)}"
    retracts = sum(kind in RETRACTS for kind in columns["_VALUE_KIND"])
    if entry.file["_LEVEL"] >= TRUSTED_LEVEL and entry.file["_DELETE_ROW_COUNT"] != retracts:
        yield f"deletes: {entry} says {entry.file['_DELETE_ROW_COUNT']}, its rows {retracts}"


def check_overlaps(table: TableFiles, live: list[Entry]) -> Problems:
    """Above level 0 the files of a level hold separate ranges of keys."""
    levels: dict[tuple[bytes, int, int], list[tuple[Any, Any, Entry]]] = {}
    for entry in live:
        types = table.types(old_key_names(table, entry), entry.file["_SCHEMA_ID"])
        ends = [sort_key(decode(entry.file[which], types)) for which in ("_MIN_KEY", "_MAX_KEY")]
        if entry.file["_LEVEL"] > 0:
            place = entry.partition, entry.bucket, entry.file["_LEVEL"]
            levels.setdefault(place, []).append((ends[0], ends[1], entry))
    for files in levels.values():
        files.sort(key=lambda file: file[:2])
        for (_, high, left), (low, _, right) in itertools.pairwise(files):
            if high >= low:
                yield f"overlap: {left} ends at {high}, {right} begins at {low}"


# ---- statistics ------------------------------------------------------------------------------------------------------


def check_value_stats(table: TableFiles, entry: Entry, columns: dict[str, list[Any]]) -> Problems:
    """Statistics of the columns that have them."""
    fields = [field["name"] for field in table.schemas[entry.file["_SCHEMA_ID"]]["fields"]]
    names = entry.file.get("_VALUE_STATS_COLS")
    names = fields if names is None else names
    types = table.types(names, entry.file["_SCHEMA_ID"])
    yield from check_stats(entry, "_VALUE_STATS", types, [columns[name] for name in names])


def check_stats(entry: Entry, which: str, types: list[str], columns: list[list[Any]]) -> Problems:
    """Bounds hold every value (they may be truncated, so they need not be met) and null counts are exact."""
    stats = entry.file[which]
    if all(isinstance(kind, str) for kind in types):
        low, high = decode(stats["_MIN_VALUES"], types), decode(stats["_MAX_VALUES"], types)
        for at, values in enumerate(columns):
            present = [value for value in values if value is not None and not is_nan(value)]
            outside = [value for value in present if not within(value, low[at], high[at])]
            if outside:
                yield f"stats: {which} {at} of {entry} is {low[at]!r} to {high[at]!r}, a row has {outside[0]!r}"
    for at, count in enumerate(stats["_NULL_COUNTS"] or []):
        if count is not None and count != sum(value is None for value in columns[at]):
            yield f"stats: {which} {at} of {entry} counts {count} nulls, not {columns[at].count(None)}"


def within(value: Any, low: Any, high: Any) -> bool:
    """A missing bound holds everything."""
    return (low is None or low <= value) and (high is None or value <= high)


def is_nan(value: Any) -> bool:
    """Statistics leave NaN out."""
    return isinstance(value, float) and math.isnan(value)


def sort_key(key: Any) -> tuple[Any, ...]:
    """A key as Paimon orders it: nulls first, -0.0 before 0.0, NaN last."""
    return tuple(part_key(part) for part in key)


def part_key(part: Any) -> tuple[Any, ...]:
    """One column of a key."""
    if part is None:
        return (0,)
    if isinstance(part, float):
        return (2, 0.0, 0) if math.isnan(part) else (1, part, math.copysign(1, part) if part == 0 else 0)
    return (1, part)
