"""A program with a Spark session on a metastore, for tests of a whole evening: it makes a warehouse, and reads it.

It takes one question in a line of its stdin and gives one answer in a line of its stdout. Java talks on stderr.
"""

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).parents[1]))

from evening_lake import DATABASE, FILES, Warehouse
from metastore_lake import ask_hive, hive_client, make_session, set_partition_format

ROWS_IN_FILE = 10


def make(spark, warehouse: Warehouse) -> dict:
    """All tables of the warehouse, by Spark and by Hive's own client."""
    spark.sql(f"create database {DATABASE}")
    for table, kind in warehouse.tables.items():
        MAKERS.get(kind, make_filled)(spark, warehouse, table)
    make_refused(spark, warehouse)
    return {}


def make_filled(spark, warehouse: Warehouse, table: str) -> None:
    """One of a format that Spark writes: this many small files in each of its days."""
    kind, days = warehouse.tables[table], warehouse.days_of(table)
    spark.sql(f"create table {DATABASE}.{table} (id bigint, name string) partitioned by (dt string) stored as {kind}")
    rows, day = FILES * len(days) * ROWS_IN_FILE, ", ".join(f"'{day}'" for day in days)
    spark.sql(
        f"insert into {DATABASE}.{table} partition (dt) select id, "
        "if(id % 7 = 0, null, concat('é', id)), "
        f"element_at(array({day}), cast(id % {len(days)} as int) + 1) "
        f"from range(0, {rows}, 1, {FILES})"
    )


def make_headed(spark, warehouse: Warehouse, table: str) -> None:
    """Text with commas and a header in each file, as a partner sends it."""
    spark.sql(
        f"create table {DATABASE}.{table} (id bigint, name string) partitioned by (dt string) row format delimited "
        "fields terminated by ',' stored as textfile tblproperties ('skip.header.line.count'='1')"
    )
    add_days(spark, warehouse, table)
    for day in warehouse.days_of(table):
        folder = warehouse.folder(table) / f"dt={day}"
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(FILES):
            lines = [f"{number * ROWS_IN_FILE + at},n{at}\n" for at in range(ROWS_IN_FILE)]
            (folder / f"part-{number}.csv").write_text("id,name\n" + "".join(lines), encoding="utf-8")


def make_mixed(spark, warehouse: Warehouse, table: str) -> None:
    """Partitions of three formats in one table: what a table looks like whose format was changed, twice."""
    import shutil

    spark.sql(f"create table {DATABASE}.{table} (id bigint, name string) partitioned by (dt string) stored as textfile")
    add_days(spark, warehouse, table)
    client = hive_client(spark)
    for day, kind in zip(warehouse.days_of(table), ("textfile", "parquet", "orc", "textfile"), strict=True):
        model = next(name for name, what in warehouse.tables.items() if what == kind)
        target = warehouse.folder(table) / f"dt={day}"
        shutil.copytree(warehouse.folder(model) / f"dt={day}", target, dirs_exist_ok=True)
        set_partition_format(client, f"{DATABASE}.{table}", f"dt={day}", model=f"{DATABASE}.{model}")
    client.close()


def add_days(spark, warehouse: Warehouse, table: str) -> None:
    """Let the metastore know all partitions of a table, at once."""
    days = " ".join(f"partition (dt='{day}')" for day in warehouse.days_of(table))
    spark.sql(f"alter table {DATABASE}.{table} add {days}")


MAKERS = {"headed": make_headed, "mixed": make_mixed}


def make_refused(spark, warehouse: Warehouse) -> None:
    """One of each kind that must not be merged, with small files in those that have any."""
    columns, shared = "(id bigint, name string)", f"location 'file:{warehouse.root}/shared'"
    spark.sql(f"create table {DATABASE}.bucketed {columns} clustered by (id) into 2 buckets stored as parquet")
    spark.sql(f"create table {DATABASE}.acid {columns} clustered by (id) into 2 buckets stored as orc")
    spark.sql(f"create view {DATABASE}.a_view as select id from {DATABASE}.bucketed")
    for name in ("shared_a", "shared_b"):
        spark.sql(f"create external table {DATABASE}.{name} {columns} stored as parquet {shared}")
    client = hive_client(spark)
    acid = client.getTable(DATABASE, "acid")
    acid.getParameters().put("transactional", "true")
    client.alter_table(DATABASE, "acid", acid)
    client.close()
    spark.sql(f"insert into {DATABASE}.shared_a select id, 'n' from range(0, 60, 1, {FILES})")


def read(spark, warehouse: Warehouse) -> dict:
    """All rows of all tables, by Spark's own readers and by Hive's."""
    return {"spark": read_by_spark(spark, warehouse), "hive": read_by_hive(spark, warehouse)}


def read_by_spark(spark, warehouse: Warehouse) -> dict[str, list[str]]:
    """Spark knows nothing of Hive's header lines: they are rows without a number to it."""
    found = {table: [] for table in warehouse.tables}
    for table in found:
        spark.catalog.refreshTable(f"{DATABASE}.{table}")
    each = (f"select '{table}', id, name, dt from {DATABASE}.{table} where id is not null" for table in found)
    for table, *row in spark.sql(" union all ".join(each)).collect():
        found[table].append("\t".join("NULL" if value is None else str(value) for value in row))
    return {table: sorted(rows) for table, rows in found.items()}


def read_by_hive(spark, warehouse: Warehouse) -> dict[str, list[str]]:
    """Hive skips header lines, and knows each partition by its own format."""
    return {one: sorted(ask_hive(spark, f"select id, name, dt from {DATABASE}.{one}")) for one in warehouse.tables}


def make_at(spark, table: str, location: str) -> dict:
    """A table of two days somewhere else, in another store."""
    columns = "(id bigint, name string) partitioned by (dt string) stored as parquet"
    spark.sql(f"create external table {DATABASE}.{table} {columns} location '{location}'")
    days = "if(id % 2 = 0, '2026-10-01', '2026-10-02')"
    spark.sql(f"insert into {DATABASE}.{table} partition (dt) select id, 'n', {days} from range(0, 120, 1, {FILES})")
    return read_one(spark, table)


def read_one(spark, table: str) -> dict:
    """All rows of one table, by Spark and by Hive."""
    spark.catalog.refreshTable(f"{DATABASE}.{table}")
    rows = spark.sql(f"select id, dt from {DATABASE}.{table}").collect()
    return {
        "spark": sorted(f"{row[0]}\t{row[1]}" for row in rows),
        "hive": sorted(ask_hive(spark, f"select id, dt from {DATABASE}.{table}")),
    }


def main() -> None:
    """Answer until there are no more questions."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    facts = json.loads(sys.argv[1])
    warehouse = Warehouse(Path(facts["root"]), tuple(facts["kinds"]))
    server = SimpleNamespace(kind=facts["kind"], port=facts["port"])
    spark = make_session(server, facts["database"], warehouse.root / "warehouse", new=False)
    for question in sys.stdin:
        word, *more = question.split()
        answers_of = {"make": make, "read": read, "make-at": make_at, "read-one": read_one}
        answer = answers_of[word](spark, *(more or [warehouse]))
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    spark.stop()


if __name__ == "__main__":
    main()
