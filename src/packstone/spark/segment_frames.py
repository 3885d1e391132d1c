"""Segment tables as DataFrames: the rows of a version, and the list of its segments."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any

from packstone.spark.session import SparkSettings, is_connect, open_spark
from packstone.storage.location import scheme_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_GLOB = re.compile(r"[*?\[\]{}\\]")  # Spark takes every path for a pattern
_ESCAPED = r"\\\g<0>"
_LISTING_TASKS = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
_TASKS_A_CORE = 2
_SPARK_SCHEMES = frozenset({"file", "hdfs"})


def is_read_by_spark(path: str) -> bool:
    """Whether Spark's own reader finds a file by the path that we have.

    On S3 it does not: it needs other jars, settings and keys there, and another scheme.
    """
    return scheme_of(path) in _SPARK_SCHEMES


def read_files(spark: Any, paths: Sequence[str], *, schema: str) -> Any:  # noqa: ANN401 - a session, a DataFrame
    """Read exactly these Parquet files by Spark's own reader; a file with fewer columns gives nulls."""
    session = find_session(spark)
    if not paths:
        return session.createDataFrame([], schema)
    with _few_listing_tasks(session):
        return session.read.schema(schema).parquet(*map(_pattern, paths))


@contextlib.contextmanager
def _few_listing_tasks(session: Any) -> Iterator[None]:  # noqa: ANN401 - a session of either kind
    """Let Spark look up many files in a few tasks; by itself it makes one for each file, 3 s for 1,000 of them.

    Through Connect the looking up comes later, so nothing is changed there.
    """
    if is_connect(session):
        yield
        return
    before = session.conf.get(_LISTING_TASKS)
    session.conf.set(_LISTING_TASKS, str(_TASKS_A_CORE * session.sparkContext.defaultParallelism))
    try:
        yield
    finally:
        session.conf.set(_LISTING_TASKS, before)


def _pattern(path: str) -> str:
    address = path if scheme_of(path) != "file" else f"file://{path}"
    return _GLOB.sub(_ESCAPED, address)


def make_frame(spark: Any, rows: Sequence[tuple[Any, ...]], *, schema: str) -> Any:  # noqa: ANN401 - as above
    """A DataFrame of a few rows that are known already."""
    return find_session(spark).createDataFrame(list(rows), schema)


def find_session(spark: Any) -> Any:  # noqa: ANN401 - a session of either kind
    """The session given, else the active one, else a new local one."""
    return spark if spark is not None else open_spark(SparkSettings()).spark


def is_spark_frame(data: object) -> bool:
    """Whether something is a DataFrame of Spark, classic or Connect, without importing Spark."""
    return any(
        base.__name__ == "DataFrame" and base.__module__.startswith("pyspark.sql") for base in type(data).__mro__
    )


def is_spark_schema(schema: object) -> bool:
    """Whether something is a schema of Spark."""
    return any(
        base.__name__ == "StructType" and base.__module__ == "pyspark.sql.types" for base in type(schema).__mro__
    )


def schema_ddl(schema: Any) -> str:  # noqa: ANN401 - pyspark's StructType
    """Write a schema of Spark as text."""
    return ", ".join(
        f"{_quoted(field.name)} {_type_text(field.dataType)}{'' if field.nullable else ' not null'}"
        for field in schema.fields
    )


def _type_text(kind: Any) -> str:  # noqa: ANN401 - a DataType of pyspark
    """As Spark writes it, but with the names of fields in backquotes."""
    match kind.typeName():
        case "array":
            return f"array<{_type_text(kind.elementType)}>"
        case "map":
            return f"map<{_type_text(kind.keyType)},{_type_text(kind.valueType)}>"
        case "struct":
            return f"struct<{','.join(f'{_quoted(one.name)}:{_type_text(one.dataType)}' for one in kind.fields)}>"
    return str(kind.simpleString())


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
