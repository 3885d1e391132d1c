"""A Hive metastore in MariaDB or PostgreSQL, its schema and its tables made by Hive itself through Spark.

``make_session`` gives a Spark with Hive support on a database; ``TABLES`` are the statements that fill it: one table
for each format, one whose partitions differ in format, and one of each kind that Packstone refuses.
"""

import os
from pathlib import Path
from xml.sax.saxutils import escape

from database_servers import PASSWORD, USER

JARS = {
    "mariadb": Path("/usr/share/java/mariadb-java-client.jar"),
    "postgres": Path("/usr/share/java/postgresql.jar"),
}
# DataNucleus makes tables when it first needs them, on a second connection that waits for the first: both for ever.
# With the list of all classes it makes them at the start.
_MODEL = (
    "MDatabase MType MTable MConstraint MSerDeInfo MColumnDescriptor MStringList MStorageDescriptor MPartition MIndex "
    "MRole MRoleMap MGlobalPrivilege MDBPrivilege MTablePrivilege MPartitionPrivilege MTableColumnPrivilege "
    "MPartitionColumnPrivilege MPartitionEvent MMasterKey MDelegationToken MTableColumnStatistics "
    "MPartitionColumnStatistics MVersionTable MResourceUri MFunction MNotificationLog MNotificationNextId"
)
FORMATS = ("parquet", "orc", "textfile", "avro", "sequencefile", "rcfile")
DAYS = ("2026-01-01", "2026-01-02")
COLUMNS = "id bigint, name string"
TABLES = (
    "create database sales comment 'what tests look at'",
    *(f"create table sales.t_{one} ({COLUMNS}) partitioned by (dt string) stored as {one}" for one in FORMATS),
    *(f"alter table sales.t_{one} add partition (dt='{day}')" for one in FORMATS for day in DAYS),
    f"create table sales.plain ({COLUMNS}) stored as parquet",
    f"create table sales.mixed ({COLUMNS}) partitioned by (dt string) stored as textfile",
    *(f"alter table sales.mixed add partition (dt='{one}')" for one in ("text", "parquet", "orc")),
    f"""create table sales.headed ({COLUMNS}) partitioned by (dt string, hour int)
        row format delimited fields terminated by ',' stored as textfile
        tblproperties ('skip.header.line.count'='1')""",
    "alter table sales.headed add partition (dt='a b:c', hour=3)",
    "alter table sales.headed add partition (dt='2026-01-01', hour=4) location '{elsewhere}/hour4'",
    f"""create table sales.bucketed ({COLUMNS}) clustered by (id) sorted by (name) into 4 buckets
        stored as parquet""",
    f"create table sales.acid ({COLUMNS}) clustered by (id) into 2 buckets stored as orc",
    f"create table sales.handled ({COLUMNS}) stored as textfile",
    f"create table sales.lake_delta ({COLUMNS}) stored as parquet",
    f"create table sales.lake_iceberg ({COLUMNS}) stored as parquet",
    f"create table sales.archived ({COLUMNS}) partitioned by (dt string) stored as textfile",
    "alter table sales.archived add partition (dt='1')",
    "alter table sales.archived add partition (dt='2')",
    f"create table sales.skewed ({COLUMNS}) stored as textfile",
    f"create external table sales.shared_a ({COLUMNS}) stored as parquet location '{{elsewhere}}/shared'",
    f"create external table sales.shared_b ({COLUMNS}) stored as parquet location '{{elsewhere}}/shared'",
    f"""create external table sales.outer_one ({COLUMNS}) partitioned by (dt string) stored as parquet
        location '{{elsewhere}}/outer'""",
    f"create external table sales.inner_one ({COLUMNS}) stored as parquet location '{{elsewhere}}/outer/dt=9'",
    "create view sales.a_view as select id from sales.plain",
    f"create external table sales.owned_outside ({COLUMNS}) stored as parquet location '{{elsewhere}}/external'",
)


def jdbc_of(server, database: str) -> tuple[str, str]:
    """The address of a database for Java, and its driver."""
    return {
        "mariadb": (
            # Without it DataNucleus does not know the product MariaDB.
            f"jdbc:mysql://127.0.0.1:{server.port}/{database}?useMysqlMetadata=true",
            "org.mariadb.jdbc.Driver",
        ),
        "postgres": (f"jdbc:postgresql://127.0.0.1:{server.port}/{database}", "org.postgresql.Driver"),
    }[server.kind]


def write_spark_conf(folder: Path, server, database: str) -> None:
    """Fill a folder for SPARK_CONF_DIR, as on a machine whose Spark knows the metastore: hive-site.xml, a driver."""
    url, driver = jdbc_of(server, database)
    settings = {
        "javax.jdo.option.ConnectionURL": url,
        "javax.jdo.option.ConnectionDriverName": driver,
        "javax.jdo.option.ConnectionUserName": USER,
        "javax.jdo.option.ConnectionPassword": PASSWORD,
        "hive.metastore.schema.verification": "false",
    }
    items = "".join(f"<property><name>{k}</name><value>{escape(v)}</value></property>" for k, v in settings.items())
    folder.mkdir(parents=True)
    (folder / "hive-site.xml").write_text(f"<configuration>{items}</configuration>", encoding="utf-8")
    jars = ":".join(str(jar) for jar in JARS.values())
    (folder / "spark-defaults.conf").write_text(f"spark.driver.extraClassPath {jars}\n", encoding="utf-8")


def make_session(server, database: str, warehouse: Path, *, new: bool = True):
    """A Spark session with Hive support on a database of a server; ``new`` lets Hive make its schema there."""
    from pyspark.sql import SparkSession

    url, driver = jdbc_of(server, database)
    model = ",".join(f"org.apache.hadoop.hive.metastore.model.{name}" for name in _MODEL.split())
    settings = {
        "spark.hadoop.javax.jdo.option.ConnectionURL": url,
        "spark.hadoop.javax.jdo.option.ConnectionDriverName": driver,
        "spark.hadoop.javax.jdo.option.ConnectionUserName": USER,
        "spark.hadoop.javax.jdo.option.ConnectionPassword": PASSWORD,
        "spark.hadoop.hive.metastore.schema.verification": "false",
        "spark.hadoop.hive.exec.dynamic.partition.mode": "nonstrict",
        "spark.driver.extraClassPath": ":".join(str(jar) for jar in JARS.values()),
        "spark.driver.extraJavaOptions": os.environ.get("PACKSTONE_JVM_OPTIONS", ""),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": f"file:{warehouse}",
        "spark.sql.catalogImplementation": "hive",
    }
    if new:
        settings |= {
            "spark.hadoop.datanucleus.schema.autoCreateAll": "true",
            "spark.hadoop.datanucleus.autoStartMechanism": "Classes",
            "spark.hadoop.datanucleus.autoStartClassNames": model,
        }
    builder = SparkSession.builder.master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


def fill(spark, elsewhere: Path) -> None:
    """Make all tables; what Spark's SQL does not let one say is said through Hive's own client."""
    for statement in TABLES:
        spark.sql(statement.replace("{elsewhere}", f"file:{elsewhere}"))
    client = hive_client(spark)
    for table, params in (
        ("acid", {"transactional": "true"}),
        ("handled", {"storage_handler": "org.apache.hadoop.hive.hbase.HBaseStorageHandler"}),
        ("lake_delta", {"spark.sql.sources.provider": "delta"}),
        ("lake_iceberg", {"table_type": "ICEBERG", "metadata_location": "s3://lake/t/metadata/1.metadata.json"}),
    ):
        found = client.getTable("sales", table)
        for key, value in params.items():
            found.getParameters().put(key, value)
        client.alter_table("sales", table, found)
    _set_partition_formats(client)
    archived = client.getPartition("sales", "archived", "dt=2")
    archived.getParameters().put("is_archived", "true")
    client.alter_partition("sales", "archived", archived)
    skewed = client.getTable("sales", "skewed")
    skewed.getSd().setSkewedInfo(_skew(spark))
    skewed.getSd().setStoredAsSubDirectories(True)
    client.alter_table("sales", "skewed", skewed)
    client.close()


def hive_client(spark):
    """Hive's own client of its metastore, in Spark's Java."""
    jvm = spark._jvm
    conf = jvm.org.apache.hadoop.hive.conf.HiveConf()
    entries = spark._jsc.hadoopConfiguration().iterator()
    while entries.hasNext():
        entry = entries.next()
        if entry.getKey().startswith(("javax.jdo", "datanucleus", "hive.metastore")):
            conf.set(entry.getKey(), entry.getValue())
    return jvm.org.apache.hadoop.hive.metastore.HiveMetaStoreClient(conf)


def ask_hive(spark, sql: str) -> list[str]:
    """Rows by Hive's own query processor, which is in Spark's jars: its planner, its input formats, its SerDes."""
    spark._jvm.java.lang.System.setProperty("spark.testing", "true")  # Spark lets only tests ask Hive
    hive = spark._jsparkSession.sharedState().externalCatalog().unwrapped().client()
    # Else Hive's fetch task reads an ORC partition of a text table by the table's SerDe, and fails.
    hive.runSqlHive("set hive.exec.schema.evolution=false")
    return hive.runSqlHive(sql).mkString("\n").splitlines()


def _set_partition_formats(client) -> None:
    for name in ("parquet", "orc"):
        set_partition_format(client, "sales.mixed", f"dt={name}", model=f"sales.t_{name}")


def set_partition_format(client, table: str, partition: str, *, model: str) -> None:
    """Let a partition be of the format of another table."""
    like = client.getTable(*model.split(".")).getSd()
    found = client.getPartition(*table.split("."), partition)
    found.getSd().setInputFormat(like.getInputFormat())
    found.getSd().setOutputFormat(like.getOutputFormat())
    found.getSd().getSerdeInfo().setSerializationLib(like.getSerdeInfo().getSerializationLib())
    client.alter_partition(*table.split("."), found)


def _skew(spark):
    jvm = spark._jvm
    info = jvm.org.apache.hadoop.hive.metastore.api.SkewedInfo()
    columns, values, value = jvm.java.util.ArrayList(), jvm.java.util.ArrayList(), jvm.java.util.ArrayList()
    columns.add("id")
    value.add("1")
    values.add(value)
    info.setSkewedColNames(columns)
    info.setSkewedColValues(values)
    info.setSkewedColValueLocationMaps(jvm.java.util.HashMap())
    return info


class FilledMetastore:
    """A metastore of which a dump was loaded: its address, and the folders of its tables."""

    def __init__(self, server, root: Path) -> None:
        self.kind, self.root = server.kind, root
        self.warehouse, self.elsewhere = root / "warehouse", root / "elsewhere"
        self.url = server.fresh(encoding="latin1")
        self.bare_url = server.url(self.url.rpartition("/")[2], password=None)
        dump = (Path(__file__).parent / "testdata" / "metastore" / f"{server.kind}.sql").read_text(encoding="utf-8")
        self.run(dump.replace("@WAREHOUSE@", str(self.warehouse)).replace("@ELSEWHERE@", str(self.elsewhere)))

    def run(self, script: str) -> None:
        """Run many statements at once, in the words of the server."""
        import sqlalchemy

        engine = sqlalchemy.create_engine(self.url, poolclass=sqlalchemy.NullPool)
        connection = engine.raw_connection()
        try:
            cursor = connection.cursor()
            if self.kind == "mariadb":
                cursor.execute("set foreign_key_checks = 0")
                for statement in script.split(";\n"):
                    if statement.strip():
                        cursor.execute(statement)
            else:
                cursor.execute(script)
            connection.commit()
        finally:
            connection.close()

    def folder(self, table: str, partition: str = "") -> Path:
        """The folder of a table of the warehouse, or of a partition in it; it is there afterwards."""
        found = self.warehouse / "sales.db" / table / partition
        found.mkdir(parents=True, exist_ok=True)
        return found


def write_parquet(folder: Path, *, files: int = 6, first: int = 0) -> None:
    """Small files of numbers that are all different."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    for number in range(first, first + files):
        with (folder / f"part-{number:05d}.parquet").open("wb") as file:
            pq.write_table(pa.table({"id": range(number * 10, number * 10 + 10), "name": ["n"] * 10}), file)


def read_ids(*folders: Path) -> list[int]:
    """The ids of all visible Parquet files, by a reader that is not ours."""
    import pyarrow.parquet as pq

    paths = [path for folder in folders for path in folder.rglob("*.parquet") if not path.name.startswith(".")]
    return sorted(one for path in paths for one in pq.ParquetFile(path).read()["id"].to_pylist())


def names(folder: Path) -> list[str]:
    """What is visible in a folder."""
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith((".", "_")))
