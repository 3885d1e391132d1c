"""Tables that Hive's own classes wrote, merged without a JVM: Spark with Hive reads the same rows, from any split.

One program of its own does all of it, because a session with Hive's catalogue cannot be made beside the shared one.
"""

from __future__ import annotations

import json

import pytest
from patience import patient

CODECS = "org.apache.hadoop.io.compress."
PACKED = {"hive.exec.compress.output": "true"}
CODEC, TYPE = "mapreduce.output.fileoutputformat.compress.codec", "mapreduce.output.fileoutputformat.compress.type"


def _packed(codec, **settings):
    return PACKED | {CODEC: CODECS + codec} | settings


SHORT = {
    "avro_snappy": ("AVRO", PACKED | {"avro.output.codec": "snappy"}),
    "seq_plain": ("SEQUENCEFILE", {}),
    "seq_record": ("SEQUENCEFILE", _packed("DefaultCodec", **{TYPE: "RECORD"})),
    "seq_block": ("SEQUENCEFILE", _packed("DefaultCodec", **{TYPE: "BLOCK"})),
    "rc_plain": ("RCFILE", {}),
    "rc_snappy": ("RCFILE", _packed("SnappyCodec")),
    "rc_old": ("RCFILE", {"hive.exec.rcfile.use.explicit.header": "false"}),
    "orc_default": ("ORC", {}),
    "text_snappy": ("TEXTFILE", _packed("SnappyCodec")),
}
LONG = SHORT | {
    "avro_plain": ("AVRO", {}),
    "avro_deflate": ("AVRO", PACKED | {"avro.output.codec": "deflate"}),
    "avro_bzip2": ("AVRO", PACKED | {"avro.output.codec": "bzip2"}),
    "seq_snappy": ("SEQUENCEFILE", _packed("SnappyCodec", **{TYPE: "BLOCK"})),
    "seq_bzip2": ("SEQUENCEFILE", _packed("BZip2Codec", **{TYPE: "BLOCK"})),
    "rc_default": ("RCFILE", _packed("DefaultCodec")),
    "rc_lz4": ("RCFILE", _packed("Lz4Codec")),
    "text_gzip": ("TEXTFILE", _packed("GzipCodec")),
    "text_bzip2": ("TEXTFILE", _packed("BZip2Codec")),
    "text_lz4": ("TEXTFILE", _packed("Lz4Codec")),
    "text_deflate": ("TEXTFILE", _packed("DefaultCodec")),
}

# Small blocks, so that files are read in several splits: whoever begins in the middle looks for a sync marker.
PROGRAM = """
import hashlib, json, os, sys
from pathlib import Path
import packstone
from packstone import HiveOptions
from pyspark.sql import SparkSession

root, tables = sys.argv[1], json.loads(sys.argv[2])
spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.driver.extraJavaOptions",
            os.environ.get("PACKSTONE_JVM_OPTIONS", "") + f" -Dderby.stream.error.file={root}/derby.log")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.ui.enabled", "false")
    .config("spark.ui.showConsoleProgress", "false")
    .config("spark.sql.warehouse.dir", f"{root}/warehouse")
    .config("spark.hadoop.javax.jdo.option.ConnectionURL", "jdbc:derby:memory:hive;create=true")
    .config("spark.hadoop.datanucleus.schema.autoCreateAll", "true")
    .config("spark.hadoop.hive.metastore.schema.verification", "false")
    .config("spark.hadoop.fs.local.block.size", "40000")
    .config("spark.sql.hive.convertMetastoreOrc", "false")
    .enableHiveSupport()
    .getOrCreate()
)
spark.sparkContext.setLogLevel("OFF")

def look(name):
    spark.catalog.refreshTable(name)
    table = spark.table(name)
    rows = sorted(map(str, table.collect()))
    return [len(rows), hashlib.sha256("|".join(rows).encode()).hexdigest(), table.rdd.getNumPartitions()]

for name, (stored, settings) in tables.items():
    spark.sql(f"CREATE TABLE {name} (id bigint, name string, price decimal(10,2), tags array<string>)"
              f" STORED AS {stored}")
    for key, value in settings.items():
        spark.conf.set(key, value)
    spark.sql(f"INSERT INTO {name} SELECT id, if(id % 7 = 0, NULL, md5(CAST(id AS string))),"
              " CAST(id / 4 AS decimal(10,2)), array(CAST(id AS string), 'x') FROM range(0, 9000, 1, 6)")
    for key in settings:
        spark.conf.unset(key)
    folder = Path(root, "warehouse", name)
    before = look(name)
    table = packstone.open(str(folder), spark=spark)
    outcome = table.compact(HiveOptions(min_files=2))
    after = look(name)
    proof = table.verify(outcome.run).to_json()["status"]
    table.restore(outcome.run)
    print(json.dumps({"name": name, "status": outcome.status, "files": [outcome.files_before, outcome.files_after],
                      "rows": outcome.rows, "how": [unit.how for unit in outcome.units], "before": before,
                      "after": after, "proof": proof, "restored": look(name)}), flush=True)
spark.stop()
"""


def check_tables(program, tmp_path, tables):
    """Let Hive write the tables, merge them, and compare what Spark with Hive reads."""
    child = program(PROGRAM, tmp_path, json.dumps(tables))
    out, _ = child.communicate(timeout=patient(550))
    log = (tmp_path / "program0.log").read_text()
    assert child.returncode == 0, log[-3000:]
    found = {line["name"]: line for line in map(json.loads, out.splitlines())}
    assert set(found) == set(tables)
    for name, line in found.items():
        how = "stitch" if name.startswith("orc") else "concatenate"
        assert (line["status"], line["files"], line["how"]) == ("committed", [6, 1], [how]), line
        assert line["rows"] == line["before"][0] == 9000, line
        assert line["after"][:2] == line["before"][:2] == line["restored"][:2], name
        is_whole = name.startswith("text") and not name.endswith("bzip2")  # such a codec is read from its start only
        assert is_whole or line["after"][2] > 1, f"{name} was read in one piece, so no marker was looked for"
        assert line["proof"] == "verified", line


@pytest.mark.slow
def test_hive_reads_what_was_merged(program, tmp_path):
    """Avro, SequenceFile (plain, by record, by block), RCFile (plain, packed, old header), ORC, text."""
    check_tables(program, tmp_path, SHORT)


@pytest.mark.soak
def test_hive_reads_what_was_merged_in_every_codec(program, tmp_path):
    """The long form: every codec that Hive writes without native libraries, and reads (not RCFile with bzip2)."""
    check_tables(program, tmp_path, LONG)
