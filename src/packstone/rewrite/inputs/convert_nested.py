"""Lists, maps and structs: their elements are converted, and a bad element makes its row bad."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from packstone.rewrite.inputs.converted import Converted, NoConversionError, keep_good, not_null
from packstone.rewrite.numpy_columns import to_column

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from packstone.rewrite.inputs.converted import Mask

    ConvertChild: TypeAlias = Callable[[pa.Array, pa.DataType], Converted]


def convert_list(array: pa.Array, target: pa.DataType, convert: ConvertChild) -> Converted:
    """Any kind of list to a list."""
    kind = array.type
    if not (pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind)):
        raise NoConversionError
    array = array.cast(pa.list_(kind.value_type))
    offsets, parents = _layout(array)
    element = convert(array.flatten(), target.value_type)
    bad = _with_nulls(element, nullable=target.value_field.nullable)
    values = pa.ListArray.from_arrays(offsets, element.values, type=target, mask=array.is_null())
    return _whole(array, values, parents[bad])


def convert_map(array: pa.Array, target: pa.DataType, convert: ConvertChild) -> Converted:
    """A map, or a list of pairs, to a map."""
    kind = array.type
    if pt.is_large_list(kind):
        array, kind = array.cast(pa.list_(kind.value_type)), pa.list_(kind.value_type)
    if not pt.is_map(kind) and not (pt.is_list(kind) and _is_pair(kind.value_type)):
        raise NoConversionError
    offsets, parents = _layout(array)
    if pt.is_map(kind):
        # PyArrow flattens lists, not maps: take the elements of the rows that are there.
        first = array.offsets.to_numpy()[:-1] - offsets.to_numpy()[:-1]
        chosen = to_column(first[parents] + np.arange(len(parents)))
        keys, items = array.keys.take(chosen), array.items.take(chosen)
    else:
        keys, items = array.flatten().flatten()
    key, item = convert(keys, target.key_type), convert(items, target.item_type)
    bad = _with_nulls(key, nullable=False) | _with_nulls(item, nullable=target.item_field.nullable)
    key_values, item_values = key.values, item.values
    if len(bad) and bad.all():  # no element is left, so a row is empty, null or bad
        offsets, key_values, item_values = to_column(np.zeros_like(offsets)), key_values[:0], item_values[:0]
    elif key_values.null_count:  # Arrow refuses a null key even in a row that is left out below
        key_values = pc.coalesce(key_values, pc.drop_null(key_values)[0])
    values = pa.MapArray.from_arrays(offsets, key_values, item_values, type=target, mask=array.is_null())
    return _whole(array, values, parents[bad])


def convert_struct(array: pa.Array, target: pa.DataType, convert: ConvertChild) -> Converted:
    """A struct to a struct, field by field by their names; a field that it has not is null."""
    kind = array.type
    if not pt.is_struct(kind):
        raise NoConversionError
    at_of = {kind.field(at).name.lower(): at for at in range(kind.num_fields)}
    wanted = {target.field(at).name.lower() for at in range(target.num_fields)}
    if len(at_of) < kind.num_fields or not at_of.keys() <= wanted:
        raise NoConversionError
    children, present = array.flatten(), not_null(array)
    bad = np.zeros(len(array), dtype=bool)
    values = []
    for at in range(target.num_fields):
        field = target.field(at)
        found = at_of.get(field.name.lower())
        source = pa.nulls(len(array)) if found is None else children[found]
        child = convert(source, field.type)
        bad |= _with_nulls(child, nullable=field.nullable) & present
        values.append(child.values)
    made = pa.StructArray.from_arrays(values, fields=list(target), mask=array.is_null())
    return _whole(array, made, np.flatnonzero(bad))


def _is_pair(kind: pa.DataType) -> bool:
    return bool(pt.is_struct(kind)) and kind.num_fields == 2  # noqa: PLR2004 - a key and a value


def _layout(array: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """Offsets without gaps, and the row of each element."""
    lengths = np.where(not_null(array), np.diff(array.offsets.to_numpy()), 0)  # a null may stand over elements
    offsets = np.zeros(len(array) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return to_column(offsets), np.repeat(np.arange(len(array)), lengths)


def _with_nulls(child: Converted, *, nullable: bool) -> Mask:
    bad = np.zeros(len(child.values), dtype=bool) if child.bad is None else child.bad
    return bad if nullable else bad | ~not_null(child.values)


def _whole(array: pa.Array, values: pa.Array, bad_rows: np.ndarray) -> Converted:
    bad = np.zeros(len(array), dtype=bool)
    bad[bad_rows] = True
    return Converted.of(keep_good(values, ~bad) if bad.any() else values, bad)
