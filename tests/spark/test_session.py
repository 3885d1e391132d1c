"""What is said if Spark does not start, and what is not left behind; each in a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from patience import patient

PACKSTONE = Path(sys.executable).with_name("packstone")


@pytest.fixture
def compact(orders, spark_env):
    """Compact a table by the command line; Spark is started for it."""
    orders.write(partitions=1)

    def call(*arguments, **env):
        command = [str(PACKSTONE), "compact", str(orders.path), *map(str, arguments)]
        given = {name: value for name, value in spark_env.items() if not name.startswith(("HADOOP_", "YARN_"))}
        return subprocess.run(
            command, env={**given, **env}, capture_output=True, text=True, check=False, timeout=patient(300)
        )

    return call


def test_the_jvm_ends_before_it_is_reached(compact):
    """`--engine yarn` without a Hadoop configuration: the reason is the JVM's last word, which only its log has."""
    done = compact("--engine", "yarn")
    (sentence,) = done.stderr.splitlines()
    assert done.returncode == 1
    assert "either HADOOP_CONF_DIR or YARN_CONF_DIR must be set" in sentence
    assert "spark.log" in sentence


def test_spark_refuses_a_setting(compact):
    """An error of Spark's own: the sentence has the Java exception, not the name of the call that failed."""
    done = compact("--engine", "local[nonsense]")
    (sentence,) = done.stderr.splitlines()
    assert done.returncode == 1
    assert "Could not parse Master URL: 'local[nonsense]'" in sentence
    assert "An error occurred while calling" not in sentence


def test_a_home_that_cannot_be_written(compact, tmp_path):
    """Where the folder of the logs cannot be made, Spark's log goes to a temporary file, and the run continues."""
    (tmp_path / "file").touch()
    done = compact(
        "--engine", "local[1]", "--format", "json", PACKSTONE_LOGS=f"{tmp_path}/file/logs", TMPDIR=str(tmp_path)
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["status"] == "committed"
    assert len(list(tmp_path.glob("packstone-logs-*/spark.log"))) == 1


def test_a_pandas_that_pyspark_warns_of(compact, tmp_path):
    """PySpark warns of pandas 3; under spark-submit that line would go to stdout, between the lines of the JSON."""
    (tmp_path / "sitecustomize.py").write_text("import pandas\npandas.__version__ = '3.0.0'\n")
    paths = os.pathsep.join((str(tmp_path), os.environ.get("PYTHONPATH", "")))
    done = compact("--engine", "local[1]", "--format", "json", PYTHONPATH=paths)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["status"] == "committed"
    assert "pandas" not in done.stderr
