"""The sets of small files that the benchmarks share, generated; every run makes the same rows.

    python bench/sets.py <folder> [A,A-large,B,duckdb]

A       what Spark writes: 300 files of 10,000 rows in one folder, 13 columns, with Spark's defaults (snappy,
        dictionaries, INT96): texts of few, some and many values, decimals, nulls, a list and a struct; 98 MB
A-large the same with 1,000 files: the start of the processes takes less of the time
B       tiny files in many partitions: flights of 2013 by day, written hour by hour by Spark; 365 partitions of 13 files
        of 71 rows, 19 columns, 8 KB each
duckdb  1,000 files of 10,000 rows in one folder, 9 columns, written by DuckDB, mostly without dictionaries
orc, avro, csv, csv-gzip, json, json-gzip
        100 files of 10,000 rows of set A in another format, written by Spark; CSV without the list and the struct
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyspark
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn

DAYS, HOURS = 365, 13
FLIGHTS_PER_HOUR = 71
CARRIERS = ["UA", "B6", "EV", "DL", "AA", "MQ", "US", "9E", "WN", "VX", "FL"]


def start_spark(*, avro_jar: Path | None = None) -> SparkSession:
    """The session of this process, on two cores; timestamps are INT96, the default of Spark 3 and 4 up to now."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "3g")
        .config("spark.sql.parquet.compression.codec", "snappy")
        .config("spark.sql.parquet.outputTimestampType", "INT96")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.jars", str(avro_jar or ""))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def fetch_avro_jar() -> Path | None:
    """Spark's reader and writer of Avro, which pyspark does not contain, fetched with Maven; None if it cannot be.

    Maven has no jar of some releases of Spark; the one of another release of the same major version works as well.
    """
    folder = Path(sys.prefix) / "spark-avro"
    names = [f"spark-avro_2.13-{version}.jar" for version in (pyspark.__version__, "4.1.1")]
    for name in names:
        if (folder / name).exists():
            return folder / name
    for name in names:
        if _fetch(f"org.apache.spark:spark-avro_2.13:{name.removesuffix('.jar').rpartition('-')[2]}", folder):
            return folder / name
    return None


def _fetch(artifact: str, folder: Path) -> bool:
    if shutil.which("mvn") is None:
        return False
    plugin = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
    command = ["mvn", "--quiet", "--batch-mode", plugin, f"-Dartifact={artifact}", f"-DoutputDirectory={folder}"]
    return subprocess.run(command, capture_output=True, check=False, timeout=300).returncode == 0


def orders(spark: SparkSession, *, files: int, rows: int = 10_000) -> DataFrame:
    """The rows of set A; each task has those of one file."""
    row = fn.col("id")
    return spark.range(0, files * rows, 1, files).select(
        (row * 11 + 7).alias("order_no"),
        fn.format_string("c%07d", _random("customer", 150_000)).alias("customer"),
        fn.format_string("SKU-%05d-%s", _random("sku", 4000), _one_of("size", ["S", "M", "L", "XL"])).alias("sku"),
        _one_of("status", ["new", "paid", "packed", "sent", "returned"]).alias("status"),
        _sometimes("coupon?", 35, fn.format_string("SAVE%03d", _random("coupon", 300))).alias("coupon"),
        (_random("price", 5_000_000) / 100).cast("decimal(12,2)").alias("price"),
        _sometimes("tax?", 80, (_random("tax", 900) / 10000).cast("decimal(25,6)")).alias("tax"),
        (_random("rating", 11) / 2).alias("rating"),
        fn.timestamp_seconds(fn.lit(1_600_000_000) + fn.floor(row / 20)).alias("ordered_at"),
        fn.date_add(fn.lit("2020-01-01").cast("date"), fn.floor(row / 20_000).cast("int")).alias("ship_day"),
        (_random("gift", 10) == 0).alias("is_gift"),
        _sometimes(
            "codes?",
            70,
            fn.slice(
                fn.array(*[_random(f"code{at}", 80).cast("int") for at in range(3)]),
                1,
                (_random("codes", 3) + 1).cast("int"),
            ),
        ).alias("codes"),
        fn.struct(
            _one_of("city", [f"city-{number}" for number in range(60)]).alias("city"),
            _sometimes("zip?", 90, (_random("zip", 90_000) + 10_000).cast("int")).alias("zip"),
        ).alias("address"),
    )


def flights(spark: SparkSession, *, days: int = DAYS, hours: int = HOURS) -> DataFrame:
    """Flights with the columns of the table flights-2013 and `dt`; each task has one hour of every day."""
    spread = FLIGHTS_PER_HOUR * 5 // 4
    row = fn.col("id")
    day = fn.date_add(fn.lit("2013-01-01").cast("date"), (row % days).cast("int"))
    hour = (fn.lit(24 - hours - 5) + fn.floor(row / (days * spread))).cast("int")
    scheduled = (hour * 60 + _random("minute", 60)).cast("int")
    delay = fn.when(_random("late?", 3) == 0, _random("delay", 180)).otherwise(_random("early", 12) - 12).cast("int")
    air = (_random("air", 600) + 20).cast("int")
    flown = _random("cancelled?", 40) > 0
    base = spark.range(0, days * hours * spread, 1, hours).where(_random("kept", 100) < 80)
    base = base.select(
        row, day.alias("day_of"), hour.alias("h"), scheduled.alias("s"), delay.alias("d"), air.alias("a")
    )

    def clock(minutes: Column) -> Column:
        return (fn.floor(minutes / 60) % 24 * 100 + minutes % 60).cast("int")

    day, hour, scheduled, delay, air = (fn.col(name) for name in ("day_of", "h", "s", "d", "a"))
    arrived = scheduled + air + delay
    return base.select(
        fn.year(day).alias("year"),
        fn.month(day).alias("month"),
        fn.dayofmonth(day).alias("day"),
        fn.when(flown, clock(scheduled + delay)).alias("dep_time"),
        clock(scheduled).alias("sched_dep_time"),
        fn.when(flown, delay.cast("double")).alias("dep_delay"),
        fn.when(flown, clock(arrived)).alias("arr_time"),
        clock(scheduled + air).alias("sched_arr_time"),
        fn.when(flown, (delay + _random("wind", 40) - 20).cast("double")).alias("arr_delay"),
        _nullable(_one_of("carrier", CARRIERS)).alias("carrier"),
        (_random("flight", 6000) + 1).cast("int").alias("flight"),
        fn.when(flown, fn.format_string("N%05d", _random("tail", 4000))).alias("tailnum"),
        _nullable(_one_of("origin", ["EWR", "JFK", "LGA"])).alias("origin"),
        _nullable(fn.format_string("D%02d", _random("dest", 100))).alias("dest"),
        fn.when(flown, air.cast("double")).alias("air_time"),
        (air * 7).cast("double").alias("distance"),
        hour.alias("hour"),
        (scheduled % 60).alias("minute"),
        fn.timestamp_seconds(fn.unix_timestamp(day.cast("timestamp")) + hour * 3600).alias("time_hour"),
        day.cast("string").alias("dt"),
    )


def _nullable(column: Column) -> Column:
    """The same values in a column that may be null, as in a table that was loaded from text."""
    return fn.when(_random("null?", 2) >= 0, column)


def make_plain(folder: Path, *, files: int = 1000, rows: int = 10_000) -> None:
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
                (hash(range * 5 + {number}) % 9007199254740992) / 9007199254740992 as score,
                (range % 3 = 0) as paid,
                date '2019-01-01' + (hash(range + {number}) % 365)::integer as day,
                timestamp '2019-01-01' + to_microseconds((hash(range * 3 + {number}) % 31536000000000)::bigint) as at,
                substr(md5((range + {number * rows})::varchar), 1, 16) as token
              from range({rows})) to '{folder}/part-{number:05d}.parquet' (format parquet, compression snappy)"""
        )


def _random(salt: str, values: int) -> Column:
    """A number below `values` that the row's id and the salt determine."""
    return fn.pmod(fn.xxhash64(fn.col("id"), fn.lit(salt)), fn.lit(values))


def _sometimes(salt: str, pct: int, value: Column) -> Column:
    return fn.when(_random(salt, 100) < pct, value)


def _one_of(salt: str, words: list[str]) -> Column:
    return fn.element_at(fn.array(*map(fn.lit, words)), (_random(salt, len(words)) + 1).cast("int"))


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSet:
    """Small files of one folder or table, and the number of files that a merge should leave; 0 for one a partition."""

    name: str
    short: str
    title: str
    make: Callable[[Path, float], None]
    outputs: int
    file_format: str = "parquet"
    codec: str = ""

    def made(self, root: Path, scale: float) -> Path:
        """The folder of the set, generated if it is not there."""
        folder = root / (self.name if scale == 1 else f"{self.name}-{scale:g}")
        if not folder.exists():
            parts = folder.with_name(f"{folder.name}.part")
            shutil.rmtree(parts, ignore_errors=True)
            self.make(parts, scale)
            for path in parts.rglob("*"):  # every contender finds data files only
                if path.is_file() and path.name[0] in "._":
                    path.unlink()
            parts.rename(folder)
        return folder


def _make_orders(files: int) -> Callable[[Path, float], None]:
    def make(folder: Path, scale: float) -> None:
        orders(start_spark(), files=max(20, round(files * scale))).write.parquet(str(folder))

    return make


def _make_flights(folder: Path, scale: float) -> None:
    """One job: each of the 13 tasks writes one file into every partition."""
    frame = flights(start_spark(), days=max(2, round(DAYS * scale)))
    frame.sortWithinPartitions("dt", "sched_dep_time", "flight").write.partitionBy("dt").parquet(str(folder))


def _make_duckdb(folder: Path, scale: float) -> None:
    make_plain(folder, files=max(20, round(1000 * scale)))


def _make_as(file_format: str, codec: str = "") -> Callable[[Path, float], None]:
    def make(folder: Path, scale: float) -> None:
        frame = orders(start_spark(), files=max(20, round(100 * scale)))
        if file_format == "csv":
            frame = frame.drop("codes", "address")
        writer = frame.write.format(file_format)
        (writer.option("compression", codec) if codec else writer).save(str(folder))

    return make


SETS = {
    one.name: one
    for one in (
        FileSet(
            name="A",
            short="300 files as Spark writes them, with dictionaries",
            title="What Spark writes: {files:,} Parquet files of 10,000 rows, 13 columns with dictionaries, "
            "{mb:.0f} MB, into two",
            make=_make_orders(300),
            outputs=2,
        ),
        FileSet(
            name="A-large",
            short="1,000 such files",
            title="The same with more files: {files:,} Parquet files, {mb:.0f} MB, into five",
            make=_make_orders(1000),
            outputs=5,
        ),
        FileSet(
            name="B",
            short="4,745 tiny files of Spark in 365 partitions",
            title="Tiny files in many partitions: {files:,} Parquet files of {kb:.0f} KB by Spark, 19 columns, "
            "{folders} partitions, {mb:.0f} MB, into one file each",
            make=_make_flights,
            outputs=0,
        ),
        FileSet(
            name="duckdb",
            short="1,000 files of DuckDB without dictionaries",
            title="Larger files without dictionaries: {files:,} Parquet files of 10,000 rows by DuckDB, {mb:.0f} MB, "
            "into five",
            make=_make_duckdb,
            outputs=5,
        ),
        *(
            FileSet(
                name=f"{kind}-{codec}" if codec else kind,
                short=title,
                title=f"{title}: {{files:,}} files of 10,000 rows by Spark, {{mb:.0f}} MB, into two",
                make=_make_as(kind, codec),
                outputs=2,
                file_format=kind,
                codec=codec,
            )
            for kind, codec, title in (
                ("orc", "", "ORC"),
                ("avro", "", "Avro"),
                ("csv", "", "CSV"),
                ("csv", "gzip", "CSV, gzip"),
                ("json", "", "JSON lines"),
                ("json", "gzip", "JSON lines, gzip"),
            )
        ),
    )
}


def main() -> None:
    folder, names = Path(sys.argv[1]), (sys.argv[2] if len(sys.argv) > 2 else "A,A-large,B,duckdb").split(",")
    if "avro" in names:
        start_spark(avro_jar=fetch_avro_jar())
    for name in names:
        print(SETS[name].made(folder, 1))


if __name__ == "__main__":
    main()
