"""Copy and check the blocks of Avro container files.

A file is ``Obj1``, a map of metadata, the marker; then blocks, each followed by the marker. A block is the number of
its records, the size of its body, and the body, compressed by the file's codec. Blocks of files with one schema and
one codec are interchangeable, so they are copied unchanged; ``check_records`` walks through their records, so that no
damaged block is copied.

Metadata other than schema and codec belong to the user; files in which they differ are not merged.

The walk does not build values; it checks that every byte of a block belongs to a record. Where a record begins is
known only when the one before has been walked through, but blocks do not depend on each other: many blocks, of all
files of a merge, are walked in *lanes*, a field of one record of every block with a few operations of NumPy, which is
several times as fast as a walk record by record. The latter is for the rest: few blocks, the last records of the
longest ones, schemas that contain themselves, and to say what is wrong with a block that the lanes do not accept. For
it, a function is generated for each schema: fields follow one another as plain statements, and only records, arrays and
maps inside others are calls. That is about twice as fast as reading the records with fastavro, which is written in C
but builds every value (records of seven fields and 45 bytes: 27 against 13 MB/s, on a busy machine).

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

import numpy as np

from packstone.rewrite.formats.avro_file import BROKEN_BLOCK, CODECS, MAGIC, decompressor, take_metadata, take_number
from packstone.rewrite.formats.block_format import SYNC_BYTES, Header, Piece, refuse_unknown_codec
from packstone.rewrite.formats.bounded_codecs import MAX_PIECE_BYTES, TooLongError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from packstone.errors import UnreadableFileError
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
            yield Piece(data=last, rows=rows if begins else 0)
            last, begins = data, False
        # The marker is checked before the block's last piece is yielded; the output's marker follows that piece.
        if source.take(SYNC_BYTES) != header.sync:
            raise source.damaged("a block does not end with the file's sync marker")
        yield Piece(data=last, rows=rows if begins else 0, is_marked_after=True)


def check_contents(files: Iterable[tuple[ByteSource, Header]], check: ContentCheck) -> None:
    """Decompress every block (Snappy blocks have a checksum), and walk through the records of all."""
    waiting = _WaitingBlocks(text=check.text)
    for source, header in files:
        if header.codec not in CODECS:
            refuse_unknown_codec(source, header, check)
            continue
        for records, plain in _plain_blocks(source, header, check):
            if check.values:
                waiting.add(source, header, plain, records=records)
    waiting.check()


def _plain_blocks(source: ByteSource, header: Header, check: ContentCheck) -> Iterator[tuple[int, bytes]]:
    decompress = decompressor(header.codec, source.path, most_bytes=MAX_PIECE_BYTES)
    while source.left_bytes:
        records, _ = _read_long(source)
        size, _ = _read_long(source)
        body = source.take_piece(size)
        try:
            plain = decompress(body)
        except TooLongError as error:
            raise source.too_long() from error
        except BROKEN_BLOCK as error:
            raise broken_block(source, error) from error
        check.budget.spend(len(plain), records=records if check.values else 0)
        yield records, plain
        source.take(SYNC_BYTES)


def broken_block(source: ByteSource, error: Exception) -> UnreadableFileError:
    """The error that says what is wrong with a block."""
    return source.damaged(f"a block cannot be decoded: {error}")


class _WaitingBlocks:
    """Decompressed blocks that are checked together, up to 48 MB of them."""

    def __init__(self, *, text: bool) -> None:
        self._text = text
        self._blocks: list[tuple[ByteSource, bytes, int]] = []
        self._schema, self._bytes = b"", 0

    def add(self, source: ByteSource, header: Header, plain: bytes, *, records: int) -> None:
        """Add a block, and check those that are waiting if they are many, or if the schema is another one."""
        if header.schema != self._schema or self._bytes + len(plain) > _MOST_WAITING_BYTES:
            self.check()
            self._schema = header.schema
        self._blocks.append((source, plain, records))
        self._bytes += len(plain)

    def check(self) -> None:
        """Check all blocks that are waiting; UnreadableFileError names the file of one that is damaged."""
        blocks, self._blocks, self._bytes = self._blocks, [], 0
        done = walk_lanes(self._schema, [(plain, records) for _, plain, records in blocks], text=self._text)
        for (source, plain, records), (at, walked) in zip(blocks, done, strict=True):
            try:
                check_records(self._schema, plain, records=records, text=self._text, at=at, walked=walked)
            except BROKEN_BLOCK as error:
                raise broken_block(source, error) from error


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
_MOST_WAITING_BYTES: Final = 48 << 20
_MOST_STRINGS: Final = 1 << 20
_FEWEST_LANES: Final = 64  # below, a walk record by record is faster


def check_records(schema: bytes, body: bytes, *, records: int, text: bool, at: int = 0, walked: int = 0) -> None:
    """Check the decompressed body of a block, of which some records were walked; ValueError says what is wrong."""
    if at == len(body) and walked == records and walked:
        return
    walk, is_empty = _compile(schema, text)
    if records > len(body) and not is_empty:
        raise ValueError(f"it cannot hold {records} records")
    left = 0 if is_empty else records - walked
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


# ---- lanes ----
# The bodies of many blocks, one after another in one array, and a position in each. A step walks over the next value of
# every lane. Where the bytes of any lane are not as expected, or where a case is rare, the lanes give up (_DoubtError),
# and all blocks are walked record by record: lanes may reject what is right, and must not accept what is wrong.

_I64: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
# lanes, the places of values, the ends of the lanes -> the places behind the values
_Step: TypeAlias = Callable[["_Lanes", _I64, _I64], _I64]

_PADDING: Final = 16
_NO_NUMBER: Final = 11  # bytes of a number that does not end
_HIGH_BITS: Final = np.uint64(0x8080_8080_8080_8080)
_PLACES: Final = np.uint64(0x0001_0203_0405_0607)  # (1 << 8 * k) times this has k in its highest byte
_SEVEN, _TOP_BYTE = np.uint64(7), np.uint64(56)
_MOST_SHIFT: Final = 28  # lengths and counts of more than five bytes are left to the other walk


class _DoubtError(Exception):
    """A lane holds something unexpected."""


def walk_lanes(schema: bytes, blocks: Sequence[tuple[bytes, int]], *, text: bool) -> list[tuple[int, int]]:
    """Walk through blocks (body, records) together: for each the place that was reached, and the records before it."""
    nothing = [(0, 0)] * len(blocks)
    if len(blocks) < _FEWEST_LANES:
        return nothing
    try:
        step = _compile_lanes(schema, text)
        return _Lanes(blocks).walk(step) if step is not None else nothing
    except (_DoubtError, IndexError):  # a position after the last byte
        return nothing


class _Lanes:
    """The bodies of blocks, those with the most records first."""

    def __init__(self, blocks: Sequence[tuple[bytes, int]]) -> None:
        records = np.array([count for _, count in blocks], np.int64)
        self._order = np.argsort(-records, kind="stable")
        self._records = records[self._order]
        bodies = [blocks[at][0] for at in self._order.tolist()]
        self._ends = np.cumsum([len(body) for body in bodies])
        self._starts = self._ends - [len(body) for body in bodies]
        self._data = np.frombuffer(b"".join([*bodies, bytes(_PADDING)]), np.uint8)
        # Indexed, not taken from: take() would copy all of it, because its words overlap.
        self._words = np.ndarray((len(self._data) - 7,), "<u8", buffer=self._data, strides=(1,))
        self._edges = np.zeros(len(self._data), np.bool_)  # where a string begins or ends
        self._strings: list[tuple[_I64, _I64]] = []
        self._string_count = 0

    def walk(self, step: _Step) -> list[tuple[int, int]]:
        """Walk as long as there are enough lanes; for each block the place that was reached, and the records."""
        places, walked = self._starts.copy(), 0
        while (live := int(np.searchsorted(-self._records, -walked))) >= _FEWEST_LANES:
            ends = self._ends[:live]
            places[:live] = step(self, places[:live], ends)
            doubt_if((places[:live] > ends).any())  # sizes were not compared with what is left
            walked += 1
        done = np.minimum(self._records, walked)
        doubt_if(((places != self._ends) & (done == self._records)).any())
        self._check_text()
        found = [(0, 0)] * len(done)
        for at, place, count in zip(self._order.tolist(), (places - self._starts).tolist(), done.tolist(), strict=True):
            found[at] = place, count
        return found

    def same_byte(self, places: _I64) -> int:
        """The byte at the places, if it is the same at all of them and a whole number; -1 if not."""
        found = self._data.take(places)
        most = int(found.max())
        return most if most == found.min() and most < _CONTINUES else -1

    def behind_booleans(self, places: _I64) -> _I64:
        """The places behind booleans."""
        doubt_if(self._data.take(places).max() > 1)
        return places + 1

    def behind_numbers(self, places: _I64, most_bytes: int) -> _I64:
        """The places behind numbers of at most this many bytes."""
        last = ~self._words[places] & _HIGH_BITS  # a number ends with the first byte without its highest bit
        sizes = ((((last & -last) >> _SEVEN) * _PLACES) >> _TOP_BYTE).view(np.int64)
        sizes += 1
        if not last.all():
            long = (last == 0).nonzero()[0]
            ninth, tenth = (self._data.take(places[long] + at) for at in (8, 9))
            sizes[long] = np.where(ninth < _CONTINUES, 9, np.where(tenth < _CONTINUES, 10, _NO_NUMBER))
        doubt_if(sizes.max() > most_bytes)
        return places + sizes

    def numbers(self, places: _I64) -> tuple[_I64, _I64]:
        """Small numbers, still zig-zag encoded, and the places behind them."""
        first = self._data.take(places)
        values, places = first.astype(np.int64), places + 1
        if first.max() < _CONTINUES:
            return values, places
        long, shift = (first >= _CONTINUES).nonzero()[0], 7
        values[long] -= _CONTINUES
        while len(long):
            doubt_if(shift > _MOST_SHIFT)
            more = self._data.take(places[long]).astype(np.int64)
            values[long] |= (more & ~_CONTINUES) << shift
            places[long] += 1
            long, shift = long[more >= _CONTINUES], shift + 7
        return values, places

    def sizes(self, places: _I64) -> tuple[_I64, _I64]:
        """Lengths, which are not negative, and the places behind them."""
        values, places = self.numbers(places)
        doubt_if(np.bitwise_or.reduce(values) & 1)
        values >>= 1
        return values, places

    def add_strings(self, begins: _I64, ends: _I64) -> None:
        """Remember where strings are."""
        self._strings.append((begins, ends))
        self._string_count += len(begins)
        if self._string_count > _MOST_STRINGS:
            self._mark_strings()

    def _mark_strings(self) -> None:
        # Strings do not touch: the length of the second is between them.
        if self._strings:
            begins, ends = (np.concatenate(sides) for sides in zip(*self._strings, strict=True))
            filled = begins < ends
            self._edges[begins[filled]] = self._edges[ends[filled]] = True
        self._strings, self._string_count = [], 0

    def _check_text(self) -> None:
        self._mark_strings()
        edges = np.flatnonzero(self._edges)
        if not len(edges):
            return
        foreign = np.bitwise_or.reduceat(self._data, edges)[0::2] >= _CONTINUES
        strings = zip(edges[0::2][foreign].tolist(), edges[1::2][foreign].tolist(), strict=True)
        try:
            b"\n".join(self._data[begin:end].tobytes() for begin, end in strings).decode()
        except UnicodeDecodeError:
            raise _DoubtError from None


def doubt_if(is_wrong: object) -> None:
    """Give up if something is wrong in any lane."""
    if is_wrong:
        raise _DoubtError


@lru_cache(maxsize=64)
def _compile_lanes(schema: bytes, text: bool) -> _Step | None:  # noqa: FBT001 - the key of a cache
    """The step over a record of a schema; None if it is a case for the other walk."""
    try:
        step, is_empty = _Steps(text=text).value(json.loads(schema), "")
    except (_DoubtError, RecursionError, ValueError, TypeError, KeyError, AttributeError):
        return None
    return None if is_empty else step


class _Steps:
    """Makes the step over a value of a schema; the second value is whether it takes no bytes."""

    def __init__(self, *, text: bool) -> None:
        self._text = text
        self._named: dict[str, tuple[_Step, bool] | None] = {}  # None: it is being made, so it contains itself

    def value(self, schema: Any, space: str) -> tuple[_Step, bool]:
        """The step over a value."""
        if isinstance(schema, list):
            return _union([self.value(branch, space) for branch in schema]), False
        kind = schema if isinstance(schema, str) else schema["type"]
        if not isinstance(kind, str):
            return self.value(kind, space)
        if kind in _NAMED and isinstance(schema, dict):
            return self._define(schema, space)
        if kind in ("array", "map") and isinstance(schema, dict):
            inner, is_empty = self.value(schema["values" if kind == "map" else "items"], space)
            item = _record([_bytes(is_text=self._text), inner]) if kind == "map" else inner
            doubt_if(is_empty and kind == "array")  # any number of items fits anywhere
            return _items(item), False
        return self._simple(kind, space)

    def _simple(self, kind: str, space: str) -> tuple[_Step, bool]:
        if kind == "null":
            return _fixed(0), True
        if kind == "boolean":
            return _boolean, False
        if kind in _FIXED_BYTES:
            return _fixed(_FIXED_BYTES[kind]), False
        if kind in _LONG_BYTES:
            most_bytes = _LONG_BYTES[kind]
            return lambda lanes, places, _: lanes.behind_numbers(places, most_bytes), False
        if kind in ("bytes", "string"):
            return _bytes(is_text=self._text and kind == "string"), False
        found = self._named[_full_name(kind, space, self._named)]
        if found is None:
            raise _DoubtError
        return found

    def _define(self, schema: Mapping[str, Any], space: str) -> tuple[_Step, bool]:
        name = schema["name"]
        inner_space = name.rpartition(".")[0] if "." in name else schema.get("namespace", space)
        full = name if "." in name or not inner_space else f"{inner_space}.{name}"
        self._named[full] = None
        if schema["type"] == "fixed":
            size = int(schema["size"])
            doubt_if(size < 0)
            found = _fixed(size), size == 0
        elif schema["type"] == "enum":
            found = _enum(2 * len(schema["symbols"])), False
        else:
            fields = [self.value(field["type"], inner_space) for field in schema["fields"]]
            steps = [step for step, is_empty in fields if not is_empty]
            found = _record(steps), not steps
        self._named[full] = found
        return found


def _fixed(size: int) -> _Step:
    return lambda _lanes, places, _ends: places + size


def _boolean(lanes: _Lanes, places: _I64, _ends: _I64) -> _I64:
    return lanes.behind_booleans(places)


def _bytes(*, is_text: bool) -> _Step:
    def step(lanes: _Lanes, places: _I64, _ends: _I64) -> _I64:
        sizes, places = lanes.sizes(places)
        behind = places + sizes
        if is_text:
            lanes.add_strings(places, behind)
        return behind

    return step


def _enum(limit: int) -> _Step:
    def step(lanes: _Lanes, places: _I64, _ends: _I64) -> _I64:
        symbols, places = lanes.numbers(places)
        doubt_if(np.bitwise_or.reduce(symbols) & 1 or symbols.max() >= limit)
        return places

    return step


def _record(fields: Sequence[_Step]) -> _Step:
    def step(lanes: _Lanes, places: _I64, ends: _I64) -> _I64:
        for field in fields:
            places = field(lanes, places, ends)
        return places

    return step


def _union(branches: Sequence[tuple[_Step, bool]]) -> _Step:
    def step(lanes: _Lanes, places: _I64, ends: _I64) -> _I64:
        same = lanes.same_byte(places)
        if same >= 0:
            doubt_if(same & 1 or same >= 2 * len(branches))
            return branches[same >> 1][0](lanes, places + 1, ends)
        numbers, places = lanes.numbers(places)
        left = len(numbers)
        for at, (branch, is_empty) in enumerate(branches):
            found = (numbers == 2 * at).nonzero()[0]
            left -= len(found)
            if len(found) and not is_empty:
                places[found] = branch(lanes, places[found], ends[found])
        doubt_if(left)
        return places

    return step


def _items(item: _Step) -> _Step:
    def step(lanes: _Lanes, places: _I64, ends: _I64) -> _I64:
        places, live = places.copy(), np.arange(len(places))
        while len(live):
            counts, places[live] = lanes.numbers(places[live])
            live, counts = live[counts > 0], counts[counts > 0]
            if not len(live):
                break
            sized = live[counts & 1 == 1]  # a negative count: the size in bytes follows
            stated = sized
            if len(sized):
                sizes, places[sized] = lanes.sizes(places[sized])
                stated = places[sized] + sizes
            counts = (counts + 1) >> 1
            doubt_if((counts > ends[live] - places[live]).any())
            number, inner = 0, live
            while len(inner):
                places[inner] = item(lanes, places[inner], ends[inner])
                number += 1
                inner = live[counts > number]
            doubt_if((places[sized] != stated).any())
        return places

    return step
