"""listagg: strings joined, blanks skipped, each string once if the option says distinct."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from packstone.rewrite.merge.merge_spec import ColumnAggregate
from packstone.rewrite.merge.merge_versions import Versions
from packstone.rewrite.numpy_columns import to_column

# What Java's Character.isWhitespace says; no-break spaces are none.
_BLANKS = "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f \u1680\u2028\u2029\u205f\u3000" + "".join(
    chr(code)
    for code in range(0x2000, 0x200B)
    if code != 0x2007  # noqa: PLR2004 - the figure space does not break
)


def fold_texts(versions: Versions, column: pa.Array, function: ColumnAggregate, *, removes: bool) -> pa.Array:
    """Join the strings of each merged key, oldest first."""
    result = pa.nulls(versions.count, pa.string())
    for step in versions.steps:
        rows = np.full(versions.count, -1, dtype=np.int64)
        rows[step.keys] = step.rows
        given = column.take(to_column(rows, missing=rows < 0))
        deleted = np.zeros(versions.count, dtype=bool)
        skipped = np.zeros(versions.count, dtype=bool)
        skipped[step.keys] = step.retract
        if removes:
            deleted[step.keys] = step.delete
        keep = pc.or_(to_column(skipped), _is_blank(given))
        joined = pc.if_else(_is_blank(result), given, _join(result, given, function))
        merged = pc.if_else(keep, result, joined)
        result = pc.if_else(to_column(deleted), given, merged)
    return result


def _is_blank(texts: pa.Array) -> pa.Array:
    return pc.equal(pc.utf8_trim(texts, characters=_BLANKS), "").fill_null(fill_value=True)


def _join(left: pa.Array, right: pa.Array, function: ColumnAggregate) -> pa.Array:
    if not function.distinct:
        return pc.binary_join_element_wise(left, right, function.delimiter)
    # Tokens of one string are compared with those of another: there is no column operation for that.
    pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
    return pa.array([None if a is None or b is None else _join_new(a, b, function.delimiter) for a, b in pairs])


def _join_new(held: str, given: str, delimiter: str) -> str:
    separator = delimiter or " "
    seen = set(_tokens(held, separator))
    found = []
    for token in _tokens(given, separator):
        if token.strip(_BLANKS) and token not in seen:
            seen.add(token)
            found.append(token)
    return delimiter.join([held, *found])


def _tokens(text: str, separator: str) -> list[str]:
    """As Java splits: what follows a separator at the very end is no token."""
    parts = text.split(separator)
    return parts[:-1] if parts[-1] == "" else parts
