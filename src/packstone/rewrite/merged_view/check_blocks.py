"""What an index will say of the row groups of a written file, held against the rows read back from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from packstone.errors import VerificationError
from packstone.rewrite.merged_view.check_facts import is_same, range_of, to_plain
from packstone.rewrite.merged_view.order_codes import find_disorder
from packstone.rewrite.ordered.block_facts import is_bytes, part_schema, read_part
from packstone.rewrite.ordered.ordered_spec import WrittenBlockFile

if TYPE_CHECKING:
    from collections.abc import Sequence

_CUT_BYTES = 256


class BlockCheck:
    """The row groups of one file, batch by batch in their order; rows of some of the columns will do."""

    def __init__(
        self, file: WrittenBlockFile, schema: pa.Schema, *, sort_columns: Sequence[str], seen: Sequence[str]
    ) -> None:
        self._file, self._sort_columns = file, tuple(sort_columns)
        self._part = read_part(file.part)
        if self._part.schema != part_schema(schema, sort_columns):
            raise _wrong(file, "its part of the index has other columns than the file")
        self._columns = {name: _Range(schema.field(name).type) for name in seen}
        self._group, self._rows = 0, 0

    @property
    def groups(self) -> int:
        """How many row groups are recorded."""
        return int(self._part.num_rows)

    def add(self, batch: pa.RecordBatch) -> None:
        """Take in the next rows of the present row group."""
        if not self._rows:
            self._check_edge("start", batch.slice(0, 1))
        self._rows += batch.num_rows
        for name, column in self._columns.items():
            column.add(batch.column(name))
        if self._rows == self._recorded("rows"):
            self._check_edge("end", batch.slice(batch.num_rows - 1))

    def end_group(self) -> None:
        """Compare what is recorded of the row group that has ended."""
        self._expect("number of rows", self._recorded("rows"), self._rows)
        self._expect("number of the row group", self._recorded("row_group"), self._group)
        for name, column in self._columns.items():
            if f"nulls.{name}" in self._part.schema.names:
                self._check_column(name, column)
            self._columns[name] = _Range(column.kind)
        self._group, self._rows = self._group + 1, 0

    def _check_edge(self, edge: str, row: pa.RecordBatch) -> None:
        for name in self._sort_columns:
            self._expect(f"{edge} of {name}", self._recorded(f"{edge}.{name}"), to_plain(row.column(name)[0]))

    def _check_column(self, name: str, column: _Range) -> None:
        low, high = self._recorded(f"min.{name}"), self._recorded(f"max.{name}")
        self._expect(f"number of nulls of {name}", self._recorded(f"nulls.{name}"), column.null_count)
        if types.is_floating(column.kind):
            self._expect(f"presence of NaN in {name}", self._recorded(f"nan.{name}"), column.has_nan)
        if not is_bytes(column.kind):
            self._expect(f"smallest value of {name}", low, column.low)
            self._expect(f"largest value of {name}", high, column.high)
            return
        longest = max(len(bound or b"") for bound in (column.low, column.high))
        self._expect(f"exactness of {name}", self._recorded(f"exact.{name}"), longest <= _CUT_BYTES)
        if longest <= _CUT_BYTES:
            self._expect(f"smallest value of {name}", low, column.low)
            self._expect(f"largest value of {name}", high, column.high)
        elif low != column.low[:_CUT_BYTES] or (high is not None and (high < column.high or len(high) > _CUT_BYTES)):
            raise _wrong(self._file, f"the bounds of {name} in row group {self._group} do not hold its values")

    def _recorded(self, name: str) -> Any:  # noqa: ANN401 - a value of the column
        return to_plain(self._part.column(name)[self._group])

    def _expect(self, what: str, recorded: object, found: object) -> None:
        if not is_same(recorded, found):
            raise _wrong(
                self._file, f"the {what} in row group {self._group} is {found!r}, but {recorded!r} was recorded"
            )


class _Range:
    """Nulls, NaN, smallest and largest value of a column."""

    def __init__(self, kind: pa.DataType) -> None:
        self.kind = kind
        self.null_count = 0
        self.has_nan = False
        self._low: Any = None
        self._high: Any = None

    def add(self, array: pa.Array) -> None:
        self.null_count += array.null_count
        low, high = range_of(array)
        if low is not None:
            self._low = low if self._low is None else min(self._low, low)
            self._high = high if self._high is None else max(self._high, high)
        if types.is_floating(self.kind) and not self.has_nan:
            self.has_nan = bool(pc.any(pc.is_nan(array)).as_py())

    @property
    def low(self) -> Any:  # noqa: ANN401 - a value of the column
        return -0.0 if isinstance(self._low, float) and self._low == 0 else self._low

    @property
    def high(self) -> Any:  # noqa: ANN401 - a value of the column
        return 0.0 if isinstance(self._high, float) and self._high == 0 else self._high


def check_order(file: WrittenBlockFile, keys: list[pa.Array], last: list[pa.Array] | None) -> None:
    """Raise unless rows are in order, and not below the last one before them."""
    joint = None if last is None else [pa.concat_arrays([a, b.slice(0, 1)]) for a, b in zip(last, keys, strict=True)]
    for rows in (joint, keys):
        at = None if rows is None else find_disorder(rows, may_repeat=True)
        if rows is not None and at is not None:
            pair = [tuple(column[place].as_py() for column in rows) for place in (at, at + 1)]
            raise _wrong(file, f"{pair[0]} stands before {pair[1]}")


def _wrong(file: WrittenBlockFile, what: str) -> VerificationError:
    return VerificationError(f"{file.path}: {what}.", file=file.path)
