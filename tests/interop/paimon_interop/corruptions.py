"""Ways to break a table on purpose, each named by the check of ``invariants`` that must find it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.parquet as pq

from paimon_interop.table_files import ADD, Entry, TableFiles, read_parquet

Record = dict[str, Any]


def corrupt(path: Path, how: str) -> None:
    """Break the table in this way."""
    CORRUPTIONS[how](TableFiles(path))


def change_snapshot(table: TableFiles, number: int, **values: Any) -> None:
    """Set fields of a snapshot; a number below zero counts from the end."""
    snapshot = table.snapshots[number]
    file = table.path / "snapshot" / f"snapshot-{snapshot['id']}"
    file.write_text(json.dumps(snapshot | values), encoding="utf-8")


def rewrite_avro(path: Path, change: Callable[[list[Record]], None]) -> None:
    """Let a function change the records of an Avro file."""
    with path.open("rb") as file:
        reader = fastavro.reader(file)
        schema, records = reader.writer_schema, list(reader)
    change(records)
    with path.open("wb") as file:
        fastavro.writer(file, schema, records, codec="null")


def change_delta(table: TableFiles, change: Callable[[list[Record]], None], *, kind: str = "COMPACT") -> None:
    """Change the entries that the last commit of a kind made."""
    snapshot = [snapshot for snapshot in table.snapshots if snapshot["commitKind"] == kind][-1]
    (manifest,) = table.manifests(snapshot["deltaManifestList"])
    rewrite_avro(table.path / "manifest" / manifest["_FILE_NAME"], change)


def change_list(table: TableFiles, change: Callable[[list[Record]], None], which: str = "delta") -> None:
    """Change a manifest list of the latest snapshot."""
    rewrite_avro(table.path / "manifest" / table.snapshots[-1][f"{which}ManifestList"], change)


def set_file(field: str, value: Callable[[Record], Any]) -> Callable[[list[Record]], None]:
    """A change of one field in the metadata of the first file that was added."""

    def change(records: list[Record]) -> None:
        file = next(record for record in records if record["_KIND"] == ADD)["_FILE"]
        file[field] = value(file)

    return change


def set_list(field: str, value: Any) -> Callable[[list[Record]], None]:
    """A change of one field of the first manifest of a list."""

    def change(records: list[Record]) -> None:
        records[0][field] = value(records[0][field])

    return change


def compacted_file(table: TableFiles) -> Path:
    """A data file that the last compaction wrote."""
    found: list[Entry] = []
    snapshot = [snapshot for snapshot in table.snapshots if snapshot["commitKind"] == "COMPACT"][-1]
    found = [entry for entry in table.entries(snapshot["deltaManifestList"]) if entry.kind == ADD]
    return table.data_path(found[0])


def rewrite_data(table: TableFiles, change: Callable[[Any], Any]) -> None:
    """Write a compacted file anew and record its size, so that only its content is wrong."""
    path = compacted_file(table)
    pq.write_table(change(read_parquet(path)), path)
    change_delta(table, set_file("_FILE_SIZE", lambda _: path.stat().st_size))


def add_delete_after(records: list[Record]) -> None:
    """An entry that takes back what was added just before."""
    added = next(record for record in records if record["_KIND"] == ADD)
    records.append(added | {"_KIND": 1})


def add_again(records: list[Record]) -> None:
    """An entry that adds what was deleted just before, on the same level."""
    deleted = next(record for record in records if record["_KIND"] == 1)
    records.append(deleted | {"_KIND": ADD})


def revive(table: TableFiles) -> None:
    """A path that one delta deletes and a later one adds on another level."""
    first = next(table.entries(table.snapshots[0]["deltaManifestList"]))

    def delete(records: list[Record]) -> None:
        records.append(records[0] | {"_KIND": 1, "_FILE": first.file})

    change_delta(table, delete, kind="APPEND")
    change_delta(table, set_file("_FILE_NAME", lambda _: first.file["_FILE_NAME"]))


def another_bucket_count(records: list[Record]) -> None:
    """Two entries of one partition that disagree on the number of buckets."""
    records[-1]["_TOTAL_BUCKETS"] += 1


def delete_from_another_level(records: list[Record]) -> None:
    """A DELETE whose level nobody has."""
    next(record for record in records if record["_KIND"] == 1)["_FILE"]["_LEVEL"] = 4


def swapped_bounds(file: Record) -> Record:
    """Statistics with the minimum as maximum."""
    stats = file["_VALUE_STATS"]
    return stats | {"_MIN_VALUES": stats["_MAX_VALUES"], "_MAX_VALUES": stats["_MIN_VALUES"]}


def more_nulls(file: Record) -> Record:
    """Statistics that count a null too many."""
    stats = file["_VALUE_STATS"]
    return stats | {"_NULL_COUNTS": [count + 1 for count in stats["_NULL_COUNTS"]]}


def remove_middle_snapshot(table: TableFiles) -> None:
    """A number that is not there."""
    (table.path / "snapshot" / f"snapshot-{table.snapshots[1]['id']}").unlink()


def append_byte(table: TableFiles) -> None:
    """A data file that is longer than recorded."""
    with compacted_file(table).open("ab") as file:
        file.write(b"x")


def plus_one(value: int) -> int:
    """One too many."""
    return value + 1


CORRUPTIONS: dict[str, Callable[[TableFiles], None]] = {
    "gap": remove_middle_snapshot,
    "hint": lambda table: (table.path / "snapshot/LATEST").write_text("99", encoding="utf-8"),
    "base": lambda table: change_list(table, list.pop, "base"),
    "twice": lambda table: change_delta(table, lambda records: records.append(records[-1])),
    "dangling": lambda table: change_delta(table, delete_from_another_level),
    "total": lambda table: change_snapshot(table, -1, totalRecordCount=1),
    "delta": lambda table: change_snapshot(table, -1, deltaRecordCount=1),
    "list-size": lambda table: change_snapshot(table, -1, deltaManifestListSize=1),
    "manifest": lambda table: change_list(table, set_list("_NUM_ADDED_FILES", plus_one)),
    "manifest level": lambda table: change_list(table, set_list("_MAX_LEVEL", plus_one)),
    "inherited": lambda table: change_snapshot(table, -2, statistics="stat-of-before"),
    "upgrade": lambda table: change_delta(table, add_delete_after),
    "again": lambda table: change_delta(table, add_again),
    "doomed": revive,
    "source": lambda table: change_delta(table, set_file("_FILE_SOURCE", lambda _: 0)),
    "schema": lambda table: change_snapshot(table, -1, schemaId=7),
    "buckets": lambda table: change_delta(table, another_bucket_count),
    "missing": lambda table: compacted_file(table).unlink(),
    "size": append_byte,
    "rows": lambda table: change_delta(table, set_file("_ROW_COUNT", lambda file: file["_ROW_COUNT"] + 1)),
    "columns": lambda table: rewrite_data(
        table, lambda data: data.drop_columns(["name"]).append_column("x", data["v"])
    ),
    "order": lambda table: rewrite_data(table, lambda data: data.take(list(range(len(data)))[::-1])),
    "order once": lambda table: rewrite_data(table, lambda data: data.take([0, *range(len(data) - 1)])),
    "key-range": lambda table: change_delta(table, set_file("_MAX_KEY", lambda file: file["_MIN_KEY"])),
    "sequence-range": lambda table: change_delta(table, set_file("_MIN_SEQUENCE_NUMBER", lambda _: -1)),
    "deletes": lambda table: change_delta(table, set_file("_DELETE_ROW_COUNT", lambda _: 1)),
    "stats": lambda table: change_delta(table, set_file("_VALUE_STATS", swapped_bounds)),
    "stats nulls": lambda table: change_delta(table, set_file("_VALUE_STATS", more_nulls)),
    # Two runs of level 0 relabelled: they overlap, which only a level above does not allow.
    "overlap": lambda table: change_delta(table, set_file("_LEVEL", lambda _: 5), kind="APPEND"),
}
