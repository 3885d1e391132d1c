"""Records: frozen values as JSON and back, the format of specs, results, journals and owner files.

Records are read after crashes, so nothing in them is trusted: a record has a digest, every value must have the type
that its field declares, and a class may check more in ``__post_init__`` (a ValueError means that the record is
damaged). The supported types are str, int, float, bool, bytes (as base64), datetimes (ISO 8601), None, enums, tuples,
unions with None, ``Annotated`` with checks (such as ``Name`` and ``AbsolutePath`` below), and dataclasses of these. The
reader and the writer of a type are built once, from the standard library: executors have little else.

A record of a newer packstone states that in ``format_version`` and is refused, because acting on half-understood
records loses rows. Version 1 had no digest.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import math
import operator
import re
import types
import typing
from collections.abc import Callable, Hashable
from datetime import datetime
from enum import Enum
from functools import cache
from typing import Annotated, Any, Final, TypeAlias, TypeVar, cast

from packstone.errors import CorruptionError, InvalidInputError, RefusedError

FORMAT_VERSION = 2

T = TypeVar("T")
_Convert = Callable[[Any], Any]  # parsed JSON to a value, or back
_DIGEST_BYTES: Final = 16
_DIGEST_KEY: Final = b',"digest":"'
_TAIL_BYTES: Final = len(_DIGEST_KEY) + 2 * _DIGEST_BYTES + len(b'"}')
_MAX_INT: Final = 1 << 63


def to_plain(value: object) -> Any:
    """Turn a value into the plain values that ``json`` writes."""
    write = _writer(cast("Hashable", type(value)))
    return value if write is None else write(value)


def from_plain(kind: Any, plain: object) -> Any:
    """Turn parsed JSON into a value of the type, or raise ValueError; ignore unknown keys, use defaults for missing."""
    return _reader(kind)(plain)


def dump_record(value: object) -> bytes:
    """Encode a value as a record, with the version of its format and a digest of its content."""
    plain = {"format_version": FORMAT_VERSION, **to_plain(value)}
    return seal(json.dumps(plain, ensure_ascii=True, separators=(",", ":")).encode())


def load_record(kind: type[T], data: bytes, *, path: str) -> T:
    """Decode a record; RefusedError for a newer format, CorruptionError with the path for a damaged one."""
    plain = parse_sealed(data, path=path, newest=FORMAT_VERSION)
    try:
        value: T = from_plain(kind, plain)
    except (ValueError, InvalidInputError, RecursionError) as error:
        raise damaged(path, error) from error
    return value


def kind_of(generic: Any, *types: Any) -> Any:
    """A generic record type with types that are known at run time only, such as those of a job's units."""
    return generic[types]


def seal(text: bytes) -> bytes:
    """Add the digest of a JSON object to it, as its last key."""
    return b'%s%s%s"}' % (text[:-1], _DIGEST_KEY, _digest(text[:-1]))


def read_seal(data: bytes) -> str:
    """Return the digest at the end of a sealed record, without a check; empty if there is none."""
    tail = data[-_TAIL_BYTES:]
    if not tail.startswith(_DIGEST_KEY):
        return ""
    return tail[len(_DIGEST_KEY) : -len(b'"}')].decode("ascii", errors="replace")


def parse_sealed(data: bytes, *, path: str, newest: int) -> dict[str, Any]:
    """Parse a JSON object that was sealed; RefusedError if its format is newer, CorruptionError if it is damaged.

    The version is checked first: a newer format may be sealed in another way.
    """
    try:
        plain = json.loads(data, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise damaged(path, "it is not the JSON that was written") from error
    version = check_version(plain, path=path, newest=newest)
    if not check_seal(data, path=path) and ("digest" in plain or version > 1):
        raise damaged(path, "its digest does not match its content")
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
    """Whether a record ends in a digest; CorruptionError if the digest does not match."""
    if not data[-_TAIL_BYTES:].startswith(_DIGEST_KEY):
        return False
    if data[-_TAIL_BYTES + len(_DIGEST_KEY) :] != _digest(data[:-_TAIL_BYTES]) + b'"}':
        raise damaged(path, "its digest does not match its content")
    return True


def damaged(path: str, why: object) -> CorruptionError:
    """The error for a record that cannot be used; it does not advise removal: what it describes may be half-done."""
    return CorruptionError(
        f"The record {path} is damaged: {why}. What it describes is left as it is; keep all files, and put the record "
        "back from a copy if there is one.",
        file=path,
    )


def _digest(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=_DIGEST_BYTES).hexdigest().encode()


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number of a record")


@cache
def _reader(kind: Any) -> _Convert:
    """Build the function that turns parsed JSON into a checked value; it raises only ValueError."""
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


def _dataclass_reader(kind: Any, arguments: dict[Any, Any]) -> _Convert:
    @cache
    def fields() -> tuple[list[tuple[str, _Convert]], frozenset[str]]:
        """The readers of the fields, built when the first record is read: a type may contain its own type."""
        hints = typing.get_type_hints(kind, include_extras=True)
        inits = [field for field in dataclasses.fields(kind) if field.init]
        absent = (dataclasses.MISSING, dataclasses.MISSING)
        required = frozenset(field.name for field in inits if (field.default, field.default_factory) == absent)
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
        if not required <= values.keys():
            name = next(name for name, _ in readers if name in required and name not in values)
            raise ValueError(f"{name} is missing")
        return kind(**values)

    return read


def _filled_in(hint: Any, arguments: dict[Any, Any]) -> Any:
    """The type of a field with the arguments of its generic class."""
    parameters = getattr(hint, "__parameters__", ())
    if isinstance(hint, TypeVar):
        return arguments[hint]
    return hint[tuple(arguments[parameter] for parameter in parameters)] if parameters and arguments else hint


def _tuple_reader(args: tuple[Any, ...]) -> _Convert:
    if len(args) == 2 and args[1] is Ellipsis:  # tuple[T, ...]
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
    first, *others = checks

    def read(plain: object) -> object:
        value = inner(plain)
        first(value)
        for check in others:
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
    """Whether a text can be a file name: any bytes (surrogateescape), but no other lone surrogates."""
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
    """A value for a message: the first characters of its repr, without building all of it."""
    short = plain[:3] if isinstance(plain, list) else list(plain)[:3] if isinstance(plain, dict) else plain
    if isinstance(short, int) and abs(short) >= _MAX_INT:
        return "a huge integer"
    text = repr(short)
    return text if len(text) <= 60 else f"{text[:60]}…"  # enough to recognise it


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


@cache
def _writer(kind: Any) -> _Convert | None:
    """Build the function that turns a value into plain values; None if ``json`` writes the value as it is."""
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


def _dataclass_writer(kind: Any) -> _Convert:
    @cache
    def writers() -> list[tuple[str, _Convert | None]]:
        hints = typing.get_type_hints(kind, include_extras=True)
        return [(field.name, _writer(hints[field.name])) for field in dataclasses.fields(kind)]

    @cache
    def steps() -> tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]], list[tuple[str, _Convert]]]:
        """The names of the fields, the function that gets all their values, and the writers of those that need one."""
        names = tuple(name for name, _ in writers())
        get: Any = (
            operator.attrgetter(*names) if len(names) > 1 else lambda value: tuple(getattr(value, n) for n in names)
        )
        return names, get, [(name, convert) for name, convert in writers() if convert is not None]

    def write(value: object) -> dict[str, Any]:
        names, get, converted = steps()
        plain = dict(zip(names, get(value), strict=True))
        for name, convert in converted:
            plain[name] = convert(plain[name])
        return plain

    return write


def _tuple_writer(args: tuple[Any, ...]) -> _Convert | None:
    writers = [_writer(arg) for arg in args if arg is not Ellipsis]
    if args[-1] is Ellipsis:
        (inner,) = writers
        return None if inner is None else lambda value: [inner(item) for item in value]
    return lambda value: [
        item if convert is None else convert(item) for convert, item in zip(writers, value, strict=True)
    ]


# ---- checks of record fields ----
# A record beside a table may have been damaged or made by somebody else. So a name must not lead to another folder, and
# a number must be one that Packstone writes.


_RUN: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,79}")
_MAX_ID: Final = 1 << 32  # of a user or a group
_MAX_PID: Final = 1 << 31  # the limit of kill()
_MAX_MODE: Final = 0o7777
_YEAR_9999: Final = 253_402_300_800


def check_name(name: str) -> None:
    """Raise ValueError unless a text is one component of a path: not empty, not ``..``, no slash."""
    if not name or name in {".", ".."} or "/" in name or "\0" in name:
        raise ValueError(f"{name[:60]!r} is not the name of a file")


def checked_name(name: str) -> str:
    """Return a file name from foreign metadata; ValueError if it leads to another folder."""
    check_name(name)
    return name


def check_relative(path: str) -> None:
    """Raise ValueError unless this is a path below a folder, or the folder itself (empty)."""
    if path:
        for name in path.split("/"):
            check_name(name)


def check_absolute(path: str) -> None:
    """Raise ValueError unless this is an absolute path or an address on a store, without ``..``."""
    scheme, colon, rest = path.partition("://")
    inside = rest.partition("/")[2] if colon and scheme.isalnum() else path[1:] if path.startswith("/") else None
    if inside is None or "\0" in path or not {".", ".."}.isdisjoint(inside.split("/")):
        raise ValueError(f"{path[:60]!r} is not an absolute path")


def check_run(run: object) -> None:
    """Raise ValueError unless this is the id of a run, which is also the name of its folders."""
    if not isinstance(run, str) or _RUN.fullmatch(run) is None:
        raise ValueError(f"{run!r:.60} is not the id of a run")


def check_count(number: int) -> None:
    """Raise ValueError unless this can be a number of things, bytes or rows."""
    if number < 0:
        raise ValueError(f"{number} is negative")


def check_pid(number: int) -> None:
    """Raise ValueError unless this can be a pid, as the operating system's calls accept it."""
    if not 0 < number < _MAX_PID:
        raise ValueError(f"{number} is not the number of a process")


def check_owner_id(number: int) -> None:
    """Raise ValueError unless this can be the number of a user or a group; -1 where the store has none."""
    if not -1 <= number < _MAX_ID:
        raise ValueError(f"{number} is not the number of a user or a group")


def check_mode(mode: int) -> None:
    """Raise ValueError unless these can be the permission bits of a file."""
    if not 0 <= mode <= _MAX_MODE:
        raise ValueError(f"{mode} is not the mode of a file")


def check_seconds(seconds: float) -> None:
    """Raise ValueError unless this is a time in seconds since 1970 that a datetime can represent."""
    if not 0 <= seconds < _YEAR_9999:
        raise ValueError(f"{seconds} is not a time since 1970")


Name: TypeAlias = Annotated[str, check_name]
RelativePath: TypeAlias = Annotated[str, check_relative]
AbsolutePath: TypeAlias = Annotated[str, check_absolute]
RunId: TypeAlias = Annotated[str, check_run]
Count: TypeAlias = Annotated[int, check_count]
Pid: TypeAlias = Annotated[int, check_pid]
OwnerId: TypeAlias = Annotated[int, check_owner_id]
Mode: TypeAlias = Annotated[int, check_mode]
Seconds: TypeAlias = Annotated[float, check_seconds]
