"""JSON lines: an object in each line, by PyArrow where all values are of the expected kinds, else line by line.

A block of lines in which one value is of another kind (a number where text is expected, a line that is no JSON) is
parsed by Python, and all its values become text: then the converter says which of them fit. Numbers keep their digits.
Binary values are base64, as Spark writes them.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.types as pt

from packstone.errors import InvalidInputError
from packstone.rewrite.inputs.bad_rows import BadField, Place
from packstone.rewrite.inputs.convert_rows import InputBatch
from packstone.rewrite.inputs.input_files import unreadable
from packstone.rewrite.inputs.text_blocks import lines_before, read_blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packstone.rewrite.inputs.input_files import InputPiece
    from packstone.storage.fileio import FileIO

_KIND: Final = "JSON"


class _Digits(str):
    """A number as it was written."""

    __slots__ = ()


def read_json(io: FileIO, piece: InputPiece, *, schema: pa.Schema) -> Iterator[InputBatch]:
    """Yield the rows of a piece."""
    row = 1
    before = lines_before(io, piece)
    shapes = _Shapes(schema, source=piece.file.path)
    try:
        for at, block in enumerate(read_blocks(io, piece)):
            if at == 0 and piece.start == 0 and block.lstrip()[:1] == b"[":
                raise InvalidInputError(f"{piece.file.path} is a JSON array; an object in each line is expected.")
            lines = block.count(b"\n") + (not block.endswith(b"\n"))
            if block.strip():
                yield _parse(block, shapes, Place(source=piece.file.path, first_row=row, rows_before=before))
            row += lines
    except OSError as error:
        raise unreadable(piece.file.path, _KIND, error) from error


def _parse(block: bytes, shapes: _Shapes, place: Place) -> InputBatch:
    table = shapes.parse(block)
    if table is None:
        return _parse_lines(block, shapes, place)
    # Empty lines are no rows: which row came from which line is only asked about bad ones.
    lines = block.splitlines()
    rows = None if len(lines) == table.num_rows else tuple(at for at, line in enumerate(lines) if line.strip())
    named = Place(source=place.source, first_row=place.first_row, rows=rows, rows_before=place.rows_before)
    columns = [column.combine_chunks() for column in table.columns]
    columns = [column.chunk(0) if isinstance(column, pa.ChunkedArray) else column for column in columns]
    return InputBatch(batch=pa.RecordBatch.from_arrays(columns, table.column_names), place=named)


class _Shapes:
    """What PyArrow is told to expect, in the case of letters that a file uses."""

    def __init__(self, schema: pa.Schema, *, source: str) -> None:
        self.schema, self.source = schema, source
        self._fields = {field.name.lower(): field.with_type(_expected(field.type)) for field in schema}
        self._is_simple = not any(_needs_python(field.type) for field in schema)
        self._names = {field.name.lower(): field.name for field in schema}

    def parse(self, block: bytes) -> pa.Table | None:
        """The rows of a block, or None if it is for Python."""
        if not self._is_simple:
            return None
        table = self._call(block)
        if table is None:
            return None
        strangers = [name for name in table.column_names if name not in self._names.values()]
        renamed = {name.lower(): name for name in strangers if name.lower() in self._names}
        if not renamed:
            return table
        self._names |= renamed
        table = self._call(block)  # with the file's own spelling, so that the types are the expected ones
        both = table is not None and len({name.lower() for name in table.column_names}) < len(table.column_names)
        return None if both else table

    def _call(self, block: bytes) -> pa.Table | None:
        from pyarrow import json as arrow_json  # noqa: PLC0415 - slow to import

        wanted = pa.schema([field.with_name(self._names[name]) for name, field in self._fields.items()])
        parse = arrow_json.ParseOptions(explicit_schema=wanted, unexpected_field_behavior="infer")
        read = arrow_json.ReadOptions(use_threads=False, block_size=len(block) + 1)
        try:
            return arrow_json.read_json(pa.BufferReader(block), read_options=read, parse_options=parse)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return None


def _expected(kind: pa.DataType) -> pa.DataType:
    """How JSON holds a type: numbers as they are, all else that is no structure as text."""
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
    """Maps have no fixed names, and base64 is nothing that PyArrow reads."""
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
    """The fields of a line in the structure of their types; of a bad one the column to blame, empty if it is all."""
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
    return "has another structure than the column" if column else "is no JSON object"


def _no_columns(schema: pa.Schema, rows: int) -> pa.RecordBatch:
    """Rows without any field: all null."""
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


def _shaped(value: Any, kind: pa.DataType) -> Any:  # noqa: ANN401 - what JSON holds
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


def _text(value: Any) -> str:  # noqa: ANN401 - what JSON holds
    if isinstance(value, str):
        return str(value)
    return json.dumps(_numbers(value), ensure_ascii=False)


def _numbers(value: Any) -> Any:  # noqa: ANN401 - what JSON holds
    """Numbers as numbers again, inside of what is wanted as text."""
    if isinstance(value, _Digits):
        return json.loads(value)
    if isinstance(value, list):
        return [_numbers(item) for item in value]
    return {key: _numbers(item) for key, item in value.items()} if isinstance(value, dict) else value
