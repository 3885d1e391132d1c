"""Skipping row groups of an index of a million: in one segment, and in a table of ten thousand segments.

    python bench/pruning.py [--blocklets 1000000] [--repeat 9] [--segments 10000]

First a sorted segment (account, then code as text), and the same row groups as if they were not sorted: milliseconds
with the search tree and with the vector test. The best of several runs counts; reading the index and building the tree
are not timed: a process does that once. The limit is 50 ms.

Then a table whose blocklets are spread over segments, each with all accounts, as daily loads are: a process of its own
plans scans, cold (it reads all records), warm, and after one more commit. The limits are 1 s warm and 1 GB of memory.
The table has records and indexes only: planning opens no data file.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import resource
import tempfile
import time
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from packstone.model.segment import SegmentId, SegmentStatus
from packstone.query.filter.key_search import build_sorted_keys, prune
from packstone.query.filter.parse_filter import parse_filter
from packstone.query.filter.resolve import prepare_filter
from packstone.query.scan.request import Selection
from packstone.runs.clock import system_clock
from packstone.storage.local import LocalFileIO
from packstone.tables.segments.format.columns import parse_columns, to_arrow
from packstone.tables.segments.format.commit import commit_edit, create_table
from packstone.tables.segments.format.edits import Change, alter_properties
from packstone.tables.segments.format.layout import index_file_name, index_file_path, segment_folder, segments_folder
from packstone.tables.segments.format.properties import SortScope
from packstone.tables.segments.format.segment_file import (
    DataFile,
    SegmentFile,
    index_schema,
    write_index,
    write_segment_file,
)
from packstone.tables.segments.format.status import StatusEntry, TableStatus
from packstone.tables.segments.scan import SegmentSource

SCHEMA = pa.schema([("account", pa.int64()), ("code", pa.string()), ("price", pa.float64())])


def make_index(blocklets: int) -> pa.Table:
    """Bounds of row groups in which accounts ascend, codes follow the accounts and prices are random."""
    start = np.arange(blocklets) * 10
    low, high = pa.array(start), pa.array(start + 9)
    first, last = (
        pc.binary_join_element_wise("A", pc.utf8_lpad(pc.cast(end, pa.string()), 12, "0"), "") for end in (low, high)
    )
    price = np.random.default_rng(7).random(blocklets) * 1000
    zeros, no = pa.array(np.zeros(blocklets, dtype=np.int64)), pa.array(np.zeros(blocklets, dtype=bool))
    return pa.table(
        {
            "rows": pa.array(np.full(blocklets, 10)),
            "start.account": low, "end.account": high, "min.account": low, "max.account": high, "nulls.account": zeros,
            "min.code": first.cast(pa.binary()), "max.code": last.cast(pa.binary()), "nulls.code": zeros,
            "min.price": pa.array(price), "max.price": pa.array(price + 10), "nulls.price": zeros, "nan.price": no,
        }
    )  # fmt: skip


DDL = "account long not null, day int not null, code string, price double"
ROWS = 10_000  # of a blocklet


def make_table(table: str, *, segments: int, blocklets: int) -> None:
    """Write status, segment files and indexes of a table sorted by account, one day in each segment."""
    io, clock, columns = LocalFileIO(), system_clock(), parse_columns(DDL)
    io.make_dirs(segments_folder(table))
    create_table(io, table, columns, properties={"SORT_COLUMNS": "account"}, clock=clock)
    count, attempt, entries = blocklets // segments, clock.new_id(), list[StatusEntry]()
    schema = index_schema(to_arrow(columns), ["account"])
    for number in range(segments):
        segment = SegmentId(number)
        file = DataFile(
            path=f"{segment_folder(segment)}/part.parquet", run=0, rows=count * ROWS, size_bytes=count * 50_000
        )
        name = index_file_name(segment, attempt)
        written = write_index(io, index_file_path(table, name), index_of_day(schema, number, count))
        record = SegmentFile(
            id=segment, attempt=attempt, files=(file,), sort_columns=("account",), sort_scope=SortScope.LOCAL_SORT,
            schema=DDL, index_file=name, index_digest=written.digest, rows=file.rows, data_bytes=file.size_bytes,
        )  # fmt: skip
        entries.append(
            StatusEntry(
                id=segment,
                status=SegmentStatus.SUCCESS,
                load_start_ms=number,
                newest_load_ms=number,
                load_end_ms=number,
                data_bytes=file.size_bytes,
                index_bytes=written.size_bytes,
                rows=file.rows,
                files=1,
                segment_file=write_segment_file(io, table, record),
                attempt=attempt,
            )
        )
    edit = functools.partial(_add, entries=tuple(entries))
    commit_edit(io, table, edit, clock=clock, operation="load")


def _add(status: TableStatus, *, entries: tuple[StatusEntry, ...]) -> Change:
    return Change(status=replace(status, entries=entries, next_load=len(entries)))


def index_of_day(schema: pa.Schema, day: int, count: int) -> pa.Table:
    """The index of one segment: all accounts in order, one day, random codes and prices."""
    start, zeros = np.arange(count) * 1_000, np.zeros(count, dtype=np.int64)
    no, days = np.zeros(count, dtype=bool), np.full(count, day, dtype=np.int32)
    price = np.random.default_rng(day).random(count) * 1000
    code = [f"C{day:05d}-{at:04d}".encode() for at in range(count)]
    found = {
        "file": np.zeros(count, dtype=np.int32), "row_group": np.arange(count, dtype=np.int32),
        "rows": np.full(count, ROWS), "size_bytes": np.full(count, 50_000), "offset": np.arange(count) * 50_000 + 4,
        "start.account": start, "end.account": start + 999, "min.account": start, "max.account": start + 999,
        "nulls.account": zeros, "min.day": days, "max.day": days, "nulls.day": zeros,
        "min.code": code, "max.code": code, "nulls.code": zeros, "exact.code": ~no,
        "min.price": price, "max.price": price + 1, "nulls.price": zeros, "nan.price": no,
    }  # fmt: skip
    return pa.table([pa.array(found[field.name], field.type) for field in schema], schema=schema)


def plan_table(table: str, segments: int, repeat: int) -> None:
    """Plan scans in this process; print the time of each, and the peak of the memory."""
    io, before_mb = LocalFileIO(), _peak_mb()

    def plan(where: str | None) -> tuple[int, float]:
        began = time.process_time()
        source = SegmentSource.open(io, table, version=None, as_of_ms=None)
        plan = source.plan(Selection(where=where))
        return sum(len(file.row_groups) for split in plan.splits for file in split.files), time.process_time() - began

    account, day = 50_500, segments // 3
    filters = {
        "one account": f"account = {account}",
        "one day": f"day = {day}",
        "both": f"account = {account} AND day = {day}",
        "price": "price > 999.9",
        "a week": f"day >= {day} AND day < {day + 7} AND account > 90000",
    }
    left, seconds = plan(filters["both"])
    print(f"{'cold':16}{left:>10,}{seconds * 1000:>12.1f}  {_peak_mb() - before_mb:,.0f} MB")
    for name, where in filters.items():
        best, left = float("inf"), 0
        for _ in range(repeat):
            left, seconds = plan(where)
            best = min(best, seconds)
        print(f"{name:16}{left:>10,}{best * 1000:>12.1f}")
    edit = functools.partial(alter_properties, changes={"MAJOR_COMPACTION_SIZE": "77"})
    commit_edit(io, table, edit, clock=system_clock(), operation="alter")
    left, seconds = plan(filters["both"])
    print(f"{'after a commit':16}{left:>10,}{seconds * 1000:>12.1f}")
    left, seconds = plan(None)
    print(f"{'everything':16}{left:>10,}{seconds * 1000:>12.1f}")
    print(f"peak memory of the process: {_peak_mb():,.0f} MB, {before_mb:,.0f} MB before the first plan")


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Print one line for each filter."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocklets", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--segments", type=int, default=10_000, help="segments of the table; 0: only the first part")
    given = parser.parse_args()
    prune_one_segment(given)
    if given.segments:
        with tempfile.TemporaryDirectory(prefix="packstone-bench-") as folder:
            table = f"{folder}/t"
            make_table(table, segments=given.segments, blocklets=given.blocklets)
            print(f"\n{given.blocklets:,} row groups in {given.segments:,} segments")
            print(f"{'filter':16}{'left':>10}{'CPU ms':>12}", flush=True)
            # A process of its own: what making the table takes is not counted.
            child = multiprocessing.get_context("spawn").Process(
                target=plan_table, args=(table, given.segments, given.repeat)
            )
            child.start()
            child.join()


def prune_one_segment(given: argparse.Namespace) -> None:
    """Compare the search tree with the vector test on one index."""
    index, one = make_index(given.blocklets), given.blocklets * 3
    keys = build_sorted_keys(index, ["account"])
    values = ", ".join(str(one + at * 10_007) for at in range(6))
    filters = {
        "point": f"account = {one}",
        "range": f"account BETWEEN {one} AND {one + 5_000}",
        "in": f"account IN ({values})",
        "startswith": f"code LIKE 'A{one // 100:010d}%'",
        "number": "price > 1005",
        "joined": f"account > {one} AND price < 1 AND code IS NOT NULL",
    }
    print(f"{given.blocklets:,} row groups")
    print(f"{'filter':12}{'left':>10}{'tree ms':>10}{'vector ms':>11}")
    for name, text in filters.items():
        expression = prepare_filter(parse_filter(text), SCHEMA)
        times, found = [], []
        for some in (keys, None):
            kept, best = prune(expression, index, keys=some), float("inf")
            for _ in range(given.repeat):
                began = time.perf_counter()
                prune(expression, index, keys=some)
                best = min(best, time.perf_counter() - began)
            times.append(best * 1000 if some is None or kept.searches else None)
            found.append(kept.kept.tolist())
        if found[0] != found[1]:
            raise SystemExit(f"{name}: the tree leaves other row groups than the vector test")
        shown = "".join("-".rjust(10 + at) if ms is None else f"{ms:{10 + at}.2f}" for at, ms in enumerate(times))
        print(f"{name:12}{len(found[0]):>10,}{shown}")


if __name__ == "__main__":
    main()
