"""The files of folder ``snapshot/``: one JSON per snapshot, and two hints of where the numbers begin and end.

A hint may be old or missing: LATEST is believed only if the next number does not exist.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from packstone.errors import CorruptionError
from packstone.model.record_fields import checked_name
from packstone.storage.fileio import FileIO
from packstone.tables.paimon.snapshot import Snapshot

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
    """Where a snapshot stands."""
    return f"{table}/snapshot/snapshot-{snapshot_id}"


def parse_snapshot(data: bytes, *, path: str) -> Snapshot:
    """Read the bytes of a snapshot (a tag or a changelog is one too); CorruptionError names the file."""
    try:
        return build_snapshot(json.loads(data))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CorruptionError(f"{path} is no Paimon snapshot: {error}.", path=path) from error


def build_snapshot(content: Mapping[str, Any]) -> Snapshot:
    """Make a snapshot of its JSON; ValueError if a field is missing or of the wrong kind."""
    missing = [name for name in _REQUIRED if content.get(name) is None]
    if missing:
        raise ValueError(f"it has no {missing[0]}")
    known = {ours: _checked(name, content.get(name)) for name, ours in _FIELDS.items()}
    unknown = {name: value for name, value in content.items() if name not in _FIELDS}
    return Snapshot(**known, unknown=json.dumps(unknown))


def dump_snapshot(snapshot: Snapshot) -> bytes:
    """Write a snapshot as JSON: fields in Java's order, none that is empty, then those we only carry."""
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
    try:
        names = [entry.name for entry in io.list_dir(folder)]
    except (FileNotFoundError, NotADirectoryError):
        return ()
    numbers = (name.removeprefix(prefix) for name in names if name.startswith(prefix))
    return tuple(sorted(int(number) for number in numbers if number.isdecimal()))


def find_latest_id(io: FileIO, table: str) -> int | None:
    """The newest snapshot's number, or None: by the hint if its successor does not exist, else by listing."""
    hint = _read_hint(io, table, "LATEST")
    if hint is not None and io.stat(snapshot_path(table, hint)) and not io.stat(snapshot_path(table, hint + 1)):
        return hint
    ids = list_snapshot_ids(io, table)
    return ids[-1] if ids else None


def find_earliest_id(io: FileIO, table: str) -> int | None:
    """The oldest snapshot's number, or None: by the hint if it exists and is the first, else by listing."""
    hint = _read_hint(io, table, "EARLIEST")
    if hint is not None and io.stat(snapshot_path(table, hint)) and not io.stat(snapshot_path(table, hint - 1)):
        return hint
    ids = list_snapshot_ids(io, table)
    return ids[0] if ids else None


def read_latest_snapshot(io: FileIO, table: str) -> Snapshot | None:
    """The newest snapshot, or None if the table is still empty."""
    for _ in range(_EXPIRY_RACES):
        latest = find_latest_id(io, table)
        if latest is None:
            return None
        try:
            return read_snapshot(io, table, latest)
        except FileNotFoundError:
            continue  # somebody committed, expired this one and we saw the old hint: look again
    raise CorruptionError(f"{table}: the newest snapshot vanishes each time it is read.", table=table)


def read_earliest_snapshot(io: FileIO, table: str) -> Snapshot | None:
    """The oldest snapshot, or None if the table is still empty."""
    for _ in range(_EXPIRY_RACES):
        earliest = find_earliest_id(io, table)
        if earliest is None:
            return None
        try:
            return read_snapshot(io, table, earliest)
        except FileNotFoundError:
            continue  # it expired between the two calls
    raise CorruptionError(f"{table}: the oldest snapshot vanishes each time it is read.", table=table)


def write_latest_hint(io: FileIO, table: str, snapshot_id: int) -> None:
    """Tell readers which snapshot is the newest."""
    io.replace(f"{table}/snapshot/LATEST", str(snapshot_id).encode())


def write_earliest_hint(io: FileIO, table: str, snapshot_id: int) -> None:
    """Tell readers which snapshot is the oldest."""
    io.replace(f"{table}/snapshot/EARLIEST", str(snapshot_id).encode())


_EXPIRY_RACES: Final = 10  # each one needs another writer to be faster than two calls


def _read_hint(io: FileIO, table: str, name: str) -> int | None:
    try:
        text = io.read_bytes(f"{table}/snapshot/{name}").decode(errors="replace").strip()
    except FileNotFoundError:
        return None
    return int(text) if text.isdecimal() else None  # torn by a crash: it is only a hint


def _checked(name: str, value: Any) -> Any:  # noqa: ANN401 - JSON in, a field of Snapshot out
    if value is None:
        return None
    if name == "properties":
        return tuple((str(key), str(text)) for key, text in value.items())
    wanted = str if name in _TEXTS else int
    if not isinstance(value, wanted) or isinstance(value, bool):
        raise ValueError(f"its {name} is {value!r}")  # noqa: TRY004 - the caller names the file
    return checked_name(str(value)) if name in _NAMES else value
