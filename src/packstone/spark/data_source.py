"""``format("packstone")``: tables as a Python data source of Spark 4, read, written, and as streams.

Spark finds it without registration: ``src/pyspark_packstone.py`` has the name that Spark looks for.

**A write is one load**, of the same code as ``table.segments.load``. Spark calls a writer in processes of its own: one
makes the writer, tasks write with copies of it, and another one commits what the successful tasks returned. So the load
is begun when the writer is copied for tasks, and left open; its process is Spark's driver, the JVM. If that is killed,
the load is dead, and `recover` or `clean` removes what it left. Every attempt of a task writes under names of its own,
so a retry or a speculative copy can do no harm.

**A batch of a stream is loaded once**: its label is made of the ids of the query and of the batch, which Spark repeats
after a restart. That holds as long as rows of this batch are live in the table (`status.find_label`).

**The location of a catalog's table** reaches ``schema()`` when the table is created, but Spark 4.3 passes neither it
nor other options to a reader or writer. A reader finds them in the metadata of the first column, which the catalog
keeps. A writer does not use them: in ``INSERT INTO b SELECT * FROM a`` that metadata is the one of ``a``.

**It has no ``pushFilters``, on purpose.** Spark 4.3 keeps one planned reader for all plans that are made from one
``load()`` or temporary view, so a filter that is pushed for one query stays in force for the next: after
``df.where("x = 1")`` has run, ``df.count()`` counts the rows with x = 1. Filters are given in the option ``where``;
Spark applies further filters itself. tests/spark/test_data_source.py tests that.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import pickle
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pyspark.sql import datasource
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)

from packstone.errors import InvalidInputError, RefusedError
from packstone.model.codec import dump_record, load_record
from packstone.model.times import parse_moment
from packstone.query.scan.read_split import read_split
from packstone.query.scan.request import ScanOptions, Selection
from packstone.runs.deaths import start_python
from packstone.runs.engine import InlineEngine
from packstone.runs.liveness import ProcessIdentity
from packstone.runs.state_folder import find_state_folder
from packstone.spark.frames import fit_batch, frame_ddl, schema_ddl, spark_types, write_partition
from packstone.storage.location import parse_location
from packstone.storage.stores import open_store
from packstone.tables.families import find_table
from packstone.tables.scan_source import START, ScanSource, find_added, open_source
from packstone.tables.segments.family import SEGMENTS
from packstone.tables.segments.format.properties import PROPERTY_NAMES, describe, parse_properties
from packstone.tables.segments.format.status_files import read_latest
from packstone.tables.segments.load import OpenLoad, abandon_open, abandon_stream, begin_open, check_frame, finish_open
from packstone.tables.segments.load_options import LoadOptions
from packstone.tables.segments.tasks import LoadResult
from packstone.tables.segments.user_verbs import create_segments

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from packstone.model.outcome import Outcome
    from packstone.query.scan.plan import Split
    from packstone.runs.engine import Engine
    from packstone.storage.fileio import FileIO

MergeTable: TypeAlias = "Callable[[str, Engine], Outcome | None]"  # merges segments of a table after a load

try:  # Spark 4.2 has a class for sources that can stop at the data that is available now
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow as AvailableNow
except ImportError:

    class AvailableNow:  # type: ignore[no-redef]
        """A stand-in for older versions, which read the available data in one batch, and stop."""


# Spark 4.0 has none, and gives a stream's writer rows instead of batches.
StreamArrowWriter: Any = getattr(datasource, "DataSourceStreamArrowWriter", object)

_LOG = logging.getLogger("packstone")

NAME: Final = "packstone"
OPTIONS: Final = ("path", "where", "version", "as-of", "timezone", "starting-version")
_LATEST: Final = "latest"
_PROPERTIES: Final = {name.lower().replace("_", "-"): name for name in PROPERTY_NAMES}
WRITE_OPTIONS: Final = ("path", "label", "sort-by", "sort-scope", "bad-records", "block-mb", "timezone", "verify")
_LOAD_WORDS: Final = ("label", "sort-scope", "bad-records", "verify")  # as LoadOptions takes them
_CHECKPOINT: Final = "checkpointlocation"  # Spark's own option of streams, without which it starts none
_PROVIDER: Final = "provider"  # a catalog gives this with the properties of a table
_KEPT: Final = "packstone.options"  # where the metadata of a catalog's column has the options
_JVM: Final = "java"
# It starts within the lease, but not at once: most loads end before, and importing our code costs more than they do.
_KEEPER: Final = (
    "import time; time.sleep(20); import pickle, sys; from packstone.runs.folder import keep_alive; "
    "keep_alive(*pickle.load(sys.stdin.buffer))"
)


class SplitPartition(InputPartition):
    """One split, and the store to read it from."""

    def __init__(self, split: Split, io: FileIO) -> None:
        super().__init__(split)
        self.split, self.io = split, io


class PackstoneSource(DataSource):
    """A segment table or a Paimon table at one version; writes go to segment tables."""

    @staticmethod
    def merge_after(path: str, engine: Engine) -> Outcome | None:
        """Merge segments after a load; done by the layer above."""
        return None

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return NAME

    def schema(self) -> str | StructType:
        """All columns of the table; for a catalog, with the options, which it keeps for the reader."""
        if _PROVIDER not in self.options:
            return schema_ddl(_open(self.options).schema)
        if self.options.get("path") is None:
            raise InvalidInputError("Give the folder of the table: CREATE TABLE … USING packstone LOCATION '/data/t'.")
        options = {name: self.options[name] for name in OPTIONS if name in self.options}
        return _with_options(_open(options).schema, options)

    def reader(self, schema: StructType) -> TableReader:
        """The reader for batch queries."""
        return TableReader(_read_options(self.options, schema), schema)

    def streamReader(self, schema: StructType) -> TableStreamReader:
        """The reader for streaming queries."""
        return TableStreamReader(_read_options(self.options, schema), schema)

    def writer(self, schema: StructType, overwrite: bool) -> TableWriter:
        """The writer of a DataFrame; a table that does not exist is created."""
        return TableWriter(_SparkLoad(self.options, schema, overwrite=overwrite, merge_after=self.merge_after))

    def streamWriter(self, schema: StructType, overwrite: bool) -> TableStreamWriter:
        """The writer of the batches of a stream."""
        if StreamArrowWriter is object:
            raise RefusedError("Spark 4.0 cannot write streams of Arrow data; use foreachBatch, or Spark 4.1 or newer.")
        load = _SparkLoad(self.options, schema, overwrite=overwrite, merge_after=self.merge_after, is_stream=True)
        return TableStreamWriter(load)


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

    def initialOffset(self) -> dict[str, int]:
        """The start of a new stream: before the first version, at the given version, or at the newest one."""
        given = self._options.get("starting-version", "").strip().lower()
        if not given:
            return {"version": START}
        if given == _LATEST:
            return {"version": self._newest()}
        if not given.isdecimal():
            raise InvalidInputError(f"starting-version {given} is neither a number nor latest.")
        return {"version": int(given)}

    def latestOffset(self, *_: object) -> dict[str, int]:
        """The newest version that can be read; older Sparks pass no arguments."""
        return {"version": self._newest() if self._until is None else self._until}

    def prepareForTriggerAvailableNow(self) -> None:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Begun:
    """A load that has begun, and the process that keeps it alive."""

    load: OpenLoad
    keeper: ProcessIdentity | None

    def stop_keeper(self) -> None:
        """End the process; it would end by itself, but only later."""
        if self.keeper is not None and self.keeper.is_on_this_host() and self.keeper.is_running():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.keeper.pid, signal.SIGTERM)


class LoadedPart(WriterCommitMessage):
    """What a task has written; for a stream also its query, whose id Spark gives to tasks only."""

    def __init__(self, begun: _Begun, result: LoadResult | None, *, query: str | None = None) -> None:
        self.begun, self.query = begun, query
        self._packed = None if result is None else dump_record(result)

    @property
    def results(self) -> tuple[LoadResult, ...]:
        """The result of the task, if it had to write."""
        return () if self._packed is None else (load_record(LoadResult, self._packed, path="the task's result"),)


class _SparkLoad:
    """A load whose tasks Spark runs; it is begun when it is pickled for tasks."""

    def __init__(
        self,
        options: Mapping[str, str],
        schema: StructType,
        *,
        overwrite: bool,
        merge_after: MergeTable,
        is_stream: bool = False,
    ) -> None:
        self._merge_after = merge_after
        self._options, properties = _write_options(options, schema, overwrite=overwrite)
        if is_stream and self._options.label is not None:
            raise InvalidInputError("A stream labels its batches itself; remove the option label.", option="label")
        self.path = _path(options)
        self.io = open_store(self.path)
        checkpoint = options.get(_CHECKPOINT) if is_stream else None
        self._stream = "" if checkpoint is None else hashlib.sha256(checkpoint.encode()).hexdigest()[:32]
        _prepare_table(self.io, self.path, schema=schema, properties=properties)
        check_frame(self.io, self.path, schema.names)
        self._begun: _Begun | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Begin the load: only a writer that Spark sends to tasks is pickled."""
        if self._begun is None:
            load = begin_open(self.io, self.path, options=self._options, process=_driver(), stream=self._stream)
            self._begun = _Begun(load=load, keeper=_start_keeper(self.io, load))
        return self.__dict__

    @property
    def begun(self) -> _Begun:
        """The load that tasks write for."""
        assert self._begun is not None  # Spark pickles a writer before it writes with it
        return self._begun

    def write(self, batches: Iterator[pa.RecordBatch], *, query: str | None = None) -> LoadedPart:
        """Write one partition, in a task."""
        target = self.begun.load.target
        if target is None:
            for _ in batches:  # Spark waits until they are taken
                pass
            return LoadedPart(self.begun, None, query=query)
        return LoadedPart(self.begun, write_partition(self.io, target, batches), query=query)

    def commit(self, begun: _Begun, parts: Sequence[LoadedPart], *, label: str | None = None) -> None:
        """Make what the tasks wrote visible, in the driver."""
        if begun.load.target is None:
            _LOG.warning("%s: the label %s is already loaded; nothing changed.", self.path, begun.load.options.label)
            return
        engine = InlineEngine(self.io)  # the driver's cores: Spark offers none of its own to a data source
        try:
            report = finish_open(
                self.io,
                begun.load,
                [result for part in parts for result in part.results],
                engine=engine,
                label=label,
                merge=partial(self._merge_after, self.path),
            )
        finally:
            engine.close()
            begun.stop_keeper()
        for sentence in (*report.warnings, *([report.message] if report.status == "already-loaded" else [])):
            _LOG.warning("%s: %s", self.path, sentence)

    def abort(self, begun: _Begun | None) -> None:
        """Abandon the load, in the driver; that of a stream is not known there if no task succeeded."""
        if begun is not None:
            abandon_open(self.io, self.path, begun.load.run)
            begun.stop_keeper()
        elif self._stream:
            abandon_stream(self.io, self.path, stream=self._stream, process=_driver())


class TableWriter(DataSourceArrowWriter):
    """Appends the rows of a DataFrame as one load, or replaces all rows by them."""

    def __init__(self, load: _SparkLoad) -> None:
        self._load = load

    def write(self, iterator: Iterator[pa.RecordBatch]) -> LoadedPart:
        """Write one partition, in a task."""
        return self._load.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit what the tasks wrote."""
        self._load.commit(self._load.begun, _parts(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Abandon the load after a task has failed for good, or after a commit that failed."""
        self._load.abort(self._load.begun)


class TableStreamWriter(StreamArrowWriter):  # type: ignore[misc] # unknown before Spark 4.1
    """Loads each batch of a stream once; Spark commits with another writer than the one that it sent to tasks."""

    def __init__(self, load: _SparkLoad) -> None:
        self._load = load

    def write(self, iterator: Iterator[pa.RecordBatch]) -> LoadedPart:
        """Write one partition of a batch, in a task."""
        from pyspark import TaskContext

        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty("sql.streaming.queryId")
        if not query:
            raise RefusedError("Spark does not tell which stream this is, so its batches cannot be told apart.")
        return self._load.write(iterator, query=query)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Commit a batch, unless it is loaded already."""
        parts = _parts(messages)
        for part in parts[:1]:  # a batch without rows may have no task
            self._load.commit(part.begun, parts, label=f"spark stream {part.query} batch {batchId}")

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Abandon the load of a batch."""
        self._load.abort(next((part.begun for part in _parts(messages)), None))


def _parts(messages: Sequence[WriterCommitMessage | None]) -> list[LoadedPart]:
    return [one for one in messages if isinstance(one, LoadedPart)]


def _driver() -> ProcessIdentity:
    """The process whose death ends a load: Spark's driver, which started this one."""
    return ProcessIdentity.parent(_JVM)


_keepers: list[subprocess.Popen[bytes]] = []  # those that this process has started


def _start_keeper(io: FileIO, load: OpenLoad) -> ProcessIdentity | None:
    """Start the process that touches the heartbeat of an open load until it ends, for other hosts."""
    if not load.run:
        return None
    nowhere = subprocess.DEVNULL
    keeper = start_python(_KEEPER, stdin=subprocess.PIPE, stdout=nowhere, stderr=nowhere, start_new_session=True)
    assert keeper.stdin is not None
    with keeper.stdin as pipe:
        pipe.write(pickle.dumps((io, find_state_folder(io, load.table), load.run)))
    _keepers[:] = [one for one in _keepers if one.poll() is None]  # Spark uses this process for further writes
    _keepers.append(keeper)
    return ProcessIdentity.of(keeper.pid)


def _write_options(
    options: Mapping[str, str], schema: StructType, *, overwrite: bool
) -> tuple[LoadOptions, dict[str, str]]:
    """The options of a load, and the properties of the table if it is created."""
    given = {name.lower().replace("_", "-"): value for name, value in options.items()}
    if "path" not in given:
        where = json.loads(_kept_options(schema)).get("path", "/data/t")
        raise InvalidInputError(
            "Spark does not pass the location of a catalog's table to a Python data source; name the folder: "
            f"INSERT INTO t WITH (path='{where}') …, or df.write.format('packstone').mode('append').save('{where}')."
        )
    unknown = sorted(given.keys() - {*WRITE_OPTIONS, *_PROPERTIES, _CHECKPOINT})
    if unknown:
        known = ", ".join((*WRITE_OPTIONS, "the table properties"))
        raise InvalidInputError(f"The option {unknown[0]} is unknown; use one of {known}.")
    if not given.get("block-mb", "1").strip().isdecimal():
        raise InvalidInputError(f"block-mb is {given['block-mb']!r}, not a number.", option="block-mb")
    properties = {upper: given[name] for name, upper in _PROPERTIES.items() if name in given}
    if "sort-by" in given:
        properties["SORT_COLUMNS"] = given["sort-by"]
    words: dict[str, Any] = {name.replace("-", "_"): given[name] for name in _LOAD_WORDS if name in given}
    load = LoadOptions(
        overwrite=overwrite,
        zone=given.get("timezone") or "UTC",
        block_mb=int(given["block-mb"]) if "block-mb" in given else None,
        **words,
    )
    return load, properties


def _prepare_table(io: FileIO, path: str, *, schema: StructType, properties: Mapping[str, str]) -> None:
    """Create the table if there is none; refuse properties that an existing one does not have."""
    if not SEGMENTS.find(io, path):
        family, root = find_table(io, path)
        if family.is_scanned:
            raise RefusedError(f"{path} is in {family.singular} ({root}); Spark can write segment tables only.")
        try:
            create_segments(io, path, frame_ddl(schema, nullable=True), properties=properties)
        except InvalidInputError:
            if not SEGMENTS.find(io, path):  # another writer has created it at the same time
                raise
    status = read_latest(io, path)
    has = dict(describe(parse_properties(status.properties, status.columns)))
    for name, value in describe(parse_properties({**dict(status.properties), **properties}, status.columns)):
        # A load may sort otherwise than the table says.
        if has.get(name, "") != value and name in properties and name != "SORT_SCOPE":
            raise InvalidInputError(
                f"{path} has {name}={has.get(name, '')}, not {value}; leave the option out, or alter the table.",
                property=name,
            )


def _with_options(schema: pa.Schema, options: Mapping[str, str]) -> StructType:
    """All columns of a table, of which the first one keeps the options."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import StructField, StructType

    schema_ddl(schema)  # refuses types that Spark does not have
    nullable = pa.schema([field.with_nullable(nullable=True) for field in spark_types(schema)])
    first, *others = from_arrow_schema(nullable, prefer_timestamp_ntz=True).fields
    kept = StructField(first.name, first.dataType, first.nullable, {_KEPT: json.dumps(dict(options))})
    return StructType([kept, *others])


def _kept_options(schema: StructType) -> str:
    kept = (field.metadata.get(_KEPT) for field in schema.fields)
    return next((text for text in kept if text is not None), "{}")


def _read_options(options: Mapping[str, str], schema: StructType) -> dict[str, str]:
    """The options given, and below them those that a catalog keeps for its table."""
    return {**json.loads(_kept_options(schema)), **options}


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
        raise InvalidInputError(
            "Give one table: load('/data/orders'), or the option path. If this is a table t of Spark's catalog, it was "
            "created with columns or by saveAsTable, and Spark does not pass its location: run DROP TABLE t, then "
            "CREATE TABLE t USING packstone LOCATION '/data/orders', without columns."
        )
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
