"""Which columns a view is made of: what identifies a row, what orders its versions, and what it says."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from packstone.model.unit import Verify
from packstone.rewrite.merge.merge_spec import KIND_COLUMN, SEQUENCE_COLUMN, MergeSpec, unpack_schema

KEY_PREFIX = "_KEY_"  # a key column mirrors the value column of the same name without it


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The columns of a merge by their part in it.

    A value column that mirrors a key column is compared with it in the outputs and else left out: the key's hash stands
    for both. In the inputs it is not read: if it differed there, it would differ in the outputs.
    With ``count`` nothing else of the values is read than what decides between versions.
    """

    keys: tuple[str, ...]
    mirrors: tuple[tuple[str, str], ...]  # (key column, value column)
    payload: tuple[str, ...]
    sequence: tuple[str, ...]
    schema: pa.Schema  # of everything that is read of an input
    output_schema: pa.Schema  # of everything that is read of an output

    @classmethod
    def of(cls, spec: MergeSpec) -> Layout:
        """Sort the columns of a spec."""
        whole = unpack_schema(spec.arrow_schema)
        system = {*spec.key_columns, SEQUENCE_COLUMN, KIND_COLUMN}
        values = [name for name in whole.names if name not in system]
        mirrors = tuple((key, value) for key in spec.key_columns if (value := mirrored_name(key)) in values)
        mirrored = {value for _, value in mirrors}
        payload = tuple(name for name in values if name not in mirrored)
        needed = {*system, *spec.sequence_columns, *([spec.expiry.column] if spec.expiry else ())}
        if spec.verify is Verify.COUNT:
            mirrors = payload = ()
            written = pa.schema([field for field in whole if field.name in system])
        else:
            needed.update(payload)
            written = whole
        return cls(
            keys=spec.key_columns,
            mirrors=mirrors,
            payload=payload,
            sequence=spec.sequence_columns,
            schema=pa.schema([field for field in whole if field.name in needed]),
            output_schema=written,
        )


def mirrored_name(key_column: str) -> str:
    """Name the value column that holds the same as a key column."""
    return key_column.removeprefix(KEY_PREFIX)
