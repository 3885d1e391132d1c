"""Damaged Parquet files among good ones: the process lives, and every row that could be read before can be read after.

Each case is one file with random damage. Some of them lie beside good files in one partition, and the partition is
merged in this process, so an abort inside PyArrow would end the test. Afterwards the good rows are all there; a damaged
file is either as it was and named, or was merged with the content that DuckDB, which shares no code with us, reads.
"""

import contextlib
import io
import itertools
import random
import signal
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from patience import patient

from packstone.model.outcome import SkipKind
from packstone.pipeline.table import Table
from packstone.rewrite.formats.parquet_thrift import (
    BINARY,
    I32,
    I64,
    LIST,
    STRUCT,
    ThriftList,
    read_struct,
    write_struct,
)
from packstone.runs.engine import InlineEngine
from packstone.tables.hive.options import HiveOptions

GOOD_FILES, BAD_FILES = 5, 6
SHORT_CASES, LONG_CASES = 96, 5_000
LIMIT_SECONDS = patient(120)
ROWS = 300


def flat(start: int) -> pa.Table:
    """Columns of the common types."""
    ids = range(start, start + ROWS)
    return pa.table({
        "id": pa.array(ids, pa.int64()),
        "small": pa.array([k % 7 for k in ids], pa.int32()),
        "s": [None if k % 11 == 0 else f"v{k % 50}" for k in ids],
        "f": [k / 3 for k in ids],
        "b": [k % 2 == 0 for k in ids],
        "x": pa.array([b"%04d" % (k % 9999) for k in ids], pa.binary(4)),
    })  # fmt: skip


def nested(start: int) -> pa.Table:
    """Lists, structs and maps."""
    ids = range(start, start + ROWS)
    return pa.table({
        "id": pa.array(ids, pa.int64()),
        "l": [[k] * (k % 4) for k in ids],
        "st": [{"a": k, "t": [str(k)]} for k in ids],
        "m": pa.array([[("k", k)] for k in ids], pa.map_(pa.string(), pa.int64())),
    })  # fmt: skip


WRITERS = (
    (flat, {"compression": "snappy"}),
    (flat, {"compression": "zstd", "use_dictionary": False, "store_schema": False}),
    (flat, {"compression": "none", "data_page_version": "2.0", "write_page_index": True}),
    (flat, {"compression": "gzip", "write_page_checksum": True, "row_group_size": 100}),
    (nested, {"compression": "none"}),
    (nested, {"compression": "zstd", "use_dictionary": False, "data_page_version": "2.0"}),
)


def encode(make, start: int, options: dict) -> bytes:
    """A file of one of the writers."""
    out = io.BytesIO()
    pq.write_table(make(start), out, **options)
    return out.getvalue()


def damage(data: bytes, chance: random.Random) -> bytes:
    """Damage a file in one of the ways in which files are damaged, or were made to harm."""
    footer_bytes = int.from_bytes(data[-8:-4], "little")
    pages = range(4, len(data) - 8 - footer_bytes)
    footer = range(len(data) - 8 - footer_bytes, len(data) - 8)
    match chance.choice(("bits", "bits", "run", "truncate", "hole", "footer", "footer", "page header", "edit", "edit")):
        case "bits":
            return flip(data, range(len(data)), chance)
        case "run":
            at = chance.randrange(len(data))
            run = bytes(chance.choice((0, 255, chance.randrange(256))) for _ in range(chance.randrange(1, 64)))
            return (data[:at] + run + data[at + len(run) :])[: len(data)]
        case "truncate":
            return data[: chance.randrange(1, len(data))]
        case "hole":
            at = chance.randrange(len(data))
            return data[:at] + data[at + chance.randrange(1, 64) :]
        case "footer":
            return flip(data, footer, chance)
        case "page header":
            at = page_offset(data, chance)
            return flip(data, range(at, min(at + 24, pages.stop)), chance)
        case _:
            return edit_footer(data, chance)


def flip(data: bytes, where: range, chance: random.Random) -> bytes:
    """Change one to four bytes."""
    damaged = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 4))):
        at = chance.choice(where)
        damaged[at] = chance.choice((damaged[at] ^ 1 << chance.randrange(8), chance.randrange(256), 0, 255))
    return bytes(damaged)


def page_offset(data: bytes, chance: random.Random) -> int:
    """Where the pages of a column begin."""
    metadata = pq.ParquetFile(io.BytesIO(data)).metadata
    group = metadata.row_group(chance.randrange(metadata.num_row_groups))
    chunk = group.column(chance.randrange(group.num_columns))
    return (
        chunk.dictionary_page_offset if chunk.has_dictionary_page and chance.random() < 0.5 else chunk.data_page_offset
    )


def edit_footer(data: bytes, chance: random.Random) -> bytes:
    """Write a footer that is thrift through and through, and wrong in one value."""
    footer_bytes = int.from_bytes(data[-8:-4], "little")
    footer, _ = read_struct(data[-8 - footer_bytes : -8])
    struct = chance.choice(list(structs(footer)))
    number = chance.choice(list(struct))
    kind, value = struct[number]
    if chance.random() < 0.1:
        del struct[number]
    elif kind in (I32, I64):
        struct[number] = kind, chance.choice((0, -1, 1, value + 1, value - 1, 2**31 - 1, -(2**31), value * 1000, 77))
    elif kind == BINARY:
        struct[number] = kind, chance.choice((b"", b"\xff\xfe", value[:-1], value + b"x", b"\x00" * 40))
    elif kind == LIST:
        items = value.items
        struct[number] = kind, ThriftList(value.kind, chance.choice(([], items[:-1], items + items[:1], items[::-1])))
    written = write_struct(footer)
    return data[: -8 - footer_bytes] + written + len(written).to_bytes(4, "little") + b"PAR1"


def structs(struct: dict) -> Iterator[dict]:
    """All structs in a footer that have a field."""
    if struct:
        yield struct
    for kind, value in struct.values():
        if kind == STRUCT:
            yield from structs(value)
        elif kind == LIST and value.kind == STRUCT:
            for item in value.items:
                yield from structs(item)


def content(files: list[Path]) -> tuple[int, int]:
    """Number and sum of the hashes of all rows, as DuckDB reads them."""
    total = (0, 0)
    for file in files:
        query = f"SELECT count(*), coalesce(sum(hash(t)::HUGEINT), 0) FROM read_parquet('{file}') t"
        ((rows, hashed),) = duckdb.sql(query).fetchall()
        total = total[0] + rows, total[1] + hashed
    return total


def contents_before(folder: Path, data: bytes) -> set[tuple[int, int]]:
    """What a damaged file holds, by DuckDB, which refuses some, and by PyArrow, whose rows are written anew.

    The two agree but for levels that contradict the values: damage that neither of them notices (1 file in 5,000).
    """
    path = folder / "before.parquet"
    found = set()
    path.write_bytes(data)
    with contextlib.suppress(duckdb.Error):
        found.add(content([path]))
    pq.write_table(pq.read_table(pa.BufferReader(data)), path)
    return found | {content([path])}


@contextlib.contextmanager
def no_hang() -> Iterator[None]:
    """Fail if something does not end."""

    def ring(*_: object) -> None:
        raise AssertionError("it hangs")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(LIMIT_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def run_partition(folder: Path, seed: int) -> None:
    """Damage some files, merge, and look at every file."""
    chance = random.Random(seed)
    make, options = WRITERS[seed % len(WRITERS)]
    table, aside = folder / f"t{seed}", folder / "aside"
    table.mkdir(parents=True)
    aside.mkdir(exist_ok=True)
    for number in range(GOOD_FILES):
        (table / f"good{number}.parquet").write_bytes(encode(make, number * ROWS, options))
    good = content(sorted(table.iterdir()))
    damaged = {}
    for number in range(BAD_FILES):
        name = f"bad{number}.parquet"
        damaged[name] = damage(encode(make, (100 + number) * ROWS, options), chance)
        (table / name).write_bytes(damaged[name])
    with no_hang():
        outcome = Table(str(table), engine=InlineEngine).compact(HiveOptions())
    found = {file.name: file for file in table.iterdir()}
    left = {name for name in damaged if name in found}
    for name in left:
        assert found[name].read_bytes() == damaged[name], f"seed {seed}: {name} was changed"
    merged = [contents_before(aside, data) for name, data in damaged.items() if name not in left]
    expected = {tuple(map(sum, zip(good, *choice, strict=True))) for choice in itertools.product(*merged)}
    outputs = [file for name, file in sorted(found.items()) if name not in left]
    assert content(outputs) in expected, f"seed {seed}: rows changed"
    assert len(outputs) == 1, f"seed {seed}: the good files were not merged"
    named = " ".join(str(skip) for skip in outcome.skipped)
    broken = {skip.what for skip in outcome.skipped if skip.kind is SkipKind.UNREADABLE}
    assert broken <= left
    assert not any(skip.kind is SkipKind.FAILED for skip in outcome.skipped), f"seed {seed}: {named}"
    for name in left:
        assert name in named or is_sound(damaged[name]), f"seed {seed}: nothing is said about {name}"


def is_sound(data: bytes) -> bool:
    """Whether a file that was left alone can be read: then it only does not agree with the others."""
    try:
        pq.read_table(pa.BufferReader(data))
    except Exception:  # noqa: BLE001 - whatever it raises, it cannot be read
        return False
    return True


@pytest.mark.parametrize("first", range(0, SHORT_CASES // BAD_FILES, len(WRITERS) // 2))
def test_damaged_files_cost_themselves(tmp_path, first):
    """96 damaged files, of every writer and with every kind of damage."""
    for seed in range(first, min(first + len(WRITERS) // 2, SHORT_CASES // BAD_FILES)):
        run_partition(tmp_path, seed)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(10))
def test_damaged_files_cost_themselves_at_length(tmp_path, part):
    """5,000 damaged files."""
    share = -(-LONG_CASES // BAD_FILES // 10)
    for seed in range(1_000 + part * share, 1_000 + (part + 1) * share):
        run_partition(tmp_path, seed)
