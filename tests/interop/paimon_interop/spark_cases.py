"""Tables that Spark SQL makes through Paimon's connector 0.9: its statements, and the older layout of its metadata."""

from pathlib import Path

from paimon_interop.client import Worker


def values(first: int, count: int, note: str) -> str:
    """Rows of SQL."""
    return ", ".join(f"({key}, '{note} {key}', {key * 3})" for key in range(first, first + count))


def create(columns: str, properties: str, *, partitions: str = "") -> str:
    """A table that leaves its compaction to others."""
    return f"CREATE TABLE {{t}} ({columns}) {partitions} TBLPROPERTIES ({properties}, 'write-only' = 'true')"


def merge(rows: str) -> str:
    """Update what is there, insert the rest."""
    source = f"(SELECT * FROM VALUES {rows} AS s(id, name, v)) s"
    update = "WHEN MATCHED THEN UPDATE SET name = s.name, v = s.v"
    return f"MERGE INTO {{t}} USING {source} ON {{t}}.id = s.id {update} WHEN NOT MATCHED THEN INSERT *"


COLUMNS = "id BIGINT, name STRING, v INT"
KEYED = "'primary-key' = 'id', 'bucket' = '2'"
SUMS = "'merge-engine' = 'aggregation', 'fields.v.aggregate-function' = 'sum'"
# Statements with the table's name left open; each commits once, more or less.
STATEMENTS = {
    "upserts": (
        create(COLUMNS, KEYED),
        f"INSERT INTO {{t}} VALUES {values(0, 20, 'first')}",
        f"INSERT INTO {{t}} VALUES {values(10, 20, 'second')}",
        "DELETE FROM {t} WHERE id % 4 = 0",
        "UPDATE {t} SET name = 'updated' WHERE id % 5 = 1",
        merge(values(25, 10, "merged")),
    ),
    "compacted": (
        create(COLUMNS, KEYED),
        f"INSERT INTO {{t}} VALUES {values(0, 30, 'first')}",
        f"INSERT INTO {{t}} VALUES {values(10, 20, 'second')}",
        "CALL paimon.sys.compact(table => '{n}')",
        "CALL paimon.sys.create_tag(table => '{n}', tag => 'v1')",
        "DELETE FROM {t} WHERE id % 3 = 0",
        f"INSERT INTO {{t}} VALUES {values(5, 5, 'third')}",
    ),
    "evolved": (
        create(COLUMNS, KEYED),
        f"INSERT INTO {{t}} VALUES {values(0, 20, 'first')}",
        "ALTER TABLE {t} ADD COLUMN extra DECIMAL(12, 2)",
        "ALTER TABLE {t} RENAME COLUMN name TO title",
        "INSERT INTO {t} VALUES (1, 'one', 1, 1.5), (40, 'forty', NULL, NULL)",
        "ALTER TABLE {t} ALTER COLUMN v TYPE BIGINT",
        "INSERT INTO {t} VALUES (2, 'two', 5000000000, 2.5)",
    ),
    "partitioned": (
        create("id BIGINT, name STRING, dt STRING", "'primary-key' = 'dt,id'", partitions="PARTITIONED BY (dt)"),
        *(f"INSERT INTO {{t}} VALUES ({n}, 'a{n}', '2024-01-01'), ({n % 3}, 'b{n}', 'x y')" for n in range(4)),
    ),
    "partial_update": (
        create(COLUMNS, f"{KEYED}, 'merge-engine' = 'partial-update'"),
        "INSERT INTO {t} VALUES (1, 'a', NULL), (2, NULL, 2)",
        "INSERT INTO {t} VALUES (1, NULL, 1), (2, 'b', NULL), (3, NULL, NULL)",
    ),
    "aggregated": (
        create(COLUMNS, f"{KEYED}, {SUMS}, 'fields.name.aggregate-function' = 'max'"),
        *(f"INSERT INTO {{t}} VALUES {values(n, 10, 'name')}" for n in range(3)),
    ),
    "dynamic_bucket": (
        create(COLUMNS, "'primary-key' = 'id', 'bucket' = '-1', 'dynamic-bucket.target-row-num' = '8'"),
        f"INSERT INTO {{t}} VALUES {values(0, 20, 'first')}",
        f"INSERT INTO {{t}} VALUES {values(10, 20, 'second')}",
    ),
    "append": (
        create(COLUMNS, "'bucket' = '-1'"),
        *(f"INSERT INTO {{t}} VALUES {values(n, 3, 'row')}" for n in range(6)),
    ),
}
SPARK_FIXTURES = ("upserts", "compacted")


def run_statements(spark: Worker, warehouse: Path, name: str) -> Path:
    """Make one of these tables."""
    spark.call("sql", "", statement="CREATE DATABASE IF NOT EXISTS paimon.d")
    for statement in STATEMENTS[name]:
        spark.call("sql", "", statement=statement.format(t=f"paimon.d.{name}", n=f"d.{name}"))
    return warehouse / "d.db" / name


def select(spark: Worker, name: str) -> dict[str, object]:
    """All rows of one of these tables."""
    return spark.call("sql", "", statement=f"SELECT * FROM paimon.d.{name}")
