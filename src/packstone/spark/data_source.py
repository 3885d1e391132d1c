"""``spark.read.format("packstone")``: filtered tables as a Python data source of Spark 4.

Spark finds it without registration: ``src/pyspark_packstone.py`` has the name that Spark looks for.

**It has no ``pushFilters``, on purpose.** Spark 4.3 keeps one planned reader for all plans that are made from one
``load()`` or temporary view, so a filter that is pushed for one query stays in force for the next: after
``df.where("x = 1")`` has run, ``df.count()`` counts the rows with x = 1. Filters are given in the option ``where``;
Spark applies further filters itself. tests/spark/test_data_source.py tests that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from packstone.errors import InvalidInputError, RefusedError
from packstone.model.times import parse_moment
from packstone.query.scan.read_split import read_split
from packstone.query.scan.request import ScanOptions, Selection
from packstone.spark.frames import fit_batch, schema_ddl
from packstone.storage.location import parse_location
from packstone.storage.stores import open_store
from packstone.tables.scan_source import START, ScanSource, find_added, open_source

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from packstone.query.scan.plan import Split
    from packstone.storage.fileio import FileIO

try:  # Spark 4.2 has a class for sources that can stop at the data that is available now
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow as AvailableNow
except ImportError:

    class AvailableNow:  # type: ignore[no-redef]
        """A stand-in for older versions, which read the available data in one batch, and stop."""


NAME: Final = "packstone"
OPTIONS: Final = ("path", "where", "version", "as-of", "timezone", "starting-version")
_LATEST: Final = "latest"


class SplitPartition(InputPartition):
    """One split, and the store to read it from."""

    def __init__(self, split: Split, io: FileIO) -> None:
        super().__init__(split)
        self.split, self.io = split, io


class PackstoneSource(DataSource):
    """A segment table or a Paimon table at one version."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return NAME

    def schema(self) -> str:
        """All columns of the table."""
        return schema_ddl(_open(self.options).schema)

    def reader(self, schema: StructType) -> TableReader:
        """The reader for batch queries."""
        return TableReader(dict(self.options), schema)

    def streamReader(self, schema: StructType) -> TableStreamReader:  # noqa: N802 - Spark's name
        """The reader for streaming queries."""
        return TableStreamReader(dict(self.options), schema)


class TableReader(DataSourceReader):
    """Reads the given version, or the one that is the newest when Spark first plans."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options, self._schema = options, schema

    def partitions(self) -> Sequence[InputPartition]:
        """Plan the splits; Spark calls this once for every ``load()``, so a DataFrame stays at one version."""
        source = _open(self._options)
        return _plan(source, _request(self._options, self._schema, source))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one split on an executor."""
        return _read(partition, self._schema)


class TableStreamReader(DataSourceStreamReader, AvailableNow):
    """Returns the rows of each load once: first all existing rows, then the added ones. An offset is a version."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options, self._schema = options, schema
        for name in ("version", "as-of"):
            if options.get(name):
                raise InvalidInputError(f"The option {name} is for batch reads, not for streams; remove it.")
        self._until: int | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """The start of a new stream: before the first version, at the given version, or at the newest one."""
        given = self._options.get("starting-version", "").strip().lower()
        if not given:
            return {"version": START}
        if given == _LATEST:
            return {"version": self._newest()}
        if not given.isdecimal():
            raise InvalidInputError(f"starting-version {given} is neither a number nor latest.")
        return {"version": int(given)}

    def latestOffset(self, *_: object) -> dict[str, int]:  # noqa: N802 - Spark's name; older Sparks pass no arguments
        """The newest version that can be read."""
        return {"version": self._newest() if self._until is None else self._until}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Make the newest version of now the end of the stream."""
        self._until = self._newest()

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Plan what was added between two versions."""
        path = _path(self._options)
        found: list[InputPartition] = []
        for source in find_added(open_store(path), path, after=start["version"], upto=end["version"]):
            found += _plan(source, _request(self._options, self._schema, source))
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one split on an executor."""
        return _read(partition, self._schema)

    def _newest(self) -> int:
        source = _open(self._options)
        source.check_streamable()
        return source.version


def _open(options: Mapping[str, str]) -> ScanSource:
    unknown = sorted(name for name in options if name.lower() not in OPTIONS)
    if unknown:
        raise InvalidInputError(f"The option {unknown[0]} is unknown; use one of {', '.join(OPTIONS)}.")
    version, as_of = options.get("version"), options.get("as-of")
    if version is not None and not version.strip().isdecimal():
        raise InvalidInputError(f"The version {version} is not a number.")
    path = _path(options)
    return open_source(
        open_store(path),
        path,
        version=None if version is None else int(version),
        as_of_ms=None if as_of is None else parse_moment(as_of),
    )


def _path(options: Mapping[str, str]) -> str:
    path = options.get("path")
    if path is None:
        raise InvalidInputError("Give one table: load('/data/orders'), or the option path.")
    return parse_location(path).path


def _request(options: Mapping[str, str], schema: StructType, source: ScanSource) -> Selection:
    """Select the columns of the schema, which the user may have reduced; their types must be those of the table."""
    from pyspark.sql.pandas.types import from_arrow_type

    ours = {field.name.lower(): field.type for field in source.schema}
    for field in schema.fields:
        mine = ours.get(field.name.lower())
        if mine is None:
            raise InvalidInputError(f"{source.path} has no column {field.name!r}.", column=field.name)
        right = from_arrow_type(mine, prefer_timestamp_ntz=True).simpleString()  # a text without nullability
        given = field.dataType.simpleString()
        if right != given:
            raise InvalidInputError(
                f"The column {field.name!r} of {source.path} is {right}, not {given}; cast it after the load.",
                column=field.name,
            )
    return Selection(
        columns=tuple(field.name for field in schema.fields),
        where=options.get("where") or None,
        options=ScanOptions(zone=options.get("timezone") or "UTC"),
    )


def _plan(source: ScanSource, request: Selection) -> list[InputPartition]:
    plan = source.plan(request)
    if plan.unpushed:
        raise RefusedError(
            f"The option where cannot hold {plan.unpushed[0]}; put that into .where(…) on the DataFrame, where Spark "
            "evaluates it.",
        )
    return [SplitPartition(split, source.io) for split in plan.splits]


def _read(partition: InputPartition, schema: StructType) -> Iterator[pa.RecordBatch]:
    from pyspark.sql.pandas.types import to_arrow_schema

    from packstone.query.scan.caches import process_caches  # runs on the executor

    if not isinstance(partition, SplitPartition):
        return  # Spark adds an empty partition if a plan has none
    expected = to_arrow_schema(schema, timezone="UTC")
    for batch in read_split(partition.io, partition.split, caches=process_caches()):
        yield from fit_batch(batch, expected)
