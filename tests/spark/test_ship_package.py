"""What is shipped to executors, and what is said of those that lack something; clusters are in cluster/."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from patience import patient

from packstone.spark.ship_package import is_this_machine, job_error, write_package

PACK = "import sys; from packstone.spark.ship_package import write_package; print(write_package(sys.argv[1]))"


def test_the_same_code_makes_the_same_archive(tmp_path):
    """The name tells the content, so a session never sees two archives of one name; also if packed by an archive."""
    (tmp_path / "again").mkdir()
    first, again = write_package(str(tmp_path)), write_package(str(tmp_path / "again"))
    assert Path(first).read_bytes() == Path(again).read_bytes()
    packed = subprocess.run(
        [sys.executable, "-c", PACK, str(tmp_path / "again")], env={**os.environ, "PYTHONPATH": first},
        capture_output=True, text=True, check=True, timeout=patient(60), cwd=tmp_path,
    )  # fmt: skip
    assert Path(packed.stdout.strip()).name == Path(first).name


def test_what_is_in_the_archive(tmp_path):
    """All modules and the data source that Spark looks for; no bytecode, and no scripts of the history."""
    names = zipfile.ZipFile(write_package(str(tmp_path))).namelist()
    assert {"packstone/__init__.py", "packstone/rewrite/small_files/merge_unit.py", "packstone/py.typed"} <= set(names)
    assert "pyspark_packstone.py" in names
    assert [name for name in names if "__pycache__" in name or "/migrations/" in name] == []


@pytest.mark.parametrize(
    ("master", "expected"),
    [("local", True), ("local[*]", True), ("local[2,3]", True), ("local-cluster[2,1,512]", False), ("yarn", False)],
)
def test_where_nothing_is_shipped(master, expected):
    """Tasks inside the driver's JVM run the driver's Python; `local-cluster` has executors of its own."""
    assert is_this_machine(master) is expected


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ("ModuleNotFoundError: No module named 'pyarrow'", "has no pyarrow; install it there"),
        ("PySparkImportError: [PACKAGE_NOT_INSTALLED] PyArrow >= 18 must be installed", "has no PyArrow; install"),
        ("ValueError: unit 7 is cursed", "The Spark job failed: ValueError: unit 7 is cursed"),
    ],
)
def test_why_a_job_failed(told, expected):
    """A missing package is named with what to do; anything else is reported in the worker's words."""
    assert expected in job_error(RuntimeError(f"An error occurred\n  File worker.py\n{told}\n")).message


@pytest.mark.parametrize(
    ("package", "module", "address"),
    [("hdfs-native", "hdfs_native", "hdfs://127.0.0.1:1/data"), ("obstore", "obstore", "s3://lake/data")],
)
def test_a_store_that_executors_cannot_open(spark, package, module, address):
    """A worker without the library of a store: the sentence says that it is the executors' Python that lacks it."""

    def use_store(batches):
        from packstone.storage.hdfs import HdfsFileIO
        from packstone.storage.hdfs_connection import HdfsSettings
        from packstone.storage.s3 import S3FileIO, S3Settings

        class NotInstalled:
            @staticmethod
            def find_spec(name, path=None, target=None):
                if name.partition(".")[0] == module:
                    raise ModuleNotFoundError(f"No module named {name!r}", name=name)

        hdfs, s3 = HdfsFileIO(HdfsSettings(url="hdfs://127.0.0.1:1")), S3FileIO(S3Settings.from_environment({}))
        hidden = {name: sys.modules.pop(name) for name in tuple(sys.modules) if name.partition(".")[0] == module}
        sys.meta_path.insert(0, NotInstalled)
        try:
            (hdfs if address.startswith("hdfs:") else s3).read_bytes(address)
        finally:  # the worker lives on
            sys.meta_path.remove(NotInstalled)
            sys.modules.update(hidden)
        yield from batches

    with pytest.raises(Exception, match=package) as failed:
        spark.range(1).mapInArrow(use_store, "id long").collect()
    error = job_error(failed.value)
    assert f"The Python of the executors has no {package}; install it there" in error.message
    assert "packstone bundle" in error.message


def test_a_local_session_is_left_alone(spark, orders):
    """On `local[…]` nothing is added to the session."""
    import packstone
    from packstone import HiveOptions

    orders.write(partitions=1)
    packstone.open(str(orders.path), spark=spark).compact(HiveOptions(min_files=2))
    assert [name for name in spark.sparkContext._python_includes if "packstone" in name] == []
