"""Frozen values to JSON and back: what specs, results, journals and owner files are written in.

A record is read by whoever comes after a crash, and nothing in it is believed: it carries a digest, every value must
have the type that its field declares, and a class may check more in ``__post_init__`` (a ValueError means that the
record is damaged). Only what our values are made of is understood: str, int, float, bool, bytes (as base64), moments
(ISO 8601), None, enums, tuples, unions with None, ``Annotated`` with checks (model/record_fields.py), and dataclasses
of these. The reader and the writer of a type are built once, from the standard library: executors have little else.

A record of a newer packstone says so in ``format_version`` and is refused, because acting on half-understood records is
how rows get lost. Version 1 had no digest.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import math
import types
import typing
from collections.abc import Callable, Hashable
from datetime import datetime
from enum import Enum
from functools import cache
from typing import Annotated, Any, Final, TypeVar, cast

from packstone.errors import CorruptionError, InvalidInputError, RefusedError

FORMAT_VERSION = 2

T = TypeVar("T")
_Convert = Callable[[Any], Any]  # parsed JSON to a value, or back
_DIGEST_BYTES: Final = 16
_DIGEST_KEY: Final = b',"digest":"'
_TAIL_BYTES: Final = len(_DIGEST_KEY) + 2 * _DIGEST_BYTES + len(b'"}')
_MAX_INT: Final = 1 << 63


def to_plain(value: object) -> Any:  # noqa: ANN401 - what json writes
    """Turn a value into what ``json`` writes."""
    write = _writer(cast("Hashable", type(value)))
    return value if write is None else write(value)


def from_plain(kind: Any, plain: object) -> Any:  # noqa: ANN401 - any of our values
    """Turn parsed JSON into a value of the kind; unknown keys are ignored, missing ones use defaults; or ValueError."""
    return _reader(kind)(plain)


def dump_record(value: object) -> bytes:
    """Write a value as a record on disk, with the version of its format and a digest of all that is in it."""
    plain = {"format_version": FORMAT_VERSION, **to_plain(value)}
    return seal(json.dumps(plain, ensure_ascii=True, separators=(",", ":")).encode())


def load_record(kind: type[T], data: bytes, *, path: str) -> T:
    """Read a record from disk; refuse a newer format, report a damaged one with its path."""
    plain = parse_sealed(data, path=path, newest=FORMAT_VERSION)
    try:
        value: T = from_plain(kind, plain)
    except (ValueError, InvalidInputError, RecursionError) as error:
        raise damaged(path, error) from error
    return value


def seal(text: bytes) -> bytes:
    """Add the digest of a JSON object to it, as its last key."""
    return b'%s%s%s"}' % (text[:-1], _DIGEST_KEY, _digest(text[:-1]))


def parse_sealed(data: bytes, *, path: str, newest: int) -> dict[str, Any]:
    """Parse a JSON object that was sealed; RefusedError if its format is newer, CorruptionError if it is damaged.

    The version is looked at first: a newer format may be sealed in another way.
    """
    try:
        plain = json.loads(data, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise damaged(path, "it is not the JSON that was written") from error
    version = check_version(plain, path=path, newest=newest)
    if not check_seal(data, path=path) and ("digest" in plain or version > 1):
        raise damaged(path, "its digest does not fit its content")
    return cast("dict[str, Any]", plain)


def check_version(plain: object, *, path: str, newest: int) -> int:
    """The version of the format of a parsed record; RefusedError if it is newer than this packstone knows."""
    version = plain.get("format_version") if type(plain) is dict else None
    if type(version) is not int or version < 1:
        raise damaged(path, "it states no format_version")
    if version > newest:
        raise RefusedError(
            f"The record {path} was written by a newer packstone (format {version}); upgrade packstone.",
            file=path,
        )
    return version


def check_seal(data: bytes, *, path: str) -> bool:
    """Whether a record ends in a digest, which then fits; CorruptionError if it does not fit."""
    if not data[-_TAIL_BYTES:].startswith(_DIGEST_KEY):
        return False
    if data[-_TAIL_BYTES + len(_DIGEST_KEY) :] != _digest(data[:-_TAIL_BYTES]) + b'"}':
        raise damaged(path, "its digest does not fit its content")
    return True


def damaged(path: str, why: object) -> CorruptionError:
    """The error for a record that cannot be used; no advice to remove it, for what it describes may be half done."""
    return CorruptionError(
        f"The record {path} is damaged: {why}. What it describes is left as it is; keep all files, and put the record "
        "back from a copy if there is one.",
        file=path,
    )


def _digest(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=_DIGEST_BYTES).hexdigest().encode()


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number of a record")


# ---- readers: parsed JSON to values ----


@cache
def _reader(kind: Any) -> _Convert:  # noqa: ANN401 - a type, or what typing makes of one
    """Build the function that checks and converts; it raises ValueError, never anything else."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin is Annotated:
        return _checked_reader(_reader(args[0]), args[1:])
    if origin is tuple:
        return _tuple_reader(args)
    if origin in (typing.Union, types.UnionType):
        (inner,) = (_reader(arg) for arg in args if arg is not type(None))
        return lambda plain: None if plain is None else inner(plain)
    if dataclasses.is_dataclass(kind):
        return _dataclass_reader(kind, {})
    if dataclasses.is_dataclass(origin):  # a generic one with its arguments: Task[Context, Unit]
        parameters = cast("Any", origin).__parameters__
        return _dataclass_reader(origin, dict(zip(parameters, args, strict=True)))
    if isinstance(kind, type) and issubclass(kind, Enum):
        members = {member.value: member for member in kind}
        return lambda plain: _look_up(members, plain)
    return _SCALARS[kind]


def _dataclass_reader(kind: Any, arguments: dict[Any, Any]) -> _Convert:  # noqa: ANN401 - a dataclass
    @cache
    def fields() -> tuple[list[tuple[str, _Convert]], list[str]]:
        """Built when the first record is read: a type may hold values of its own type."""
        hints = typing.get_type_hints(kind, include_extras=True)
        inits = [field for field in dataclasses.fields(kind) if field.init]
        absent = (dataclasses.MISSING, dataclasses.MISSING)
        required = [field.name for field in inits if (field.default, field.default_factory) == absent]
        return [(field.name, _reader(_filled_in(hints[field.name], arguments))) for field in inits], required

    def read(plain: object) -> object:
        if type(plain) is not dict:
            raise ValueError(f"{_show(plain)} is not an object with the keys of {kind.__name__}")
        readers, required = fields()
        values, at = {}, ""
        try:
            for at, convert in readers:
                if at in plain:
                    values[at] = convert(plain[at])
        except ValueError as error:
            raise ValueError(f"{at}: {error}") from None
        for name in required:
            if name not in values:
                raise ValueError(f"{name} is missing")
        return kind(**values)

    return read


def _filled_in(hint: Any, arguments: dict[Any, Any]) -> Any:  # noqa: ANN401 - types, or what typing makes of them
    """The type of a field with the arguments of its generic class."""
    parameters = getattr(hint, "__parameters__", ())
    if isinstance(hint, TypeVar):
        return arguments[hint]
    return hint[tuple(arguments[parameter] for parameter in parameters)] if parameters and arguments else hint


def _tuple_reader(args: tuple[Any, ...]) -> _Convert:
    if len(args) == 2 and args[1] is Ellipsis:  # noqa: PLR2004 - tuple[T, ...]
        inner = _reader(args[0])
        return lambda plain: tuple([inner(item) for item in _check_list(plain)])
    readers = tuple(_reader(arg) for arg in args)

    def read(plain: object) -> tuple[Any, ...]:
        items = _check_list(plain)
        if len(items) != len(readers):
            raise ValueError(f"{len(items)} items instead of {len(readers)}")
        return tuple([convert(item) for convert, item in zip(readers, items, strict=True)])

    return read


def _checked_reader(inner: _Convert, checks: tuple[Any, ...]) -> _Convert:
    def read(plain: object) -> object:
        value = inner(plain)
        for check in checks:
            check(value)
        return value

    return read


def _look_up(members: dict[Any, Enum], plain: object) -> Enum:
    if type(plain) in {str, int} and plain in members:
        return members[plain]
    raise ValueError(f"{_show(plain)} is not one of {', '.join(map(str, members))}")


def _check_list(plain: object) -> list[Any]:
    if type(plain) is list:
        return plain
    raise ValueError(f"{_show(plain)} is not a list")


def _read_str(plain: object) -> str:
    if type(plain) is str and _is_writable(plain):
        return plain
    raise ValueError(f"{_show(plain)} is not a text")


def _is_writable(text: str) -> bool:
    """Whether a file system can have such a name: any bytes, but no halves of characters."""
    if text.isascii():
        return True
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def _read_int(plain: object) -> int:
    if type(plain) is int and -_MAX_INT <= plain < _MAX_INT:
        return plain
    raise ValueError(f"{_show(plain)} is not an integer of 64 bits")


def _read_float(plain: object) -> float:
    if type(plain) is float and math.isfinite(plain):
        return plain
    if type(plain) is int and -_MAX_INT <= plain < _MAX_INT:
        return float(plain)
    raise ValueError(f"{_show(plain)} is not a finite number")


def _read_bool(plain: object) -> bool:
    if type(plain) is bool:
        return plain
    raise ValueError(f"{_show(plain)} is neither true nor false")


def _read_bytes(plain: object) -> bytes:
    return base64.b64decode(_read_str(plain), validate=True)  # binascii.Error is a ValueError


def _read_moment(plain: object) -> datetime:
    moment = datetime.fromisoformat(_read_str(plain))
    if moment.utcoffset() is None:
        raise ValueError(f"{_show(plain)} has no time zone")
    return moment


def _show(plain: object) -> str:
    """A value for a message: the first characters of what it looks like, without building all of it."""
    short = plain[:3] if isinstance(plain, list) else list(plain)[:3] if isinstance(plain, dict) else plain
    if isinstance(short, int) and abs(short) >= _MAX_INT:
        return "a huge integer"
    text = repr(short)
    return text if len(text) <= 60 else f"{text[:60]}…"  # noqa: PLR2004 - a glance


def _read_none(plain: object) -> None:
    if plain is not None:
        raise ValueError(f"{_show(plain)} is not null")


_SCALARS: Final[dict[Any, _Convert]] = {
    type(None): _read_none,
    str: _read_str,
    int: _read_int,
    float: _read_float,
    bool: _read_bool,
    bytes: _read_bytes,
    datetime: _read_moment,
}


# ---- writers: values to what json writes; None where json writes the value as it is ----


@cache
def _writer(kind: Any) -> _Convert | None:  # noqa: ANN401 - a type, or what typing makes of types
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin is Annotated:
        return _writer(args[0])
    if origin is tuple:
        return _tuple_writer(args)
    if origin in (typing.Union, types.UnionType):
        (inner,) = (_writer(arg) for arg in args if arg is not type(None))
        return None if inner is None else lambda value: None if value is None else inner(value)
    if dataclasses.is_dataclass(kind):
        return _dataclass_writer(kind)
    if isinstance(kind, TypeVar) or dataclasses.is_dataclass(origin):
        return to_plain  # generic: the value itself knows its type
    if kind is bytes:
        return lambda value: base64.b64encode(value).decode()
    if kind is datetime:
        return datetime.isoformat
    if isinstance(kind, type) and issubclass(kind, Enum) and not issubclass(kind, str | int):
        return lambda value: value.value
    return None


def _dataclass_writer(kind: Any) -> _Convert:  # noqa: ANN401 - a dataclass
    @cache
    def writers() -> list[tuple[str, _Convert | None]]:
        hints = typing.get_type_hints(kind, include_extras=True)
        return [(field.name, _writer(hints[field.name])) for field in dataclasses.fields(kind)]

    def write(value: object) -> dict[str, Any]:
        found = ((name, convert, getattr(value, name)) for name, convert in writers())
        return {name: one if convert is None else convert(one) for name, convert, one in found}

    return write


def _tuple_writer(args: tuple[Any, ...]) -> _Convert | None:
    writers = [_writer(arg) for arg in args if arg is not Ellipsis]
    if args[-1] is Ellipsis:
        (inner,) = writers
        return None if inner is None else lambda value: [inner(item) for item in value]
    return lambda value: [
        item if convert is None else convert(item) for convert, item in zip(writers, value, strict=True)
    ]
