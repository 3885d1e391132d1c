"""Ship Packstone's own code to the executors, so that a cluster needs no installed Packstone.

A driver that has Packstone installed packs it and adds it to the session before the first task. Executors need
PyArrow, NumPy and fastavro, and run exactly the driver's version even where another one is installed, because Spark
puts shipped code before installed code. That is done once per session, and never where tasks run on the driver's
machine with its own Python.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.resources
import importlib.util
import os
import re
import sys
import tempfile
import threading
import weakref
import zipfile
from importlib.abc import InspectLoader
from typing import TYPE_CHECKING, Any, Final
from zipimport import zipimporter

from packstone.errors import UnavailableError
from packstone.spark.session import is_connect

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

_PACKAGE: Final = "packstone"
_SOURCE_MODULE: Final = "pyspark_packstone"  # where Spark looks for format("packstone")
_LEFT_OUT: Final = frozenset({"__pycache__", "migrations"})  # Alembic's scripts are for the driver's history only
_THE_SAME_TIME: Final = (1980, 1, 1, 0, 0, 0)  # the same code makes the same archive, whenever it is packed
# The messages of Python, of PySpark, and of our stores, which import their libraries when they are used.
_MISSING: Final = re.compile(r"No module named '([\w.]+)'|PACKAGE_NOT_INSTALLED\] (\w+)|paths need ([\w-]+); install")

_shipped: weakref.WeakSet[Any] = weakref.WeakSet()
_lock = threading.Lock()


def ship_package(spark: Any) -> None:
    """Add our code to the session, unless it already has it or does not need it."""
    holder = spark if is_connect(spark) else spark.sparkContext
    with _lock:
        if holder in _shipped:
            return
        if is_connect(spark):
            _ship_to_server(spark)
        elif not is_this_machine(str(holder.master)):
            _ship_to_cluster(holder)
        _shipped.add(holder)


def is_this_machine(master: str) -> bool:
    """Whether tasks run inside the driver's JVM, with the driver's Python."""
    return master == "local" or master.startswith("local[")


def write_package(folder: str) -> str:
    """Pack our code into a folder; the name has a digest, because Spark refuses another file of the same name."""
    digest = hashlib.sha256()
    path = os.path.join(folder, "packstone.zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in _list_sources():
            digest.update(name.encode() + b"\0" + content)
            archive.writestr(zipfile.ZipInfo(name, _THE_SAME_TIME), content, zipfile.ZIP_DEFLATED)
    named = os.path.join(folder, f"packstone-{digest.hexdigest()[:16]}.zip")
    os.replace(path, named)
    return named


def job_error(error: Exception) -> UnavailableError:
    """The error for a failed job, in one sentence; it says what to do if executors lack a package."""
    line = last_error_line(error)
    missing = _MISSING.search(line)
    if missing is None:
        return UnavailableError(f"The Spark job failed: {line}")
    package = next(name for name in missing.groups() if name)
    return UnavailableError(
        f"The Python of the executors has no {package}; install it there with what else they need (pyarrow, numpy, "
        "fastavro), or make an archive with `packstone bundle`, ship it with --archives FILE#env and set "
        "spark.pyspark.python=./env/bin/python.",
        package=package,
    )


def last_error_line(error: Exception) -> str:
    """The line of an error that names its cause: Spark wraps the worker's traceback in its own."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line or "Exception" in line]
    return (errors or lines or [type(error).__name__])[-1 if errors else 0][:300]


def _ship_to_server(spark: Any) -> None:
    with tempfile.TemporaryDirectory(prefix="packstone-") as folder:  # uploaded before the call returns
        spark.addArtifacts(write_package(folder), pyfile=True)


def _ship_to_cluster(context: Any) -> None:
    from pyspark import SparkFiles  # a second of imports that planning does not need

    # Executors that start later, to replace lost ones, fetch the file from here too, so it must exist as long as the
    # application runs. Spark removes this folder when it ends.
    folder = tempfile.mkdtemp(prefix="packstone-", dir=SparkFiles.getRootDirectory())
    with _same_import_path():
        context.addPyFile(write_package(folder))


@contextlib.contextmanager
def _same_import_path() -> Iterator[None]:
    """Restore ``sys.path``: ``addPyFile`` adds the file to it on the driver too, which has the package already."""
    before = list(sys.path)
    try:
        yield
    finally:
        sys.path[:] = before


def _list_sources() -> Iterator[tuple[str, bytes]]:
    """Yield our modules and their data, from the folder or the archive that this Packstone was imported from."""
    yield from _list_below(importlib.resources.files(_PACKAGE), _PACKAGE)
    found = importlib.util.find_spec(_SOURCE_MODULE)
    if found is not None and isinstance(found.loader, InspectLoader | zipimporter):
        yield f"{_SOURCE_MODULE}.py", (found.loader.get_source(_SOURCE_MODULE) or "").encode()


def _list_below(folder: Traversable, name: str) -> Iterator[tuple[str, bytes]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.name in _LEFT_OUT:
            continue
        if entry.is_dir():
            yield from _list_below(entry, f"{name}/{entry.name}")
        else:
            yield f"{name}/{entry.name}", entry.read_bytes()
