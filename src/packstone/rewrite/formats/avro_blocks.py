"""Copy and check the blocks of Avro container files.

A file is ``Obj1``, a map of metadata, the marker; then blocks, each followed by the marker. A block is the number of
its records, the size of its body, and the body, compressed by the file's codec. Blocks of files with one schema and
one codec are interchangeable, so they are copied unchanged; ``check_records`` walks through their records, so that no
damaged block is copied.

Metadata other than schema and codec belong to the user; files in which they differ are not merged.

The walk does not build values; it checks that every byte of a block belongs to a record. A function is generated for
each schema: fields follow one another as plain statements, and only records, arrays and maps inside others are calls.
That is about twice as fast as reading the records with fastavro, which is written in C but builds every value (records
of seven fields and 45 bytes: 27 against 13 MB/s, on a busy machine).

The walk checks what readers rely on: numbers end within 10 bytes (5 for ``int``), lengths and counts fit in the
remaining bytes, branches of unions and symbols of enums exist, booleans are 0 or 1, the sizes that arrays and maps may
state are correct, strings are UTF-8 (if requested), and the records end exactly where their block does. A number that
was changed into another number is not detected.

The generated source contains numbers only. No name and no other text of a schema gets into it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from packstone.rewrite.formats.avro_file import BROKEN_BLOCK, CODECS, MAGIC, decompressor, take_metadata, take_number
from packstone.rewrite.formats.block_format import SYNC_BYTES, Header, Piece, refuse_unknown_codec
from packstone.rewrite.formats.bounded_codecs import MAX_PIECE_BYTES, TooLongError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packstone.rewrite.formats.block_format import ByteSource, ContentCheck

mark_before_bytes = 0  # every block ends with a marker

_SCHEMA, _CODEC = b"avro.schema", b"avro.codec"


def read_header(source: ByteSource) -> Header:
    """Read the header."""
    if source.take(len(MAGIC)) != MAGIC:
        raise source.damaged("it does not begin as Avro files do")
    try:
        metadata = take_metadata(source.take)
    except ValueError as error:
        raise source.damaged(str(error)) from error
    begin = source.read_begin()
    if _SCHEMA not in metadata:
        raise source.damaged("its header has no schema")
    codec = metadata.setdefault(_CODEC, b"null")
    return Header(
        begin=begin,
        sync=source.take(SYNC_BYTES),
        agreement=repr(sorted(metadata.items())).encode(),
        codec=codec.decode("utf-8", "replace"),
        schema=metadata[_SCHEMA],
    )


def read_pieces(source: ByteSource, header: Header) -> Iterator[Piece]:
    """Yield the blocks in order; the marker after each must be the header's."""
    while source.left_bytes:
        rows, rows_bytes = _read_long(source)
        size, size_bytes = _read_long(source)
        if rows < 0 or size < 0:
            raise source.damaged("a block has a negative size")
        if size + SYNC_BYTES > source.left_bytes:
            raise source.damaged("its last block is cut off, or the size of a block is wrong")
        last: memoryview | bytes = rows_bytes + size_bytes
        begins = True
        for data in source.pieces(size):
            yield Piece(data=last, rows=rows if begins else 0, begins=begins)
            last, begins = data, False
        # The marker is checked before the block's last piece is yielded; the output's marker follows that piece.
        if source.take(SYNC_BYTES) != header.sync:
            raise source.damaged("a block does not end with the file's sync marker")
        yield Piece(data=last, rows=rows if begins else 0, begins=begins, is_marked_after=True)


def check_content(source: ByteSource, header: Header, check: ContentCheck) -> None:
    """Decompress every block (Snappy blocks have a checksum), and walk through its records."""
    if header.codec not in CODECS:
        refuse_unknown_codec(source, header, check)
        return
    decompress = decompressor(header.codec, source.path, most_bytes=MAX_PIECE_BYTES)
    while source.left_bytes:
        records, _ = _read_long(source)
        size, _ = _read_long(source)
        body = source.take_piece(size)
        try:
            plain = decompress(body)
            check.budget.spend(len(plain), records=records if check.values else 0)
            if check.values:
                check_records(header.schema, plain, records=records, text=check.text)
        except TooLongError as error:
            raise source.too_long() from error
        except BROKEN_BLOCK as error:
            raise source.damaged(f"a block cannot be decoded: {error}") from error
        source.take(SYNC_BYTES)


def mark(sync: bytes) -> bytes:
    """The marker alone."""
    return sync


def _read_long(source: ByteSource) -> tuple[int, bytes]:
    try:
        return take_number(source.take)
    except ValueError as error:
        raise source.damaged(str(error)) from error


# body, offset of the records, their number, what to do with a string -> offset of their end
_Walker: TypeAlias = Callable[[bytes, int, int, Callable[[bytes], None]], int]

_FIXED_BYTES: Final = {"float": 4, "double": 8}
_LONG_BYTES: Final = {"int": 5, "long": 10}
_NAMED: Final = frozenset({"record", "error", "enum", "fixed"})
_CONTINUES: Final = 0x80
_AT_ONCE: Final = 4096  # records whose strings are collected before they are decoded


def check_records(schema: bytes, body: bytes, *, records: int, text: bool) -> None:
    """Check the decompressed body of a block; ValueError says what is wrong with it."""
    walk, is_empty = _compile(schema, text)
    if records > len(body) and not is_empty:
        raise ValueError(f"it cannot hold {records} records")
    at, left = 0, 0 if is_empty else records
    try:
        while left:
            strings: list[bytes] = []
            at = walk(body, at, min(left, _AT_ONCE), strings.append)
            b"\n".join(strings).decode()  # a newline breaks a truncated character, so each string must be valid
            left -= min(left, _AT_ONCE)
    except UnicodeDecodeError:
        raise ValueError("a string is not UTF-8; --set accept-invalid-text=true accepts it") from None
    except RecursionError:
        raise ValueError("its records are nested too deeply to be checked") from None
    except IndexError:
        raise ValueError("a record is cut off, or a length in it is wrong") from None
    if at != len(body):
        raise ValueError(f"its {records} records end at byte {at} of {len(body)}")


@lru_cache(maxsize=64)
def _compile(schema: bytes, text: bool) -> tuple[_Walker, bool]:  # noqa: FBT001 - the key of a cache
    """Compile the walker of a schema; the second value is whether its records take no bytes at all."""
    try:
        writer = _Source(text=text)
        lines, size = writer.value(json.loads(schema), "")
        made: dict[str, Any] = {"raw": _raw, "length": _length, "wrong": _wrong, "decode": bytes.decode}
        exec(compile(writer.finish(lines), "<avro walker>", "exec"), made)  # noqa: S102 - no text of the schema is in it
    except (RecursionError, SyntaxError, MemoryError):
        raise ValueError("its schema is nested too deeply") from None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"its schema cannot be read ({error})") from None
    return made["walk"], size == 0


class _Source:
    """Generates the functions of one schema: ``f0``, ``f1`` … for records, arrays and maps, ``walk`` for a block.

    Each takes the body, the offset of a value, and what to do with a string, and returns the offset of the value's
    end. Values are written as lines of one function at one indentation; ``size`` is the number of bytes if all values
    have the same size, or -1.
    """

    def __init__(self, *, text: bool) -> None:
        self._text = text
        self._functions: list[str] = []
        self._named: dict[str, tuple[list[str], int]] = {}

    def finish(self, lines: list[str]) -> str:
        """The source of all functions, with the one that walks through a block."""
        loop = ["def walk(b, i, count, add):", "    for _ in range(count):", *_indent(_some(lines), 2)]
        return "\n".join([*self._functions, *loop, "    return i", ""])

    def value(self, schema: Any, space: str) -> tuple[list[str], int]:
        """The lines of code that walk over a value, and the value's size."""
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
                raise ValueError("a union holds a union")  # noqa: TRY004 - as for every error in a schema
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
        # A record may contain itself, so its function gets a name before its fields are compiled.
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
            "add = decode",  # immediately: the strings of an array may not fit in memory
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
    """The full name of a referenced type: in the same namespace, or in none."""
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
    """A number of several bytes, still zig-zag encoded, and the offset of its end."""
    value = shift = 0
    while True:
        byte = body[at]
        at += 1
        value |= (byte & ~_CONTINUES) << shift
        if byte < _CONTINUES:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number is longer than 10 bytes")


def _length(body: bytes, at: int) -> tuple[int, int]:
    """A length, which must not be negative nor exceed the remaining bytes, and the offset of its end."""
    value, at = _raw(body, at)
    if value & 1 or value >> 1 > len(body) - at:
        raise ValueError("a length is wrong")
    return value >> 1, at


def _wrong(what: str) -> None:
    raise ValueError(what)
