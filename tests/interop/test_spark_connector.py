"""Paimon's Spark connector 0.9: SQL writes tables, Packstone compacts them, SQL reads them."""

import shutil

import pytest
from paimon_interop.client import Worker, spark_command, why_no_spark_connector
from paimon_interop.proof import Proof
from paimon_interop.spark_cases import STATEMENTS, run_statements, select

READERS = ("pypaimon-rust", "java")  # pypaimon cannot read manifests as old as these


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory):
    """Where Spark's catalog is."""
    return tmp_path_factory.mktemp("spark")


@pytest.fixture(scope="module")
def spark(warehouse):
    """Spark 3.5 with the connector; without it the test is skipped with the reason."""
    if why := why_no_spark_connector():
        pytest.skip(why)
    with Worker(spark_command(warehouse), log=warehouse / "spark.log") as worker:
        yield worker


@pytest.mark.parametrize("name", STATEMENTS)
def test_sql_reads_what_packstone_compacted(spark, warehouse, readers, packstone, name):
    """The same rows for SQL before and after; ``sys.compact`` on a copy gives the same; SQL can still write."""
    proof = Proof(run_statements(spark, warehouse, name), readers, READERS, packstone)
    before = select(spark, name)
    assert proof.rows()["rows"] == before["rows"]
    shutil.copytree(proof.table, proof.table.with_name(f"{name}_copy"))
    spark.call("sql", "", statement=f"CALL paimon.sys.compact(table => 'd.{name}_copy')")
    assert select(spark, f"{name}_copy")["rows"] == before["rows"]
    proof.compact_twice("--strategy", "full")
    assert select(spark, name) == before
    spark.call("sql", "", statement=f"INSERT INTO paimon.d.{name} SELECT * FROM paimon.d.{name} WHERE id < 3")
    before = select(spark, name)
    spark.call("sql", "", statement=f"CALL paimon.sys.compact(table => 'd.{name}')")
    proof.check()
    assert select(spark, name) == before
