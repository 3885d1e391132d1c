"""Tables of a metastore whose files must not be merged, and why: known before any file is looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from packstone.model.file_format import FileFormat

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from packstone.model.metastore import PartitionFacts, StorageFacts, TableFacts

# Whose tables keep a list of their files -> what to use instead.
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
    """Say in words that follow the table's name why it must not be merged; None: it may be."""
    for rule in _RULES:
        why = rule(table)
        if why is not None:
            return why
    return None


def refuse_named_partition(table: TableFacts, partition: PartitionFacts) -> str | None:
    """The same for one partition, whose descriptor is its own."""
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
    return f"is read by {what or 'no input format'}, which packstone does not know"


def _framed(table: TableFacts, partition: PartitionFacts | None) -> str | None:
    """Text whose rows are not lines, or whose files end with lines that are no rows."""
    if table.footer_lines(partition):
        return f"ends each file with {table.footer_lines(partition)} lines that are no rows (skip.footer.line.count)"
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
