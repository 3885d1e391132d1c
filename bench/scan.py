"""Selective filters and full scans of a segment table, against Spark's own reader and DuckDB on the same files.

    python bench/scan.py [--rows 20000000] [--segments 40] [--repeat 5] [--folder F] [--only dictionaries]

40 segments of about 50 small files, more than 4,000 row groups in all, sorted by account inside each segment, with
Parquet bloom filters on it, which Spark and DuckDB use too; the same
queries run before and after a major compaction. Every contender runs all of them in its own warm process
(session, imports, first run not timed; the best of several runs counts). Results are compared. For packstone the number
of row groups that it reads is printed beside the number with a match, which DuckDB determines.

    Arrow      table.scan(...).to_arrow(), no Spark
    DataFrame  table.scan(...).to_df(spark), collected
    Spark      spark.read.parquet(all files) created once, .where(...), collected
    Spark, new the same with the DataFrame created for each query, as both packstone contenders do
    DuckDB     read_parquet(all files) where ..., as Arrow

Last, what the cache of dictionaries saves: columns of few and of many different values, row groups of 131,072 and of
5,000 rows, values that no row group has, that one has, and that all have. CPU milliseconds of a scan without
dictionaries, with a cold cache and with a warm one, measured in turn.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

Answer: TypeAlias = Callable[[str], Any]
DDL = "account long, opened timestamp_ntz, code string, closed timestamp_ntz, price double, token string, note string"
COLUMNS = ["account", "code", "closed", "token"]
ROW_GROUP_ROWS = 5_000
WARM_UP, WARM_UP_ALL = 8, 3
# The start of each row group, and how many of them contain a matching row.
HOLDING = """
with groups as (
    select distinct file_name, row_group_id, row_group_num_rows as many from parquet_metadata($1)
), placed as (
    select *, sum(many) over (partition by file_name order by row_group_id) as past from groups
), hits as (
    select filename, file_row_number as here from read_parquet($1, filename = true, file_row_number = true)
    where {where}
)
select count(distinct (file_name, row_group_id))
from hits join placed on filename = file_name and here >= past - many and here < past
"""


def questions(accounts: int) -> dict[str, str]:
    """One filter of each kind, for this number of accounts."""
    one, few = accounts // 3, ", ".join(str(accounts // 7 * at + 11) for at in range(1, 7))
    return {
        "point": f"account = {one}",
        "range": f"account BETWEEN {one} AND {one + accounts // 20_000}",
        "in": f"account IN ({few})",
        "is null": "closed IS NULL",
        "startswith": f"code LIKE 'A{one // 100:08d}%'",
        "all": "",
    }


def make_table(path: Path, *, rows: int, segments: int) -> None:
    """Load the segments one by one; files are as small as the block size allows."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    import packstone

    properties = {"TABLE_BLOCKSIZE": "1", "TABLE_BLOCKLET_ROWS": str(ROW_GROUP_ROWS), "BLOOM_COLUMNS": "account"}
    table = packstone.create(str(path), DDL, sort_by=["account"], properties=properties)
    draw, each, accounts = np.random.default_rng(7), rows // segments, rows // 4
    for _ in range(segments):
        account = draw.integers(0, accounts, each)
        opened = pa.array(draw.integers(1_546_300_800, 1_577_836_800, each) * 1_000_000, pa.timestamp("us"))
        closed = pc.if_else(pa.array(account % accounts < accounts // 5_000), pa.scalar(None, opened.type), opened)
        digits = pc.utf8_lpad(pc.cast(pa.array(account), pa.string()), 10, "0")
        tokens = pa.array([draw.bytes(24).hex() for _ in range(1000)])
        table.segments.load(
            pa.table(
                {
                    "account": account,
                    "opened": opened,
                    "code": pc.binary_join_element_wise("A", digits, ""),
                    "closed": closed,
                    "price": draw.integers(0, 1_000_000, each) / 100.0,
                    "token": pc.binary_join_element_wise(
                        tokens.take(pa.array(draw.integers(0, 1000, each))),
                        pc.cast(pa.array(draw.integers(2**40, 2**62, each)), pa.string()),
                        "",
                    ),
                    "note": pc.cast(pa.array(draw.integers(2**20, 2**50, each)), pa.string()),
                }
            )
        )


def open_table(path: Path, spark: Any = None) -> Any:
    import packstone

    return packstone.open(str(path), spark=spark, history=None)


def spark_session() -> Any:
    from pyspark.sql import SparkSession

    return (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "6g")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )


def _rows(frame: Any) -> int:
    return int(frame.toArrow().num_rows)


def _drain(frame: Any) -> int:
    frame.write.format("noop").mode("overwrite").save()
    return -1


def by_arrow(path: Path) -> Answer:
    table = open_table(path)

    def answer(where: str) -> int:
        scan = table.scan(columns=COLUMNS, where=where or None)
        if where:
            return int(scan.to_arrow(threads=2).num_rows)
        return sum(batch.num_rows for batch in scan.to_batches(threads=2))

    return answer


def by_frame(path: Path) -> Answer:
    spark = spark_session()
    table = open_table(path, spark)

    def answer(where: str) -> int:
        frame = table.scan(columns=COLUMNS, where=where or None).to_df(spark)
        return _rows(frame) if where else _drain(frame)

    return answer


def by_spark(path: Path) -> Answer:
    spark, paths = spark_session(), list(open_table(path).segments.files().paths)
    rows = spark.read.parquet(*paths).select(*COLUMNS)
    return lambda where: _rows(rows.where(where)) if where else _drain(rows)


def by_new_spark(path: Path) -> Answer:
    spark, paths = spark_session(), list(open_table(path).segments.files().paths)

    def answer(where: str) -> int:
        rows = spark.read.parquet(*paths).select(*COLUMNS)
        return _rows(rows.where(where)) if where else _drain(rows)

    return answer


def by_duckdb(path: Path) -> Answer:
    import duckdb

    paths = list(open_table(path).segments.files().paths)
    names = ", ".join(COLUMNS)

    def answer(where: str) -> int:
        found = duckdb.execute(f"select {names} from read_parquet($1) where {where or 'true'}", [paths])
        return sum(batch.num_rows for batch in found.to_arrow_reader(65_536))

    return answer


CONTENDERS: dict[str, Callable[[Path], Answer]] = {
    "packstone, Arrow": by_arrow,
    "packstone, DataFrame": by_frame,
    "Spark": by_spark,
    "Spark, new": by_new_spark,
    "DuckDB": by_duckdb,
}


def run_child(name: str, path: Path, *, rows: int, repeat: int) -> None:
    """Run every query in this process, and report to the parent on the last line of stdout."""
    answer, found = CONTENDERS[name](path), {}
    for question, where in questions(rows // 4).items():
        # Spark's reader is compiled while it reads: other contenders' lookups read too little for that.
        for _ in range(1 if where else WARM_UP_ALL):
            answer(where)
        times = []
        for _ in range(repeat):
            began = time.perf_counter()
            count = answer(where)
            times.append(time.perf_counter() - began)
        found[question] = [min(times), count]
    print(json.dumps(found))


def count_row_groups(path: Path, where: str) -> tuple[int, int]:
    """How many row groups packstone reads, and how many contain a match."""
    import duckdb

    table = open_table(path)
    levels = table.scan(columns=COLUMNS, where=where).explain().pruned.levels
    holding = duckdb.execute(HOLDING.format(where=where), [list(table.segments.files().paths)]).fetchone()
    return levels[-1].kept, int((holding or (0,))[0])


def measure(name: str, path: Path, *, rows: int, repeat: int) -> dict[str, tuple[float, int]]:
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, __file__, "--child", name, "--folder", str(path), "--rows", str(rows)]
    done = subprocess.run(
        [*command, "--repeat", str(repeat)], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{name} failed:\n{done.stderr[-3000:]}")
    found: dict[str, tuple[float, int]] = json.loads(done.stdout.splitlines()[-1])
    return found


def compare(title: str, path: Path, *, rows: int, repeat: int) -> None:
    found = {name: measure(name, path, rows=rows, repeat=repeat) for name in CONTENDERS}
    groups = open_table(path).scan().explain().pruned.levels[-1].total
    print(f"\n{title}: {len(open_table(path).segments.files().paths):,} files, {groups:,} row groups; milliseconds")
    print(f"{'':12}" + "".join(f"{name:>22}" for name in CONTENDERS) + "   Arrow, DataFrame against Spark   row groups")
    for question, where in questions(rows // 4).items():
        counts = {answers[question][1] for answers in found.values()} - {-1}
        if len(counts) > 1:
            raise SystemExit(f"{question}: the answers differ: {counts}")
        seconds = {name: answers[question][0] for name, answers in found.items()}
        times = "".join(f"{seconds[name] * 1000:22.1f}" for name in CONTENDERS)
        ratios = [seconds["Spark"] / seconds[name] for name in list(CONTENDERS)[:2]]
        told = f"{ratios[0]:.1f}x, {ratios[1]:.1f}x"
        read, holding = count_row_groups(path, where) if where else (groups, groups)
        print(f"{question:12}{times}   {told:<30}   {read:,} read, {holding:,} hold one of {max(counts):,} rows")


DICTIONARY_COLUMNS = {
    "text of 200": 200,
    "text of 20,000": 20_000,
    "number of 1,000": 1_000,
    "number of 20,000": 20_000,
}


def compare_dictionaries(folder: Path, *, repeat: int) -> None:
    """Print the CPU time of scans with and without the rule, and the hit rate of the cache."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    draw, rows = np.random.default_rng(3), 16 * 131_072
    print("\ndictionaries, CPU milliseconds of a scan: 2,097,152 rows, one file; `one` is in the last row group only")
    titles = f"{'without':>10}{'cold':>10}{'warm':>10}{'excluded':>14}{'hits':>7}"
    print(f"{'column':18}{'rows a group':>13}{'value':>7}{titles}")
    for name, many in DICTIONARY_COLUMNS.items():
        for group_rows in (131_072, 5_000):
            drawn = draw.integers(0, many, rows) * 2  # odd numbers are within the bounds, and absent
            drawn[drawn == 20] = 22
            drawn[-1] = 20
            values = pa.array(drawn)
            if name.startswith("text"):
                values = pa.array([f"value number {at:08d}" for at in range(2 * many)]).take(values)
            path = folder / "dictionaries.parquet"
            pq.write_table(
                pa.table({"v": values, "other": draw.integers(0, 1 << 40, rows)}), path, row_group_size=group_rows,
                compression="zstd",
            )  # fmt: skip
            for value, number in (("none", 33), ("one", 20), ("all", 44)):
                where = f"v = 'value number {number:08d}'" if name.startswith("text") else f"v = {number}"
                print(f"{name:18}{group_rows:13,}{value:>7}" + measure_dictionaries(path, where, repeat=repeat))


def measure_dictionaries(path: Path, where: str, *, repeat: int) -> str:
    """One line: without the rule, cold and warm, measured in turn; the median of each."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from packstone.query.filter.parse_filter import parse_filter
    from packstone.query.filter.resolve import prepare_filter
    from packstone.query.scan import dictionaries
    from packstone.query.scan.blocklet_scan import scan_blocklets
    from packstone.query.scan.caches import ScanCaches
    from packstone.query.scan.plan import ScanFile
    from packstone.query.scan.scanned_file import ScannedFile
    from packstone.storage.local import LocalFileIO

    io, schema, usual = LocalFileIO(), pq.read_schema(path), dictionaries._TEST_US  # noqa: SLF001 - to turn the rule off
    test, file = prepare_filter(parse_filter(where), schema), ScanFile(path=str(path), size_bytes=path.stat().st_size)
    filter_schema, warm = pa.schema([schema.field("v")]), ScanCaches.make()
    wanted: dict[str, Any] = {"schema": schema, "filter_schema": filter_schema, "expression": test}
    times: dict[str, list[float]] = {"without": [], "cold": [], "warm": []}
    counts = set()
    for at in range(-WARM_UP, repeat):  # the dictionaries of small row groups are read after some scans
        for name, taken in times.items():
            caches = ScanCaches.make() if name == "cold" else warm
            ScannedFile(io, file, schema.names, caches=caches).close()  # a warm footer, in all three
            dictionaries._TEST_US = float("inf") if name == "without" else usual  # noqa: SLF001
            began = time.process_time()
            counts.add(sum(batch.num_rows for batch in scan_blocklets(io, [file], caches=caches, **wanted)))
            if at >= 0:
                taken.append((time.process_time() - began) * 1000)
    if len(counts) > 1:
        raise SystemExit(f"{where}: the answers differ: {counts}")
    before, opened = warm.dictionary.stats(), ScannedFile(io, file, schema.names, caches=warm)
    groups = range(len(opened.footer.group_rows))
    left = opened.prune_by_dictionaries(test, filter_schema, groups=groups, sure=frozenset())
    after = warm.dictionary.stats()
    asked, hits = (getattr(after, name) - getattr(before, name) for name in ("misses", "hits"))
    rate = f"{100 * hits / (asked + hits):.0f}%" if asked + hits else "off"
    excluded = f"{len(groups) - len(left)} of {len(groups)}"
    return "".join(f"{statistics.median(some):10.1f}" for some in times.values()) + f"{excluded:>14}{rate:>7}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--segments", type=int, default=40)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--folder", default=None, help="keep the table here and use it again")
    parser.add_argument("--child", default=None, help=argparse.SUPPRESS)
    parser.add_argument("--only", choices=["dictionaries"], default=None, help="measure only this part")
    arguments = parser.parse_args()
    if arguments.only:
        with tempfile.TemporaryDirectory(prefix="packstone-bench-") as folder:
            compare_dictionaries(Path(folder), repeat=arguments.repeat)
        return
    if arguments.child:
        run_child(arguments.child, Path(arguments.folder), rows=arguments.rows, repeat=arguments.repeat)
        return
    os.environ["PACKSTONE_ENGINE"] = "inline"  # unless a session is given
    root = Path(arguments.folder or tempfile.mkdtemp(prefix="packstone-bench-"))
    path, rows = root / f"accounts-{arguments.rows}", arguments.rows
    if not path.exists():
        make_table(path, rows=rows, segments=arguments.segments)
    print(f"{rows:,} rows in {arguments.segments} segments; {os.cpu_count()} cores; load {os.getloadavg()[0]:.1f}")
    compare("as loaded", path, rows=rows, repeat=arguments.repeat)
    compacted = root / "compacted"
    shutil.copytree(path, compacted)
    table = open_table(compacted)
    table.segments.alter({"TABLE_BLOCKSIZE": "256", "TABLE_BLOCKLET_ROWS": "131072", "MAJOR_COMPACTION_SIZE": "100000"})
    table.compact(table.plan(strategy="major"))
    compare("after a major compaction", compacted, rows=rows, repeat=arguments.repeat)
    compare_dictionaries(root, repeat=arguments.repeat)
    shutil.rmtree(compacted if arguments.folder else root)


if __name__ == "__main__":
    main()
