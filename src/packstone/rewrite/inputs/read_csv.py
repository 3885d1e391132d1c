"""CSV as columns of text, so that the converter sees every field; rows with too few or too many fields are told apart.

An empty field is null, a quoted empty one is an empty text. Empty lines do not count.
"""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from packstone.errors import InvalidInputError
from packstone.rewrite.inputs.bad_rows import BadField, Place
from packstone.rewrite.inputs.convert_rows import InputBatch
from packstone.rewrite.inputs.converted import cast_each
from packstone.rewrite.inputs.input_files import unreadable
from packstone.rewrite.inputs.text_blocks import BLOCK_BYTES, first_line, lines_before, open_text, read_blocks
from packstone.rewrite.numpy_columns import to_column

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packstone.rewrite.inputs.input_files import InputOptions, InputPiece
    from packstone.storage.fileio import FileIO

_KIND: Final = "CSV"


def read_csv(io: FileIO, piece: InputPiece, *, schema: pa.Schema, options: InputOptions) -> Iterator[InputBatch]:
    """Yield the rows of a piece; without a header the columns are the table's."""
    try:
        names = _header(io, piece, options) if options.header else schema.names
        if options.multiline:
            yield from _read_stream(io, piece, names=names, options=options)
        else:
            yield from _CsvLines(io, piece, names=names, options=options).read()
    except (pa.ArrowException, OSError) as error:
        raise unreadable(piece.file.path, _KIND, error) from error


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
        raise unreadable(piece.file.path, _KIND, error) from error
    return [field.strip() for field in fields]


class _CsvLines:
    """Reads blocks of whole lines, each by one call of PyArrow."""

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
        """Lines and rows are as many, or a quoted value holds a line break: then the cut of blocks is luck."""
        if block.count(b"\n") + (not block.endswith(b"\n")) == rows:
            return
        if sum(1 for line in block.splitlines() if line) != rows:
            raise InvalidInputError(
                f"{self._path} has line breaks inside quotes; give --multiline (multiline=True), or close a quote.",
                file=self._path,
            )


def _read_stream(io: FileIO, piece: InputPiece, *, names: list[str], options: InputOptions) -> Iterator[InputBatch]:
    """Read a file whose values may hold line breaks: from its beginning to its end."""
    from pyarrow import csv as arrow_csv  # noqa: PLC0415 - slow to import

    wrong: list[Any] = []
    row = 1
    with open_text(io, piece.file) as file:
        read, parse, convert = _arrow_options(names, options, wrong=wrong, block_bytes=BLOCK_BYTES)
        read.skip_rows = int(options.header)
        parse.newlines_in_values = True
        with arrow_csv.open_csv(file, read_options=read, parse_options=parse, convert_options=convert) as reader:
            for batch in reader:
                # How far PyArrow has parsed ahead is its business, so a wrong row cannot be put in its place.
                place = Place(source=piece.file.path, first_row=row)
                noted = _take(wrong)
                yield _to_input(pa.Table.from_batches([batch]), place, noted, counted_from=int(options.header))
                row += batch.num_rows + len(noted)
    if wrong:  # behind the last row that is right, or there is none
        nothing = pa.table({name: pa.array([], pa.string()) for name in names})
        place = Place(source=piece.file.path, first_row=row)
        yield _to_input(nothing, place, _take(wrong), counted_from=int(options.header))


def _take(wrong: list[Any]) -> list[Any]:
    """Take out what is noted; PyArrow parses ahead in a thread of its own and may note more at any moment."""
    taken = wrong[:]
    del wrong[: len(taken)]
    return taken


def _call(
    block: bytes, names: list[str], options: InputOptions, *, wrong: list[Any], kind: pa.DataType | None = None
) -> pa.Table:
    from pyarrow import csv as arrow_csv  # noqa: PLC0415 - slow to import

    read, parse, convert = _arrow_options(names, options, wrong=wrong, block_bytes=len(block) + 1)
    if kind is not None:
        convert.column_types = dict.fromkeys(names, kind)
    source = pa.BufferReader(block)
    return arrow_csv.read_csv(source, read_options=read, parse_options=parse, convert_options=convert)


def _arrow_options(names: list[str], options: InputOptions, *, wrong: list[Any], block_bytes: int) -> tuple[Any, ...]:
    from pyarrow import csv as arrow_csv  # noqa: PLC0415 - slow to import

    def note(row: Any) -> str:  # noqa: ANN401 - PyArrow's InvalidRow
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
    """Make a batch; PyArrow counts wrong rows from the first row of the batch, or ``counted_from`` so many lines."""
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
        columns, place, no_text = _decode(columns, table.column_names, place)
        unreadable_rows += no_text
    batch = pa.RecordBatch.from_arrays(columns, table.column_names)
    return InputBatch(batch=batch, place=place, unreadable=tuple(unreadable_rows))


def _decode(columns: list[pa.Array], names: list[str], place: Place) -> tuple[list[pa.Array], Place, list[BadField]]:
    """Bytes as text; rows with bytes that are none are left out."""
    decoded = [cast_each(column, lambda part: part.cast(pa.string())) for column in columns]
    good = np.ones(len(columns[0]), dtype=bool)
    found = []
    for name, raw, column in zip(names, columns, decoded, strict=True):
        if column.bad is not None:
            good &= ~column.bad
            for row in np.flatnonzero(column.bad).tolist():
                value = raw[row].as_py().decode(errors="backslashreplace")
                why = "is no valid UTF-8"
                found.append(BadField(source=place.source, row=place.row(row), column=name, value=value, reason=why))
    kept = np.flatnonzero(good).tolist()
    rows = tuple(kept) if place.rows is None else tuple(place.rows[row] for row in kept)
    left = Place(source=place.source, first_row=place.first_row, rows=rows, rows_before=place.rows_before)
    return [column.values.filter(to_column(good)) for column in decoded], left, found
