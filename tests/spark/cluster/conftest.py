"""One cluster for all tests of this folder."""

import sys
from pathlib import Path

import duckdb
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from standalone import SPECULATION, Cluster, Driver


@pytest.fixture(scope="package")
def cluster(spark_env, tmp_path_factory):
    """A master and two workers whose executors have no Packstone."""
    cluster = Cluster(tmp_path_factory.mktemp("cluster"), spark_env)
    yield cluster
    cluster.close()


@pytest.fixture(scope="package")
def driver(cluster, tmp_path_factory):
    """A session on the cluster that starts copies of slow tasks soon, and takes up to three failures of a task."""
    folder = tmp_path_factory.mktemp("driver")
    driver = Driver(cluster, folder / "driver.log", {**SPECULATION, **cluster.event_settings(folder / "events")})
    yield driver
    driver.close()


@pytest.fixture
def rows():
    """All rows of a table of Parquet files as a multiset, by DuckDB."""

    def read(path):
        found = f"read_parquet('{path}/**/*.parquet', hive_partitioning=false)"
        return duckdb.sql(f"select id, md5(b) as b, count(*) as n from {found} group by all order by all").fetchall()

    return read
