"""Sorted runs into one sorted, deduplicated file: Packstone's merge kernel against other tools, in one run.

    python bench/merge_tree.py [--runs 10] [--rows 1000000] [--keys long,string,both] [--rounds 1] [--only DuckDB,Spark]

Ten overlapping sorted runs (ten million rows, 4.46 million keys, nine columns with the system columns of a merge
tree, two percent deletes) become files with the newest record of each key, in key order, without deletes.
Every contender runs in its own process, once on one thread and, if it supports more, with its default. Starting the
process, importing and Spark's session are not timed. Wall and CPU seconds are those of the best round; CPU includes
child processes. Row count and a sum are compared between all contenders: a wrong result ends the benchmark.
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
from typing import TypeAlias

import paimon_contenders
from cpu_meter import CpuMeter

Contender: TypeAlias = Callable[..., Callable[[], str]]
KEYS = {"long": ["id"], "string": ["id"], "both": ["tenant", "id"]}
CODEC, LEVEL = "zstd", 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    name: str
    wall_seconds: float
    cpu_seconds: float
    peak_mb: int
    note: str


def make_runs(folder: Path, key: str, *, runs: int, rows: int) -> None:
    """Write the runs: each draws its keys from five times as many, and sequence numbers rise from run to run."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    folder.mkdir(parents=True)
    draw = np.random.default_rng(7)
    for run in range(runs):
        ids = np.sort(draw.choice(5 * rows, rows, replace=False)).astype(np.int64)
        if key == "long":
            keys = {"id": pa.array(ids)}
        elif key == "string":
            digits = pc.utf8_lpad(pc.cast(pa.array(ids), pa.string()), 16, "0")
            keys = {"id": pc.binary_join_element_wise("customer-0000-0000-0000-", digits, "")}
        else:
            tenants = pc.binary_join_element_wise("tenant-", pc.cast(pa.array(ids // 50), pa.string()), "")
            order = pc.sort_indices(
                pa.table({"t": tenants, "id": ids}), sort_keys=[("t", "ascending"), ("id", "ascending")]
            )
            ids = ids[order.to_numpy()]
            keys = {"tenant": tenants.take(order), "id": pa.array(ids)}
        mixed = (ids.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) % np.uint64(100_000)
        names = pc.cast(pa.array((mixed % np.uint64(5000)).astype(np.int32)), pa.string())
        columns = {
            **{f"_KEY_{name}": column for name, column in keys.items()},
            "_SEQUENCE_NUMBER": pa.array(draw.permutation(rows).astype(np.int64) + run * rows),
            "_VALUE_KIND": pa.array(np.where(draw.random(rows) < 0.02, 3, 0).astype(np.int8)),
            **keys,
            "customer": pa.array(mixed.astype(np.int32)),
            "name": pc.binary_join_element_wise("customer-", names, ""),
            "price": pa.array(draw.integers(0, 1_000_000, rows) / 100.0),
            "at": pa.array(draw.integers(1_546_300_800_000_000, 1_577_836_800_000_000, rows), pa.timestamp("us")),
            "token": pc.cast(pa.array(draw.integers(2**40, 2**62, rows)), pa.string()),
        }
        pq.write_table(pa.table(columns), folder / f"run-{run:02d}.parquet", compression=CODEC, compression_level=LEVEL)


def packstone_kernel(source: Path, target: Path, *, key: str, threads: int) -> Callable[[], str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from packstone.rewrite.merge_tree import spec
    from packstone.rewrite.merge_tree.merge import run_merge
    from packstone.storage.local import LocalFileIO

    pa.set_cpu_count(threads)
    paths = sorted(source.glob("*.parquet"))
    schema = pq.read_schema(paths[0]).remove_metadata()
    columns = tuple(spec.ColumnSource(target=name, source=name) for name in schema.names)
    runs = tuple(
        (
            spec.InputFile(
                path=str(path),
                file_format=spec.DataFormat.PARQUET,
                size_bytes=path.stat().st_size,
                rows=pq.read_metadata(path).num_rows,
                columns=columns,
            ),
        )
        for path in paths
    )
    merge = spec.MergeSpec(
        sections=(runs,),
        arrow_schema=spec.pack_schema(schema),
        key_columns=tuple(f"_KEY_{name}" for name in KEYS[key]),
        drop_deletes=True,
        output=spec.OutputSpec(directory=str(target), compression=CODEC, compression_level=LEVEL),
        memory_bytes=512 << 20,
    )

    def run() -> str:
        result = run_merge(LocalFileIO(), merge, name_file=lambda at: f"out-{at}.parquet")
        return f"read {result.read_seconds:.1f}, merge {result.merge_seconds:.1f}, write {result.write_seconds:.1f} s"

    return run


def decode_and_encode(source: Path, target: Path, *, key: str, threads: int) -> Callable[[], str]:
    """The lower bound: decode all runs, and encode as many rows as there are keys."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    del key
    pa.set_cpu_count(threads)
    paths = sorted(source.glob("*.parquet"))
    schema = pq.read_schema(paths[0]).remove_metadata()
    wanted = int(pq.read_metadata(paths[0]).num_rows * len(paths) * 0.437)
    repeating = ["_VALUE_KIND", "customer", "name"]

    def run() -> str:
        kept, rows = [], 0
        for path in paths:
            for batch in pq.ParquetFile(path, pre_buffer=False).iter_batches(batch_size=40_000, use_threads=False):
                if rows < wanted:
                    kept.append(batch)
                    rows += batch.num_rows
        with pq.ParquetWriter(
            target / "out.parquet", schema, compression=CODEC, compression_level=LEVEL, use_dictionary=repeating
        ) as writer:
            writer.write_table(pa.Table.from_batches(kept).slice(0, wanted), row_group_size=1 << 20)
        return "no merge"

    return run


def duckdb_window(source: Path, target: Path, *, key: str, threads: int) -> Callable[[], str]:
    import duckdb

    keys = ", ".join(f'"_KEY_{name}"' for name in KEYS[key])
    connection = duckdb.connect()
    connection.sql(f"set threads = {threads}")

    def run() -> str:
        connection.sql(
            f"""copy (select * from (select * from read_parquet('{source}/*.parquet')
                qualify row_number() over (partition by {keys} order by _SEQUENCE_NUMBER desc, _VALUE_KIND % 2) = 1)
                where _VALUE_KIND % 2 = 0 order by {keys})
                to '{target}/out.parquet' (format parquet, compression {CODEC}, compression_level {LEVEL})"""
        )
        return "window + sort"

    return run


def polars_unique(source: Path, target: Path, *, key: str, threads: int) -> Callable[[], str]:
    import polars as pl

    del threads  # POLARS_MAX_THREADS, set for the process
    keys = [f"_KEY_{name}" for name in KEYS[key]]

    def run() -> str:
        (
            pl.scan_parquet(source / "*.parquet")
            .sort([*keys, "_SEQUENCE_NUMBER"], maintain_order=False)
            .unique(subset=keys, keep="last", maintain_order=True)
            .filter(pl.col("_VALUE_KIND") % 2 == 0)
            .sink_parquet(target / "out.parquet", compression=CODEC, compression_level=LEVEL)
        )
        return f"sort + unique, {pl.thread_pool_size()} threads"

    return run


def spark_sql(source: Path, target: Path, *, key: str, threads: int) -> Callable[[], str]:
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as sf

    spark = (
        SparkSession.builder.master(f"local[{threads}]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "4g")
        .config("spark.sql.shuffle.partitions", "8")
        .config("spark.sql.parquet.compression.codec", CODEC)
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    spark.range(1_000_000).selectExpr("sum(id)").collect()
    keys = [f"_KEY_{name}" for name in KEYS[key]]

    def run() -> str:
        rows = spark.read.parquet(str(source))
        newest = sf.max_by(sf.struct(*rows.columns), "_SEQUENCE_NUMBER").alias("row")
        merged = rows.groupBy(*keys).agg(newest).select("row.*").where("_VALUE_KIND % 2 = 0").orderBy(*keys)
        merged.write.mode("overwrite").parquet(str(target / "spark"))
        return "max_by + sort"

    return run


def on_a_table(contender: Contender) -> Contender:
    """Run a contender on a whole Paimon table made of the runs."""
    return lambda source, target, *, key, threads: contender(source, target, keys=KEYS[key], threads=threads)


CONTENDERS: dict[str, tuple[Contender, tuple[int, ...]]] = {
    "packstone kernel": (packstone_kernel, (1,)),
    "decode + encode alone": (decode_and_encode, (1,)),
    "DuckDB": (duckdb_window, (1, 2)),
    "Polars": (polars_unique, (1, 2)),
    "Spark SQL": (spark_sql, (1, 2)),
    "packstone compaction": (on_a_table(paimon_contenders.packstone_inline), (1,)),
    "packstone compaction on Spark": (on_a_table(paimon_contenders.packstone_on_spark), (2,)),
    "Java Paimon compaction": (on_a_table(paimon_contenders.java_compaction), (2,)),
    "pypaimon merge read": (on_a_table(paimon_contenders.pypaimon_read), (2,)),
}
UNCHECKED = ("decode", "pypaimon")  # they write no result


def run_child(name: str, source: Path, *, key: str, threads: int) -> None:
    """Time one contender in this process; report to the parent on the last line of stdout."""
    import resource

    target = Path(tempfile.mkdtemp(dir=source.parent))
    try:
        run = CONTENDERS[name][0](source, target, key=key, threads=threads)
        with CpuMeter() as cpu:
            began = time.perf_counter()
            note = run()
            wall = time.perf_counter() - began
        peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        paimon_contenders.remove_inputs(target)
        answer = [] if name.startswith(UNCHECKED) else check_sum(target)
        print(json.dumps([wall, cpu.seconds, peak_mb, note, answer]))
    finally:
        shutil.rmtree(target)


def check_sum(target: Path) -> list[int]:
    """Row count and the sum of the sequence numbers, which shows whether the newest record of each key was kept."""
    import duckdb

    found = duckdb.sql(f"select count(*), sum(_SEQUENCE_NUMBER)::bigint from read_parquet('{target}/**/*.parquet')")
    return list(found.fetchall()[0])


def measure(name: str, source: Path, *, key: str, threads: int) -> tuple[Timing, list[int]] | None:
    environment = {
        **os.environ,
        "POLARS_MAX_THREADS": str(threads),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    command = [
        sys.executable,
        __file__,
        "--child",
        name,
        "--folder",
        str(source),
        "--keys",
        key,
        "--threads",
        str(threads),
    ]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if "SKIP" in done.stderr:
        print(f"  {name}: {done.stderr.partition('SKIP')[2].strip()}")
        return None
    if done.returncode:
        raise SystemExit(f"{name} failed:\n{done.stderr[-3000:]}")
    wall, cpu, peak_mb, note, answer = json.loads(done.stdout.splitlines()[-1])
    label = (
        name
        if name.startswith(("packstone", "decode", "Java", "pypaimon"))
        else f"{name}, {threads} thread{'s' * (threads > 1)}"
    )
    return Timing(name=label, wall_seconds=wall, cpu_seconds=cpu, peak_mb=peak_mb, note=note), answer


def print_table(key: str, best: dict[str, Timing]) -> None:
    ours = best.get("packstone kernel")
    print(f"\n{key} key{'':24} {'wall s':>8} {'CPU s':>8} {'peak MB':>8} {'times the kernel':>24}")
    for timing in sorted(best.values(), key=lambda t: t.cpu_seconds):
        ratio = (
            f"{timing.wall_seconds / ours.wall_seconds:.1f}x wall, {timing.cpu_seconds / ours.cpu_seconds:.1f}x CPU"
            if ours
            else ""
        )
        print(
            f"{timing.name:32} {timing.wall_seconds:8.2f} {timing.cpu_seconds:8.2f} {timing.peak_mb:8d} {ratio:>24}"
            f"   {timing.note}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--keys", default=",".join(KEYS))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", default="", help="contenders whose name holds one of these words")
    parser.add_argument("--one-thread", action="store_true", help="leave out the forms with more threads")
    parser.add_argument("--folder", default=None, help="keep the generated runs here and use them again")
    parser.add_argument("--json", default=None, help="also write the timings to this file")
    parser.add_argument("--child", default=None, help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, default=1, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        run_child(arguments.child, Path(arguments.folder), key=arguments.keys, threads=arguments.threads)
        return
    root = Path(arguments.folder or tempfile.mkdtemp(prefix="packstone-bench-"))
    words = arguments.only.split(",")
    everything: dict[str, list[Timing]] = {}
    for key in arguments.keys.split(","):
        source = root / f"{key}-{arguments.runs}x{arguments.rows}"
        if not source.exists():
            make_runs(source, key, runs=arguments.runs, rows=arguments.rows)
        load = os.getloadavg()[0]
        print(f"{key}: {arguments.runs} runs of {arguments.rows} rows; {os.cpu_count()} cores; load {load:.1f}")
        best = run_contenders(source, key, words=words, rounds=arguments.rounds, one_thread=arguments.one_thread)
        print_table(key, best)
        everything[key] = list(best.values())
    if arguments.json:
        plain = {k: [{slot: getattr(t, slot) for slot in t.__slots__} for t in ts] for k, ts in everything.items()}
        Path(arguments.json).write_text(json.dumps(plain, indent=2))
    if arguments.folder is None:
        shutil.rmtree(root)


def run_contenders(source: Path, key: str, *, words: list[str], rounds: int, one_thread: bool) -> dict[str, Timing]:
    best: dict[str, Timing] = {}
    answers: dict[str, list[int]] = {}
    for _ in range(rounds):
        for name, (_, threads) in CONTENDERS.items():
            if not any(word in name for word in words):
                continue
            for count in threads[:1] if one_thread else threads:
                measured = measure(name, source, key=key, threads=count)
                if measured is None:
                    continue
                timing, answer = measured
                print(
                    f"  {timing.name:32} {timing.wall_seconds:7.2f} s wall {timing.cpu_seconds:7.2f} s CPU", flush=True
                )
                if answer:
                    answers[timing.name] = answer
                if timing.name not in best or timing.cpu_seconds < best[timing.name].cpu_seconds:
                    best[timing.name] = timing
    if len({tuple(answer) for answer in answers.values()}) > 1:
        raise SystemExit(f"the answers differ: {answers}")
    return best


if __name__ == "__main__":
    main()
