"""A table by name: the metastore says where its files are, what format they have, and whether they may be merged.

Partitions below the table's folder are one target, with one journal, as if the folder had been given by path. A
partition elsewhere is a target of its own: a run on that folder by path uses the same owner file and the same journal.

``CheckedCatalog`` reads locations from the metastore's database and changes them through Hive's own client. The
database answers at once; the client needs a Spark session, which takes about ten seconds to start. So a command that
only reads (``clean``, or the recovery of a run that died before its call) starts no Spark. Before a change both must
agree: a Spark that uses another metastore, or none and so an empty one of its own, would change a table of the same
name there.

``refuse_table`` and ``refuse_named_partition`` say which tables must not be merged, before any file is read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from packstone.errors import ConflictError, InvalidInputError, PackstoneError, RefusedError
from packstone.model.files import FileFormat
from packstone.model.metastore import FolderFacts, PartitionFacts, TableFacts
from packstone.storage.location import parse_location
from packstone.storage.stores import open_store
from packstone.tables.hive.health import HiveHealth, warn
from packstone.tables.hive.layout import find_layout, parse_partition, split_target, table_of_version
from packstone.tables.hive.listing import NamedFolder, count_data
from packstone.tables.hive.relocate import LocationPublish, MetastoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from packstone.model.metastore import StorageFacts
    from packstone.model.outcome import Outcome
    from packstone.tables.hive.listing import FolderSource
    from packstone.tables.hive.relocate import LocationCatalog


class Metastore(Protocol):
    """The source of tables and partitions: a metastore's database, or Spark's catalog."""

    @property
    def key(self) -> str:
        """The identity of the metastore, without user and password."""

    def find_table(self, database: str, name: str) -> TableFacts:
        """Return one table; raise InvalidInputError if it does not exist."""

    def list_partitions(self, table: TableFacts) -> Iterator[PartitionFacts]:
        """Yield the partitions of a table, read a page at a time."""

    def who_shares(self, table: TableFacts, location: str) -> str | None:
        """Return the name of another table at, above or below a location."""

    def read_location(self, table: str, partition: str) -> str | None:
        """Return the location of a partition, or of the table if ``partition`` is empty; None if it does not exist."""

    def close(self) -> None:
        """Close all connections."""


class Statistics(Protocol):
    """A client that can correct the statistics in a metastore."""

    def set_numbers(self, table: str, partition: str, numbers: dict[str, int]) -> None:
        """Set these statistics of a partition, or of the table if ``partition`` is empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTarget:
    """One folder of a named table that is a target of its own."""

    path: str
    folders: FolderSource


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedSource:
    """One table of a metastore."""

    facts: TableFacts
    metastore: Metastore
    by_location: bool = False

    @classmethod
    def find(cls, name: str, *, metastore: Metastore, by_location: bool = False, to_merge: bool = True) -> NamedSource:
        """Look up a table; with ``to_merge``, raise RefusedError if it must not be merged or shares its folder.

        Recover, restore and clean pass ``to_merge=False``: they must work whatever the table has become since the run.
        """
        facts = metastore.find_table(*name.split("."))
        found = cls(facts=facts, metastore=metastore, by_location=by_location)
        if to_merge:
            found._check_mergeable()
        if not facts.location:
            why = "it is a view" if facts.kind.endswith("_VIEW") else "the metastore names no location"
            raise InvalidInputError(f"{facts.full_name} has no files of its own: {why}.")
        return found

    @property
    def root(self) -> str:
        """The table's own folder."""
        path = parse_location(self.facts.location).path
        return path if self.facts.partition_keys else table_of_version(path)

    @property
    def home(self) -> NamedTarget:
        """The table's own folder as a target, without checks: for recover, restore and clean."""
        return NamedTarget(path=self.root, folders=self._inside())

    def facts_of(self, target: NamedTarget, catalog: LocationCatalog) -> dict[str, Any]:
        """Return the arguments, besides the path, with which the family's table is opened."""
        publish = LocationPublish(table=self.facts.full_name.lower(), catalog=catalog) if self.by_location else None
        return {"folders": target.folders, "publish": publish, "catalog": catalog}

    def _check_mergeable(self) -> None:
        why = refuse_table(self.facts)
        if why is not None:
            raise RefusedError(f"{self.facts.full_name} {why}; nothing was changed.", table=self.facts.full_name)
        self._check_alone(self.facts.location)

    def targets(self) -> Iterator[NamedTarget]:
        """Yield the table's own folder, unless it is empty, and every partition elsewhere."""
        home = self.home
        # Listed before anything is merged: if a partition is refused or the metastore fails, no outcome is lost.
        elsewhere = tuple(self._elsewhere()) if self.facts.partition_keys else ()
        if not self.facts.partition_keys or any(True for _ in home.folders()):
            yield home
        yield from elsewhere

    def new_health(self) -> HiveHealth:
        """Return an empty health of the whole table, to which the health of each target is added."""
        health = HiveHealth(table=self.facts.full_name)
        if self.facts.kind == "EXTERNAL_TABLE":
            evidence = "the metastore calls it external: others may write here, or read its files by path"
            warn(health, "external-table", where=".", evidence=evidence)
        return health

    def correct_statistics(self, outcome: Outcome, catalog: Statistics) -> None:
        """Set ``numFiles`` and ``totalSize`` of what a run changed in place, one partition after another."""
        merged = {unit.partition for unit in outcome.units}
        name = self.facts.full_name
        if not self.facts.partition_keys:
            if merged:
                path = parse_location(self.facts.location).path
                catalog.set_numbers(name, "", count_data(open_store(path), path))
            return
        layout, _ = find_layout(open_store(self.root), self.root)
        for partition in self.metastore.list_partitions(self.facts):
            path = parse_location(partition.storage.location).path
            inside = layout.name_inside(path)
            if (split_target(path)[1] if inside is None else inside) in merged:
                catalog.set_numbers(name, partition.name, count_data(open_store(path), path))

    def _check_alone(self, location: str) -> None:
        """Refuse a location that another table uses too: its readers and writers do not expect a merge."""
        other = self.metastore.who_shares(self.facts, location)
        if other is not None:
            raise RefusedError(
                f"{self.facts.full_name} shares {location} with {other}, at, above or below it; nothing was changed.",
                table=self.facts.full_name,
                other=other,
            )

    def _inside(self) -> FolderSource:
        """Return a source of the folders at or below the table's folder, and of those that we published for it."""
        root = self.root
        layout, _ = find_layout(open_store(root), root)
        if not self.facts.partition_keys:
            facts = FolderFacts(name="", file_format=self.facts.file_format(), header_lines=self.facts.header_lines())
            path = parse_location(self.facts.location).path
            whole = NamedFolder(partition=split_target(root)[1], directory=path, facts=facts)
            return lambda: iter((whole,))

        def folders() -> Iterator[NamedFolder]:
            for partition in self.metastore.list_partitions(self.facts):
                path = parse_location(partition.storage.location).path
                name = layout.name_inside(path)
                if name is not None:
                    yield NamedFolder(partition=name, directory=path, facts=self._folder_facts(partition))

        return folders

    def _elsewhere(self) -> Iterator[NamedTarget]:
        root = self.root
        layout, _ = find_layout(open_store(root), root)
        for partition in self.metastore.list_partitions(self.facts):
            path = parse_location(partition.storage.location).path
            if layout.name_inside(path) is not None or open_store(path).stat(path) is None:
                continue
            self._check_alone(partition.storage.location)
            facts = self._folder_facts(partition)
            if self.by_location and facts.refused is None:
                why = "is outside the table's folder, and can only be published in place"
                facts = replace(facts, refused=f"{self.facts.full_name} {partition.name} {why}")
            folder = NamedFolder(partition=split_target(path)[1], directory=path, facts=facts)
            yield NamedTarget(path=path, folders=lambda folder=folder: iter((folder,)))  # type: ignore[misc]

    def _folder_facts(self, partition: PartitionFacts) -> FolderFacts:
        refused = refuse_named_partition(self.facts, partition)
        return FolderFacts(
            name=partition.name,
            file_format=self.facts.file_format(partition.storage),
            header_lines=self.facts.header_lines(partition),
            values=parse_partition(partition.name),
            refused=None if refused is None else f"{self.facts.full_name} {partition.name} {refused}",
        )


# ---- locations ----


class LocationReader(Protocol):
    """A client that can read the location of a partition."""

    def read_location(self, table: str, partition: str) -> str | None:
        """Return the location of a partition, or of the table if ``partition`` is empty; None if it does not exist."""


class ChangingClient(LocationReader, Protocol):
    """A client that can read and change locations, and correct statistics."""

    def set_location(self, table: str, partition: str, *, location: str, numbers: dict[str, int]) -> None:
        """Set the location and the statistics of a partition in one call."""

    def set_numbers(self, table: str, partition: str, numbers: dict[str, int]) -> None:
        """Set these statistics of a partition, or of the table if ``partition`` is empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedCatalog:
    """Reads through one client, and changes through another if both use the same metastore."""

    reader: LocationReader
    client: ChangingClient

    def read_location(self, table: str, partition: str) -> str | None:
        """Return the location of a partition, read from the database."""
        return self.reader.read_location(table, partition)

    def set_location(self, table: str, partition: str, *, location: str, numbers: dict[str, int]) -> None:
        """Set location and statistics through the client, after checking that both use the same metastore."""
        self._check_same(table, partition)
        self.client.set_location(table, partition, location=location, numbers=numbers)

    def set_numbers(self, table: str, partition: str, numbers: dict[str, int]) -> None:
        """Correct statistics through the client, after the same check."""
        self._check_same(table, partition)
        self.client.set_numbers(table, partition, numbers)

    def _check_same(self, table: str, partition: str) -> None:
        what = f"{table} {partition}".rstrip()
        try:
            here, there = (one.read_location(table, partition) for one in (self.reader, self.client))
        except PackstoneError as error:
            raise MetastoreUnavailableError(f"{error.message.rstrip('.')}; nothing was changed.") from error
        if here == there:
            return
        seen = f"{what} is at {there}" if there is not None else f"there is no {what}"
        raise ConflictError(
            f"Spark's Hive client uses another metastore than --metastore: {seen} in it; configure Spark for the right "
            "one (hive-site.xml in SPARK_CONF_DIR, or --conf spark.hadoop.hive.metastore.uris=…)."
        )


def checked_catalog(reader: LocationReader, client: ChangingClient) -> ChangingClient:
    """Return a catalog that checks the client against the reader, or the client itself if it is the reader."""
    return client if reader is client else CheckedCatalog(reader=reader, client=client)


# ---- refusals ----

# Engines whose tables keep a list of their files -> what to use instead.
_ENGINES: Final[Mapping[str, str]] = {
    "delta": "a Delta Lake table; use OPTIMIZE in Delta Lake",
    "iceberg": "an Apache Iceberg table; use Iceberg's rewrite_data_files",
    "hudi": "an Apache Hudi table; use Hudi's own clustering or compaction",
    "paimon": "an Apache Paimon table; give its folder as the target",
    "carbondata": "an Apache CarbonData table; use ALTER TABLE … COMPACT in CarbonData",
}
_VIEWS: Final = frozenset({"VIRTUAL_VIEW", "MATERIALIZED_VIEW", "INDEX_TABLE"})
_DELIMITERS: Final = ("line.delim", "textinputformat.record.delimiter")


def refuse_table(table: TableFacts) -> str | None:
    """Return why a table must not be merged, as words that follow its name, or None if it may be merged."""
    return next((why for rule in _RULES if (why := rule(table)) is not None), None)


def refuse_named_partition(table: TableFacts, partition: PartitionFacts) -> str | None:
    """Return why a partition must not be merged; a partition has its own storage descriptor."""
    if partition.is_archived:
        return "is archived (HAR); use ALTER TABLE … UNARCHIVE in Hive first"
    return _bucketed(partition.storage) or _unknown_files(table, partition.storage) or _framed(table, partition)


def _is_view(table: TableFacts) -> str | None:
    if table.kind not in _VIEWS:
        return None
    return "is an index" if table.kind == "INDEX_TABLE" else "is a view and has no files of its own"


def _is_transactional(table: TableFacts) -> str | None:
    if table.params.get("transactional", "").lower() != "true":
        return None
    return "is a Hive ACID (transactional) table; use ALTER TABLE … COMPACT in Hive"


def _is_of_another_engine(table: TableFacts) -> str | None:
    handler = table.params.get("storage_handler", "")
    words = (table.provider, table.params.get("table_type", "").lower(), handler.lower())
    for engine, what in _ENGINES.items():
        if any(engine in word for word in words):
            return f"is {what}"
    return f"is not native to Hive: its storage handler is {handler}" if handler else None


def _is_bucketed(table: TableFacts) -> str | None:
    return _bucketed(table.storage)


def _has_unknown_files(table: TableFacts) -> str | None:
    return None if table.partition_keys else _unknown_files(table, table.storage) or _framed(table, None)


_RULES: Final[tuple[Callable[[TableFacts], str | None], ...]] = (
    _is_view,
    _is_transactional,
    _is_of_another_engine,
    _is_bucketed,
    _has_unknown_files,
)


def _bucketed(storage: StorageFacts) -> str | None:
    if not storage.bucket_count:
        return None
    by = ", ".join(storage.bucket_columns) or "its rows"
    order = f", sorted by {', '.join(storage.sort_columns)}" if storage.sort_columns else ""
    return f"is bucketed by {by} into {storage.bucket_count}{order}; the number and order of its files mean something"


def _unknown_files(table: TableFacts, storage: StorageFacts) -> str | None:
    if table.file_format(storage) is not FileFormat.UNKNOWN:
        return None
    what = table.provider if table.provider not in ("", "hive") else storage.input_format
    return f"is read by {what or 'no input format'}, which packstone does not support"


def _framed(table: TableFacts, partition: PartitionFacts | None) -> str | None:
    """Refuse text whose rows are not lines, or whose files end with lines that are not rows."""
    if table.footer_lines(partition):
        return f"ends each file with {table.footer_lines(partition)} lines that are not rows (skip.footer.line.count)"
    storage = partition.storage if partition is not None else table.storage
    if table.file_format(storage) is not FileFormat.TEXT:
        return None
    options = {key.lower(): value.lower() for key, value in table.storage.serde_params.items()}
    if table.provider == "json" and options.get("multiline") == "true":
        return "has files that are one JSON document each (multiLine), not lines"
    for key in _DELIMITERS:
        given = storage.serde_params.get(key) or table.params.get(key)
        if given not in (None, "", "\n", "\\n", "10"):
            return f"has rows that end in {given!r} ({key}), not lines"
    return None
