"""A planned scan as a DataFrame: Spark's own Parquet reader on the files that are left, or a task for each split.

Spark's reader is taken where its answer is certainly the same: every split consists of plain Parquet files in which no
row is deleted and each column has the table's name and type, in a store that Spark reads by itself. It then gets files,
not row groups: it has the filter, and finds the row groups in the same statistics. A filter that leaves little is
answered by tasks all the same: Spark looks up every file it is given and reads its footer, and that takes longer than
the rows do. Of these, a megabyte of rows is read here, and Spark gets it with the plan.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

from packstone.errors import InvalidInputError
from packstone.pruning.expression import And, columns_of
from packstone.scan.read_few import read_few
from packstone.scan.read_split import read_split
from packstone.spark.segment_frames import is_read_by_spark, read_files
from packstone.spark.session import is_connect
from packstone.spark.ship_package import ship_package
from packstone.tables.probe import Family
from packstone.tables.segments.column_types import columns_from_arrow, to_ddl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from packstone.pruning.expression import Expression
    from packstone.scan.scan_plan import ScanFile, ScanPlan, Split
    from packstone.storage.fileio import FileIO

_FEW_BYTES = 64 << 20  # what a core reads in a second
_BATCH_LIMIT = "spark.sql.execution.arrow.maxRecordsPerBatch"
_BATCH_ROWS = 10_000  # Spark takes small batches faster than big ones (measured: 64 Ki rows are a quarter slower)


def session_zone(session: Any) -> str:  # noqa: ANN401 - a session of either kind
    """The zone in which a session understands wall times."""
    return str(session.conf.get("spark.sql.session.timeZone") or "UTC")


def session_parallelism(session: Any) -> int | None:  # noqa: ANN401 - a session of either kind
    """How many tasks a session runs at once; through Spark Connect that cannot be told."""
    return None if is_connect(session) else int(session.sparkContext.defaultParallelism)


def reads_little(plan: ScanPlan) -> bool:
    """Whether no more is read than a core reads in a second."""
    return sum(split.read_bytes for split in plan.splits) <= _FEW_BYTES


def read_here(session: Any, plan: ScanPlan, io: FileIO, *, max_bytes: int) -> Any:  # noqa: ANN401 - a session, a DataFrame
    """The matching rows, read now by this process; None if they are too many, or only tasks give sure values."""
    if not _takes_arrow(session) or not len(plan.schema) or not reads_little(plan):
        return None
    if any(split.merge is not None or split.inputs for split in plan.splits):
        return None
    if any(field.type.num_fields for field in plan.schema):
        return None
    rows = read_few(io, plan, max_bytes=max_bytes)
    if rows is None:
        return None
    return session.createDataFrame(rows.cast(spark_types(plan.schema), safe=False), schema_ddl(plan.schema))


def _takes_arrow(session: Any) -> bool:  # noqa: ANN401 - a session of either kind
    """Whether Arrow tables become DataFrames: from Spark 4 on, of client and server, unless batches have no limit."""
    import pyspark  # noqa: PLC0415 - slow to import

    if pyspark.__version__.startswith("3.") or session.version.startswith("3."):
        return False
    # Zero and less mean no limit, for tasks; here PySpark hands the number on to PyArrow, which wants a positive one.
    return int(session.conf.get(_BATCH_LIMIT)) > 0


def read_parquet_files(
    session: Any,  # noqa: ANN401 - a session of either kind
    plan: ScanPlan,
    schema: pa.Schema,
    *,
    family: Family,
    is_filtered: bool,
) -> Any:  # noqa: ANN401 - a DataFrame, or None
    """These columns of the files that are left, not filtered; None if tasks are quicker, or give surer values."""
    if is_filtered and reads_little(plan):
        return None
    if family is Family.PAIMON and any(_is_doubtful(field.type) for field in schema):
        return None
    if not all(_is_plain(split) for split in plan.splits):
        return None
    paths = tuple(dict.fromkeys(file.path for split in plan.splits for file in split.files))
    if not all(map(is_read_by_spark, paths)):
        return None
    return read_files(session, paths, schema=schema_ddl(schema))


def spark_tests(where: Expression, schema: pa.Schema) -> tuple[str, ...]:
    """The filter as Spark shall apply it, as several tests that must all hold.

    Statistics of Parquet leave NaN out, and Spark's reader believes them: in a file written by PyArrow it finds no row
    of ``x = 'NaN'``, and too few of ``x > 5``. So a filter that names a float or double is wrapped into something that
    Spark does not push into its reader; the parts of it that name none are said once more, and are pushed.
    """
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    floats = {field.name.lower() for field in schema if pa.types.is_floating(field.type)}
    if floats.isdisjoint(name.lower() for name in columns_of(where)):
        return (str(where),)
    parts = where.parts if isinstance(where, And) else (where,)
    exact = [str(part) for part in parts if floats.isdisjoint(name.lower() for name in columns_of(part))]
    return (*exact, f"coalesce(({where}), false)")


def read_splits(session: Any, plan: ScanPlan, io: FileIO) -> Any:  # noqa: ANN401 - a session, a DataFrame
    """The matching rows, each split read by a task of its own; lazy, as any DataFrame."""
    ddl = schema_ddl(plan.schema)
    if not plan.splits:
        return session.createDataFrame([], ddl)
    count = len(plan.splits)
    ship_package(session)
    return session.range(0, count, 1, count).mapInArrow(_split_function(plan, io), ddl)


def schema_ddl(schema: pa.Schema) -> str:
    """Write a schema for Spark; all columns may be null there, as in every table that Spark reads from files."""
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    try:
        return to_ddl(columns_from_arrow(pa.schema([field.with_nullable(nullable=True) for field in schema])))
    except InvalidInputError as error:
        column = error.facts.get("column")
        raise InvalidInputError(
            f"{error.message.rstrip('.')}, nor Spark; name the other columns.", column=column
        ) from None


def spark_types(schema: pa.Schema) -> pa.Schema:
    """The types in which Spark takes these columns: times in microseconds, the others as they are."""
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    def fit(kind: pa.DataType) -> pa.DataType:
        return pa.timestamp("us", tz=kind.tz and "UTC") if pa.types.is_timestamp(kind) else kind

    return pa.schema([pa.field(field.name, fit(field.type)) for field in schema])


def fit_batch(batch: pa.RecordBatch, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Cut a batch into pieces of exactly the schema that Spark expects."""
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    arrays = [
        array if array.type == field.type else array.cast(field.type, safe=False)
        for array, field in zip(batch.columns, schema, strict=True)
    ]
    fitted = pa.RecordBatch.from_arrays(arrays, schema=schema)
    for first in range(0, fitted.num_rows, _BATCH_ROWS):
        yield fitted.slice(first, _BATCH_ROWS)


def _split_function(plan: ScanPlan, io: FileIO) -> Callable[[Iterator[Any]], Iterator[Any]]:
    schema = spark_types(plan.schema)
    packed = [pickle.dumps(split) for split in plan.splits]  # a task unpacks its own only

    def read_tasks(batches: Iterator[Any]) -> Iterator[Any]:
        from packstone.scan.caches import process_caches  # noqa: PLC0415 - runs on the executor

        for batch in batches:
            for number in batch.column(0).to_pylist():
                split = pickle.loads(packed[number])  # noqa: S301 - our own bytes
                for found in read_split(io, split, caches=process_caches()):
                    yield from fit_batch(found, schema)

    return read_tasks


def _is_plain(split: Split) -> bool:
    return split.merge is None and not split.inputs and all(map(_has_own_names, split.files))


def _has_own_names(file: ScanFile) -> bool:
    return not file.deleted and all(one.source == one.target for one in file.columns)


def _is_doubtful(kind: pa.DataType) -> bool:
    """Writers of Paimon files differ in how they mark times; nested types may hold some."""
    from pyarrow import types  # noqa: PLC0415 - slow to import

    return bool(types.is_timestamp(kind) or types.is_time(kind) or types.is_nested(kind))
