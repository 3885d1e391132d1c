"""``packstone.open`` and ``packstone.create``: open a table by its path or name, and choose the engine for its work.

A table that is opened by its name is one ``Table``, though its partitions may be in several folders.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from packstone.errors import InvalidInputError, PackstoneError
from packstone.model.outcome import Cost, Outcome, Status
from packstone.pipeline.plan import Plan
from packstone.pipeline.record import history_address
from packstone.pipeline.table import Table, chosen_options
from packstone.runs.engine import InlineEngine
from packstone.storage.location import is_table_name, parse_location
from packstone.storage.stores import open_store
from packstone.tables.families import find_table, is_plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from packstone.catalog.named_table import ChangingClient, NamedSource
    from packstone.model.health import Health
    from packstone.runs.engine import Engine
    from packstone.runs.tasks import Progress
    from packstone.spark.hive_client import SparkHiveClient
    from packstone.spark.session import SparkHandle, SparkSettings

DEFAULT_HISTORY: Final = "default"
METASTORE_VARIABLE: Final = "PACKSTONE_METASTORE"
ENGINE_VARIABLE: Final = "PACKSTONE_ENGINE"
AUTO: Final = "auto"
_INLINE: Final = "inline"
_ADDRESS: Final = re.compile(r"(local(-cluster)?(\[.+\])?|yarn|(spark|k8s|sc)://.+)")
_SPARK: Final = "spark"  # in place of an address: the metastore that Spark is configured with


def open_table(
    target: str | os.PathLike[str],
    *,
    spark: Any = None,
    progress: Progress | None = None,
    history: str | None = DEFAULT_HISTORY,
    metastore: str | None = None,
) -> Table:
    """Open a table or partition by its path or URI, or a table by its name, ``db.table``.

    ``spark=None`` takes the active session; without one, the work is done on the cores of this machine
    (``PACKSTONE_ENGINE`` names an engine, as ``--engine`` does). Runs are recorded in ``history``: a database URL, by
    default the user's own database; None records nothing.
    A name is looked up in ``metastore``: the address of its database, or ``"spark"``; by default the value of
    PACKSTONE_METASTORE, else Spark's own catalog if a session is given.
    """
    target = os.fspath(target)
    address = history_address() if history == DEFAULT_HISTORY else history
    engine = choose_engine(None, spark=spark)
    if is_table_name(target) and not Path(target).exists():
        where = metastore or os.environ.get(METASTORE_VARIABLE) or (_SPARK if spark is not None else None)
        if where is not None:
            return open_named(target, where, spark=spark, engine=engine, progress=progress, history=address)
    path = parse_location(target).path
    return Table(path, engine=engine, io=open_store(path), progress=progress, history=address)


def create_table(
    path: str | os.PathLike[str],
    schema: Any,
    *,
    sort_by: Iterable[str] = (),
    sort_scope: str | None = None,
    properties: Mapping[str, str] | None = None,
    spark: Any = None,
) -> Table:
    """Make an empty segment table in a new or empty folder, and open it as ``packstone.open`` does.

    ``schema`` is text (``"id long, ts timestamp"``), Spark's ``StructType`` or an Arrow schema. ``sort_scope`` is
    local (the default if there are columns to sort by), global or none.
    """
    from packstone.spark.frames import frame_ddl, is_spark_schema
    from packstone.tables.segments.user_verbs import create_segments

    where, given = parse_location(os.fspath(path)).path, dict(properties or {})
    names = [sort_by] if isinstance(sort_by, str) else list(sort_by)
    for name, value in (("SORT_COLUMNS", ",".join(names)), ("SORT_SCOPE", sort_scope)):
        if value and any(key.strip().upper() == name for key in given):
            raise InvalidInputError(f"{name} is given twice; give it once.")
        if value:
            given[name] = value
    if is_spark_schema(schema):
        schema = frame_ddl(schema)
    create_segments(open_store(where), where, schema, properties=given)
    return open_table(where, spark=spark)


def open_named(
    name: str,
    metastore: str,
    *,
    settings: SparkSettings | None = None,
    spark: Any = None,
    by_location: bool = False,
    to_merge: bool = True,
    **facts: Any,
) -> Table:
    """Open a table by its name; the metastore stays open until the table is closed.

    ``to_merge=False`` opens a table that must not be merged, to recover, undo or clean what runs did there.
    Hive's own client changes the metastore, and starts Spark only when it is used. The name of a table of another
    family opens that table.
    """
    from packstone.catalog.named_table import NamedSource, checked_catalog

    known, client, close = _open_metastore(metastore, settings, spark)
    try:
        source = NamedSource.find(name, metastore=known, by_location=by_location, to_merge=to_merge)
        family, root = find_table(open_store(source.root), source.root)
        if not is_plain(family):
            close()
            return Table(root, **facts)
        return NamedTable(source, checked_catalog(known, client), close=close, **facts)
    except BaseException:
        close()
        raise


def open_catalog(metastore: str, settings: SparkSettings | None) -> tuple[Any, Callable[[], None]]:
    """Open a catalog that reads and changes where tables are, for commands on many tables; and how to close it."""
    from packstone.catalog.named_table import checked_catalog

    known, client, close = _open_metastore(metastore, settings)
    return checked_catalog(known, client), close


def _open_metastore(
    address: str, settings: SparkSettings | None, spark: Any = None
) -> tuple[Any, SparkHiveClient, Callable[[], None]]:
    """Open what knows the tables, Hive's client, which changes them, and how to close both."""
    from packstone.spark.hive_client import SparkHiveClient

    known: Any
    known = client = SparkHiveClient(_spark_opener(settings, spark), needs_address=address != _SPARK)
    if address != _SPARK:
        from packstone.catalog.metastore_database import MetastoreDatabase

        known = MetastoreDatabase(address)

    def close() -> None:
        client.close()
        known.close()

    return known, client, close


def _spark_opener(settings: SparkSettings | None, spark: Any) -> Callable[[], SparkHandle]:
    from packstone.spark.hive_client import HIVE_SUPPORT
    from packstone.spark.session import SparkHandle, SparkSettings, is_connect, open_spark

    if spark is not None:
        return lambda: SparkHandle(spark, is_ours=False, is_connect=is_connect(spark))
    chosen = settings or SparkSettings()
    return lambda: open_spark(replace(chosen, conf=(HIVE_SUPPORT, *chosen.conf)))


def read_engine_name(given: str | None = None) -> str:
    """The engine as given, else from PACKSTONE_ENGINE, else auto: a keyword, or the address of a Spark cluster."""
    name = (os.environ.get(ENGINE_VARIABLE) or AUTO) if given is None else given
    if name in (AUTO, _INLINE, _SPARK) or _ADDRESS.fullmatch(name):
        return name
    raise InvalidInputError(
        f"The engine {name!r} is unknown; use auto, inline, spark, a Spark master such as local[4] or yarn, or the "
        "address of a Spark Connect server such as sc://host:15002."
    )


def engine_settings(
    given: str | None, *, conf: tuple[tuple[str, str], ...] = (), log_path: str | None = None
) -> SparkSettings:
    """The Spark settings for an engine's name; a keyword leaves the address to the environment."""
    from packstone.spark.session import SparkSettings

    name = read_engine_name(given)
    settings = SparkSettings(conf=conf, log_path=log_path)
    if name in (AUTO, _INLINE, _SPARK):
        return settings
    return replace(settings, remote=name) if name.startswith("sc://") else replace(settings, master=name)


def choose_engine(
    given: str | None,
    settings: Callable[[], SparkSettings] | None = None,
    *,
    spark: Any = None,
) -> Callable[[], Engine]:
    """Make the factory of an engine: on the given session, else the engine of this name (``read_engine_name``).

    With ``auto``, an active session, spark-submit or an address of Spark in the environment selects Spark; without one
    of them the work is done on this machine, where a Spark of our own would never be faster than our own workers.
    """
    if spark is not None:
        return spark_engine(engine_settings(_SPARK), spark=spark)
    name = read_engine_name(given)
    if name == _INLINE:
        return InlineEngine
    on_spark = spark_engine(settings() if settings is not None else engine_settings(name))
    if name != AUTO:
        return on_spark

    def make() -> Engine:
        from packstone.spark.session import is_spark_chosen

        return on_spark() if is_spark_chosen() else InlineEngine(says_size=True)

    return make


def check_engine(given: str | None) -> None:
    """Raise InvalidInputError now if the engine of this name needs PySpark, and it is not installed."""
    from packstone.spark.session import check_installed, is_spark_chosen

    name = read_engine_name(given)
    if name != _INLINE and (name != AUTO or is_spark_chosen()):
        check_installed()


def spark_engine(settings: SparkSettings, *, spark: Any = None) -> Callable[[], Engine]:
    """Make a factory: Spark starts when the first task needs it."""

    def make() -> Engine:
        from packstone.spark.engine import SparkEngine
        from packstone.spark.session import SparkHandle, is_connect, open_spark

        if spark is None:
            return SparkEngine(open_spark(settings))
        return SparkEngine(SparkHandle(spark, is_ours=False, is_connect=is_connect(spark)))

    return make


class NamedTable(Table):
    """One table of a metastore, in one folder or several; restore, recover and clean act on the table's own folder."""

    def __init__(
        self,
        source: NamedSource,
        catalog: ChangingClient,
        *,
        close: Callable[[], None],
        **facts: Any,
    ) -> None:
        self.name = source.facts.full_name
        self._source, self._catalog, self._close, self._facts = source, catalog, close, facts
        super().__init__(source.root, named=source.facts_of(source.home, catalog), **facts)

    def _targets(self) -> Iterator[Table]:
        for target in self._source.targets():
            yield Table(target.path, named=self._source.facts_of(target, self._catalog), **self._facts)

    def health(self, options: Any = None) -> Health:
        """Describe all its files as one table."""
        health = self._source.new_health()
        for target in self._targets():
            folder: Any = target.open(options)  # names lead to plain folders only: their health can be added up
            folder.health(into=health)
        return health

    def plan(self, options: Any = None, **facts: Any) -> Plan:
        """Plan what ``compact`` would do; write nothing."""
        plans = [target.plan(options, **facts) for target in self._targets()]
        outcome = self._joined([plan.outcome for plan in plans])
        return plans[0].joined(plans[1:]).answered(outcome)

    def compact(
        self,
        plan: Any = None,
        *,
        options: Any = None,
        **facts: Any,
    ) -> Outcome:
        """Merge the small files of all its partitions, verify, publish, record; correct statistics if requested."""
        plan = chosen_options(plan, options)
        plans = {one.header.table: one for one in plan.all_plans} if isinstance(plan, Plan) else {}
        outcomes = []
        for target in self._targets():
            if isinstance(plan, Plan) and target.path not in plans:
                continue
            chosen = plans.get(target.path, plan)
            outcomes.append(target.compact(chosen, **facts))
            if outcomes[-1].interrupted:
                break
        outcome = self._joined(outcomes)
        used = plan.options if isinstance(plan, Plan) else plan
        return self._with_statistics(outcome) if used is not None and used.statistics else outcome

    def _with_statistics(self, outcome: Outcome) -> Outcome:
        """Correct the statistics; if that fails, add a warning, because the merge is done."""
        try:
            self._source.correct_statistics(outcome, self._catalog)
        except PackstoneError as error:
            warning = f"The run is done, but the statistics could not be corrected: {error.message}"
            return replace(outcome, warnings=(*outcome.warnings, warning))
        return outcome

    def _joined(self, outcomes: list[Outcome]) -> Outcome:
        if not outcomes:
            raise InvalidInputError(f"{self.name} has no partitions; there is nothing to merge.")
        return replace(join_outcomes(self.name, outcomes), undo_by_name=self._source.by_location)

    def close(self) -> None:
        """Close the metastore."""
        self._close()

    def __repr__(self) -> str:
        return f"Table({self.name!r})"


def join_outcomes(name: str, outcomes: list[Outcome]) -> Outcome:
    """One outcome for a table whose folders are several targets; it names the run of each target."""
    first = outcomes[0]
    runs = tuple((one.run, one.table) for one in outcomes if one.run is not None)
    return replace(
        first,
        name=name,
        run=runs[0][0] if runs else None,
        runs=runs if len(runs) > 1 else (),
        status=_joined_status([one.status for one in outcomes]),
        files_before=sum(one.files_before for one in outcomes),
        files_after=sum(one.files_after for one in outcomes),
        bytes_before=sum(one.bytes_before for one in outcomes),
        bytes_after=sum(one.bytes_after for one in outcomes),
        verified=next((one.verified for one in outcomes if one.verified != "none"), "none"),
        cost=Cost(**{part: sum(getattr(one.cost, part) for one in outcomes) for part in first.cost.__slots__}),
        rows=sum(one.rows for one in outcomes),
        seconds=sum(one.seconds for one in outcomes),
        verify_seconds=sum(one.verify_seconds for one in outcomes),
        commit_ms=sum(one.commit_ms for one in outcomes),
        reader_gap_ms=sum(one.reader_gap_ms for one in outcomes),
        units=tuple(unit for one in outcomes for unit in one.units),
        skipped=tuple(skip for one in outcomes for skip in one.skipped),
        recovered=tuple(text for one in outcomes for text in one.recovered),
        warnings=tuple(text for one in outcomes for text in one.warnings),
        message=_joined_message(outcomes),
        interrupted=next((one.interrupted for one in outcomes if one.interrupted), ""),
        reused=sum(one.reused for one in outcomes),
        engine=next((one.engine for one in outcomes if one.engine is not None), None),
    )


def _joined_message(outcomes: list[Outcome]) -> str:
    """The first message of the outcomes; after an interrupt, the message of the target that was interrupted."""
    stopped = next((one for one in outcomes if one.interrupted), None)
    if stopped is None:
        return next((one.message for one in outcomes if one.message), "")
    return stopped.message if len(outcomes) == 1 else f"{stopped.table}: {stopped.message}"


def _joined_status(statuses: list[Status]) -> Status:
    """The status of all outcomes together: partial if one committed and another failed, because commits stay."""
    bad = (Status.PARTIAL, Status.FAILED, Status.CONFLICT, Status.REFUSED)
    for good in (Status.COMMITTED, Status.PLANNED):
        if good in statuses:
            broken = good is Status.COMMITTED and any(one in statuses for one in bad[:3])
            return Status.PARTIAL if broken else good
    return next((one for one in bad if one in statuses), Status.NOTHING_TO_DO)
