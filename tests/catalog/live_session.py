"""A program with a Spark session on a metastore, for tests: Spark keeps its metastore for as long as its process lives.

live_session.py work FACTS    merges tables of all formats by name, in place and by location, and says what it saw
live_session.py read FACTS    reads one table again and again until a file tells it to stop, and says what it saw
"""

import json
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).parents[1]))

from metastore_lake import DAYS, ask_hive, make_session, names
from patience import patient

from packstone.catalog.metastore_database import MetastoreDatabase
from packstone.cli.main import run
from packstone.spark.hive_client import SparkHiveClient
from packstone.spark.session import SparkHandle

DAY = DAYS[0]
READ = "select count(*), sum(id), count(distinct id) from sales.t_parquet"


def work(facts, spark) -> dict:
    """Fill the tables, merge them, undo some of it; the rows are looked at by Spark in between."""
    warehouse = Path(facts["warehouse"]) / "sales.db"
    formats = facts["formats"]
    tables = (*(f"t_{name}" for name in formats), "mixed", "of_spark")
    fill(spark, warehouse, formats)
    seen = {"before": rows_of(spark, tables), "merged": {}, "files": {}}
    Path(facts["filled"]).touch()
    seen["facts"] = facts_by_client(facts, spark)
    wait_for(Path(facts["reading"]))
    for table in tables:
        how = "location" if table in ("t_parquet", "t_orc", "mixed", "of_spark") else "in-place"
        also = ("--set", "statistics=true") if how == "in-place" else ()
        seen["merged"][table] = packstone(facts, "compact", f"sales.{table}", "--publish", how, *also)
    seen["after"] = rows_of(spark, tables)
    seen["numbers"] = numbers_of(facts, ("t_parquet", "t_orc", "t_textfile"))
    seen["plain"] = publish_plain(facts, spark)
    seen["restored"] = packstone(facts, "restore", seen["merged"]["t_parquet"]["run"], "sales.t_parquet", "--yes")
    seen["restored location"] = numbers_of(facts, ("t_parquet",))["t_parquet"]["location"]
    seen["again"] = packstone(facts, "compact", "sales.t_parquet", "--publish", "location")
    seen["at the end"] = rows_of(spark, ("t_parquet",))
    if facts["has_reader"]:
        end_reader(facts)
    for table in tables[2:-2]:
        seen["files"][table] = names(warehouse / table / f"dt={DAY}")
    return seen


def end_reader(facts) -> None:
    """Let the other process read by each of its ways once more, now that all is published, and end."""
    reading = Path(facts["reading"])
    for _ in range(len(WAYS) + 1):
        reading.unlink()
        wait_for(reading)
    Path(facts["stop"]).touch()
    wait_for(Path(facts["read_answer"]))


def facts_by_client(facts, spark) -> dict:
    """What Hive's client says of all tables beside what the database says; and a command that has only Spark."""
    client = SparkHiveClient(lambda: SparkHandle(spark, is_ours=False))
    differ = []
    with MetastoreDatabase(facts["url"]) as database:
        for table in database.list_tables():
            theirs = client.find_table(table.database, table.name)
            differ += [str(table)] if comparable(theirs) != comparable(table) else []
            pairs = zip(
                sorted(client.list_partitions(theirs), key=lambda one: one.name),
                sorted(database.list_partitions(table), key=lambda one: one.name),
                strict=True,
            )
            differ += [f"{table} {mine}" for its, mine in pairs if comparable(its) != comparable(mine)]
            shares = [one.who_shares(table, table.location) for one in (client, database)] if table.location else []
            differ += [f"{table} is shared with {shares}"] if len(set(shares)) > 1 else []
    client.close()
    plan = packstone({**facts, "url": "spark"}, "plan", "sales.t_textfile")
    return {"differ": differ, "plan": [plan["files_before"], plan["files_after"]]}


def comparable(one):
    """Without the numbers that only a database has."""
    return replace(one, number=0)


def publish_plain(facts, spark) -> list:
    """A table without partitions: there, there again with new files, and back; where it was and what it held."""
    seen = []

    def look(what):
        spark.catalog.refreshTable("sales.plain")
        rows = spark.sql("select count(*), sum(id) from sales.plain").first()
        with MetastoreDatabase(facts["url"]) as metastore:
            table = metastore.find_table("sales", "plain")
        folder = Path(table.location.removeprefix("file:"))
        seen.append([what, folder.parent.parent.name, len(names(folder)), table.params.get("numFiles"), *rows])

    first = packstone(facts, "compact", "sales.plain", "--publish", "location")["run"]
    look("published")
    spark.sql("insert into sales.plain select /*+ repartition(6) */ id + 60 as id, concat('n', id) from range(60)")
    second = packstone(facts, "compact", "sales.plain", "--publish", "location")["run"]
    look("again")
    for undone in (second, first):
        packstone(facts, "restore", undone, "sales.plain", "--yes")
    look("back")
    return seen


def fill(spark, warehouse: Path, formats: list[str]) -> None:
    """Six small files for each format; the partitions of the mixed table get files of their own formats."""
    for name in formats:
        for day in DAYS:  # the metastore knows both; Spark wants their folders
            (warehouse / f"t_{name}" / f"dt={day}").mkdir(parents=True)
        spark.sql(
            f"insert into sales.t_{name} partition (dt='{DAY}') "
            "select /*+ repartition(6) */ id, concat('n', id) from range(60)"
        )
    spark.sql("create table sales.of_spark (id bigint, name string, dt string) using parquet partitioned by (dt)")
    spark.sql(f"insert into sales.of_spark select /*+ repartition(6) */ id, concat('n', id), '{DAY}' from range(60)")
    (warehouse / "plain").mkdir(parents=True)
    spark.sql("insert into sales.plain select /*+ repartition(6) */ id, concat('n', id) from range(60)")
    for name, format_of in (("text", "textfile"), ("parquet", "parquet"), ("orc", "orc")):
        folder = warehouse / "mixed" / f"dt={name}"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(warehouse / f"t_{format_of}" / f"dt={DAY}", folder)


def rows_of(spark, tables) -> dict[str, list]:
    """All rows of these tables, in an order."""
    for table in tables:
        spark.catalog.refreshTable(f"sales.{table}")
    return {
        table: [list(row) for row in spark.sql(f"select dt, id, name from sales.{table} order by dt, id").collect()]
        for table in tables
    }


def numbers_of(facts, tables) -> dict[str, dict]:
    """What the metastore's database says of a partition."""
    found = {}
    with MetastoreDatabase(facts["url"]) as metastore:
        for table in tables:
            partitions = metastore.list_partitions(metastore.find_table("sales", table))
            (partition,) = (one for one in partitions if one.name == f"dt={DAY}")
            folder = Path(partition.storage.location.removeprefix("file:"))
            data = [folder / name for name in names(folder)]
            found[table] = {
                "location": partition.storage.location,
                "told": [partition.params.get("numFiles"), partition.params.get("totalSize")],
                "found": [str(len(data)), str(sum(path.stat().st_size for path in data))],
            }
    return found


def packstone(facts, *arguments: str) -> dict:
    """Run the command line in this process, where it finds the session."""
    import contextlib
    import io

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run([*arguments, "--metastore", facts["url"], "--format", "json"])
    assert code == 0, (arguments, code, out.getvalue(), err.getvalue())
    return json.loads(out.getvalue())


def read_by_spark(spark) -> list:
    """With what the session knows of the table."""
    return list(spark.sql(READ).first())


def read_afresh(spark) -> list:
    """With fresh metadata."""
    spark.catalog.refreshTable("sales.t_parquet")
    return read_by_spark(spark)


def read_by_hive(spark) -> list:
    """By Hive's own query processor, input format and SerDe, which are in Spark's jars."""
    ids = [int(one) for one in ask_hive(spark, "select id from sales.t_parquet")]
    return [len(ids), sum(ids), len(set(ids))]


WAYS = {"spark": read_by_spark, "spark, afresh": read_afresh, "hive": read_by_hive}


def read(facts, spark) -> dict:
    """Read until stopped, in each way in turn."""
    wait_for(Path(facts["filled"]), or_else=Path(facts["stop"]))
    seen, files, times = {way: [] for way in WAYS}, set(), 0
    while not Path(facts["stop"]).exists():
        way = list(WAYS)[times % len(WAYS)]
        seen[way].append(WAYS[way](spark))
        files |= {
            row[0].rpartition("/")[0]
            for row in spark.sql("select distinct input_file_name() from sales.t_parquet").collect()
        }
        times += 1
        time.sleep(0.3)  # the other one needs the cores too
        if times >= len(WAYS):
            Path(facts["reading"]).touch()
    return {"seen": seen, "folders": sorted(files)}


def wait_for(path: Path, *, or_else: Path | None = None) -> None:
    """Wait for the other process, or for its end."""
    until = time.monotonic() + patient(120)
    while not path.exists() and not (or_else is not None and or_else.exists()):
        assert time.monotonic() < until, path
        time.sleep(0.05)


def main() -> None:
    """Run the command; the answer goes to a file, because Java writes to stdout."""
    facts = json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))
    server = SimpleNamespace(kind=facts["kind"], port=facts["port"])
    spark = make_session(server, facts["database"], Path(facts["warehouse"]), new=False)
    answer = {"work": work, "read": read}[sys.argv[1]](facts, spark)
    Path(facts[f"{sys.argv[1]}_answer"]).write_text(json.dumps(answer), encoding="utf-8")
    spark.stop()


if __name__ == "__main__":
    main()
