"""Frozen values to JSON and back: what specs, results, journals and owner files are written in.

Only what our values are made of is understood: str, int, float, bool, bytes (as base64), moments (ISO 8601), None,
enums, tuples, unions with None, and dataclasses of these. A file written by a newer packstone says so in
``format_version`` and is refused, because acting on half-understood records is how rows get lost.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import types
import typing
from datetime import datetime
from enum import Enum
from functools import cache
from typing import Any, TypeVar

from packstone.errors import CorruptionError, RefusedError

FORMAT_VERSION = 1

T = TypeVar("T")


def to_plain(value: Any) -> Any:  # noqa: ANN401 - any of our values
    """Turn a value into what ``json`` writes."""
    if isinstance(value, Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, tuple | list):
        return [to_plain(item) for item in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        return value.isoformat()
    return value


def from_plain(kind: Any, plain: Any) -> Any:  # noqa: ANN401 - any of our values
    """Turn parsed JSON into a value of the kind; unknown keys are ignored, missing ones use defaults."""
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        hints = _hints(kind)
        return kind(**{k: from_plain(hints[k], v) for k, v in plain.items() if k in hints})
    origin = typing.get_origin(kind)
    if origin is tuple:
        return tuple(from_plain(typing.get_args(kind)[0], item) for item in plain)
    if origin in (typing.Union, types.UnionType):
        inner = [arg for arg in typing.get_args(kind) if arg is not type(None)]
        return None if plain is None else from_plain(inner[0], plain)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(plain)
    if kind is datetime:
        return datetime.fromisoformat(plain)
    return base64.b64decode(plain, validate=True) if kind is bytes else plain


def dump_record(value: object) -> bytes:
    """Write a value as a record on disk, with the version of its format."""
    plain = {"format_version": FORMAT_VERSION, **to_plain(value)}
    return json.dumps(plain, ensure_ascii=True, separators=(",", ":")).encode()


def load_record(kind: type[T], data: bytes, *, path: str) -> T:
    """Read a record from disk; refuse a newer format, report an unreadable one with its path."""
    try:
        plain = json.loads(data)
        version = int(plain["format_version"])
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(path) from error
    if version > FORMAT_VERSION:
        raise RefusedError(
            f"The record {path} was written by a newer packstone (format {version}); upgrade packstone.",
            file=path,
        )
    try:
        value: T = from_plain(kind, plain)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _damaged(path) from error
    return value


def _damaged(path: str) -> CorruptionError:
    return CorruptionError(f"The record {path} cannot be read; move it away to go on.", file=path)


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)
