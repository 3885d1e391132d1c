"""Segment tables: loading and compacting against plain Spark, and planning a table of many segments, in one run.

    python bench/segments.py [--rows 10000000] [--segments 12] [--rounds 1] [--only load,compact,plan] [--folder F]

load      unsorted Parquet files become one LOCAL_SORT segment, against Spark's read, sortWithinPartitions, write, and
          delta-rs' append of the rows, sorted by PyArrow
compact   sorted segments become one sorted one, verified and committed, against Spark's read, sort, write (unverified)
plan      `plan` on a table of 100,000 segments, in a separate process, starting from the status file

Every contender runs in its own process; starting it, importing and Spark's session (warmed up by a small job) are
not timed. CPU includes child processes. Row count, a sum, and the order inside every file are checked.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from cpu_meter import CpuMeter

Contender: TypeAlias = Callable[[Path, Path], Callable[[], str]]
DDL = (
    "tenant long, made timestamp_ntz, customer int, name string, price double, token string, state string, note string"
)
KEYS = ["tenant", "made"]
CODEC, LEVEL = "zstd", 1
INPUT_FILES = 16
MANY_SEGMENTS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    name: str
    wall_seconds: float
    cpu_seconds: float
    note: str


def make_files(folder: Path, *, rows: int) -> None:
    """Write unsorted files; about one key in five occurs more than once."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    folder.mkdir(parents=True)
    draw, each = np.random.default_rng(7), rows // INPUT_FILES
    states = pa.array(["new", "paid", "shipped", "returned"])
    for number in range(INPUT_FILES):
        mixed = draw.integers(0, 100_000, each)
        table = pa.table(
            {
                "tenant": draw.integers(0, rows // 50, each),
                "made": pa.array(draw.integers(1_546_300_800, 1_577_836_800, each) * 1_000_000, pa.timestamp("us")),
                "customer": mixed.astype(np.int32),
                "name": pc.binary_join_element_wise("customer-", pc.cast(pa.array(mixed % 5000), pa.string()), ""),
                "price": draw.integers(0, 1_000_000, each) / 100.0,
                "token": pc.cast(pa.array(draw.integers(2**40, 2**62, each)), pa.string()),
                "state": states.take(pa.array(draw.integers(0, 4, each))),
                "note": pa.array(np.where(draw.random(each) < 0.9, None, "call back")),
            }
        )
        pq.write_table(table, folder / f"in-{number:02d}.parquet", compression=CODEC, compression_level=LEVEL)


def make_segments(source: Path, table: Path, *, segments: int) -> None:
    """Load the files into the requested number of sorted segments."""
    import pyarrow.dataset as ds

    import packstone

    properties = {"COMPACTION_LEVEL_THRESHOLD": f"{segments},0"}
    made = packstone.create(str(table), DDL, sort_by=KEYS, properties=properties)
    rows = ds.dataset(source).to_table()
    each = -(-rows.num_rows // segments)
    for number in range(segments):
        made.segments.load(rows.slice(number * each, each))


def spark_session() -> Any:
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "6g")
        .config("spark.sql.shuffle.partitions", "8")
        .config("spark.sql.parquet.compression.codec", CODEC)
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    spark.range(1_000_000).selectExpr("sum(id)").collect()
    spark.range(1000).mapInArrow(lambda batches: batches, "id long").count()
    return spark


def new_table(target: Path, spark: Any = None) -> Any:
    import packstone

    packstone.create(str(target / "table"), DDL, sort_by=KEYS)
    return packstone.open(str(target / "table"), spark=spark, history=None)


def _loaded(report: Any) -> str:
    return f"{report.files} files, verified: {report.verified}"


def load_inline(source: Path, target: Path) -> Callable[[], str]:
    table, paths = new_table(target), sorted(map(str, source.glob("*.parquet")))
    return lambda: _loaded(table.segments.load(paths))


def load_on_spark(source: Path, target: Path) -> Callable[[], str]:
    table, paths = new_table(target, spark_session()), sorted(map(str, source.glob("*.parquet")))
    return lambda: _loaded(table.segments.load(paths))


def load_frame(source: Path, target: Path) -> Callable[[], str]:
    spark = spark_session()
    table, frame = new_table(target, spark), spark.read.parquet(str(source))
    return lambda: _loaded(table.segments.load(frame))


def spark_sorted_write(source: Path, target: Path) -> Callable[[], str]:
    spark = spark_session()

    def run() -> str:
        rows = spark.read.parquet(str(source)).sortWithinPartitions(*KEYS)
        rows.write.parquet(str(target / "spark"))
        return "sortWithinPartitions + write"

    return run


def delta_sorted_append(source: Path, target: Path) -> Callable[[], str]:
    """Read, sort in memory and append with delta-rs, without a proof; LOCAL_SORT sorts the rows of a task as well."""
    import pyarrow.dataset as ds
    from deltalake import WriterProperties, write_deltalake

    properties = WriterProperties(compression=CODEC.upper(), compression_level=LEVEL)

    def run() -> str:
        rows = ds.dataset(source).to_table()
        rows = rows.sort_by([(key, "ascending") for key in KEYS])
        write_deltalake(str(target / "delta"), rows, mode="append", writer_properties=properties)
        return "read + sort + append, no proof"

    return run


def _compacted(outcome: Any) -> str:
    return f"{outcome.status}, verified by {outcome.verified} in {outcome.verify_seconds:.1f} task s"


def compact_inline(source: Path, target: Path) -> Callable[[], str]:
    import packstone

    shutil.copytree(source.parent / "table", target / "table")
    table = packstone.open(str(target / "table"), history=None)
    return lambda: _compacted(table.compact())


def compact_on_spark(source: Path, target: Path) -> Callable[[], str]:
    import packstone

    shutil.copytree(source.parent / "table", target / "table")
    table = packstone.open(str(target / "table"), spark=spark_session(), history=None)
    return lambda: _compacted(table.compact())


def spark_sort(source: Path, target: Path) -> Callable[[], str]:
    import packstone

    paths = [file.path for file in packstone.open(str(source.parent / "table")).segments.files().files]
    spark = spark_session()

    def run() -> str:
        spark.read.parquet(*paths).orderBy(*KEYS).write.parquet(str(target / "spark"))
        return "read + sort + write, no proof"

    return run


def duckdb_sort(source: Path, target: Path) -> Callable[[], str]:
    import duckdb

    import packstone

    paths = [file.path for file in packstone.open(str(source.parent / "table")).segments.files().files]

    def run() -> str:
        order = ", ".join(f"{key} nulls first" for key in KEYS)
        options = f"format parquet, compression {CODEC}, row_group_size 131072"
        duckdb.execute(
            f"copy (select * from read_parquet($1) order by {order}) to '{target}/out.parquet' ({options})", [paths]
        )
        return "read + sort + write, no proof"

    return run


CONTENDERS: dict[str, Contender] = {
    "load: packstone, inline": load_inline,
    "load: packstone, files on Spark": load_on_spark,
    "load: packstone, Spark DataFrame": load_frame,
    "load: Spark sorted write": spark_sorted_write,
    "load: delta-rs sorted append": delta_sorted_append,
    "compact: packstone, inline": compact_inline,
    "compact: packstone on Spark": compact_on_spark,
    "compact: Spark read, sort, write": spark_sort,
    "compact: DuckDB read, sort, write": duckdb_sort,
}


def run_child(name: str, source: Path) -> None:
    """Time one contender in this process; report to the parent on the last line of stdout."""
    target = Path(tempfile.mkdtemp(dir=source.parent))
    try:
        run = CONTENDERS[name](source, target)
        with CpuMeter() as cpu:
            began = time.perf_counter()
            note = run()
            wall = time.perf_counter() - began
        print(json.dumps([wall, cpu.seconds, note, check(target)]))
    finally:
        shutil.rmtree(target)


def check(target: Path) -> list[Any]:
    """Row count and two sums of the written files; each file must be in key order."""
    import duckdb

    if (target / "table").exists():
        import packstone

        paths = [file.path for file in packstone.open(str(target / "table")).segments.files().files]
    else:
        paths = sorted(map(str, target.rglob("*.parquet")))
    for path in paths:
        if not is_sorted(path):
            raise SystemExit(f"{path} is not sorted")
    sums = "count(*), sum(tenant)::bigint, sum(epoch_us(made) % 1000003)::bigint, count(note)"
    return list(duckdb.execute(f"select {sums} from read_parquet($1)", [paths]).fetchone() or ())


def is_sorted(path: str) -> bool:
    """Whether the rows of a file are in key order, checked with NumPy only."""
    import numpy as np
    import pyarrow.parquet as pq

    tenant, made = (column.cast("int64").to_numpy() for column in pq.read_table(path, columns=KEYS).columns)
    rising = (tenant[1:] > tenant[:-1]) | ((tenant[1:] == tenant[:-1]) & (made[1:] >= made[:-1]))
    return bool(np.all(rising))


def measure(name: str, source: Path) -> tuple[Timing, list[Any]]:
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    environment["PACKSTONE_ENGINE"] = "inline"  # unless a session is given
    command = [sys.executable, __file__, "--child", name, "--folder", str(source)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name} failed:\n{done.stderr[-3000:]}")
    wall, cpu, note, answer = json.loads(done.stdout.splitlines()[-1])
    return Timing(name=name, wall_seconds=wall, cpu_seconds=cpu, note=note), answer


def print_table(part: str, timings: list[Timing]) -> None:
    rival = next(timing for timing in timings if timing.name.startswith(f"{part}: Spark"))
    print(f"\n{part:36} {'wall s':>8} {'CPU s':>8} {'against Spark':>24}")
    for timing in sorted(timings, key=lambda t: t.wall_seconds):
        wall, cpu = rival.wall_seconds / timing.wall_seconds, rival.cpu_seconds / timing.cpu_seconds
        ratio = f"{wall:.1f}x wall, {cpu:.1f}x CPU"
        print(f"{timing.name:36} {timing.wall_seconds:8.2f} {timing.cpu_seconds:8.2f} {ratio:>24}   {timing.note}")


def compare(part: str, source: Path, *, rounds: int) -> None:
    best: dict[str, Timing] = {}
    answers = {}
    for _ in range(rounds):
        for name in CONTENDERS:
            if not name.startswith(part):
                continue
            timing, answers[name] = measure(name, source)
            print(f"  {name:36} {timing.wall_seconds:7.2f} s wall {timing.cpu_seconds:7.2f} s CPU", flush=True)
            if name not in best or timing.wall_seconds < best[name].wall_seconds:
                best[name] = timing
    if len({tuple(answer) for answer in answers.values()}) > 1:
        raise SystemExit(f"the answers differ: {answers}")
    print_table(part, list(best.values()))


def make_many(folder: Path) -> Path:
    """Create a table whose status lists 100,000 loads of one file each; planning reads only the status."""
    from dataclasses import replace

    import pyarrow as pa

    import packstone
    from packstone.model.segment import SegmentId
    from packstone.storage.local import LocalFileIO
    from packstone.tables.segments.format.status_files import publish, read_latest

    table, io = folder / "many", LocalFileIO()
    properties = {"COMPACTION_LEVEL_THRESHOLD": "4,3,3"}
    made = packstone.create(str(table), "id long, name string", sort_by=["id"], properties=properties)
    made.segments.load(pa.table({"id": [1], "name": ["a"]}))
    status = read_latest(io, str(table))
    model = status.entries[0]
    hour_ms = 3_600_000
    entries = tuple(
        replace(
            model,
            id=SegmentId(number),
            load_start_ms=model.load_start_ms + number * hour_ms,
            newest_load_ms=model.newest_load_ms + number * hour_ms,
            data_bytes=1_000_000 + number,
            attempt=f"{number:016x}",
            segment_file=f"{number}_{number:016x}.json",
        )
        for number in range(MANY_SEGMENTS)
    )
    many = replace(
        status,
        version=status.version + 1,
        commit="many",
        next_load=MANY_SEGMENTS,
        entries=entries,
    )
    publish(io, str(table), many)
    return table


def plan_many(table: str) -> None:
    import packstone

    opened = packstone.open(table, history=None)
    for strategy in ("minor", "major"):
        began, cpu = time.perf_counter(), time.process_time()
        units = len(opened.plan(strategy=strategy).outcome.units)
        took, used = time.perf_counter() - began, time.process_time() - cpu
        print(
            f"plan: {MANY_SEGMENTS:,} segments, {strategy}: {took:.2f} s wall, {used:.2f} CPU s, {units} merges shown"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--segments", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", default="load,compact,plan")
    parser.add_argument("--folder", default=None, help="keep what is generated here and use it again")
    parser.add_argument("--child", default=None, help=argparse.SUPPRESS)
    parser.add_argument("--plan-table", default=None, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        run_child(arguments.child, Path(arguments.folder))
        return
    if arguments.plan_table:
        plan_many(arguments.plan_table)
        return
    root = Path(arguments.folder or tempfile.mkdtemp(prefix="packstone-bench-"))
    source = root / "files"
    print(
        f"{arguments.rows:,} rows, {arguments.segments} segments; {os.cpu_count()} cores; load {os.getloadavg()[0]:.1f}"
    )
    if not source.exists():
        make_files(source, rows=arguments.rows)
    if "compact" in arguments.only and not (root / "table").exists():
        make_segments(source, root / "table", segments=arguments.segments)
    for part in ("load", "compact"):
        if part in arguments.only:
            compare(part, source, rounds=arguments.rounds)
    if "plan" in arguments.only:
        table = make_many(Path(tempfile.mkdtemp(dir=root)))
        print(flush=True)
        subprocess.run([sys.executable, __file__, "--plan-table", str(table)], check=True)
    if arguments.folder is None:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
