"""A digest of all rows in their order, at the speed of the machine's SHA instructions.

A merge that keeps the order of its rows can be proved by a digest that depends on the order: stronger than a multiset
fingerprint (it covers the order too) and three to four times as fast, because each column's bytes go through one native
hash in long runs instead of a dozen vector operations per value. Where rows are sorted again, ``fingerprint`` is used.

The digest must not depend on how the rows are split into batches, so only what is independent of it is hashed, for each
column (and each child of a nested one) with its own hashers:

- the positions of the nulls, as row numbers from the start (nothing if there are none);
- the bytes of the values that are not null, one after another (bits of booleans as bytes);
- for strings, binaries, lists and maps the lengths, separately from their content: ["ab", "c"] is not ["a", "bc"].

Bytes in the slots of nulls never count. -0.0 and 0.0 differ, and so do two NaN of different bits: a rewrite keeps bits.
Types and names are compared elsewhere, as schemas.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow import types

from packstone.errors import UnfaithfulError
from packstone.rewrite.proof.fingerprint import Fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterable

_DIGEST_BYTES = 16


def digest_batches(batches: Iterable[pa.RecordBatch]) -> Fingerprint:
    """Digest the rows of all batches, in order."""
    columns: list[_Column] = []
    rows = 0
    for batch in batches:
        if not columns:
            columns = [_Column() for _ in range(batch.num_columns)]
        for column, array in zip(columns, batch.columns, strict=True):
            column.update(array)
        rows += batch.num_rows
    whole = hashlib.sha256(rows.to_bytes(8, "little"))
    # No rows, no columns: files without a single batch and files with empty ones must agree.
    for column in columns if rows else ():
        column.finish(whole)
    digest = whole.digest()[:_DIGEST_BYTES]
    return Fingerprint(rows=rows, lo=int.from_bytes(digest[:8], "little"), hi=int.from_bytes(digest[8:], "little"))


class _Column:
    """The hashers of one column, or of one child of a nested column."""

    __slots__ = ("_children", "_lengths", "_nulls", "_rows", "_values")

    def __init__(self) -> None:
        self._rows = 0
        self._nulls, self._values, self._lengths = hashlib.sha256(), hashlib.sha256(), hashlib.sha256()
        self._children: list[_Column] = []

    def update(self, array: pa.Array) -> None:
        """Add the next values."""
        array = _plain(array)
        rows = len(array)
        if array.null_count:
            places = np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False)) + self._rows
            self._nulls.update(places.astype("<i8").tobytes())
            array = array.drop_null() if not types.is_struct(array.type) else array
        self._rows += rows
        self._take(array)

    def finish(self, whole: Any) -> None:
        """Add everything to one hash, in a fixed order."""
        whole.update(self._rows.to_bytes(8, "little"))
        for part in (self._nulls, self._values, self._lengths):
            whole.update(part.digest())
        whole.update(len(self._children).to_bytes(4, "little"))
        for child in self._children:
            child.finish(whole)

    def _take(self, array: pa.Array) -> None:
        """Hash values without nulls (a struct still has its nulls: its children carry them)."""
        kind = array.type
        if types.is_null(kind) or not len(array):
            return
        if types.is_boolean(kind):
            self._values.update(array.cast(pa.uint8()).to_numpy())
        elif types.is_struct(kind):
            self._pass_on(array.flatten())
        elif types.is_map(kind):
            self._take_lists(array.offsets, (array.keys, array.items))
        elif types.is_list(kind) or types.is_large_list(kind):
            self._take_lists(array.offsets, (array.values,))
        elif types.is_fixed_size_list(kind):
            self._pass_on([array.flatten()])
        elif (
            types.is_string(kind) or types.is_binary(kind) or types.is_large_string(kind) or types.is_large_binary(kind)
        ):
            self._take_bytes(array)
        else:
            width_bytes = kind.bit_width // 8
            begin = array.offset * width_bytes
            self._values.update(memoryview(array.buffers()[1])[begin : begin + len(array) * width_bytes])

    def _take_lists(self, offsets: pa.Array, contents: tuple[pa.Array, ...]) -> None:
        places = offsets.to_numpy()
        self._lengths.update(np.diff(places).astype("<u4").tobytes())
        begin, end = int(places[0]), int(places[-1])
        self._pass_on([content.slice(begin, end - begin) for content in contents])

    def _take_bytes(self, array: pa.Array) -> None:
        is_large = types.is_large_string(array.type) or types.is_large_binary(array.type)
        _, offsets, data = array.buffers()
        width_bytes = 8 if is_large else 4
        places = np.frombuffer(
            offsets, dtype=f"<i{width_bytes}", count=len(array) + 1, offset=array.offset * width_bytes
        )
        self._lengths.update(np.diff(places).astype("<u4").tobytes())
        if data is not None:
            self._values.update(memoryview(data)[int(places[0]) : int(places[-1])])

    def _pass_on(self, arrays: list[pa.Array]) -> None:
        if not self._children:
            self._children = [_Column() for _ in arrays]
        for child, array in zip(self._children, arrays, strict=True):
            child.update(array)


def _plain(array: pa.Array) -> pa.Array:
    """Decode dictionaries, views, run-end encoding and extension types."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return _plain(array.storage)
    if types.is_dictionary(kind):
        return _plain(array.dictionary_decode())
    if types.is_run_end_encoded(kind):
        return _plain(pa.compute.run_end_decode(array))
    if types.is_string_view(kind) or types.is_binary_view(kind):
        return array.cast(pa.large_binary())
    if types.is_list_view(kind) or types.is_large_list_view(kind):
        return array.cast(pa.large_list(kind.value_type))
    if types.is_union(kind):
        raise UnfaithfulError("it has a union column, which cannot be verified")
    return array
