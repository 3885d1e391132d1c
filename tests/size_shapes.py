"""Tables whose size depends on the encoding: shapes of columns, as Arrow tables of one file each."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pyarrow as pa

_START = datetime(2019, 1, 1, tzinfo=UTC)
_WORDS = ("lorem", "ipsum", "dolor", "sit", "amet", "elitr", "sed", "diam", "nonumy", "eirmod", "tempor", "magna")


def orders(file: int, rows: int) -> pa.Table:
    """An id, a price, a short name and a running time: what the report of growth had."""
    draw = random.Random(file)
    ids = range(file * rows, (file + 1) * rows)
    return pa.table({
        "id": ids,
        "amount": pa.array([Decimal(draw.randrange(10**7)).scaleb(-2) for _ in ids], pa.decimal128(10, 2)),
        "name": [f"user-{at % 1000}" for at in ids],
        "ts": pa.array([_START + timedelta(seconds=at) for at in ids], pa.timestamp("us", "UTC")),
    })  # fmt: skip


def unique(file: int, rows: int) -> pa.Table:
    """No value occurs twice."""
    draw = random.Random(file)
    return pa.table({
        "u": [f"{draw.randrange(1 << 64):016x}" for _ in range(rows)],
        "n": [draw.randrange(1 << 60) for _ in range(rows)],
        "x": [draw.random() for _ in range(rows)],
    })  # fmt: skip


def shared(file: int, rows: int) -> pa.Table:
    """Values that seldom repeat within a file, and often across all files."""
    draw = random.Random(file)
    return pa.table({
        "sku": [f"sku-{draw.randrange(2 * rows):012d}" for _ in range(rows)],
        "price": [draw.randrange(2 * rows) * 1_000_003 for _ in range(rows)],
    })  # fmt: skip


def text(file: int, rows: int) -> pa.Table:
    """Sentences that differ, which the codec shortens, and a word that repeats."""
    draw = random.Random(file)
    return pa.table({
        "msg": [" ".join(draw.choices(_WORDS, k=12)) for _ in range(rows)],
        "level": [draw.choice(["INFO", "WARN", "ERROR"]) for _ in range(rows)],
    })  # fmt: skip


def nested(file: int, rows: int) -> pa.Table:
    """Leaves in lists and structs: some repeat, some do not."""
    draw = random.Random(file)
    return pa.table({
        "tags": [[f"tag{draw.randrange(30)}" for _ in range(draw.randrange(4))] for _ in range(rows)],
        "event": [{"id": file * rows + at, "kind": f"k{draw.randrange(7)}"} for at in range(rows)],
    })  # fmt: skip


def sparse(file: int, rows: int) -> pa.Table:
    """Mostly nulls."""
    draw = random.Random(file)
    return pa.table({
        "a": [draw.randrange(1 << 40) if draw.random() < 0.1 else None for _ in range(rows)],
        "s": [f"s{draw.randrange(100)}" if draw.random() < 0.1 else None for _ in range(rows)],
        "never": pa.nulls(rows, pa.string()),
    })  # fmt: skip


def local(file: int, rows: int) -> pa.Table:
    """Values that repeat within a file and occur in no other."""
    draw = random.Random(file)
    return pa.table({"session": [f"{file:04x}-{draw.randrange(32):04x}" for _ in range(rows)]})


def private_text(file: int, rows: int) -> pa.Table:
    """Long words, a quarter of which differ, and all of them in one file only."""
    return pa.table({"word": [f"f{file}-{at % (rows // 4):05d}-abcdefgh" for at in range(rows)]})


def private_and_shared(file: int, rows: int) -> pa.Table:
    """Mostly ten words that occur in every file; the others occur once."""
    draw = random.Random(file)
    numbers = [draw.randrange(100_000) for _ in range(rows)]
    return pa.table({"word": [f"hot{one % 10}" if one % 3 else f"rare{file}-{one}" for one in numbers]})


def private_doubles(file: int, rows: int) -> pa.Table:
    """Three hundred doubles of each file's own."""
    draw = random.Random(file)
    return pa.table({"x": [draw.randrange(300) / 7 + file * 1000 for _ in range(rows)]})


def private_pair(file: int, rows: int) -> pa.Table:
    """Two integers of each file's own."""
    draw = random.Random(file)
    return pa.table({"n": [2 * file + draw.randrange(2) for _ in range(rows)]})


NOT_BIGGER = (orders, unique, shared, text, nested, sparse)
