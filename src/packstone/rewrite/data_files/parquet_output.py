"""Write Parquet data files, one row group per call, and collect the facts of their columns.

The facts are the smallest and largest value and the number of nulls of each column, as metadata will state them.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pt

from packstone.rewrite.formats.parquet_encodings import choose_encodings
from packstone.rewrite.formats.parquet_file_writer import ParquetFileWriter
from packstone.rewrite.formats.parquet_thrift import Struct, read_struct
from packstone.rewrite.merge_tree.spec import ColumnFacts, OutputSpec, PlainValue
from packstone.storage.fileio import abandon_output

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packstone.storage.fileio import FileIO

_FOOTER_VALUE_BYTES = 2048  # PyArrow leaves longer values out of its statistics
_CODECS = {"none": "NONE", "uncompressed": "NONE", "null": "NONE"}
_LEVELLED = frozenset({"zstd", "gzip", "brotli"})


class Compressed(Protocol):
    """The compression settings of an output."""

    @property
    def compression(self) -> str:
        """The codec."""
        ...

    @property
    def compression_level(self) -> int | None:
        """The codec's level; None for its default."""
        ...


class ParquetOutput:
    """A Parquet file that is written; where its footer has exact bounds, they are used, at no cost."""

    def __init__(self, io: FileIO, path: str, *, schema: pa.Schema, output: OutputSpec, sample: pa.Table) -> None:
        self._schema = schema
        self._stored = split_times(schema)
        self._sink = io.open_output(path)
        self._facts = [FactsSoFar(field) for field in schema]
        written = self._stored or schema
        self._writer = ParquetFileWriter(
            self._sink,
            written,
            options=writer_options(written, output, sample),
            edit=None if self._stored is None else lambda footer: restore_types(footer, schema),
        )

    @property
    def written_bytes(self) -> int:
        """The size of the file so far, without its footer."""
        return int(self._sink.tell())

    def write(self, rows: pa.Table) -> None:
        """Write one row group."""
        self._writer.write(rows if self._stored is None else rows.cast(self._stored))
        for at, facts in enumerate(self._facts):
            column = rows.column(at)
            facts.add_extremes(None, None, column.null_count)
            if has_order(column.type) and any(map(is_disputed, column.chunks)):
                facts.drop_bounds()
            elif has_order(column.type) and (not is_in_footer(column.type) or has_long_values(column)):
                for chunk in column.chunks:
                    facts.add_extremes(*find_extremes(chunk), 0)

    def close(self) -> tuple[ColumnFacts, ...]:
        """Write the footer and return the facts of the columns."""
        footer = self._writer.close()
        self._sink.close()
        self._read_footer(footer)
        return tuple(facts.facts() for facts in self._facts)

    def abandon(self) -> None:
        """Close the file and discard its content."""
        self._writer.abandon()
        abandon_output(self._sink)

    def _read_footer(self, metadata: pq.FileMetaData) -> None:
        at_of = {metadata.schema.column(at).path: at for at in range(len(metadata.schema))}
        for facts, field in zip(self._facts, self._schema, strict=True):
            at = at_of.get(field.name)
            if at is None or not is_in_footer(field.type):
                continue
            for group in range(metadata.num_row_groups):
                found = metadata.row_group(group).column(at).statistics
                if found is not None and found.has_min_max:
                    low, high = (footer_value(raw, field.type) for raw in (found.min_raw, found.max_raw))
                    facts.add_extremes(low, high, 0)


def is_in_footer(kind: pa.DataType) -> bool:
    """Whether the footer has bounds of a column of this type; INT96 has no statistics."""
    return has_order(kind) and not (pt.is_timestamp(kind) and kind.unit == "ns")


def footer_value(raw: Any, kind: pa.DataType) -> Any:
    """Convert the physical value in a footer to a plain value."""
    if pt.is_decimal(kind):
        number = int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else int(raw)
        return to_decimal(number, kind.scale)
    return raw


def has_long_values(column: pa.ChunkedArray) -> bool:
    """Whether some values are too long for the footer to state the bounds."""
    kind = column.type
    if not (pt.is_string(kind) or pt.is_binary(kind)):
        return False
    longest = pc.max(pc.binary_length(column)).as_py() if column.nbytes > _FOOTER_VALUE_BYTES else 0
    return bool((longest or 0) > _FOOTER_VALUE_BYTES)


def writer_options(schema: pa.Schema, output: Compressed, sample: pa.Table) -> dict[str, Any]:
    """The options of PyArrow's writer for rows like the sample."""
    codec = _CODECS.get(output.compression.lower(), output.compression)
    level = output.compression_level if codec.lower() in _LEVELLED else None
    units = {kind.unit for field in schema for kind in leaf_types(field.type) if pt.is_timestamp(kind)}
    options: dict[str, Any] = {
        "compression": codec,
        "compression_level": level,
        "store_decimal_as_integer": True,
        "store_schema": False,
        # Java's own writer stores nanoseconds as INT96, and all its readers understand that; PyArrow does so for all
        # timestamps or for none, so ``split_times`` leaves only timestamps in nanoseconds.
        "use_deprecated_int96_timestamps": units == {"ns"},
    }
    if any(pt.is_time(kind) for field in schema for kind in leaf_types(field.type)):
        options["write_time_adjusted_to_utc"] = True
    rows = sample.select(schema.names)  # a thin file leaves keys out
    rows = rows if rows.schema.types == schema.types else rows.cast(schema)
    return options | choose_encodings(rows, options, codes_wide_rows=False)


_FIRST_NEGATIVE = 0x80


def has_order(kind: pa.DataType) -> bool:
    """Whether a column of this type has a smallest and a largest value."""
    return not (pt.is_nested(kind) or pt.is_null(kind))


def to_plain_value(value: pa.Scalar) -> PlainValue:
    """One value as a plain Python value; dates and times as integers in their unit."""
    if not value.is_valid:
        return None
    if pt.is_temporal(value.type):
        return int(value.value)
    return value.as_py()


def to_decimal(number: int, scale: int) -> Decimal:
    """Make a decimal of an unscaled number; Python's decimal arithmetic would round it to 28 digits."""
    digits = tuple(int(digit) for digit in str(abs(number)))
    return Decimal((int(number < 0), digits, -scale))


class FactsSoFar:
    """The facts of one column, collected batch by batch."""

    def __init__(self, field: pa.Field) -> None:
        self._field = field
        self._nulls = 0
        self._is_disputed = False
        self._low: Any = None
        self._high: Any = None

    def add(self, column: pa.Array) -> None:
        """Add the facts of more values."""
        self._nulls += column.null_count
        if is_disputed(column):
            self.drop_bounds()
        elif has_order(self._field.type):
            low, high = find_extremes(column)
            self.add_extremes(low, high, 0)

    def drop_bounds(self) -> None:
        """State no bounds, whatever values follow: readers disagree about the order of the values."""
        self._is_disputed = True

    def add_extremes(self, low: Any, high: Any, nulls: int) -> None:
        """Add bounds and a number of nulls that were found elsewhere; None for no value."""
        self._nulls += nulls
        if low is not None:
            self._low = low if self._low is None else min(self._low, low)
        if high is not None:
            self._high = high if self._high is None else max(self._high, high)

    def facts(self) -> ColumnFacts:
        """The collected facts; no bounds if readers disagree about the order of some value."""
        low, high = (None, None) if self._is_disputed else (self._low, self._high)
        return ColumnFacts(
            name=self._field.name,
            minimum=_to_text(low, self._field.type),
            maximum=_to_text(high, self._field.type),
            null_count=self._nulls,
        )


def is_disputed(column: pa.Array) -> bool:
    """Whether readers order some of the values differently, so that bounds would make one of them skip a match.

    NaN is the largest value for Java, Spark and Flink, and never greater than another value for Python. Bytes from
    0x80 are negative for Java Paimon up to 1.4 and positive for all other readers.
    """
    if pt.is_floating(column.type):
        return bool(pc.any(pc.is_nan(column)).as_py())
    if not pt.is_binary(column.type):
        return False
    held = column.drop_null()
    if not len(held):
        return False
    ends = np.frombuffer(held.buffers()[1], np.int32)[held.offset : held.offset + len(held) + 1]
    data = np.frombuffer(held.buffers()[2] or b"", np.uint8)[ends[0] : ends[-1]]
    return bool((data >= _FIRST_NEGATIVE).any())


def find_extremes(column: pa.Array) -> tuple[Any, Any]:
    """Smallest and largest value, strings as bytes; NaN is ignored, the smallest zero is -0.0 and the largest 0.0."""
    kind = column.type
    if pt.is_floating(kind):
        column = column.filter(pc.invert(pc.is_nan(column)))
    elif pt.is_string(kind):
        column = column.cast(pa.binary())
    found = pc.min_max(column)
    low, high = to_plain_value(found["min"]), to_plain_value(found["max"])
    if pt.is_floating(kind) and low is not None:
        return (-0.0 if low == 0 else low), (0.0 if high == 0 else high)
    return low, high


def _to_text(value: Any, kind: pa.DataType) -> PlainValue:
    if isinstance(value, bytes) and pt.is_string(kind):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, Decimal | int | float | str | bytes) or value is None:
        return value
    raise TypeError(type(value))


# PyArrow writes either all timestamps as INT96 or none, but Java Paimon writes nanoseconds as INT96 and coarser units
# as INT64. So the coarser timestamps are passed to PyArrow as plain integers, and get their type back in the footer
# before it is written.

_TAIL_BYTES: Final = 8  # the footer's length and the magic
# FileMetaData, SchemaElement
_SCHEMA, _CONVERTED_TYPE, _LOGICAL_TYPE = 2, 6, 10


def split_times(schema: pa.Schema) -> pa.Schema | None:
    """The schema with coarse timestamps as integers, if it also has nanoseconds; None if nothing has to change."""
    units = {kind.unit for field in schema for kind in leaf_types(field.type) if pt.is_timestamp(kind)}
    if "ns" not in units or len(units) == 1:
        return None
    return pa.schema([field.with_type(_without_coarse(field.type)) for field in schema])


def leaf_types(kind: pa.DataType) -> Iterator[pa.DataType]:
    """The types of the Parquet columns that store a column, in their order."""
    if not pt.is_nested(kind):
        yield kind
        return
    for at in range(kind.num_fields):
        yield from leaf_types(kind.field(at).type)


def restore_types(footer: Struct, schema: pa.Schema) -> None:
    """Restore the types of the integers in a footer to those that PyArrow writes for this schema."""
    plain = _plain_footer(schema)
    for element, wanted in zip(footer[_SCHEMA][1].items, plain[_SCHEMA][1].items, strict=True):
        if element.get(1) != wanted.get(1):
            continue  # INT96 here, INT64 there
        for part in (_CONVERTED_TYPE, _LOGICAL_TYPE):
            element.pop(part, None)
            if part in wanted:
                element[part] = wanted[part]
        ordered = sorted(element.items())
        element.clear()
        element.update(ordered)


def _plain_footer(schema: pa.Schema) -> Struct:
    """The footer of an empty file of this schema, without INT96."""
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, schema, store_decimal_as_integer=True, store_schema=False):
        pass
    data = sink.getvalue().to_pybytes()
    length = int.from_bytes(data[-_TAIL_BYTES:-4], "little")
    return read_struct(data[-_TAIL_BYTES - length : -_TAIL_BYTES])[0]


def _without_coarse(kind: pa.DataType) -> pa.DataType:
    if pt.is_timestamp(kind):
        return kind if kind.unit == "ns" else pa.int64()
    if pt.is_struct(kind):
        return pa.struct([child.with_type(_without_coarse(child.type)) for child in kind])
    if pt.is_map(kind):
        return pa.map_(
            kind.key_field.with_type(_without_coarse(kind.key_type)),
            kind.item_field.with_type(_without_coarse(kind.item_type)),
        )
    if pt.is_nested(kind):
        return pa.list_(kind.value_field.with_type(_without_coarse(kind.value_type)))
    return kind
