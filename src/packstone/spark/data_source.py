"""``spark.read.format("packstone")``: tables through a filter, as a Python data source of Spark 4.

Spark finds it by itself: ``src/pyspark_packstone.py`` has the name that Spark looks for.

**It has no ``pushFilters``, on purpose.** Spark 4.3 keeps one planned reader for all plans that are made from one
``load()`` or temporary view, so a filter that is pushed for one query stays in force for the next: after
``df.where("x = 1")`` has run, ``df.count()`` counts the rows with x = 1. Filters come as the option ``where``; what
Spark filters on top, it filters itself. tests/spark/test_data_source.py pins that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from packstone.errors import InvalidInputError, RefusedError
from packstone.model.moment import parse_moment
from packstone.scan.read_split import read_split
from packstone.scan.scan_request import ScanOptions
from packstone.spark.scan_frames import fit_batch, schema_ddl
from packstone.storage.location import parse_location
from packstone.storage.stores import open_store
from packstone.tables.added_rows import START, check_streamable, find_added
from packstone.tables.scan_source import ScanSource, Selection, open_source

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from packstone.scan.scan_plan import Split
    from packstone.storage.fileio import FileIO

try:  # Spark 4.2 has a word for sources that can stop at what is there now
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow as AvailableNow
except ImportError:

    class AvailableNow:  # type: ignore[no-redef]
        """Older ones read what is there now in one batch, and stop."""


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
        """For batches."""
        return TableReader(dict(self.options), schema)

    def streamReader(self, schema: StructType) -> TableStreamReader:  # noqa: N802 - Spark's name
        """For streams."""
        return TableStreamReader(dict(self.options), schema)


class TableReader(DataSourceReader):
    """Reads the version that is the newest when Spark first asks, or the one that is named."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options, self._schema = options, schema

    def partitions(self) -> Sequence[InputPartition]:
        """Plan; once for every ``load()``, which is how Spark keeps a DataFrame at one version."""
        source = _open(self._options)
        return _plan(source, _request(self._options, self._schema, source))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one split on an executor."""
        return _read(partition, self._schema)


class TableStreamReader(DataSourceStreamReader, AvailableNow):
    """Gives the rows of each load once: first all there are, then what is added. An offset is a version."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options, self._schema = options, schema
        for name in ("version", "as-of"):
            if options.get(name):
                raise InvalidInputError(f"A stream goes on for ever; the option {name} is for batches.")
        self._until: int | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Where a new stream begins: before everything, at a version, or at the newest one."""
        given = self._options.get("starting-version", "").strip().lower()
        if not given:
            return {"version": START}
        if given == _LATEST:
            return {"version": self._newest()}
        if not given.isdecimal():
            raise InvalidInputError(f"starting-version {given} is neither a number nor latest.")
        return {"version": int(given)}

    def latestOffset(self, *_: object) -> dict[str, int]:  # noqa: N802 - Spark's name; older ones give no arguments
        """Up to where there is something to read."""
        return {"version": self._newest() if self._until is None else self._until}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Stop at what is there now."""
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
        check_streamable(source)
        return source.version


def _open(options: Mapping[str, str]) -> ScanSource:
    unknown = sorted(name for name in options if name.lower() not in OPTIONS)
    if unknown:
        raise InvalidInputError(f"The option {unknown[0]} is unknown; there are {', '.join(OPTIONS)}.")
    version, as_of = options.get("version"), options.get("as-of")
    if version is not None and not version.strip().isdecimal():
        raise InvalidInputError(f"The version {version} is no number.")
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
    """The columns are those of the schema, which the user may have cut to fewer; their types stay the table's."""
    from pyspark.sql.pandas.types import from_arrow_type  # noqa: PLC0415 - slow to import

    ours = {field.name.lower(): field.type for field in source.schema}
    for field in schema.fields:
        mine = ours.get(field.name.lower())
        if mine is None:
            raise InvalidInputError(f"{source.path} has no column {field.name!r}.", column=field.name)
        right = from_arrow_type(mine, prefer_timestamp_ntz=True).simpleString()  # which says not what may be null
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
            "tests it.",
        )
    return [SplitPartition(split, source.io) for split in plan.splits]


def _read(partition: InputPartition, schema: StructType) -> Iterator[pa.RecordBatch]:
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415 - slow to import

    from packstone.scan.caches import process_caches  # noqa: PLC0415 - runs on the executor

    if not isinstance(partition, SplitPartition):
        return  # Spark makes up a partition where there is none
    expected = to_arrow_schema(schema, timezone="UTC")
    for batch in read_split(partition.io, partition.split, caches=process_caches()):
        yield from fit_batch(batch, expected)
