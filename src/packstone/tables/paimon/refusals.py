"""What this version does not compact, each with its name and the reason.

A table is checked before anything is planned, and every pick before anything is written. The reasons are those of the
research notes (section 9, item 6): a compaction that ignores one of these features would lose changes for streaming
readers, restore deleted rows, or break row ids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from packstone.errors import InvalidInputError
from packstone.rewrite.merge_tree.spec import DataFormat, MergeEngine
from packstone.tables.paimon.format.data_file import stats_modes
from packstone.tables.paimon.format.data_type import TypeRoot
from packstone.tables.paimon.format.table_options import TableOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from packstone.tables.paimon.format.data_file import DataFileMeta
    from packstone.tables.paimon.format.data_type import DataType
    from packstone.tables.paimon.format.schema import TableSchema

AGGREGATORS: Final = frozenset(
    {
        "sum",
        "product",
        "max",
        "min",
        "last_value",
        "last_non_null_value",
        "first_value",
        "first_non_null_value",
        "first_not_null_value",
        "bool_and",
        "bool_or",
        "listagg",
    }
)
_FORMATS: Final = frozenset(DataFormat)
_ENGINES: Final = frozenset(MergeEngine)
_UNCOMPRESSED: Final = frozenset({"", "none", "null", "uncompressed"})
_CODECS: Final = {
    DataFormat.PARQUET: frozenset({"zstd", "snappy", "gzip", "lz4", "brotli"}),
    DataFormat.ORC: frozenset({"zstd", "snappy", "gzip", "zlib", "lz4"}),
    DataFormat.AVRO: frozenset({"zstd", "zstandard", "snappy", "deflate"}),
}
_MANIFEST_CODECS: Final = frozenset({"zstd", "zstandard", "snappy", "deflate"})
_ZSTD_LEVELS: Final = range(1, 23)
_LOOKUP_MODES: Final = ("radical", "gentle")
_UNSUPPORTED_TYPES: Final = frozenset({TypeRoot.VARIANT, TypeRoot.BLOB, TypeRoot.VECTOR, TypeRoot.MULTISET})
_POSTPONE_BUCKET: Final = "-2"
_DYNAMIC_BUCKET: Final = "-1"

# Option that is "true" -> why the table is left alone.
_SWITCHES: Final = {
    "row-tracking.enabled": "it tracks rows by ids, which a rewrite would have to keep (row-tracking.enabled)",
    "data-evolution.enabled": "its columns are stored in separate files (data-evolution.enabled)",
    "pk-clustering-override": "its files are clustered by other columns than the key (pk-clustering-override)",
    "clustering.incremental": "it is clustered incrementally, in separate levels (clustering.incremental)",
    "chain-table.enabled": "it is a chain table, whose delete markers must stay (chain-table.enabled)",
}

# The switches that a reader must support too.
_READ_SWITCHES: Final = ("data-evolution.enabled", "pk-clustering-override", "chain-table.enabled")


def refuse_table(schema: TableSchema) -> str | None:
    """Say why a table must be left alone as a whole, or None."""
    return next((why for rule in _RULES if (why := rule(schema)) is not None), None)


def refuse_clean(schema: TableSchema) -> str | None:
    """Say why nothing may be removed from a table, or None."""
    return refuse_manifests(schema) or _refuse_iceberg(schema)


def refuse_manifests(schema: TableSchema) -> str | None:
    """Say why the manifests of a table cannot be read, or None."""
    name = (schema.option("manifest.format") or "avro").lower()
    return None if name == "avro" else f"its manifest.format is {name}; this version reads and writes avro manifests"


def uncalled_callbacks(schema: TableSchema) -> str | None:
    """Say which callbacks run after Java's commits but not after ours, or None; not a reason to refuse."""
    named = schema.option("commit.callbacks")
    if not named:
        return None
    return f"commit.callbacks ({named}) run after Java's commits only; a compaction by Packstone does not call them"


def refuse_read(schema: TableSchema) -> str | None:
    """Say why a table cannot be read correctly, or None; a reader has fewer restrictions than a compaction."""
    for name in _READ_SWITCHES:
        if _is_on(schema, name):
            return _SWITCHES[name]
    rules = (_refuse_kind, refuse_manifests, _refuse_postponed, _refuse_types, _refuse_engine)
    return next((why for rule in rules if (why := rule(schema)) is not None), None)


def refuse_pick(schema: TableSchema, *, is_full: bool, to_top: bool, takes_level0: bool) -> str | None:
    """Say why this pick must not be carried out, although others of the same table may; None if it may."""
    if not schema.is_primary_key:
        return None
    producer = (schema.option("changelog-producer") or "none").lower()
    if producer == "full-compaction" and to_top:
        return (
            "changelog-producer is full-compaction: a merge into the top level has to write the changelog, which this "
            "version does not; streaming readers would miss the changes"
        )
    if producer == "lookup" and takes_level0:
        return (
            "changelog-producer is lookup: a merge of level 0 has to write the changelog, which this version does not; "
            "streaming readers would miss the changes"
        )
    if is_full:
        return None
    if (schema.option("merge-engine") or "").lower() == MergeEngine.FIRST_ROW:
        return "merge-engine is first-row: only a full compaction knows which row is the first; use --strategy full"
    why = _refuse_regrouping(schema)
    if why is not None:
        return f"{why}: merging a part of the runs could change what readers see; use --strategy full"
    if _is_on(schema, "deletion-vectors.enabled"):
        return (
            "deletion vectors are on: a partial merge would leave stale versions visible, because only Java's lookup "
            "marks them; use --strategy full"
        )
    return None


def _refuse_regrouping(schema: TableSchema) -> str | None:
    """Say why merging the records of a key in two steps, the newest first, may change the result; None if it may not.

    Deduplicate can be merged in steps, and partial-update in the order of arrival. With a user-defined order, a record
    of an older run may belong between two records of newer runs.
    """
    engine = (schema.option("merge-engine") or MergeEngine.DEDUPLICATE).lower()
    if engine not in (MergeEngine.PARTIAL_UPDATE, MergeEngine.AGGREGATION):
        return None
    if schema.option("sequence.field"):
        return f"merge-engine is {engine} with a sequence.field"
    if _is_on(schema, f"{engine}.remove-record-on-delete"):
        return f"{engine}.remove-record-on-delete is on"
    for field in schema.fields if engine == MergeEngine.AGGREGATION else ():
        if aggregate_of(schema, field.name) == "product" and field.type.root is TypeRoot.DECIMAL:
            return f"a product of decimals is rounded at every step (column {field.name})"
    return None


def rejects_retractions(schema: TableSchema) -> bool:
    """Whether runs with a delete marker must not be merged without the other runs: only a sum can be undone."""
    if (schema.option("merge-engine") or "").lower() != MergeEngine.AGGREGATION:
        return False
    columns = (field.name for field in schema.fields if field.name not in schema.primary_keys)
    return any(aggregate_of(schema, name) != "sum" for name in columns)


def aggregate_of(schema: TableSchema, column: str) -> str:
    """The aggregate function of a value column."""
    own = schema.option(f"fields.{column}.aggregate-function")
    return own or schema.option("fields.default-aggregate-function") or "last_non_null_value"


def refuse_files(files: Iterable[DataFileMeta], *, reading: bool = False) -> str | None:
    """Say why the files of a bucket must be left alone, or None; a reader has fewer restrictions."""
    for file in files:
        if file.external_path is not None:
            return f"{file.file_name} is on an external path, {file.external_path}"
        if file.write_cols is not None:
            return f"{file.file_name} holds only some columns (data evolution)"
        if file.first_row_id is not None and not reading:
            return f"{file.file_name} carries row ids (row tracking)"
        extension = file_format_name(file.file_name)
        if extension not in _FORMATS:
            return f"{file.file_name} is of the format {extension}; this version reads parquet, orc and avro"
    return None


def file_format_name(file_name: str) -> str:
    """The format of a data file: its last extension, even if the codec precedes it."""
    return file_name.rpartition(".")[2].lower()


def _refuse_iceberg(schema: TableSchema) -> str | None:
    """Refuse tables with Iceberg metadata: only Java's commits write it; ours leave it naming files `clean` removes."""
    storage = (schema.option("metadata.iceberg.storage") or "disabled").lower()
    if storage == "disabled" and not _is_on(schema, "metadata.iceberg-compatible"):
        return None
    named = "metadata.iceberg-compatible" if storage == "disabled" else f"metadata.iceberg.storage = {storage}"
    return (
        f"it keeps Iceberg metadata besides its own ({named}), which this version does not write: Iceberg readers "
        "would stay on the old files"
    )


def _refuse_switch(schema: TableSchema) -> str | None:
    return next((why for name, why in _SWITCHES.items() if _is_on(schema, name)), None)


def _refuse_kind(schema: TableSchema) -> str | None:
    kind = (schema.option("type") or "table").lower()
    return None if kind in ("table", "materialized-table") else f"it is a {kind}, not a table of data files"


def _refuse_postponed(schema: TableSchema) -> str | None:
    if schema.option("bucket") == _POSTPONE_BUCKET and schema.is_primary_key:
        return "its buckets are postponed (bucket = -2); rows get their bucket from Java's own compaction only"
    return None


def _refuse_buckets(schema: TableSchema) -> str | None:
    bucket = schema.option("bucket") or _DYNAMIC_BUCKET
    if (why := _refuse_postponed(schema)) is not None:
        return why
    is_cross_partition = not set(schema.partition_keys) <= set(schema.primary_keys)
    if schema.is_primary_key and schema.partition_keys and is_cross_partition and bucket == _DYNAMIC_BUCKET:
        return "its key does not hold the partition columns, so rows move between partitions (key-dynamic buckets)"
    return None


def _refuse_external_paths(schema: TableSchema) -> str | None:
    if schema.option("data-file.external-paths"):
        return "its data files are on external paths (data-file.external-paths)"
    return None


def _refuse_format(schema: TableSchema) -> str | None:
    named = [("file.format", schema.option("file.format") or "parquet")]
    levels = schema.option("file.format.per.level") or ""
    named += [("file.format.per.level", pair.partition(":")[2].strip()) for pair in levels.split(",") if pair]
    for option, name in named:
        if name.lower() not in _FORMATS:
            return f"its {option} is {name}; this version writes parquet, orc and avro"
    return None


def _refuse_options(schema: TableSchema) -> str | None:
    try:
        options = TableOptions.parse(schema.options, is_primary_key=schema.is_primary_key)
        named = (options.file_format_per_level, options.file_compression_per_level, options.stats_mode_per_level)
        levels = {0, *(level for pairs in named for level, _ in pairs)}
        for level in sorted(levels):
            _check_written(schema, options, level=level)
    except InvalidInputError as error:
        return f"its options are not supported: {error.message.rstrip('.')}"
    if options.manifest_compression not in _MANIFEST_CODECS | _UNCOMPRESSED:
        return f"its manifest.compression is {options.manifest_compression}; {_known(_MANIFEST_CODECS)}"
    if options.lookup_compact not in _LOOKUP_MODES:
        return f"its lookup-compact is {options.lookup_compact}; it is one of {', '.join(_LOOKUP_MODES)}"
    if options.zstd_level not in _ZSTD_LEVELS:
        return f"its file.compression.zstd-level is {options.zstd_level}; zstd has the levels 1 to {_ZSTD_LEVELS[-1]}"
    return None


def _check_written(schema: TableSchema, options: TableOptions, *, level: int) -> None:
    """Raise InvalidInputError if files of a level cannot be written as the options say."""
    file_format, codec = DataFormat(options.format_of(level)), options.compression_of(level)
    if codec not in _CODECS[file_format] | _UNCOMPRESSED:
        raise InvalidInputError(f"{file_format} files with file.compression {codec}; {_known(_CODECS[file_format])}")
    for name in ("target_file_bytes_or_none", "file_block_bytes"):
        if getattr(options, name) == 0:
            raise InvalidInputError("target-file-size and file.block-size must be larger than zero")
    stats_modes(schema.value_fields, options, level=level, given=dict(schema.options))


def _known(codecs: frozenset[str]) -> str:
    return f"this version writes {', '.join(sorted(codecs))} and none"


def _refuse_key_indexes(schema: TableSchema) -> str | None:
    for name, _ in schema.options:
        if name.startswith("pk-") and name.endswith(".index.columns"):
            return f"it has an index over its rows that a compaction must rebuild ({name})"
    return None


def _refuse_types(schema: TableSchema) -> str | None:
    for field in schema.fields:
        for data_type in _all_types(field.type):
            if data_type.root in _UNSUPPORTED_TYPES:
                return f"column {field.name} is a {data_type.root}, which this version does not rewrite"
    return None


def _refuse_engine(schema: TableSchema) -> str | None:
    if not schema.is_primary_key:
        return None
    engine = (schema.option("merge-engine") or MergeEngine.DEDUPLICATE).lower()
    if engine not in _ENGINES:
        return f"merge-engine {engine} is not known to this version"
    if engine == MergeEngine.PARTIAL_UPDATE:
        return _refuse_partial_update(schema)
    return _refuse_aggregators(schema) if engine == MergeEngine.AGGREGATION else None


def _refuse_partial_update(schema: TableSchema) -> str | None:
    for name, _ in schema.options:
        if name.startswith("fields.") and name.endswith(".sequence-group"):
            return f"partial-update with sequence groups is not supported yet ({name})"
        if name == "partial-update.remove-record-on-sequence-group":
            return f"partial-update with sequence groups is not supported yet ({name})"
        is_aggregate = name.startswith("fields.") and name.endswith(("aggregate-function",))
        if is_aggregate and schema.option(name) != "last_non_null_value":
            return f"partial-update with aggregations is not supported yet ({name})"
    return None


def _refuse_aggregators(schema: TableSchema) -> str | None:
    for name, value in schema.options:
        is_aggregate = name.startswith("fields.") and name.endswith("aggregate-function")
        if is_aggregate and value not in AGGREGATORS:
            return f"the aggregate function {value} is not supported yet ({name})"
    return None


def _all_types(data_type: DataType) -> Iterator[DataType]:
    yield data_type
    inner = (data_type.element, data_type.key, data_type.value, *(field.type for field in data_type.fields))
    for part in inner:
        if part is not None:
            yield from _all_types(part)


def _is_on(schema: TableSchema, name: str) -> bool:
    return (schema.option(name) or "").lower() == "true"


_RULES: Final[tuple[Callable[[TableSchema], str | None], ...]] = (
    _refuse_kind,
    refuse_manifests,
    _refuse_iceberg,
    _refuse_switch,
    _refuse_buckets,
    _refuse_external_paths,
    _refuse_key_indexes,
    _refuse_format,
    _refuse_options,
    _refuse_types,
    _refuse_engine,
)
