"""Find writer settings that reproduce the inputs' schema exactly, by trying them.

PyArrow has several switches that change how an Arrow type is stored in Parquet (INT96 or INT64 timestamps,
decimals as integers or as bytes, the name of a list's element). Rather than reason about every writer in the
field, we write an empty file with each combination and compare schema trees. The first that matches is used;
if none does, the files are left alone with the reason: an approximate rewrite is never done.
"""

from __future__ import annotations

import inspect
import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from packstone.errors import UnfaithfulError
from packstone.rewrite.blame_file import one_line
from packstone.rewrite.formats.parquet_encodings import Encodings, choose_encodings, encodings_of
from packstone.rewrite.formats.parquet_file_writer import OutputWriter, ParquetFileWriter
from packstone.rewrite.formats.parquet_footer import (
    bloom_columns_of,
    codecs_of,
    has_page_index,
    int96_writer,
    open_parquet,
    schema_tree,
    sorting_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packstone.storage.fileio import FileIO

_UTC_TIME = "(Time(isAdjustedToUTC=true"
_CODEC_NAMES = {"UNCOMPRESSED": "NONE", "LZ4": "LZ4", "LZ4_RAW": "LZ4"}
_BLOOM_FPP = 0.01
_MAX_DISTINCT = 1 << 20  # bounds the size of a filter to a megabyte
_NULLS_BY_KEY = 25  # from this version on, PyArrow takes the placement of nulls with each key, and warns otherwise
_PAGE_BYTES = 1 << 20
# Values that repeat only within each input need a longer dictionary in the output, where PyArrow's limit of 1 MiB
# would leave most of them without one: ten files with a megabyte of URLs each would grow fivefold. A reader holds the
# dictionary of each column, so the limit is a part of a row group's 128 MiB.
_DICTIONARY_BYTES = 16 << 20
_VALUES_BETWEEN_CHECKS = 1024  # PyArrow's default
# No file states its compression level. Arrow's C++ writer uses 1, most others zstd's default of 3: a file of such a
# writer takes 5 % more when it is rewritten at level 1.
_LEVEL_1_WRITER = "parquet-cpp-arrow"
_ZSTD_LEVEL = 3
_USES = 16  # of encodings that were chosen for another file
_REMEMBERED = 256
_CHOSEN: dict[tuple[Any, ...], tuple[int, dict[str, Any]]] = {}
_WRITTEN: dict[tuple[Any, ...], str] = {}
_SWITCHES = tuple(itertools.product((True, False), (False, True), (True, False)))


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterSettings:
    """How to open a ParquetWriter, and the schema it then writes."""

    schema: pa.Schema
    options: dict[str, Any]
    key_values: dict[bytes, bytes]
    tree: str
    sorting: tuple[tuple[int, bool, bool], ...]
    created_by: str | None = None  # the writer to name in the file, if readers derive a meaning from it
    encodings: Encodings = frozenset()  # used by the inputs, beyond the usual ones

    def open_writer(self, sink: Any, first: pa.Table, *, is_like_others: bool = False) -> ParquetFileWriter:
        """Open a file whose first row group is about to be written; its encodings suit that row group.

        Where many small files are written, those of one schema may share the encodings that suit one of them
        (``is_like_others``). The caller adds the key-values when it closes the file.
        """
        chosen = self._choose_like_others(first) if is_like_others else self._choose(first)
        return ParquetFileWriter(sink, self.schema, options=self.options | chosen, created_by=self.created_by)

    def _choose(self, first: pa.Table) -> dict[str, Any]:
        return choose_encodings(first, self.options, known=self.encodings, max_dictionary_bytes=_DICTIONARY_BYTES)

    def _choose_like_others(self, first: pa.Table) -> dict[str, Any]:
        """The encodings of a file of the same schema, options and order of rows; found anew for every sixteenth."""
        key = (self.tree, repr(self.options), self.encodings, first.num_rows.bit_length())
        uses, chosen = _CHOSEN.get(key, (0, {}))
        if uses % _USES == 0:
            chosen = self._choose(first)
            if len(_CHOSEN) >= _REMEMBERED:
                _CHOSEN.clear()
        _CHOSEN[key] = uses + 1, chosen
        return chosen

    def decode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Convert the Arrow dictionaries of a batch, which differ between files, to plain values."""
        if batch.schema.equals(self.schema):
            return batch
        return pa.RecordBatch.from_arrays(
            [column.cast(field.type) for column, field in zip(batch.columns, self.schema, strict=True)],
            schema=self.schema,
        )

    def of_fields(self, names: Sequence[str]) -> WriterSettings:
        """Keep the settings of some top-level fields only."""
        kept = tuple(f"{name}." for name in names)
        options = {
            key: {path: one for path, one in value.items() if f"{path}.".startswith(kept)}
            if isinstance(value, dict)
            else value
            for key, value in self.options.items()
        }
        schema = pa.schema([self.schema.field(name) for name in names])
        return replace(self, schema=schema, options={key: value for key, value in options.items() if value != {}})


def find_writer_settings(
    file: pq.ParquetFile,
    *,
    codec: str,
    files: int = 1,
    has_checksums: bool = False,
    fields: Sequence[str] | None = None,
) -> WriterSettings:
    """Find settings whose output has the schema tree of the input, the first of ``files``; else UnfaithfulError.

    ``has_checksums``: whether its pages have checksums, which no footer says. ``fields``: the top-level fields that are
    written, if not all are.
    """
    metadata, wanted = file.metadata, schema_tree(file.metadata.schema)
    schema = _without_dictionaries(file.schema_arrow.remove_metadata())
    if fields is not None:
        trees = dict(zip(schema.names, _field_trees(wanted), strict=False))
        if len(trees) != len(schema) or len(trees) != len(_field_trees(wanted)):
            raise UnfaithfulError("its schema cannot be split into fields")
        wanted = "\n".join((*(trees[name] for name in fields), "}"))
        schema = pa.schema([schema.field(name) for name in fields])
    has_int96 = "int96" in wanted
    nearest = ""
    for compliant, decimal_as_integer, int96 in _SWITCHES:
        if int96 != has_int96:
            continue
        options = {
            "use_compliant_nested_type": compliant,
            "store_decimal_as_integer": decimal_as_integer,
            "use_deprecated_int96_timestamps": int96,
            "store_schema": False,  # the inputs' own schema is copied with the key-values, byte for byte
        }
        if _UTC_TIME in wanted and can_write("write_time_adjusted_to_utc"):
            options["write_time_adjusted_to_utc"] = True
        tree = _tree_written(schema, options)
        if tree == wanted:
            options |= _data_options(metadata, codec=codec, files=files)
            if has_checksums:
                options["write_page_checksum"] = True
            return WriterSettings(
                schema=schema,
                options=options,
                key_values=dict(metadata.metadata or {}),
                tree=wanted,
                sorting=sorting_of(metadata),
                created_by=None if int96_writer(metadata) is None else metadata.created_by or "",
                encodings=encodings_of(metadata),
            )
        nearest = min(nearest or tree, tree, key=lambda one: _count_differences(wanted, one))
    raise UnfaithfulError(_first_difference(wanted, nearest))


def _without_dictionaries(schema: pa.Schema) -> pa.Schema:
    """The schema with plain values in place of Arrow's dictionary columns (pandas' categories, Polars' enums).

    Each file has its own dictionary, and PyArrow writes PLAIN from the first batch whose dictionary differs.
    """
    fields = [
        field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field for field in schema
    ]
    return pa.schema(fields)


def why_unfaithful(io: FileIO, path: str, *, codec: str) -> str:
    """The reason why a file cannot be written back identically; empty if it can."""
    try:
        with open_parquet(io, path) as file:
            settings = find_writer_settings(file, codec=codec)
            if settings.sorting:
                sort_options(settings)
    except UnfaithfulError as error:
        return error.message
    return ""


def find_unwritable_fields(io: FileIO, path: str) -> tuple[str, ...]:
    """The top-level fields that cannot be written back identically, such as DuckDB's decimals of 16 bytes."""
    found = []
    with open_parquet(io, path) as file:
        for name in file.schema_arrow.names:
            try:
                find_writer_settings(file, codec="keep", fields=(name,))
            except UnfaithfulError:
                found.append(name)
    return tuple(found)


def _field_trees(tree: str) -> list[str]:
    """Split a schema tree by its top-level fields, whose lines are indented least."""
    fields: list[list[str]] = []
    for line in tree.splitlines()[:-1]:
        if line.startswith("  ") and line[2] not in " }":
            fields.append([])
        fields[-1].append(line)
    return ["\n".join(lines) for lines in fields]


def sort_options(settings: WriterSettings) -> pc.SortOptions:
    """Convert the order that the inputs claim to PyArrow's sort keys and its placement of nulls."""
    schema, sorting = settings.schema, settings.sorting
    if len({nulls_first for _, _, nulls_first in sorting}) > 1:
        raise UnfaithfulError("its sort order puts nulls first in one column and last in another")
    if any(pa.types.is_nested(field.type) for field in schema):
        # Column numbers in the footer count leaves; with nested columns they do not number the fields.
        raise UnfaithfulError("it claims a sort order and has nested columns")
    if any(pa.types.is_floating(schema.field(column).type) for column, _, _ in sorting):
        raise UnfaithfulError("it claims a sort order on a floating-point column, where writers disagree about NaN")
    keys = [
        (schema.field(column).name, "descending" if descending else "ascending") for column, descending, _ in sorting
    ]
    nulls = "at_start" if sorting[0][2] else "at_end"
    if int(pa.__version__.split(".")[0]) < _NULLS_BY_KEY:
        options = pc.SortOptions(sort_keys=keys, null_placement=nulls)
    else:
        options = pc.SortOptions(sort_keys=[(*key, nulls) for key in keys])
    try:
        pc.sort_indices(schema.empty_table(), options=options)
    except (pa.ArrowException, KeyError) as error:
        raise UnfaithfulError(f"it claims a sort order, which PyArrow cannot keep: {one_line(error)}") from error
    return options


def _tree_written(schema: pa.Schema, options: dict[str, Any]) -> str:
    """The schema tree of a file with this schema; remembered, because it depends on nothing else."""
    key = (schema, *sorted(options.items()))
    if key not in _WRITTEN:
        if len(_WRITTEN) >= _REMEMBERED:
            _WRITTEN.clear()
        _WRITTEN[key] = _try_to_write(schema, options)
    return _WRITTEN[key]


def _try_to_write(schema: pa.Schema, options: dict[str, Any]) -> str:
    sink = pa.BufferOutputStream()
    try:
        with OutputWriter(sink, schema, **options):
            pass
    except pa.ArrowException as error:
        return f"(cannot be written: {error})"
    return schema_tree(pq.ParquetFile(pa.BufferReader(sink.getvalue())).metadata.schema)


def _data_options(metadata: pq.FileMetaData, *, codec: str, files: int) -> dict[str, Any]:
    options: dict[str, Any] = {
        "write_page_index": has_page_index(metadata),
        "write_batch_size": _values_between_checks(metadata),
    }
    codecs = {path: _CODEC_NAMES.get(name, name) for path, name in codecs_of(metadata).items()}
    options["compression"] = codec.upper() if codec != "keep" else codecs or "SNAPPY"
    if codec == "keep" and not (metadata.created_by or "").startswith(_LEVEL_1_WRITER):
        options["compression_level"] = {path: _ZSTD_LEVEL for path, name in codecs.items() if name == "ZSTD"} or None
    blooms = bloom_columns_of(metadata)
    if blooms:
        if not can_write("bloom_filter_options"):
            raise UnfaithfulError("it has bloom filters, which this PyArrow cannot write; upgrade pyarrow")
        distinct = {path: min(_MAX_DISTINCT, files * each) for path, each in blooms.items()}
        options["bloom_filter_options"] = {path: {"ndv": ndv, "fpp": _BLOOM_FPP} for path, ndv in distinct.items()}
    sorting = sorting_of(metadata)
    if sorting:
        options["sorting_columns"] = [pq.SortingColumn(c, d, n) for c, d, n in sorting]
    return options


def _values_between_checks(metadata: pq.FileMetaData) -> int:
    """The number of values after which PyArrow checks the size of a page or dictionary; fewer if values are big."""
    groups = (metadata.row_group(at) for at in range(metadata.num_row_groups))
    chunks = (group.column(at) for group in groups for at in range(group.num_columns) if group.num_rows)
    widest = max((chunk.total_uncompressed_size // max(1, chunk.num_values) for chunk in chunks), default=0)
    return min(_VALUES_BETWEEN_CHECKS, max(1, _PAGE_BYTES // max(1, widest)))


def can_write(option: str) -> bool:
    """Whether this PyArrow's writer has an option; some versions name it only in the function."""
    return any(option in inspect.signature(one).parameters for one in (pq.ParquetWriter.__init__, pq.write_table))


def _count_differences(wanted: str, got: str) -> int:
    return sum(ours != theirs for ours, theirs in itertools.zip_longest(got.splitlines(), wanted.splitlines()))


def _first_difference(wanted: str, got: str) -> str:
    if got.startswith("(cannot"):
        return f"its schema cannot be written by PyArrow {got}"
    for ours, theirs in itertools.zip_longest(got.splitlines(), wanted.splitlines(), fillvalue="nothing"):
        if ours != theirs:
            return f"PyArrow would write `{ours.strip().rstrip(';')}` where the file has `{theirs.strip().rstrip(';')}`"
    return "PyArrow would write another schema"
