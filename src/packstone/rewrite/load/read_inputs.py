"""Read the files that users load as batches, in bounded memory and in the files' order.

Formats: Parquet, ORC, CSV and JSON lines.
"""

from __future__ import annotations

import base64
import csv
import json
from typing import TYPE_CHECKING, Any, Final, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from packstone.errors import InvalidInputError
from packstone.rewrite.blame_file import blame_file
from packstone.rewrite.data_files.batches import to_column
from packstone.rewrite.formats.orc_reader import OrcReader
from packstone.rewrite.formats.parquet_batches import check_decoded_rows, check_expansion
from packstone.rewrite.formats.parquet_checks import check_footer
from packstone.rewrite.load.convert_rows import BadField, InputBatch, Place
from packstone.rewrite.load.convert_text import cast_each
from packstone.rewrite.load.input_files import (
    BLOCK_BYTES,
    InputFormat,
    first_line,
    lines_before,
    open_text,
    read_blocks,
    unreadable,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packstone.rewrite.load.input_files import InputOptions, InputPiece
    from packstone.storage.fileio import FileIO

_BATCH_BYTES: Final = 8 << 20
_MAX_BATCH_ROWS: Final = 65_536
_PRE_BUFFER_BYTES: Final = 1 << 20


def read_inputs(io: FileIO, piece: InputPiece, *, schema: pa.Schema, options: InputOptions) -> Iterator[InputBatch]:
    """Yield the rows of a piece; ``schema`` is the table's, for files that name no columns or no types."""
    match piece.file.file_format:
        case InputFormat.PARQUET:
            return _read_parquet(io, piece)
        case InputFormat.ORC:
            return _read_orc(io, piece)
        case InputFormat.CSV:
            return read_csv(io, piece, schema=schema, options=options)
        case InputFormat.JSON:
            return read_json(io, piece, schema=schema)
        case unknown:
            assert_never(unknown)


def cut_batch(batch: pa.RecordBatch, *, source: str, first_row: int = 1) -> Iterator[InputBatch]:
    """Yield a batch in slices that fit the CPU cache; they share its memory."""
    rows = min(_MAX_BATCH_ROWS, max(1, _BATCH_BYTES * max(1, batch.num_rows) // max(1, batch.nbytes)))
    for at in range(0, batch.num_rows, rows):
        yield InputBatch(batch=batch.slice(at, rows), place=Place(source=source, first_row=first_row + at))


def _read_parquet(io: FileIO, piece: InputPiece) -> Iterator[InputBatch]:
    import pyarrow.parquet as pq  # slow to import

    path = piece.file.path
    with blame_file(path, "is not a readable Parquet file"), io.open_input(path) as source:
        check_footer(source, path)
        # Microseconds: in nanoseconds, PyArrow turns an INT96 9999-12-31 into a year of the 19th century.
        file = pq.ParquetFile(source, coerce_int96_timestamp_unit="us", buffer_size=_PRE_BUFFER_BYTES)
        metadata = file.metadata
        groups = range(piece.start, metadata.num_row_groups if piece.end == -1 else piece.end)
        row = first = 1 + sum(metadata.row_group(at).num_rows for at in range(piece.start))
        decoded = sum(metadata.row_group(at).total_byte_size for at in groups)
        rows = sum(metadata.row_group(at).num_rows for at in groups)
        row_bytes = max(1, decoded // max(1, rows), check_expansion(io, path, file))
        batch_rows = min(_MAX_BATCH_ROWS, max(1, _BATCH_BYTES // row_bytes))
        for batch in file.iter_batches(batch_size=batch_rows, row_groups=list(groups), use_threads=True):
            yield InputBatch(batch=batch, place=Place(source=path, first_row=row))
            row += batch.num_rows
        check_decoded_rows(path, row - first, rows)


def _read_orc(io: FileIO, piece: InputPiece) -> Iterator[InputBatch]:
    path = piece.file.path
    end = None if piece.end == -1 else piece.end
    with OrcReader(io, path, first_stripe=piece.start, end_stripe=end) as file:
        row = 1 + file.rows_before
        for batch in file.batches(file.schema.names, max_rows=_MAX_BATCH_ROWS):
            yield from cut_batch(batch, source=path, first_row=row)
            row += batch.num_rows


# ---- CSV ----
# Read CSV as columns of text, so that the converter sees every field; report rows with too few or too many fields.
#
# An empty field is null, a quoted empty field is an empty text. Empty lines are skipped.


_CSV: Final = "CSV"


def read_csv(io: FileIO, piece: InputPiece, *, schema: pa.Schema, options: InputOptions) -> Iterator[InputBatch]:
    """Yield the rows of a piece; without a header the columns are the table's."""
    try:
        names = _header(io, piece, options) if options.header else schema.names
        if options.multiline:
            yield from _read_stream(io, piece, names=names, options=options)
        else:
            yield from _CsvLines(io, piece, names=names, options=options).read()
    except (pa.ArrowException, OSError) as error:
        raise unreadable(piece.file.path, _CSV, error) from error


def _header(io: FileIO, piece: InputPiece, options: InputOptions) -> list[str]:
    line = first_line(io, piece.file)
    try:
        fields = next(
            csv.reader(
                [line.decode()],
                delimiter=options.delimiter,
                quotechar=options.quote or None,
                quoting=csv.QUOTE_MINIMAL if options.quote else csv.QUOTE_NONE,
                escapechar=options.escape or None,
            ),
            [],
        )
    except (UnicodeDecodeError, csv.Error) as error:
        raise unreadable(piece.file.path, _CSV, error) from error
    return [field.strip() for field in fields]


class _CsvLines:
    """Reads blocks of whole lines, each with one call to PyArrow."""

    def __init__(self, io: FileIO, piece: InputPiece, *, names: list[str], options: InputOptions) -> None:
        self._io, self._piece, self._names, self._options = io, piece, names, options
        self._path = piece.file.path
        self._row = 1
        counted = lines_before(io, piece)
        header = int(options.header)
        self._rows_before = None if counted is None else lambda: counted() - header

    def read(self) -> Iterator[InputBatch]:
        skips_header = self._options.header and self._piece.start == 0
        for text in read_blocks(self._io, self._piece):
            block = text
            if skips_header:
                block, skips_header = text.partition(b"\n")[2], False
            if block.strip():
                yield self._parse(block)

    def _parse(self, block: bytes) -> InputBatch:
        wrong: list[Any] = []
        try:
            table = _call(block, self._names, self._options, wrong=wrong)
        except pa.ArrowInvalid as error:
            if "UTF8" not in str(error):
                raise
            wrong.clear()
            table = _call(block, self._names, self._options, wrong=wrong, kind=pa.binary())
        self._check_lines(block, table.num_rows + len(wrong))
        rows = _rows_of(table.num_rows, wrong)
        place = Place(source=self._path, first_row=self._row, rows=rows, rows_before=self._rows_before)
        self._row += table.num_rows + len(wrong)
        return _to_input(table, place, wrong)

    def _check_lines(self, block: bytes, rows: int) -> None:
        """Refuse a block with fewer rows than lines: a quoted value has a line break, and blocks may cut it in two."""
        if block.count(b"\n") + (not block.endswith(b"\n")) == rows:
            return
        if sum(1 for line in block.splitlines() if line) != rows:
            raise InvalidInputError(
                f"{self._path} has line breaks inside quotes; "
                "set --multiline (multiline=True), or close the quote if that is missing.",
                file=self._path,
            )


def _read_stream(io: FileIO, piece: InputPiece, *, names: list[str], options: InputOptions) -> Iterator[InputBatch]:
    """Read a whole file whose values may hold line breaks."""
    from pyarrow import csv as arrow_csv  # slow to import

    wrong: list[Any] = []
    row = 1
    with open_text(io, piece.file) as file:
        read, parse, convert = _arrow_options(names, options, wrong=wrong, block_bytes=BLOCK_BYTES)
        read.skip_rows = int(options.header)
        parse.newlines_in_values = True
        with arrow_csv.open_csv(file, read_options=read, parse_options=parse, convert_options=convert) as reader:
            for batch in reader:
                # It is unknown how far PyArrow has parsed ahead, so a wrong row cannot be assigned to its batch.
                place = Place(source=piece.file.path, first_row=row)
                noted = _take(wrong)
                yield _to_input(pa.Table.from_batches([batch]), place, noted, counted_from=int(options.header))
                row += batch.num_rows + len(noted)
    if wrong:  # wrong rows after the last valid row, or without any
        nothing = pa.table({name: pa.array([], pa.string()) for name in names})
        place = Place(source=piece.file.path, first_row=row)
        yield _to_input(nothing, place, _take(wrong), counted_from=int(options.header))


def _take(wrong: list[Any]) -> list[Any]:
    """Remove and return the noted rows; PyArrow parses ahead in its own thread and may note more at any moment."""
    taken = wrong[:]
    del wrong[: len(taken)]
    return taken


def _call(
    block: bytes, names: list[str], options: InputOptions, *, wrong: list[Any], kind: pa.DataType | None = None
) -> pa.Table:
    from pyarrow import csv as arrow_csv  # slow to import

    read, parse, convert = _arrow_options(names, options, wrong=wrong, block_bytes=len(block) + 1)
    if kind is not None:
        convert.column_types = dict.fromkeys(names, kind)
    source = pa.BufferReader(block)
    return arrow_csv.read_csv(source, read_options=read, parse_options=parse, convert_options=convert)


def _arrow_options(names: list[str], options: InputOptions, *, wrong: list[Any], block_bytes: int) -> tuple[Any, ...]:
    from pyarrow import csv as arrow_csv  # slow to import

    def note(row: Any) -> str:
        wrong.append(row)
        return "skip"

    # One thread: only then does PyArrow know the number of a wrong row.
    read = arrow_csv.ReadOptions(column_names=names, use_threads=False, block_size=block_bytes)
    parse = arrow_csv.ParseOptions(
        delimiter=options.delimiter,
        quote_char=options.quote or False,
        double_quote=not options.escape,
        escape_char=options.escape or False,
        invalid_row_handler=note,
    )
    convert = arrow_csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()),
        null_values=[options.null_text],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    return read, parse, convert


def _rows_of(count: int, wrong: list[Any]) -> tuple[int, ...] | None:
    if not wrong:
        return None
    gaps = [row.number - 1 for row in wrong]
    return tuple(np.delete(np.arange(count + len(wrong)), gaps).tolist())


def _to_input(table: pa.Table, place: Place, wrong: list[Any], *, counted_from: int | None = None) -> InputBatch:
    """Make a batch. PyArrow numbers wrong rows from the first row of the batch.

    With ``counted_from`` it numbers them from the start of the file, after that many header lines.
    """
    before = 0 if place.rows_before is None or not wrong else place.rows_before()
    first = place.first_row - 1 if counted_from is None else -counted_from
    unreadable_rows = [
        BadField(
            source=place.source,
            row=before + first + (row.number or 1),
            column="",
            value=row.text,
            reason=f"has {row.actual_columns} fields where {row.expected_columns} are expected",
        )
        for row in wrong
    ]
    columns = [column.combine_chunks() for column in table.columns]
    columns = [column.chunk(0) if isinstance(column, pa.ChunkedArray) else column for column in columns]
    if any(column.type == pa.binary() for column in columns):
        columns, place, not_utf8 = _decode(columns, table.column_names, place)
        unreadable_rows += not_utf8
    batch = pa.RecordBatch.from_arrays(columns, table.column_names)
    return InputBatch(batch=batch, place=place, unreadable=tuple(unreadable_rows))


def _decode(columns: list[pa.Array], names: list[str], place: Place) -> tuple[list[pa.Array], Place, list[BadField]]:
    """Decode bytes as UTF-8; rows with invalid bytes are left out and reported."""
    decoded = [cast_each(column, lambda part: part.cast(pa.string())) for column in columns]
    good = np.ones(len(columns[0]), dtype=bool)
    found = []
    for name, raw, column in zip(names, columns, decoded, strict=True):
        if column.bad is not None:
            good &= ~column.bad
            for row in np.flatnonzero(column.bad).tolist():
                value = raw[row].as_py().decode(errors="backslashreplace")
                why = "is not valid UTF-8"
                found.append(BadField(source=place.source, row=place.row(row), column=name, value=value, reason=why))
    kept = np.flatnonzero(good).tolist()
    rows = tuple(kept) if place.rows is None else tuple(place.rows[row] for row in kept)
    left = Place(source=place.source, first_row=place.first_row, rows=rows, rows_before=place.rows_before)
    return [column.values.filter(to_column(good)) for column in decoded], left, found


# ---- JSON lines ----
# Read JSON lines, one object in each line: with PyArrow if all values have the expected kinds, else line by line.
#
# A block of lines in which one value has another kind (a number where text is expected, a line that is not JSON) is
# parsed by Python, and all its values become text: then the converter decides which of them fit. Numbers keep their
# digits. Binary values are base64, as Spark writes them.


_JSON: Final = "JSON"


class _Digits(str):
    """The text of a number, as it was written."""

    __slots__ = ()


def read_json(io: FileIO, piece: InputPiece, *, schema: pa.Schema) -> Iterator[InputBatch]:
    """Yield the rows of a piece."""
    row = 1
    before = lines_before(io, piece)
    shapes = _Shapes(schema, source=piece.file.path)
    try:
        for at, block in enumerate(read_blocks(io, piece)):
            if at == 0 and piece.start == 0 and block.lstrip()[:1] == b"[":
                raise InvalidInputError(f"{piece.file.path} is a JSON array; write one object in each line.")
            lines = block.count(b"\n") + (not block.endswith(b"\n"))
            if block.strip():
                yield _parse(block, shapes, Place(source=piece.file.path, first_row=row, rows_before=before))
            row += lines
    except OSError as error:
        raise unreadable(piece.file.path, _JSON, error) from error


def _parse(block: bytes, shapes: _Shapes, place: Place) -> InputBatch:
    table = shapes.parse(block)
    if table is None:
        return _parse_lines(block, shapes, place)
    # Empty lines are not rows; the line of each row is needed to report bad rows.
    lines = block.splitlines()
    rows = None if len(lines) == table.num_rows else tuple(at for at, line in enumerate(lines) if line.strip())
    named = Place(source=place.source, first_row=place.first_row, rows=rows, rows_before=place.rows_before)
    columns = [column.combine_chunks() for column in table.columns]
    columns = [column.chunk(0) if isinstance(column, pa.ChunkedArray) else column for column in columns]
    return InputBatch(batch=pa.RecordBatch.from_arrays(columns, table.column_names), place=named)


class _Shapes:
    """The schema that PyArrow is to expect, with column names in the file's upper and lower case."""

    def __init__(self, schema: pa.Schema, *, source: str) -> None:
        self.schema, self.source = schema, source
        self._fields = {field.name.lower(): field.with_type(_expected(field.type)) for field in schema}
        self._is_simple = not any(_needs_python(field.type) for field in schema)
        self._names = {field.name.lower(): field.name for field in schema}

    def parse(self, block: bytes) -> pa.Table | None:
        """The rows of a block, or None if Python must parse it."""
        if not self._is_simple:
            return None
        table = self._call(block)
        if table is None:
            return None
        unexpected = [name for name in table.column_names if name not in self._names.values()]
        renamed = {name.lower(): name for name in unexpected if name.lower() in self._names}
        if not renamed:
            return table
        self._names |= renamed
        table = self._call(block)  # with the file's own spelling, so that the types are the expected ones
        both = table is not None and len({name.lower() for name in table.column_names}) < len(table.column_names)
        return None if both else table

    def _call(self, block: bytes) -> pa.Table | None:
        from pyarrow import json as arrow_json  # slow to import

        wanted = pa.schema([field.with_name(self._names[name]) for name, field in self._fields.items()])
        parse = arrow_json.ParseOptions(explicit_schema=wanted, unexpected_field_behavior="infer")
        read = arrow_json.ReadOptions(use_threads=False, block_size=len(block) + 1)
        try:
            return arrow_json.read_json(pa.BufferReader(block), read_options=read, parse_options=parse)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return None


def _expected(kind: pa.DataType) -> pa.DataType:
    """The type to read from JSON: numbers, booleans and structures as such, everything else as text."""
    if pt.is_struct(kind):
        return pa.struct([kind.field(at).with_type(_expected(kind.field(at).type)) for at in range(kind.num_fields)])
    if pt.is_list(kind):
        return pa.list_(kind.value_field.with_type(_expected(kind.value_type)))
    if pt.is_integer(kind):
        return pa.int64()
    if pt.is_floating(kind):
        return pa.float64()
    return kind if pt.is_boolean(kind) or pt.is_decimal(kind) else pa.string()


def _needs_python(kind: pa.DataType) -> bool:
    """Whether PyArrow cannot parse the type: maps have no fixed names, and it does not decode base64."""
    if pt.is_struct(kind):
        return any(_needs_python(kind.field(at).type) for at in range(kind.num_fields))
    return bool(pt.is_map(kind) or pt.is_binary(kind)) or (bool(pt.is_list(kind)) and _needs_python(kind.value_type))


def _parse_lines(block: bytes, shapes: _Shapes, place: Place) -> InputBatch:
    rows: list[dict[str, Any]] = []
    numbers: list[int] = []
    bad: list[BadField] = []
    kinds = {field.name.lower(): field.type for field in shapes.schema}
    for at, line in enumerate(block.split(b"\n")):
        if not line.strip():
            continue
        found = _read_row(line, kinds)
        if isinstance(found, dict):
            rows.append(found)
            numbers.append(at)
        else:
            text = line.decode(errors="backslashreplace").rstrip("\r")
            bad.append(BadField(source=place.source, row=place.row(at), column=found, value=text, reason=_why(found)))
    names = dict.fromkeys(name for row in rows for name in row)
    left = Place(source=place.source, first_row=place.first_row, rows=tuple(numbers), rows_before=place.rows_before)
    columns = {
        name: pa.array([row.get(name) for row in rows], _text_shape(kinds.get(name.lower(), pa.string())))
        for name in names
    }
    batch = pa.RecordBatch.from_pydict(columns) if columns else _no_columns(shapes.schema, len(rows))
    return InputBatch(batch=batch, place=left, unreadable=tuple(bad))


def _read_row(line: bytes, kinds: dict[str, pa.DataType]) -> dict[str, Any] | str:
    """The fields of a line, structured as their types; for a bad line the bad column, or "" for the whole line."""
    try:
        found = json.loads(line, parse_int=_Digits, parse_float=_Digits, parse_constant=_Digits)
    except ValueError:
        return ""
    if not isinstance(found, dict):
        return ""
    row = {}
    for name, value in found.items():
        try:
            row[name] = _shaped(value, kinds.get(name.lower(), pa.string()))
        except (TypeError, ValueError, AttributeError, KeyError):
            return name
    return row


def _why(column: str) -> str:
    return "has another structure than the column" if column else "is not a JSON object"


def _no_columns(schema: pa.Schema, rows: int) -> pa.RecordBatch:
    """Rows without any field: all columns are null."""
    return pa.RecordBatch.from_arrays([pa.nulls(rows) for _ in schema], schema.names)


def _text_shape(kind: pa.DataType) -> pa.DataType:
    if pt.is_struct(kind):
        return pa.struct(
            [pa.field(kind.field(at).name, _text_shape(kind.field(at).type)) for at in range(kind.num_fields)]
        )
    if pt.is_map(kind):
        return pa.map_(pa.string(), _text_shape(kind.item_type))
    if pt.is_list(kind):
        return pa.list_(_text_shape(kind.value_type))
    return pa.binary() if pt.is_binary(kind) else pa.string()


def _shaped(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if pt.is_struct(kind):
        fields = {kind.field(at).name.lower(): kind.field(at) for at in range(kind.num_fields)}
        return {fields[name.lower()].name: _shaped(item, fields[name.lower()].type) for name, item in value.items()}
    if pt.is_map(kind):
        return [(key, _shaped(item, kind.item_type)) for key, item in value.items()]
    if pt.is_list(kind):
        if not isinstance(value, list):
            raise TypeError
        return [_shaped(item, kind.value_type) for item in value]
    if pt.is_binary(kind):
        return base64.b64decode(value, validate=True)
    return _text(value)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return str(value)
    return json.dumps(_numbers(value), ensure_ascii=False)


def _numbers(value: Any) -> Any:
    """Restore numbers inside a structure that is to become JSON text."""
    if isinstance(value, _Digits):
        return json.loads(value)
    if isinstance(value, list):
        return [_numbers(item) for item in value]
    return {key: _numbers(item) for key, item in value.items()} if isinstance(value, dict) else value
