"""Totals over all rows, as Spark has them; whole numbers and decimals do not overflow on the way.

========  ============================  =================================================
total     type                          of no values
========  ============================  =================================================
count     long                          0
min, max  the column's                  null; NaN is the greatest number
sum       long, double, decimal(p+10)   null; what the type cannot hold is an error
========  ============================  =================================================
"""

from __future__ import annotations

import decimal
from typing import TYPE_CHECKING, Any, Final

from packstone.errors import InvalidInputError
from packstone.service.query_statement import Total

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from packstone.service.query_statement import Output

_MAX_PRECISION: Final = 38
_EXTRA_DIGITS: Final = 10  # of a sum of decimals, as in Spark
_LONG_BITS: Final = 63
_EXACT: Final = decimal.Context(prec=100)  # more digits than any number of rows can make of 38


class Totals:
    """Adds up batch by batch; ``schema`` is that of the one row that comes out."""

    def __init__(self, outputs: Sequence[Output], schema: pa.Schema) -> None:
        import pyarrow as pa  # noqa: PLC0415 - slow to import

        self._outputs = [(output, _place(schema, output)) for output in outputs]
        self.schema = pa.schema([pa.field(output.name, _type(output, schema, at)) for output, at in self._outputs])
        self._found: list[Any] = [0 if output.total is Total.COUNT else None for output in outputs]

    def add_rows(self, count: int) -> None:
        """So many rows of which nothing else is asked."""
        self._found = [found + count for found in self._found]

    def add(self, batch: pa.RecordBatch) -> None:
        """One batch more."""
        for number, (output, at) in enumerate(self._outputs):
            before = self._found[number]
            if at is None:
                self._found[number] = before + batch.num_rows
            elif output.total is Total.COUNT:
                self._found[number] = before + len(batch) - batch.column(at).null_count
            elif output.total is Total.SUM:
                self._found[number] = _plus(before, _sum(batch.column(at)))
            else:
                self._found[number] = _extreme(before, batch.column(at), is_max=output.total is Total.MAX)

    def result(self) -> pa.RecordBatch:
        """The one row of the answer."""
        import pyarrow as pa  # noqa: PLC0415 - slow to import

        arrays = []
        for found, field in zip(self._found, self.schema, strict=True):
            if isinstance(found, pa.Scalar):
                arrays.append(pa.repeat(found, 1))
            else:
                _check_fits(found, field)
                arrays.append(pa.array([found], field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def find_column(schema: pa.Schema, name: str) -> int:
    """The place of a column; case does not count, as in Spark."""
    for at, known in enumerate(schema.names):
        if known.lower() == name.lower():
            return at
    raise InvalidInputError(f"The table has no column {name!r}.", column=name)


def _place(schema: pa.Schema, output: Output) -> int | None:
    return None if output.column is None else find_column(schema, output.column)


def _type(output: Output, schema: pa.Schema, at: int | None) -> pa.DataType:
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    if output.total is Total.COUNT or at is None:
        return pa.int64()
    kind = schema.field(at).type
    if output.total is not Total.SUM:
        if pa.types.is_nested(kind):
            raise InvalidInputError(f"{output.total} of the column {output.column!r}, which is {kind}, has no meaning.")
        return kind
    if pa.types.is_integer(kind):
        return pa.int64()
    if pa.types.is_floating(kind):
        return pa.float64()
    if pa.types.is_decimal(kind):
        return pa.decimal128(min(kind.precision + _EXTRA_DIGITS, _MAX_PRECISION), kind.scale)
    raise InvalidInputError(f"The column {output.column!r} is {kind}; only numbers can be summed.")


def _plus(before: Any, more: Any) -> Any:  # noqa: ANN401 - numbers of one kind, or None
    if before is None or more is None:
        return more if before is None else before
    return _EXACT.add(before, more) if isinstance(more, decimal.Decimal) else before + more


def _sum(column: pa.Array) -> Any:  # noqa: ANN401 - a number, or None
    import pyarrow as pa  # noqa: PLC0415 - slow to import
    import pyarrow.compute as pc  # noqa: PLC0415 - slow to import

    values = column.drop_null()
    if not len(values):
        return None
    if pa.types.is_int64(values.type):
        # The halves of 64 bits apart: a batch of longs may not fit in a long.
        numbers = values.to_numpy()
        return (int((numbers >> 32).sum()) << 32) + int((numbers & 0xFFFFFFFF).sum())
    if pa.types.is_decimal(values.type):
        values = values.cast(pa.decimal256(values.type.precision + _EXTRA_DIGITS, values.type.scale))
    elif pa.types.is_floating(values.type):
        values = values.cast(pa.float64())
    return pc.sum(values).as_py()


def _extreme(before: pa.Scalar | None, column: pa.Array, *, is_max: bool) -> pa.Scalar | None:
    import pyarrow as pa  # noqa: PLC0415 - slow to import
    import pyarrow.compute as pc  # noqa: PLC0415 - slow to import

    values = column.drop_null()
    if before is not None:
        values = pa.concat_arrays([values, pa.repeat(before, 1)])
    if not len(values):
        return None
    if pa.types.is_floating(values.type):
        numbers = values.filter(pc.invert(pc.is_nan(values)))
        if len(numbers) < len(values) and (is_max or not len(numbers)):
            return pa.scalar(float("nan"), values.type)
        values = numbers
    return pc.max(values) if is_max else pc.min(values)


def _check_fits(found: Any, field: pa.Field) -> None:  # noqa: ANN401 - a number, or None
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    if isinstance(found, int):
        fits = -(1 << _LONG_BITS) <= found < 1 << _LONG_BITS
    elif isinstance(found, decimal.Decimal) and pa.types.is_decimal(field.type):
        fits = found.adjusted() < field.type.precision - field.type.scale
    else:
        fits = True
    if not fits:
        raise InvalidInputError(f"{field.name} is {found}, which a {field.type} cannot hold.")
