"""pandas' note in a footer (the key ``pandas``), and the row index that only this note holds.

pandas stores an index of consecutive numbers as ``{"kind": "range", "start": 0, "stop": 100, "step": 1}`` and not as a
column. Numbers from 0 without a name are what pandas gives to rows that have no index: a merged file gets such a range
over all its rows. Any other range is data, the only copy of it: two of them are one range only by chance, so such files
are left alone.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Mapping

PANDAS_KEY: Final = b"pandas"
_ARROW_KEY: Final = b"ARROW:schema"
_DEFAULT: Final = {"kind": "range", "name": None, "start": 0, "step": 1}


def why_own_index(note: bytes | None) -> str:
    """Say which row index would be lost if files with such notes became one; empty if none would."""
    for index in _ranges(_parse(note)):
        if {key: index.get(key) for key in _DEFAULT} != _DEFAULT:
            name = index.get("name")
            named = f" {name}" if name is not None else ""
            ends = f"{index.get('start')} to {index.get('stop')}"
            return f"pandas' row index{named} ({ends}) is only in its footer, and merged files would have one for all"
    return ""


def without_range(note: bytes) -> str:
    """Return the note without what may differ between files that agree: the range's end, and the writer's versions."""
    parsed = _parse(note)
    if parsed is None:
        return note.decode("utf-8", "replace")
    for index in _ranges(parsed):
        index.pop("stop", None)
    for key in ("creator", "pandas_version"):
        parsed.pop(key, None)
    return json.dumps(parsed, sort_keys=True)


def with_row_count(key_values: Mapping[bytes, bytes], rows: int) -> dict[bytes, bytes]:
    """Return key-values that hold for a file of this many rows; the note is in Arrow's own schema once more."""
    change = {PANDAS_KEY: _ending_at, _ARROW_KEY: _with_note_ending_at}
    return {key: change[key](value, rows) if key in change else value for key, value in key_values.items()}


def _with_note_ending_at(schema: bytes, rows: int) -> bytes:
    try:
        parsed = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(schema)))
    except (ValueError, OSError):
        return schema  # what no reader understands does not matter
    note = (parsed.metadata or {}).get(PANDAS_KEY)
    if note is None or _ending_at(note, rows) == note:
        return schema
    changed = parsed.with_metadata({**parsed.metadata, PANDAS_KEY: _ending_at(note, rows)})
    return base64.b64encode(changed.serialize().to_pybytes())


def _ending_at(note: bytes, rows: int) -> bytes:
    """End the range at the number of rows; what needs no change stays as it is, byte for byte."""
    parsed = _parse(note)
    ranges = _ranges(parsed)
    if all(index.get("stop") == rows for index in ranges):
        return note
    for index in ranges:
        index["stop"] = rows
    return json.dumps(parsed).encode()


def _parse(note: bytes | None) -> dict[str, Any] | None:
    try:
        found = json.loads(note or b"")
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _ranges(note: dict[str, Any] | None) -> list[dict[str, Any]]:
    """The parts of the index that are no columns."""
    indexes = (note or {}).get("index_columns")
    return [index for index in indexes if isinstance(index, dict)] if isinstance(indexes, list) else []
