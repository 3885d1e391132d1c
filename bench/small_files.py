"""Small files into large ones: Packstone against other tools, in one run, on the same files.

    python bench/small_files.py [--files 1000] [--rows 10000] [--rounds 2] [--only packstone,spark]

Every contender merges its own copy of the same directory (hard links, so the bytes are shared and warm) into five
files and counts the rows before and after, as the classic merge job does; Packstone also verifies their content. Spark
runs in one warm session that Packstone shares. Wall seconds are the best of the rounds; CPU seconds are those of the
whole process tree (driver, JVM, Python workers) in that round. Ratios are relative to Spark's repartition,
the method of the classic job.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cpu_meter import CpuMeter

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")

OUTPUTS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    name: str
    wall_seconds: float
    cpu_seconds: float
    note: str


def make_files(folder: Path, files: int, rows: int) -> None:
    """Write the set with DuckDB: ids, a skewed key, names, prices, a flag, a day, a time, text."""
    import duckdb

    folder.mkdir(parents=True)
    connection = duckdb.connect()
    connection.sql("set threads = 2")
    for number in range(files):
        connection.sql(
            f"""copy (select range + {number * rows} as id,
                (hash(range + {number * rows}) % 100000)::integer as customer,
                'customer-' || (hash(range) % 5000) as name,
                (hash(range * 7 + {number}) % 1000000) / 100.0 as price,
                random() as score,
                (range % 3 = 0) as paid,
                date '2019-01-01' + (hash(range + {number}) % 365)::integer as day,
                timestamp '2019-01-01' + to_microseconds((hash(range * 3 + {number}) % 31536000000000)::bigint) as at,
                substr(md5((range + {number * rows})::varchar), 1, 16) as token
              from range({rows})) to '{folder}/part-{number:05d}.parquet' (format parquet, compression snappy)"""
        )


class Contenders:
    def __init__(self, spark: object, rows: int, size_bytes: int) -> None:
        self.spark, self.rows = spark, rows
        self.target_bytes = size_bytes // OUTPUTS

    def _check(self, *counts: int) -> None:
        if any(count != self.rows for count in counts):
            raise SystemExit(f"rows {counts}, expected {self.rows}")

    def packstone(self, folder: Path, verify: str) -> str:
        import packstone
        from packstone.model.unit import Verify

        options = packstone.HiveOptions(
            threshold_bytes=self.target_bytes, target_bytes=self.target_bytes, verify=Verify(verify)
        )
        outcome = packstone.open(str(folder), spark=self.spark).compact(options)
        self._check(outcome.rows)
        write = sum(unit.seconds for unit in outcome.units) - outcome.verify_seconds
        reads = [sum(getattr(u, name) for u in outcome.units) for name in ("read_seconds_before", "read_seconds_after")]
        return (
            f"{outcome.files_before} -> {outcome.files_after} files; task seconds: write {write:.1f}, "
            f"read before {reads[0]:.1f}, read after {reads[1]:.1f}; gap {outcome.reader_gap_ms:.0f} ms"
        )

    def spark_repartition(self, folder: Path) -> str:
        return self._spark(folder, lambda frame: frame.repartition(OUTPUTS))

    def spark_coalesce(self, folder: Path) -> str:
        return self._spark(folder, lambda frame: frame.coalesce(OUTPUTS))

    def _spark(self, folder: Path, shape: Callable) -> str:
        frame = self.spark.read.parquet(str(folder))
        before = frame.count()
        shape(frame).write.parquet(f"{folder}-out")
        self._check(before, self.spark.read.parquet(f"{folder}-out").count())
        return f"{len(list(Path(f'{folder}-out').glob('*.parquet')))} files"

    def delta_rs(self, folder: Path) -> str:
        from deltalake import DeltaTable, convert_to_deltalake

        convert_to_deltalake(str(folder))
        table = DeltaTable(str(folder))
        before = table.to_pyarrow_dataset().count_rows()
        metrics = table.optimize.compact(target_size=self.target_bytes)
        after = DeltaTable(str(folder)).to_pyarrow_dataset().count_rows()
        self._check(before, after)
        return f"{metrics['numFilesRemoved']} -> {metrics['numFilesAdded']} files"

    def duckdb(self, folder: Path) -> str:
        import duckdb

        connection = duckdb.connect()
        connection.sql("set threads = 2")
        connection.sql("set preserve_insertion_order = false")
        count = f"select count(*) from read_parquet('{folder}/*.parquet')"
        before = connection.sql(count).fetchall()[0][0]
        connection.sql(
            f"copy (from read_parquet('{folder}/*.parquet')) to '{folder}-out' "
            f"(format parquet, compression snappy, file_size_bytes {self.target_bytes})"
        )
        after = connection.sql(f"select count(*) from read_parquet('{folder}-out/*.parquet')").fetchall()[0][0]
        self._check(before, after)
        return f"{len(list(Path(f'{folder}-out').glob('*.parquet')))} files"

    def polars(self, folder: Path) -> str:
        import polars as pl

        names = sorted(folder.glob("*.parquet"))
        before = pl.scan_parquet(names).select(pl.len()).collect().item()
        Path(f"{folder}-out").mkdir()
        share = -(-len(names) // OUTPUTS)
        for number in range(OUTPUTS):
            part = names[number * share : (number + 1) * share]
            pl.scan_parquet(part).sink_parquet(f"{folder}-out/{number}.parquet", compression="snappy")
        after = pl.scan_parquet(f"{folder}-out/*.parquet").select(pl.len()).collect().item()
        self._check(before, after)
        return f"{len(list(Path(f'{folder}-out').glob('*.parquet')))} files"

    def all(self) -> dict[str, Callable[[Path], str]]:
        return {
            "packstone, content verified": lambda folder: self.packstone(folder, "content"),
            "packstone, count verified": lambda folder: self.packstone(folder, "count"),
            "Spark repartition + 2 counts": self.spark_repartition,
            "Spark coalesce + 2 counts": self.spark_coalesce,
            "delta-rs compact + 2 counts": self.delta_rs,
            "Polars scan/sink + 2 counts": self.polars,
            "DuckDB COPY + 2 counts": self.duckdb,
        }


def measure(name: str, run: Callable[[Path], str], source: Path) -> Timing:
    with tempfile.TemporaryDirectory(dir=source.parent) as scratch:
        copy = Path(scratch) / "table"
        shutil.copytree(source, copy, copy_function=os.link)
        os.sync()
        with CpuMeter() as cpu:
            wall = time.perf_counter()
            note = run(copy)
            seconds = time.perf_counter() - wall
        return Timing(name=name, wall_seconds=seconds, cpu_seconds=cpu.seconds, note=note)


def warm_session() -> object:
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "3g")
        .config("spark.sql.parquet.compression.codec", "snappy")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def print_table(best: dict[str, Timing]) -> None:
    seed = best.get("Spark repartition + 2 counts")
    print(f"\n{'':32} {'wall s':>8} {'CPU s':>8} {'times faster than the seed':>28}")
    for timing in sorted(best.values(), key=lambda t: t.wall_seconds):
        ratio = (
            f"{seed.wall_seconds / timing.wall_seconds:.1f}x wall, {seed.cpu_seconds / timing.cpu_seconds:.1f}x CPU"
            if seed
            else ""
        )
        print(f"{timing.name:32} {timing.wall_seconds:8.2f} {timing.cpu_seconds:8.2f} {ratio:>28}   {timing.note}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", default="", help="contenders whose name holds one of these words")
    parser.add_argument("--folder", default=None, help="keep the generated files here and use them again")
    parser.add_argument("--json", default=None, help="also write the timings to this file")
    arguments = parser.parse_args()
    root = Path(arguments.folder or tempfile.mkdtemp(prefix="packstone-bench-"))
    source = root / f"source-{arguments.files}x{arguments.rows}"
    if not source.exists():
        make_files(source, arguments.files, arguments.rows)
    size_bytes = sum(path.stat().st_size for path in source.iterdir())
    print(
        f"{arguments.files} files of {arguments.rows} rows, {size_bytes / 2**20:.0f} MiB; "
        f"{os.cpu_count()} cores; load {os.getloadavg()[0]:.1f}"
    )
    spark = warm_session()
    tiny = root / "warm-up"
    if not tiny.exists():
        make_files(tiny, 20, 1000)
    contenders = Contenders(spark, 20_000, sum(path.stat().st_size for path in tiny.iterdir()))
    chosen = {
        name: run
        for name, run in contenders.all().items()
        if not arguments.only or any(word in name for word in arguments.only.split(","))
    }
    for name, run in chosen.items():
        measure(name, run, tiny)
    contenders.rows, contenders.target_bytes = arguments.files * arguments.rows, size_bytes // OUTPUTS
    best: dict[str, Timing] = {}
    for _ in range(arguments.rounds):
        for name, run in chosen.items():
            timing = measure(name, run, source)
            print(
                f"  {timing.name:32} {timing.wall_seconds:7.2f} s wall {timing.cpu_seconds:7.2f} s CPU   {timing.note}",
                flush=True,
            )
            if name not in best or timing.wall_seconds < best[name].wall_seconds:
                best[name] = timing
    print_table(best)
    if arguments.json:
        plain = [{slot: getattr(timing, slot) for slot in timing.__slots__} for timing in best.values()]
        Path(arguments.json).write_text(json.dumps(plain, indent=2))
    if arguments.folder is None:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
