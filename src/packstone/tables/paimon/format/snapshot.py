"""The files of folder ``snapshot/``: one JSON per snapshot, and hints with the first and the last number.

A hint may be old or missing: LATEST is trusted only if the next number does not exist.

A snapshot is the published state of a table. Fields that this version does not know are kept as they were read, so that
a snapshot built on that of a newer writer loses nothing that a reader may need.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from packstone.errors import CorruptionError
from packstone.model.codec import checked_name
from packstone.storage.fileio import FileIO, list_entries

# JSON name -> ours, in the order in which Java writes them.
_FIELDS: Final = {
    "version": "version",
    "uuid": "uuid",
    "id": "id",
    "schemaId": "schema_id",
    "baseManifestList": "base_manifest_list",
    "baseManifestListSize": "base_manifest_list_size",
    "deltaManifestList": "delta_manifest_list",
    "deltaManifestListSize": "delta_manifest_list_size",
    "changelogManifestList": "changelog_manifest_list",
    "changelogManifestListSize": "changelog_manifest_list_size",
    "indexManifest": "index_manifest",
    "commitUser": "commit_user",
    "writerVersion": "writer_version",
    "commitIdentifier": "commit_identifier",
    "commitKind": "commit_kind",
    "timeMillis": "time_millis",
    "totalRecordCount": "total_record_count",
    "deltaRecordCount": "delta_record_count",
    "changelogRecordCount": "changelog_record_count",
    "watermark": "watermark",
    "statistics": "statistics",
    "properties": "properties",
    "nextRowId": "next_row_id",
    "operation": "operation",
}
_TEXTS: Final = frozenset({
    "uuid", "baseManifestList", "deltaManifestList", "changelogManifestList", "indexManifest", "commitUser",
    "writerVersion", "commitKind", "statistics", "operation",
})  # fmt: skip
_NAMES: Final = frozenset({
    "baseManifestList", "deltaManifestList", "changelogManifestList", "indexManifest", "statistics",
})  # fmt: skip
_REQUIRED: Final = (
    "id", "schemaId", "baseManifestList", "deltaManifestList", "commitUser", "commitIdentifier", "commitKind",
    "timeMillis",
)  # fmt: skip


def snapshot_path(table: str, snapshot_id: int) -> str:
    """The path of a snapshot."""
    return f"{table}/snapshot/snapshot-{snapshot_id}"


def parse_snapshot(data: bytes, *, path: str) -> Snapshot:
    """Read the bytes of a snapshot (a tag or a changelog is one too); CorruptionError names the file."""
    try:
        return build_snapshot(json.loads(data))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CorruptionError(f"{path} is not a Paimon snapshot: {error}.", path=path) from error


def build_snapshot(content: Mapping[str, Any]) -> Snapshot:
    """The snapshot of a JSON object; ValueError if a field is missing or of the wrong type."""
    missing = [name for name in _REQUIRED if content.get(name) is None]
    if missing:
        raise ValueError(f"it has no {missing[0]}")
    known = {ours: _checked(name, content.get(name)) for name, ours in _FIELDS.items()}
    unknown = {name: value for name, value in content.items() if name not in _FIELDS}
    return Snapshot(**known, unknown=json.dumps(unknown))


def dump_snapshot(snapshot: Snapshot) -> bytes:
    """A snapshot as JSON: non-empty fields in Java's order, then the unknown fields."""
    content: dict[str, Any] = {}
    for name, ours in _FIELDS.items():
        value = getattr(snapshot, ours)
        if value is not None:
            content[name] = dict(value) if name == "properties" else value
    return json.dumps(content | json.loads(snapshot.unknown), indent=2, ensure_ascii=False).encode()


def read_snapshot(io: FileIO, table: str, snapshot_id: int) -> Snapshot:
    """Read one snapshot; FileNotFoundError if it does not exist (it may have expired)."""
    path = snapshot_path(table, snapshot_id)
    snapshot = parse_snapshot(io.read_bytes(path), path=path)
    if snapshot.id != snapshot_id:
        raise CorruptionError(f"{path} says that it is snapshot {snapshot.id}.", path=path)
    return snapshot


def list_snapshot_ids(io: FileIO, table: str) -> tuple[int, ...]:
    """The numbers of all snapshots, in order; empty if nothing was ever committed."""
    return list_numbered(io, f"{table}/snapshot", "snapshot-")


def list_numbered(io: FileIO, folder: str, prefix: str) -> tuple[int, ...]:
    """The numbers of the files ``<prefix><number>`` of a folder, in order; empty if the folder does not exist."""
    names = (entry.name for entry in list_entries(io, folder))
    numbers = (name.removeprefix(prefix) for name in names if name.startswith(prefix))
    return tuple(sorted(int(number) for number in numbers if number.isdecimal()))


def find_latest_id(io: FileIO, table: str) -> int | None:
    """The newest snapshot's number, or None: by the hint if its successor does not exist, else by listing."""
    hint = _read_latest_hint(io, table)
    if hint is not None and io.stat(snapshot_path(table, hint)) and not io.stat(snapshot_path(table, hint + 1)):
        return hint
    ids = list_snapshot_ids(io, table)
    return ids[-1] if ids else None


def read_latest_snapshot(io: FileIO, table: str) -> Snapshot | None:
    """The newest snapshot, or None if the table is still empty."""
    for _ in range(_EXPIRY_RACES):
        latest = find_latest_id(io, table)
        if latest is None:
            return None
        try:
            return read_snapshot(io, table, latest)
        except FileNotFoundError:
            continue  # another writer committed and expired this one, and we saw the old hint: look again
    raise CorruptionError(f"{table}: the newest snapshot disappeared each time it was read.", table=table)


def write_latest_hint(io: FileIO, table: str, snapshot_id: int) -> None:
    """Write the hint that names the newest snapshot."""
    io.replace(f"{table}/snapshot/LATEST", str(snapshot_id).encode())


def write_earliest_hint(io: FileIO, table: str, snapshot_id: int) -> None:
    """Write the hint that names the oldest snapshot."""
    io.replace(f"{table}/snapshot/EARLIEST", str(snapshot_id).encode())


_EXPIRY_RACES: Final = 10  # each one needs another writer to be faster than two calls


def _read_latest_hint(io: FileIO, table: str) -> int | None:
    try:
        text = io.read_bytes(f"{table}/snapshot/LATEST").decode(errors="replace").strip()
    except FileNotFoundError:
        return None
    return int(text) if text.isdecimal() else None  # truncated by a crash: it is only a hint


def _checked(name: str, value: Any) -> Any:
    if value is None:
        return None
    if name == "properties":
        return tuple((str(key), str(text)) for key, text in value.items())
    wanted = str if name in _TEXTS else int
    if not isinstance(value, wanted) or isinstance(value, bool):
        raise ValueError(f"its {name} is {value!r}")  # noqa: TRY004 - the caller names the file
    return checked_name(str(value)) if name in _NAMES else value


class CommitKind(StrEnum):
    """What a commit did."""

    APPEND = "APPEND"
    COMPACT = "COMPACT"
    OVERWRITE = "OVERWRITE"
    ANALYZE = "ANALYZE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Paimon's snapshot, field by field; optional ones are left out of the file when None."""

    id: int
    schema_id: int
    base_manifest_list: str
    delta_manifest_list: str
    commit_user: str
    commit_identifier: int
    commit_kind: str  # a CommitKind, or a kind of a newer writer
    time_millis: int
    version: int | None = 3
    uuid: str | None = None
    base_manifest_list_size: int | None = None
    delta_manifest_list_size: int | None = None
    changelog_manifest_list: str | None = None
    changelog_manifest_list_size: int | None = None
    index_manifest: str | None = None
    writer_version: str | None = None
    total_record_count: int | None = None
    delta_record_count: int | None = None
    changelog_record_count: int | None = None
    watermark: int | None = None
    statistics: str | None = None
    properties: tuple[tuple[str, str], ...] | None = None
    next_row_id: int | None = None
    operation: str | None = None
    unknown: str = "{}"  # JSON of the fields that we do not know

    def __str__(self) -> str:
        return f"snapshot {self.id} {self.commit_kind} schema {self.schema_id}"
