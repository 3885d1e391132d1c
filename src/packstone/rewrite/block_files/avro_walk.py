"""Walk through Avro records without building their values: every byte of a block must belong to a record.

A function is generated for each schema: fields follow each other as plain statements, and only records, arrays and
maps inside others are calls. That is about twice as fast as reading the records with fastavro, which is written in C
but builds every value (records of seven fields and 45 bytes: 27 against 13 MB/s, on a busy machine).

What is checked is what readers rely on: numbers end within 10 bytes (5 for ``int``), lengths and counts fit in what is
left, branches of unions and symbols of enums exist, booleans are 0 or 1, the sizes that arrays and maps may state are
true, strings are UTF-8 (if asked for), and the records end exactly where their block does. A number that was changed
into another number is not noticed.

The generated source holds numbers only. No name and no other text of a schema gets into it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, TypeAlias

# body, where the records begin, how many, what to do with a string -> where they end
_Walker: TypeAlias = Callable[[bytes, int, int, Callable[[bytes], None]], int]

_FIXED_BYTES: Final = {"float": 4, "double": 8}
_LONG_BYTES: Final = {"int": 5, "long": 10}
_NAMED: Final = frozenset({"record", "error", "enum", "fixed"})
_MORE: Final = 0x80
_AT_ONCE: Final = 4096  # records whose strings are held before they are decoded


def check_records(schema: bytes, body: bytes, *, records: int, text: bool) -> None:
    """Check the body of a block, not compressed any more; ValueError says what is wrong with it."""
    walk, is_empty = _compile(schema, text)
    if records > len(body) and not is_empty:
        raise ValueError(f"it cannot hold {records} records")
    at, left = 0, 0 if is_empty else records
    try:
        while left:
            strings: list[bytes] = []
            at = walk(body, at, min(left, _AT_ONCE), strings.append)
            b"\n".join(strings).decode()  # a newline ends any character that is cut off, so each must be whole
            left -= min(left, _AT_ONCE)
    except UnicodeDecodeError:
        raise ValueError("a string is not UTF-8; --accept-invalid-text accepts it") from None
    except RecursionError:
        raise ValueError("its records are nested too deeply to be checked") from None
    except IndexError:
        raise ValueError("a record is cut off, or a length in it is wrong") from None
    if at != len(body):
        raise ValueError(f"its {records} records end at byte {at} of {len(body)}")


@lru_cache(maxsize=64)
def _compile(schema: bytes, text: bool) -> tuple[_Walker, bool]:  # noqa: FBT001 - the key of a cache
    """Compile the walker of a schema; and whether its records take no bytes at all."""
    try:
        writer = _Source(text=text)
        lines, size = writer.value(json.loads(schema), "")
        made: dict[str, Any] = {"raw": _raw, "length": _length, "wrong": _wrong, "decode": bytes.decode}
        exec(compile(writer.finish(lines), "<avro walker>", "exec"), made)  # noqa: S102 - no word of the schema is in it
    except (RecursionError, SyntaxError, MemoryError):
        raise ValueError("its schema is nested too deeply") from None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"its schema cannot be read ({error})") from None
    return made["walk"], size == 0


class _Source:
    """Writes the functions of one schema: ``f0``, ``f1`` … for records, arrays and maps, ``walk`` for a block.

    Each takes the body, where a value begins, and what to do with a string, and returns where the value ends. Values
    are written as lines of one function at one indentation; ``size`` is the number of bytes where all values have the
    same, or -1.
    """

    def __init__(self, *, text: bool) -> None:
        self._text = text
        self._functions: list[str] = []
        self._named: dict[str, tuple[list[str], int]] = {}

    def finish(self, lines: list[str]) -> str:
        """All functions, with the one that walks through a block."""
        loop = ["def walk(b, i, count, add):", "    for _ in range(count):", *_indent(_some(lines), 2)]
        return "\n".join([*self._functions, *loop, "    return i", ""])

    def value(self, schema: Any, space: str) -> tuple[list[str], int]:  # noqa: ANN401 - JSON
        """The lines that walk over a value, and its size."""
        if isinstance(schema, list):
            return self._union(schema, space), -1
        if isinstance(schema, str):
            return self._simple(schema, space)
        kind = schema["type"]
        if not isinstance(kind, str):
            return self.value(kind, space)
        if kind in _NAMED:
            return self._define(schema, space)
        if kind in ("array", "map"):
            return self._items(schema, space), -1
        return self._simple(kind, space)  # a logical type, or a name in braces

    def _simple(self, kind: str, space: str) -> tuple[list[str], int]:
        if kind == "null":
            return [], 0
        if kind == "boolean":
            return ["if b[i] > 1: wrong('a boolean is neither 0 nor 1')", "i += 1"], 1
        if kind in _FIXED_BYTES:
            return [f"i += {_FIXED_BYTES[kind]}"], _FIXED_BYTES[kind]
        if kind in _LONG_BYTES:
            most = _LONG_BYTES[kind]
            ends = f"if i - s > {most}: wrong('a number is longer than {most} bytes')"
            return ["s = i", "while b[i] > 127: i += 1", "i += 1", ends], -1
        if kind in ("bytes", "string"):
            return self._bytes(is_text=kind == "string"), -1
        return self._named[_full_name(kind, space, self._named)]

    def _bytes(self, *, is_text: bool) -> list[str]:
        lines = ["n = b[i]; i += 1", "if n & 129: n, i = length(b, i - 1)", "else: n >>= 1"]
        return [*lines, "add(b[i : i + n])", "i += n"] if is_text and self._text else [*lines, "i += n"]

    def _union(self, branches: list[Any], space: str) -> list[str]:
        lines = ["n = b[i]; i += 1", "if n > 127: n, i = raw(b, i - 1)"]
        for at, branch in enumerate(branches):
            if isinstance(branch, list):
                raise ValueError("a union holds a union")  # noqa: TRY004 - as all that is wrong with a schema
            inner, _ = self.value(branch, space)
            lines += [f"{'el' if at else ''}if n == {2 * at}:", *_indent(_some(inner), 1)]
        return [*lines, "else: wrong('a union has no such branch')"] if branches else ["wrong('a union has no branch')"]

    def _define(self, schema: Mapping[str, Any], space: str) -> tuple[list[str], int]:
        name = schema["name"]
        inner_space = name.rpartition(".")[0] if "." in name else schema.get("namespace", space)
        full = name if "." in name or not inner_space else f"{inner_space}.{name}"
        if schema["type"] == "fixed":
            size = int(schema["size"])
            if size < 0:
                raise ValueError("a size is negative")
            found = [f"i += {size}"], size
        elif schema["type"] == "enum":
            limit = 2 * len(schema["symbols"])
            lines = ["n = b[i]; i += 1", "if n > 127: n, i = raw(b, i - 1)"]
            found = [*lines, f"if n & 1 or n >= {limit}: wrong('an enum has no such symbol')"], -1
        else:
            return self._record(schema, full, inner_space)
        self._named[full] = found
        return found

    def _record(self, schema: Mapping[str, Any], full: str, space: str) -> tuple[list[str], int]:
        # It may hold itself, so its function has a name before its fields are looked at.
        call = [f"i = f{self._reserve()}(b, i, add)"]
        number = len(self._functions) - 1
        self._named[full] = call, -1
        lines: list[str] = []
        size = 0
        for field in schema["fields"]:
            inner, inner_size = self.value(field["type"], space)
            lines += inner
            size = -1 if -1 in (size, inner_size) else size + inner_size
        self._fill(number, lines)
        self._named[full] = (call, size) if size else ([], 0)
        return self._named[full]

    def _items(self, schema: Mapping[str, Any], space: str) -> list[str]:
        is_map = schema["type"] == "map"
        number = self._reserve()
        inner, size = self.value(schema["values" if is_map else "items"], space)
        lines = [*(self._bytes(is_text=True) if is_map else []), *inner]
        is_empty = size == 0 and not is_map
        fits = "if n > len(b) - i: wrong('an array or map cannot hold that many items')"
        body = [
            "add = decode",  # at once: an array may hold more strings than memory
            "while True:",
            "    n = b[i]; i += 1",
            "    if n > 127: n, i = raw(b, i - 1)",
            "    if n == 0: return i",
            "    e = -1",
            "    if n & 1:",  # a negative count: the size in bytes follows
            "        n += 1",
            "        e, i = length(b, i)",
            "        e += i",
            "    n >>= 1",
            *([] if is_empty else [f"    {fits}", "    for _ in range(n):", *_indent(lines, 2)]),
            "    if e not in (-1, i): wrong('an array or map is not as long as it states')",
        ]
        self._fill(number, body, returns=False)
        return [f"i = f{number}(b, i, add)"]

    def _reserve(self) -> int:
        self._functions.append("")
        return len(self._functions) - 1

    def _fill(self, number: int, lines: list[str], *, returns: bool = True) -> None:
        end = ["    return i"] if returns else []
        self._functions[number] = "\n".join([f"def f{number}(b, i, add):", *_indent(_some(lines), 1), *end])


def _full_name(name: str, space: str, named: Mapping[str, object]) -> str:
    """The full name of a type that is referred to: in the same namespace, or in none."""
    if "." not in name and space and f"{space}.{name}" in named:
        return f"{space}.{name}"
    if name not in named:
        raise ValueError("a type is not defined")
    return name


def _some(lines: list[str]) -> list[str]:
    return lines or ["pass"]


def _indent(lines: list[str], levels: int) -> list[str]:
    return [f"{'    ' * levels}{line}" for line in lines]


def _raw(body: bytes, at: int) -> tuple[int, int]:
    """A number of several bytes before its sign is taken out of the lowest bit, and where it ends."""
    value = shift = 0
    while True:
        byte = body[at]
        at += 1
        value |= (byte & ~_MORE) << shift
        if byte < _MORE:
            return value, at
        shift += 7
        if shift > 63:  # noqa: PLR2004 - bits
            raise ValueError("a number is longer than 10 bytes")


def _length(body: bytes, at: int) -> tuple[int, int]:
    """A length, which is not negative and not longer than what is left."""
    value, at = _raw(body, at)
    if value & 1 or value >> 1 > len(body) - at:
        raise ValueError("a length is wrong")
    return value >> 1, at


def _wrong(what: str) -> None:
    raise ValueError(what)
