"""Every mistake that a splice could make is found: mutants of merged files, each consistent but for one fault."""

from __future__ import annotations

import decimal
import functools
import random
import struct
import tempfile
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from parquet_surgery import CODED, DICTIONARY, V2, Chunk, Parts, pack, seal, unpack

from packstone.errors import PackstoneError
from packstone.rewrite.formats.parquet_thrift import BINARY, I32, I64, LIST, STRUCT, TRUE, ThriftList
from packstone.rewrite.proof.verify_files import check_same_parquet_shape
from packstone.rewrite.proof.verify_statistics import check_statistics
from packstone.rewrite.small_files import parquet_splice
from packstone.rewrite.small_files.verify_splice import check_readable, fingerprint_splice
from packstone.storage.local import LocalFileIO

IO = LocalFileIO()
FOLDER = tempfile.TemporaryDirectory(prefix="packstone-mutants-")  # made once for all tests, removed at exit
FILES, ROWS = 3, 240
LEAST_MUTANTS = 500


# ---- files ----


def a_list(dice: random.Random) -> list[int | None] | None:
    """A list of some numbers, empty, null or with nulls."""
    return None if dice.random() < 0.2 else [dice.choice([None, 1, 2, 3]) for _ in range(dice.randrange(4))]


def a_pair(dice: random.Random) -> dict[str, object] | None:
    """A struct, null or with nulls."""
    return None if dice.random() < 0.2 else {"x": dice.choice([None, 5, 6]), "y": dice.choice([None, "a", "b"])}


def rows_of(at: int) -> pa.Table:
    """Columns of many types: plain ones, with few values, with nulls, nested."""
    dice = random.Random(at)
    numbers = range(at * ROWS, (at + 1) * ROWS)
    word = [f"word {dice.randrange(40)}" for _ in numbers]
    hour = 3_600_000_000
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "key": pa.array([f"key {n * 7919 % 100_003}" for n in numbers]),
            "word": pa.array(word),
            "maybe": pa.array([None if dice.random() < 0.4 else w for w in word]),
            "few": pa.array([dice.randrange(-9, 9) for _ in numbers], pa.int32()),
            "score": pa.array([dice.choice([None, -1.5, 0.25, 3.0, 8.5]) for _ in numbers], pa.float64()),
            "at": pa.array([dice.randrange(90) * hour for _ in numbers], pa.timestamp("us")),
            "amount": pa.array([decimal.Decimal(dice.randrange(-50, 50)) / 100 for _ in numbers], pa.decimal128(9, 2)),
            "flag": pa.array([dice.choice([None, True, False]) for _ in numbers]),
            "items": pa.array([a_list(dice) for _ in numbers], pa.list_(pa.int64())),
            "pair": pa.array([a_pair(dice) for _ in numbers], pa.struct({"x": pa.int64(), "y": pa.string()})),
            "map": pa.array(
                [[(key, dice.randrange(5)) for key in "abc"[: dice.randrange(4)]] for _ in numbers],
                pa.map_(pa.string(), pa.int32()),
            ),
        }
    )  # fmt: skip


def odd_rows_of(at: int) -> pa.Table:
    """Columns whose stored values PyArrow converts, or with which it cannot compute."""
    dice = random.Random(at)
    some = [None if dice.random() < 0.2 else dice.randrange(30) for _ in range(ROWS)]
    uuids = pa.array([None if n is None else uuid.UUID(int=n * 7919).bytes for n in some], pa.binary(16))
    texts = pa.array([None if n is None else f"[{n}]" for n in some])
    return pa.table(
        {
            "id": pa.array(range(at * ROWS, (at + 1) * ROWS), pa.int64()),
            "word": pa.ExtensionArray.from_storage(pa.uuid(), uuids),
            "maybe": pa.ExtensionArray.from_storage(pa.uuid(), uuids.take(pa.array(range(ROWS - 1, -1, -1)))),
            "json": pa.ExtensionArray.from_storage(pa.json_(), texts),
            "half": pa.array(some, pa.float16()),
            "at": pa.array([None if n is None else n * 3_600_000_000 for n in some], pa.timestamp("us")),
            "amount": pa.array([None if n is None else decimal.Decimal(n) / 100 for n in some], pa.decimal128(20, 2)),
            "items": pa.ListArray.from_arrays(pa.array([*range(ROWS), ROWS], pa.int32()), pa.array(some, pa.float16())),
        }
    )


def write_pyarrow(path: str, at: int, **options: object) -> None:
    """Write a file of usual types."""
    pq.write_table(rows_of(at), path, **{"use_dictionary": CODED_COLUMNS} | COMMON | options)


def write_odd_types(path: str, at: int, **options: object) -> None:
    """Write a file of unusual types, with bloom filters."""
    table = odd_rows_of(at)
    leaves = [*table.column_names[1:-1], "items.list.element"]
    blooms = {name: {"ndv": 50, "fpp": 0.05} for name in leaves}
    pq.write_table(table, path, use_dictionary=leaves, bloom_filter_options=blooms, **COMMON, **options)


def write_duckdb(path: str, at: int) -> None:
    """Let DuckDB write a file; it states distinct values, and bloom filters of columns with a dictionary."""
    columns = """n as id, md5((n % 9)::text)::uuid as word, md5(n::text)::uuid as key,
        case n % 3 when 0 then md5((n % 7)::text)::uuid end as maybe, ('[' || n % 8 || ']')::json as json,
        (n % 20 - 9)::decimal(9, 2) as amount, (n % 20 - 9)::decimal(38, 3) as wide,
        {'u': md5((n % 5)::text)::uuid, 'j': ('{"a":' || n % 4 || '}')::json} as pair,
        [n % 3, null] as items, to_timestamp(n % 50) as at"""
    rows = f"range({at * ROWS}, {(at + 1) * ROWS}) as rows(n)"
    duckdb.sql(f"copy (select {columns} from {rows}) to '{path}' (format parquet)")


PLAIN = ("id", "key", "flag")
CODED_COLUMNS = [
    "word", "maybe", "few", "score", "at", "amount", "items.list.element", "pair.x", "pair.y", "map.key_value.key",
    "map.key_value.value",
]  # fmt: skip
COMMON = {"write_page_index": True, "write_page_checksum": True}
SOURCES: dict[str, Callable[[str, int], None]] = {
    "v1 snappy, int96": functools.partial(write_pyarrow, compression="snappy", use_deprecated_int96_timestamps=True),
    "v2 zstd, bloom filters": functools.partial(
        write_pyarrow, compression="zstd", data_page_version="2.0",
        bloom_filter_options={name: {"ndv": 50, "fpp": 0.05} for name in ("word", "few")},
    ),
    "v1 plain, many pages": functools.partial(
        write_pyarrow, compression="none", data_page_size=200, write_batch_size=60
    ),
    "uuid, json, half floats, int96": functools.partial(
        write_odd_types, compression="snappy", use_deprecated_int96_timestamps=True
    ),
    "duckdb": write_duckdb,
}  # fmt: skip


@functools.cache
def merged(source: str) -> tuple[Path, tuple[str, ...], bytes, tuple[int, ...], object]:
    """Inputs of a source merged by the kernel: folder, inputs, output, copied columns, fingerprint of the inputs."""
    folder = Path(FOLDER.name) / str(list(SOURCES).index(source))
    folder.mkdir()
    paths = []
    for at in range(FILES):
        paths.append(str(folder / f"{at}.parquet"))
        SOURCES[source](paths[-1], at)
    output = folder / "merged.parquet"
    plan = parquet_splice.plan_splice(IO, paths)
    done = parquet_splice.splice_parquet(IO, paths, str(output), plan=plan)
    before = fingerprint_splice(IO, paths, copied=done.copied)
    return folder, tuple(paths), output.read_bytes(), done.copied, before


@pytest.fixture(autouse=True)
def tiny_pages(monkeypatch):
    """Splice pages however small they are, so that small tables will do."""
    monkeypatch.setattr(parquet_splice, "_MIN_PAGE_VALUES", 0)
    monkeypatch.setattr(parquet_splice, "_MIN_COPIED_PCT", 0)


# ---- faults ----
# A fault changes a chunk; LookupError if it cannot occur there. ``dice`` decides where.

Fault = Callable[[Chunk, random.Random], None]


def a_page(chunk: Chunk, dice: random.Random, *, coded: bool | None = None, count: int = 1) -> list[int]:
    """Numbers of different data pages."""
    pages = chunk.data_pages()
    fitting = [at for at, page in enumerate(pages) if coded is None or (page.encoding in CODED) is coded]
    if len(fitting) < count:
        raise LookupError("not enough pages")
    return dice.sample(fitting, count)


def values_in(chunk: Chunk, definition: list[int], count: int) -> int:
    """How many values of a page are not null."""
    return definition.count(chunk.leaf.definition) if chunk.leaf.definition else count


def change_codes(chunk: Chunk, dice: random.Random, change: Callable[[list[int], int], list[int]]) -> None:
    """Change the codes of a page."""
    (at,) = a_page(chunk, dice, coded=True)
    page = chunk.data_pages()[at]
    repetition, definition, values = chunk.open(page)
    bits = values[0] if values else 0
    if not bits:
        raise LookupError("one entry only")
    codes = unpack(values[1:], bits, values_in(chunk, definition, page.details[1][1]))
    if len(codes) < 2:
        raise LookupError("too few values")
    changed = change(codes, chunk.dictionary().details[1][1])
    if changed == codes:
        raise LookupError("no difference")
    chunk.close(page, repetition, definition, bytes([bits]) + pack(changed, bits))


def other_code(chunk, dice):
    """One code of one value is another one."""

    def change(codes, entries):
        at = dice.randrange(len(codes))
        return [*codes[:at], (codes[at] + dice.randrange(1, entries)) % entries, *codes[at + 1 :]]

    change_codes(chunk, dice, change)


def swapped_codes(chunk, dice):
    """Two values changed places."""

    def change(codes, _):
        one, other = dice.sample(range(len(codes)), 2)
        codes = codes[:]
        codes[one], codes[other] = codes[other], codes[one]
        return codes

    change_codes(chunk, dice, change)


def code_beyond(chunk, dice):
    """A code has no entry."""

    def change(codes, entries):
        beyond = (1 << max(1, entries - 1).bit_length()) - 1
        if beyond < entries:
            raise LookupError("every code of this width has an entry")
        at = dice.randrange(len(codes))
        return [*codes[:at], beyond, *codes[at + 1 :]]

    change_codes(chunk, dice, change)


def shifted_codes(chunk, dice):
    """All codes moved by one value."""
    change_codes(chunk, dice, lambda codes, _: codes[1:] + codes[:1])


def entries_of(chunk: Chunk) -> tuple[object, list[bytes]]:
    """The dictionary page and its entries."""
    page = chunk.dictionary()
    _, _, data = chunk.open(page)
    entries = []
    at = 0
    for _ in range(page.details[1][1]):
        size = chunk.leaf.width or 4 + int.from_bytes(data[at : at + 4], "little")
        entries.append(data[at : at + size])
        at += size
    return page, entries


def put_entries(chunk: Chunk, page, entries: list[bytes]) -> None:
    """Write the dictionary page."""
    page.details[1] = I32, len(entries)
    chunk.close(page, [], [], b"".join(entries))


def swapped_entries(chunk, dice):
    """Two dictionary entries changed places."""
    page, entries = entries_of(chunk)
    if len(entries) < 2:
        raise LookupError("one entry only")
    one, other = dice.sample(range(len(entries)), 2)
    entries[one], entries[other] = entries[other], entries[one]
    put_entries(chunk, page, entries)


def entry_twice(chunk, dice):
    """One entry replaces another."""
    page, entries = entries_of(chunk)
    if len(entries) < 2:
        raise LookupError("one entry only")
    one, other = dice.sample(range(len(entries)), 2)
    entries[one] = entries[other]
    put_entries(chunk, page, entries)


def last_entry_lost(chunk, dice):
    """The dictionary is one entry short."""
    page, entries = entries_of(chunk)
    put_entries(chunk, page, entries[:-1])


def entry_changed(chunk, dice):
    """A bit of an entry is wrong; in INT96, it may be that of a nanosecond."""
    page, entries = entries_of(chunk)
    at = dice.randrange(len(entries))
    entry = bytearray(entries[at])
    entry[0 if chunk.leaf.width else 4 + dice.randrange(len(entry) - 4)] ^= 1
    entries[at] = bytes(entry)
    put_entries(chunk, page, entries)


def drop_from_index(chunk: Chunk, at: int) -> None:
    """Leave a page out of the page index."""
    pages = len(chunk.data_pages())
    for index, fields in ((chunk.column_index, (1, 2, 3, 5, 6, 7)), (chunk.offset_index, (1, 2))):
        for field in fields if index else ():
            if field in index:
                items = index[field][1].items
                size = len(items) // pages
                del items[at * size : (at + 1) * size]


def page_lost(chunk, dice):
    """A page is missing, and footer and page index agree."""
    if len(chunk.data_pages()) < 2:
        raise LookupError("one page only")
    (at,) = a_page(chunk, dice)
    page = chunk.data_pages()[at]
    drop_from_index(chunk, at)
    chunk.pages = [other for other in chunk.pages if other is not page]
    chunk.metadata[5] = I64, chunk.metadata[5][1] - page.details[1][1]
    for counted in chunk.metadata[13][1].items if 13 in chunk.metadata else ():
        if (counted[1][1], counted[2][1]) == (page.kind, page.encoding):
            counted[3] = I32, counted[3][1] - 1


def page_twice(chunk, dice):
    """A page stands twice, and another is missing."""
    one, other = a_page(chunk, dice, count=2)
    pages = chunk.data_pages()
    chunk.pages[chunk.pages.index(pages[one])] = pages[other]


def swapped_pages(chunk, dice):
    """Two pages changed places; the page index did not notice."""
    one, other = a_page(chunk, dice, count=2)
    pages = chunk.data_pages()
    places = [next(at for at, page in enumerate(chunk.pages) if page is found) for found in (pages[one], pages[other])]
    chunk.pages[places[0]], chunk.pages[places[1]] = pages[other], pages[one]


def swapped_pages_with_index(chunk, dice):
    """Two pages changed places, in the page index too."""
    one, other = a_page(chunk, dice, count=2)
    pages = len(chunk.data_pages())
    swapped_pages(chunk, random.Random(0)) if pages == 2 else exchange(chunk, one, other)
    for index, fields in ((chunk.column_index, (1, 2, 3, 5, 6, 7)), (chunk.offset_index, (2,))):
        for field in fields if index else ():
            if field in index:
                items = index[field][1].items
                size = len(items) // pages
                a, b = slice(one * size, (one + 1) * size), slice(other * size, (other + 1) * size)
                items[a], items[b] = items[b], items[a]


def exchange(chunk: Chunk, one: int, other: int) -> None:
    """Exchange two data pages."""
    first = len(chunk.pages) - len(chunk.data_pages())
    chunk.pages[first + one], chunk.pages[first + other] = chunk.pages[first + other], chunk.pages[first + one]


def change_levels(chunk: Chunk, dice: random.Random, which: int, change: Callable[[list[int]], list[int]]) -> None:
    """Change levels of a page; the values stay."""
    if not (chunk.leaf.repetition, chunk.leaf.definition)[which]:
        raise LookupError("no levels")
    (at,) = a_page(chunk, dice)
    page = chunk.data_pages()[at]
    found = list(chunk.open(page))
    changed = change(found[which])
    if changed == found[which]:
        raise LookupError("no difference")
    found[which] = changed
    chunk.close(page, *found)


def swapped_nulls(chunk, dice):
    """A null and the value beside it changed places."""

    def change(levels):
        top = chunk.leaf.definition
        places = [at for at in range(len(levels) - 1) if (levels[at] == top) != (levels[at + 1] == top)]
        if not places:
            raise LookupError("no null beside a value")
        at = dice.choice(places)
        return [*levels[:at], levels[at + 1], levels[at], *levels[at + 2 :]]

    change_levels(chunk, dice, 1, change)


def other_null(chunk, dice):
    """What is null is another level: a struct or list, or what is in it."""

    def change(levels):
        top = chunk.leaf.definition
        places = [at for at, level in enumerate(levels) if level < top - 1 or 0 < level < top]
        if not places:
            raise LookupError("no second level of nulls")
        at = dice.choice(places)
        return [*levels[:at], levels[at] - 1 if levels[at] else 1, *levels[at + 1 :]]

    change_levels(chunk, dice, 1, change)


def value_nulled(chunk, dice):
    """A level says null where there is a value, and the values after it move."""

    def change(levels):
        places = [at for at, level in enumerate(levels) if level == chunk.leaf.definition]
        if not places:
            raise LookupError("nothing but nulls")
        at = dice.choice(places)
        return [*levels[:at], levels[at] - 1, *levels[at + 1 :]]

    change_levels(chunk, dice, 1, change)


def moved_list(chunk, dice):
    """A list begins one item earlier or later."""

    def change(levels):
        places = [at for at in range(1, len(levels) - 1) if levels[at] != levels[at + 1]]
        if not places:
            raise LookupError("no list of two items")
        at = dice.choice(places)
        return [*levels[:at], levels[at + 1], levels[at], *levels[at + 2 :]]

    change_levels(chunk, dice, 0, change)


def flipped_bit(chunk, dice):
    """A bit of the values is wrong; the checksum was computed afterwards."""
    (at,) = a_page(chunk, dice, coded=False)
    page = chunk.data_pages()[at]
    repetition, definition, values = chunk.open(page)
    if not values:
        raise LookupError("no values")
    changed = bytearray(values)
    changed[dice.randrange(len(changed))] ^= 1 << dice.randrange(8)
    chunk.close(page, repetition, definition, bytes(changed))


def flipped_code_bit(chunk, dice):
    """A bit of the codes is wrong, perhaps one that only pads."""
    (at,) = a_page(chunk, dice, coded=True)
    page = chunk.data_pages()[at]
    repetition, definition, values = chunk.open(page)
    if not values:
        raise LookupError("no values")
    changed = bytearray(values)
    changed[dice.randrange(len(changed))] ^= 1 << dice.randrange(8)
    chunk.close(page, repetition, definition, bytes(changed))


def flipped_stored_bit(chunk, dice):
    """A bit of a page as stored is wrong; the checksum was computed afterwards."""
    page = dice.choice([page for page in chunk.pages if page.body])
    changed = bytearray(page.body)
    changed[dice.randrange(len(changed))] ^= 1 << dice.randrange(8)
    page.body = bytes(changed)
    seal(page)


def unsealed_bit(chunk, dice):
    """A bit of a page rotted after it was written."""
    page = dice.choice([page for page in chunk.pages if page.body])
    changed = bytearray(page.body)
    changed[dice.randrange(len(changed))] ^= 1 << dice.randrange(8)
    page.body = bytes(changed)


def other_encoding(chunk, dice):
    """A page header names another encoding."""
    page = dice.choice(chunk.data_pages())
    page.details[4 if page.kind == V2 else 2] = I32, dice.choice([e for e in (0, 2, 5, 8, 9) if e != page.encoding])


def fewer_in_page(chunk, dice):
    """A page header and the footer tell one value less."""
    page = dice.choice(chunk.data_pages())
    page.details[1] = I32, page.details[1][1] - 1
    chunk.metadata[5] = I64, chunk.metadata[5][1] - 1


def other_codec(chunk, dice):
    """The footer names another codec."""
    found = chunk.metadata[4][1]
    chunk.tweaks.append(
        lambda c: c.metadata.__setitem__(4, (I32, dice.choice([n for n in (0, 1, 2, 6, 7) if n != found])))
    )


def tweak(at: int, by: int) -> Fault:
    """A number of the chunk's metadata is wrong."""

    def fault(chunk, dice):
        if at not in chunk.metadata:
            raise LookupError("no such field")

        def change(found):
            kind, number = found.metadata[at]
            found.metadata[at] = kind, number + by

        chunk.tweaks.append(change)

    return fault


# ---- wrong statements ----

FORMS = {1: "<i", 2: "<q", 4: "<f", 5: "<d", 0: "<?"}


def nudge(raw: bytes, chunk: Chunk, by: int) -> bytes:
    """A bound a little less or greater."""
    if chunk.leaf.kind == 0:
        return bytes([raw[0] ^ 1])
    if chunk.leaf.kind in FORMS:
        return struct.pack(FORMS[chunk.leaf.kind], struct.unpack(FORMS[chunk.leaf.kind], raw)[0] + by)
    if chunk.leaf.kind == 7:
        return (int.from_bytes(raw, "big", signed=True) + by).to_bytes(len(raw), "big", signed=True)
    return raw + b"z" if by > 0 else raw[:-1]


def wrong_bound(fields: tuple[int, int], by: int) -> Fault:
    """A bound of the chunk is wrong, in both forms if it has both."""

    def fault(chunk, dice):
        statistics = chunk.metadata.get(12, (STRUCT, {}))[1]
        if fields[0] not in statistics:
            raise LookupError("no bounds")
        for field in fields:
            if field in statistics:
                statistics[field] = BINARY, nudge(statistics[field][1], chunk, by)

    return fault


def wrong_nulls(by: int) -> Fault:
    """The null count of the chunk is wrong."""

    def fault(chunk, dice):
        statistics = chunk.metadata.get(12, (STRUCT, {}))[1]
        if 3 not in statistics or statistics[3][1] + by < 0:
            raise LookupError("no null count")
        statistics[3] = I64, statistics[3][1] + by

    return fault


def lost_bound(chunk, dice):
    """One bound is stated without the other."""
    statistics = chunk.metadata.get(12, (STRUCT, {}))[1]
    if 6 not in statistics:
        raise LookupError("no bounds")
    del statistics[6]


def wrong_distinct(chunk, dice):
    """The number of distinct values is that of one file."""
    if chunk.pages[0].kind != DICTIONARY or 12 not in chunk.metadata:
        raise LookupError("no dictionary")
    statistics = chunk.metadata[12][1]
    statistics[4] = I64, chunk.pages[0].details[1][1] + 1
    ordered = sorted(statistics.items())
    statistics.clear()
    statistics.update(ordered)


def column_index_of(chunk: Chunk):
    """The column index; LookupError if there is none."""
    if chunk.column_index is None:
        raise LookupError("no column index")
    return chunk.column_index


def wrong_page_bound(field: int, by: int) -> Fault:
    """A bound of a page is wrong."""

    def fault(chunk, dice):
        index = column_index_of(chunk)
        items = index[field][1].items
        fitting = [at for at, bound in enumerate(items) if bound and not index[1][1].items[at]]
        if not fitting:
            raise LookupError("no bound")
        at = dice.choice(fitting)
        items[at] = nudge(items[at], chunk, by)

    return fault


def wrong_page_nulls(chunk, dice):
    """Of two pages, one has a null more and the other one less."""
    items = column_index_of(chunk).get(5, (LIST, ThriftList(I64, [])))[1].items
    if len(items) < 2 or not any(items):
        raise LookupError("no nulls")
    one = dice.choice([at for at, count in enumerate(items) if count])
    other = dice.choice([at for at in range(len(items)) if at != one])
    items[one] -= 1
    items[other] += 1


def wrong_null_page(chunk, dice):
    """A page is said to hold nothing but nulls, or to hold something."""
    items = column_index_of(chunk)[1][1].items
    at = dice.randrange(len(items))
    items[at] = not items[at]


def wrong_page_order(chunk, dice):
    """The bounds of the pages are said to be in an order in which they are not."""
    index = column_index_of(chunk)
    if len(index[2][1].items) < 2 or len(set(index[2][1].items) | set(index[3][1].items)) < 4:
        raise LookupError("no order to be wrong")
    # A true order is not a fault: PyArrow orders the bytes of these types by another rule than the proof.
    order = dice.choice([1, 2])
    kept = [at for at, is_null in enumerate(index[1][1].items) if not is_null]
    lows, highs = ([pack_key(index[field][1].items[at], chunk) for at in kept] for field in (2, 3))
    if all(sorted(found, reverse=order == 2) == found for found in (lows, highs)):
        raise LookupError("it is the order")
    index[4] = I32, order


def pack_key(bound: bytes, chunk: Chunk):
    """A bound that compares like the values."""
    if chunk.leaf.kind in FORMS:
        return struct.unpack(FORMS[chunk.leaf.kind], bound)[0]
    return int.from_bytes(bound, "big", signed=True) if chunk.leaf.kind == 7 else bound


def index_too_short(chunk, dice):
    """The column index lacks the last page."""
    index = column_index_of(chunk)
    for field in (1, 2, 3):
        index[field][1].items.pop()


def wrong_place(field: int, by: int) -> Fault:
    """A page of the offset index has another place, size or first row."""

    def fault(chunk, dice):
        if chunk.offset_index is None:
            raise LookupError("no offset index")
        items = chunk.offset_index[1][1].items
        at = dice.randrange(len(items))

        def change(found):
            place = found.offset_index[1][1].items[at]
            kind, number = place[field]
            place[field] = kind, number + by

        chunk.tweaks.append(change)

    return fault


def wrong_page_sizes(chunk, dice):
    """Of two pages, one has a byte of text more and the other one less."""
    items = (chunk.offset_index or {}).get(2, (LIST, ThriftList(I64, [])))[1].items
    if len(items) < 2:
        raise LookupError("no sizes")
    one, other = dice.sample(range(len(items)), 2)
    items[one] += 1
    items[other] -= 1


def wrong_page_levels(field: int) -> Fault:
    """Of two pages, one has a level more often and the other less."""

    def fault(chunk, dice):
        items = column_index_of(chunk).get(field, (LIST, ThriftList(I64, [])))[1].items
        pages = len(chunk.data_pages())
        size = len(items) // pages
        if size == 0 or pages < 2:
            raise LookupError("no levels")
        level = dice.randrange(size)
        one, other = dice.sample(range(pages), 2)
        items[one * size + level] += 1
        items[other * size + level] -= 1

    return fault


def sizes_of(chunk: Chunk):
    """The size statistics; LookupError if there are none."""
    if 16 not in chunk.metadata:
        raise LookupError("no size statistics")
    return chunk.metadata[16][1]


def wrong_text_bytes(chunk, dice):
    """The bytes of text are wrong."""
    sizes = sizes_of(chunk)
    if 1 not in sizes:
        raise LookupError("no text")
    sizes[1] = I64, sizes[1][1] + 1


def wrong_levels(field: int) -> Fault:
    """A count of levels is wrong."""

    def fault(chunk, dice):
        sizes = sizes_of(chunk)
        if field not in sizes or not sizes[field][1].items:
            raise LookupError("no levels")
        items = sizes[field][1].items
        items[dice.randrange(len(items))] += 1

    return fault


def wrong_encodings(chunk, dice):
    """The list of encodings has one that no page has, or lacks one."""
    items = chunk.metadata[2][1].items
    if dice.random() < 0.5:
        items.append(next(e for e in (0, 2, 5, 7, 8) if e not in items))
    else:
        items.remove(chunk.data_pages()[0].encoding)


def wrong_counts(chunk, dice):
    """The number of pages of an encoding is wrong, or the encoding is."""
    if 13 not in chunk.metadata:
        raise LookupError("no counts")
    counted = dice.choice(chunk.metadata[13][1].items)
    if dice.random() < 0.5:
        counted[3] = I32, counted[3][1] + 1
    else:
        counted[2] = I32, next(e for e in (0, 2, 8) if e != counted[2][1])


def bloom_of(chunk: Chunk) -> bytearray:
    """The bloom filter; LookupError if there is none."""
    if chunk.bloom is None:
        raise LookupError("no bloom filter")
    return bytearray(chunk.bloom)


def cleared_bloom_bit(chunk, dice):
    """A bit of the bloom filter is missing: a value is not found any more."""
    bloom = bloom_of(chunk)
    at = dice.choice([at for at in range(len(bloom) - 32, len(bloom)) if bloom[at]] or [len(bloom) - 1])
    if not bloom[at]:
        raise LookupError("no bit")
    bloom[at] &= bloom[at] - 1
    chunk.bloom = bytes(bloom)


def set_bloom_bit(chunk, dice):
    """A bit of the bloom filter is set for no value."""
    bloom = bloom_of(chunk)
    at = dice.choice([at for at in range(len(bloom) - 32, len(bloom)) if bloom[at] != 255])
    bloom[at] |= bloom[at] + 1
    chunk.bloom = bytes(bloom)


def other_bloom_filter(chunk, dice):
    """The header of the bloom filter names an algorithm, a hash or a compression that is unknown."""
    bloom = bloom_of(chunk)
    places = [at for at in range(len(bloom) - 32) if bloom[at : at + 4] == b"\x1c\x1c\x00\x00"]
    bloom[dice.choice(places) + 1] += 0x10
    chunk.bloom = bytes(bloom)


def lost_bloom_filter(chunk, dice):
    """The bloom filter is gone."""
    bloom_of(chunk)
    chunk.bloom = None


FAULTS: dict[str, Fault] = {
    "another code": other_code,
    "two codes exchanged": swapped_codes,
    "codes moved by one": shifted_codes,
    "a code without entry": code_beyond,
    "two entries exchanged": swapped_entries,
    "an entry twice": entry_twice,
    "the last entry lost": last_entry_lost,
    "an entry changed": entry_changed,
    "a page lost": page_lost,
    "a page twice": page_twice,
    "two pages exchanged": swapped_pages,
    "two pages exchanged, index too": swapped_pages_with_index,
    "null and value exchanged": swapped_nulls,
    "a null of another level": other_null,
    "a value became null": value_nulled,
    "start of a list moved": moved_list,
    "bit of a value": flipped_bit,
    "bit of the codes": flipped_code_bit,
    "bit as stored": flipped_stored_bit,
    "bit rotted": unsealed_bit,
    "page of another encoding": other_encoding,
    "fewer values in a page": fewer_in_page,
    "another codec": other_codec,
    "fewer values": tweak(5, -1),
    "more values": tweak(5, 1),
    "another uncompressed size": tweak(6, 1),
    "a shorter chunk": tweak(7, -1),
    "a longer chunk": tweak(7, 1),
    "first page elsewhere": tweak(9, 1),
    "dictionary elsewhere": tweak(11, 1),
    "minimum too high": wrong_bound((6, 2), 1),
    "minimum too low": wrong_bound((6, 2), -1),
    "maximum too low": wrong_bound((5, 1), -1),
    "maximum too high": wrong_bound((5, 1), 1),
    "a bound lost": lost_bound,
    "too many nulls": wrong_nulls(1),
    "too few nulls": wrong_nulls(-1),
    "distinct values": wrong_distinct,
    "page minimum too high": wrong_page_bound(2, 1),
    "page minimum too low": wrong_page_bound(2, -1),
    "page maximum too low": wrong_page_bound(3, -1),
    "page maximum too high": wrong_page_bound(3, 1),
    "nulls of two pages": wrong_page_nulls,
    "page of nulls": wrong_null_page,
    "order of pages": wrong_page_order,
    "column index too short": index_too_short,
    "place of a page": wrong_place(1, 3),
    "size of a page": wrong_place(2, -1),
    "first row of a page": wrong_place(3, 1),
    "first row of a page too low": wrong_place(3, -1),
    "text bytes of two pages": wrong_page_sizes,
    "repetition levels of two pages": wrong_page_levels(6),
    "definition levels of two pages": wrong_page_levels(7),
    "text bytes": wrong_text_bytes,
    "repetition levels": wrong_levels(2),
    "definition levels": wrong_levels(3),
    "encodings": wrong_encodings,
    "pages by encoding": wrong_counts,
    "bloom filter: bit cleared": cleared_bloom_bit,
    "bloom filter: bit set": set_bloom_bit,
    "bloom filter: of another kind": other_bloom_filter,
    "bloom filter: lost": lost_bloom_filter,
}


# Faults of the whole file.


def rows_tweaked(by: int) -> Callable[[Parts], None]:
    """Footer and row group tell another number of rows."""

    def fault(parts):
        group = parts.groups[-1][0]
        group[3] = I64, group[3][1] + by
        parts.footer[3] = I64, parts.footer[3][1] + by

    return fault


def footer_rows(parts):
    """The footer tells one row more than its row groups."""
    parts.footer[3] = I64, parts.footer[3][1] + 1


def exchanged_columns(one: str, other: str) -> Callable[[Parts], None]:
    """The pages of a column are in the place of another of the same type."""

    def fault(parts):
        chunks = {chunk.leaf.path: chunk for chunk in parts.groups[0][1]}
        first, second = chunks[one], chunks[other]
        first.pages, second.pages = second.pages, first.pages
        first.column_index, second.column_index = second.column_index, first.column_index
        first.offset_index, second.offset_index = second.offset_index, first.offset_index
        first.bloom, second.bloom = second.bloom, first.bloom
        for field in (2, 4, 5, 12, 13, 16):
            found = [chunk.metadata.pop(field, None) for chunk in (first, second)]
            for chunk, value in zip((second, first), found, strict=True):
                if value is not None:
                    chunk.metadata[field] = value

    return fault


def renamed_column(parts):
    """A column has another name."""
    parts.footer[2][1].items[1][4] = BINARY, b"other"


def added_key(parts):
    """Key-value metadata has a key that no input has."""
    items = parts.footer.setdefault(5, (LIST, ThriftList(STRUCT, [])))[1].items
    items.append({1: (BINARY, b"org.example"), 2: (BINARY, b"1")})
    ordered = sorted(parts.footer.items())
    parts.footer.clear()
    parts.footer.update(ordered)


def claimed_order(parts):
    """A row group claims to be sorted."""
    group = parts.groups[0][0]
    group[4] = LIST, ThriftList(STRUCT, [{1: (I32, 2), 2: (TRUE, False), 3: (TRUE, False)}])
    ordered = sorted(group.items())
    group.clear()
    group.update(ordered)


FILE_FAULTS: dict[str, Callable[[Parts], None]] = {
    "one row less": rows_tweaked(-1),
    "one row more": rows_tweaked(1),
    "one row more in the footer": footer_rows,
    "two columns of text exchanged": exchanged_columns("word", "maybe"),
    "a column renamed": renamed_column,
    "another key": added_key,
    "a sort order claimed": claimed_order,
}


def mutants(source: str, fault: str) -> Iterator[tuple[str, bytes]]:
    """The mutants of a fault, one for each column in which it can occur."""
    _, _, original, _, _ = merged(source)
    for number in range(len(Parts(original).chunks())):
        changed = Parts(original)
        chunk = changed.chunks()[number]
        try:
            FAULTS[fault](chunk, random.Random(f"{source} {fault} {number}"))
        except LookupError:
            continue
        yield chunk.leaf.path, changed.build()


# ---- the proof ----


def find_fault(source: str, mutant: bytes) -> str:
    """Which check finds something wrong with a file; empty if none does."""
    folder, paths, _, copied, before = merged(source)
    output = folder / "mutant.parquet"
    output.write_bytes(mutant)
    try:
        check_readable(IO, str(output), paths, leaves=copied)
    except PackstoneError:
        return "readable"
    try:
        if fingerprint_splice(IO, [str(output)], copied=copied) != before:
            return "fingerprint"
    except PackstoneError:
        return "fingerprint"
    try:
        check_same_parquet_shape(IO, paths, str(output))
        check_statistics(IO, paths, str(output))
    except PackstoneError:
        return "statistics"
    return ""


def meaning(data: bytes) -> list[object]:
    """The values of every leaf, with its nulls and lists, by no code of the proof; and all that the footer states.

    Bits that only pad the codes of a page, and pages that hold the same values, are in no reader's view.
    """
    file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
    schema = file.metadata.schema
    paths = [schema.column(at).path for at in range(len(schema))]
    values = [repr(file.read(columns=[path]).column(0).to_pylist()) for path in paths]
    parts = Parts(data)
    stated = []
    for chunk in parts.chunks():
        kept = {field: value for field, value in chunk.metadata.items() if field not in (6, 7, 9, 11, 14, 15)}
        places = [place[3] for place in (chunk.offset_index or {1: (0, ThriftList(0, []))})[1][1].items]
        pages = [(page.kind, page.encoding, page.details[1][1]) for page in chunk.pages]
        stated.append(repr((kept, chunk.column_index, places, chunk.bloom, pages)))
    return [values, stated]


def is_equivalent(source: str, mutant: bytes) -> bool:
    """Whether a mutant means the same as the original."""
    try:
        return meaning(mutant) == meaning(merged(source)[2])
    except (pa.ArrowException, OSError, ValueError, LookupError):
        return False


PAIRS = [(source, fault) for source in SOURCES for fault in FAULTS]


@pytest.mark.parametrize("source", SOURCES)
def test_the_proof_accepts_what_the_kernel_wrote(source):
    """Without a fault nothing is found, and taking a file apart and putting it together changes no byte."""
    original = merged(source)[2]
    assert find_fault(source, original) == ""
    assert find_fault(source, Parts(original).build()) == ""


@pytest.mark.parametrize(("source", "fault"), PAIRS)
@pytest.mark.sample(7)
def test_every_fault_is_found(source, fault):
    """No mutant survives the proof, unless it means the same as the original."""
    found = [(name, find_fault(source, mutant), mutant) for name, mutant in mutants(source, fault)]
    survivors = [(name, mutant) for name, check, mutant in found if not check]
    assert [name for name, mutant in survivors if not is_equivalent(source, mutant)] == []


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("fault", FILE_FAULTS)
@pytest.mark.sample(2)
def test_every_fault_of_a_file_is_found(source, fault):
    """Wrong row counts, columns in the place of others, other names and claims are found."""
    parts = Parts(merged(source)[2])
    FILE_FAULTS[fault](parts)
    assert find_fault(source, parts.build())


@pytest.mark.slow
def test_faults_occur():
    """There are enough mutants, and every fault occurs somewhere."""
    counts = Counter(dict.fromkeys(FAULTS, 0))
    for source, fault in PAIRS:
        counts[fault] += sum(1 for _ in mutants(source, fault))
    assert sum(counts.values()) >= LEAST_MUTANTS
    assert [fault for fault, count in counts.items() if not count] == []
