"""Loads, compactions and cleans that go on side by side for a while; ``fork_server.py`` runs them in own processes."""

import contextlib
import json
import os
import random
import time
from collections import Counter

import duckdb
import pyarrow as pa
from compact_calls import segment_clean
from segment_lake import SegmentLake

from packstone.errors import RefusedError
from packstone.model.segment import SegmentId
from packstone.pipeline.table import Table
from packstone.tables.segments.load import load_batches
from packstone.tables.segments.load_options import LoadOptions
from packstone.tables.segments.options import SegmentOptions

ROWS = 20
MINUTE = 1 / 1440


def race_loads(io, path, who, seconds, scope):
    """Load numbers that nobody else has, again and again; say how many loads were made."""
    io, end, made = io._inner, time.monotonic() + seconds, 0  # no list of steps for minutes
    while time.monotonic() < end:
        first = (who * 1_000_000 + made) * ROWS
        numbers = pa.array(range(first + ROWS - 1, first - 1, -1), pa.int64())
        data = pa.table({"id": numbers, "v": pa.array([str(who)] * ROWS)})
        report = load_batches(io, path, data, options=LoadOptions(sort_scope=scope))
        assert report.rows == ROWS
        made += 1
    return made


def race_compactions(io, path, strategy, seconds):
    """Compact again and again; say how many merges were committed, and why others were not."""
    io, end, merged, why = io._inner, time.monotonic() + seconds, 0, set()
    while time.monotonic() < end:
        outcome = Table(path, io=io).compact(SegmentOptions(strategy=strategy))
        merged += len(outcome.units)
        why |= {str(skip.kind) for skip in outcome.skipped}
    return {"merged": merged, "why": sorted(why)}


def race_cleans(io, path, seconds):
    """Clean again and again, as if a minute had gone by each time; say how many files went."""
    io, end, files = io._inner, time.monotonic() + seconds, 0
    while time.monotonic() < end:
        done = segment_clean(io, path, days=1.02 * MINUTE)
        files += done["files"]
        assert done["unknown"] == [], done
    return files


def race_reads(_, path, seconds):
    """Read what the newest version names, again and again: each load is there whole, and never twice."""
    lake, end, reads, gone = SegmentLake(path), time.monotonic() + seconds, 0, 0
    while time.monotonic() < end:
        try:
            rows = Counter(row[0] // ROWS for row in lake.count(lake.versions()[-1]).elements())
        except (OSError, duckdb.IOException):
            gone += 1  # cleaned as if a minute had gone by
            continue
        assert all(count == ROWS for count in rows.values()), rows
        reads += 1
    return {"reads": reads, "gone": gone}


_WHATS = ("load", "load", "load", "load", "delete", "rows", "compact", "compact", "restore", "clean", "overwrite")


def live_through(io, path, seed, log, most):
    """Do things to a table at random; a line of the log says what begins, and the next one that it ended.

    A line names the loads whose rows come or go. The rows of load N are 20 N to 20 N + 19.
    """
    io, rng, table, lake, runs = io._inner, random.Random(seed), Table(path, io=io._inner), SegmentLake(path), []
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(*words):
        os.write(out, json.dumps(words).encode() + b"\n")

    for step in range(most):
        what, number, live = rng.choice(_WHATS), seed * 10_000 + step, lake.ids()
        if what in ("load", "overwrite"):
            note(what, [number])
            options = LoadOptions(overwrite=what == "overwrite", sort_scope=rng.choice(["NO_SORT", "LOCAL_SORT"]))
            numbers = [number * ROWS + at for at in range(ROWS)]
            rng.shuffle(numbers)
            load_batches(io, path, pa.table({"id": numbers, "v": [str(number)] * ROWS}), options=options)
        elif what == "delete" and live:
            chosen = rng.choice(live)
            note(what, sorted({one // ROWS for one in lake.read(chosen).column("id").to_pylist()}))
            table.segments.delete(ids=[SegmentId.parse(chosen)])
        elif what == "rows" and live:
            first = rng.choice(sorted(lake.count()))[0] // ROWS
            note("delete", [first])
            table.segments.delete_rows(f"id >= {first * ROWS} AND id < {(first + 1) * ROWS}")
        elif what == "compact":
            note(what, [])
            outcome = table.compact(SegmentOptions(strategy=rng.choice(["minor", "major"])))
            runs += [outcome.run] if outcome.units else []
        elif what == "restore" and runs:
            note(what, [])
            with contextlib.suppress(RefusedError):  # what it merged is merged again, deleted or cleaned
                table.restore(rng.choice(runs[-2:]))
        elif what == "clean":
            note(what, [])
            segment_clean(io, path, days=rng.choice([0, 1.02 * MINUTE]))
        else:
            continue
        note("ended", [])
