"""Explain from the footers why a merged Parquet file is bigger than its inputs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from packstone.model.sizes import format_bytes
from packstone.model.unit import is_notably_bigger
from packstone.rewrite.parquet.footer import open_parquet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packstone.storage.fileio import FileIO

_NAMED_COLUMNS: Final = 3  # the ones that grew most


@dataclass(slots=True)
class _Columns:
    """What the columns of one file, or of many, take."""

    size_bytes: Counter[str] = field(default_factory=Counter)
    coded: set[str] = field(default_factory=set)  # the columns with a dictionary
    file_bytes: int = 0


def describe_growth(
    io: FileIO, inputs: Sequence[tuple[str, str]], outputs: Sequence[tuple[str, int]], *, input_bytes: int
) -> str:
    """Explain outputs (path, bytes) that are notably bigger than their inputs (path, format); empty for any others."""
    output_bytes = sum(size_bytes for _, size_bytes in outputs)
    if not is_notably_bigger(input_bytes, output_bytes):
        return ""
    is_parquet = all(form == "parquet" for _, form in inputs) and all(path.endswith(".parquet") for path, _ in outputs)
    reason = explain_growth(io, [path for path, _ in inputs], [path for path, _ in outputs]) if is_parquet else ""
    return growth_sentence(len(inputs), input_bytes, len(outputs), output_bytes=output_bytes, reason=reason)


def growth_sentence(files: int, input_bytes: int, outputs: int, *, output_bytes: int, reason: str) -> str:
    """Say by how much the inputs grew, and why."""
    grown_pct = output_bytes * 100 / max(1, input_bytes) - 100
    return (
        f"{files} files of {format_bytes(input_bytes)} became {'one' if outputs == 1 else outputs} of "
        f"{format_bytes(output_bytes)} (+{grown_pct:.1f} %): {reason or 'they were compressed better by their writer'}"
    )


def explain_growth(io: FileIO, inputs: Sequence[str], outputs: Sequence[str]) -> str:
    """Name the columns that grew most and why; all footers are read again, so ask only if the files did grow."""
    before, after = _survey(io, inputs), _survey(io, outputs)
    grown = after.size_bytes.copy()
    grown.subtract(before.size_bytes)
    named = [(path, more) for path, more in grown.most_common(_NAMED_COLUMNS) if more > 0]
    reasons = [f"column {path} takes {format_bytes(more)} more, {_reason(path, before, after)}" for path, more in named]
    rest = (after.file_bytes - after.size_bytes.total()) - (before.file_bytes - before.size_bytes.total())
    if rest > 0:
        reasons.append(f"footer, indexes and bloom filters take {format_bytes(rest)} more")
    return "; ".join(reasons)


def _survey(io: FileIO, paths: Sequence[str]) -> _Columns:
    found = _Columns()
    for path in paths:
        status = io.stat(path)
        found.file_bytes += 0 if status is None else status.size_bytes
        with open_parquet(io, path) as file:
            groups = [file.metadata.row_group(at) for at in range(file.metadata.num_row_groups)]
        for chunk in (group.column(at) for group in groups for at in range(group.num_columns)):
            found.size_bytes[chunk.path_in_schema] += chunk.total_compressed_size
            if any("DICTIONARY" in encoding for encoding in chunk.encodings):
                found.coded.add(chunk.path_in_schema)
    return found


def _reason(path: str, before: _Columns, after: _Columns) -> str:
    if path in after.coded and path in before.coded:
        return "because its values repeat within the files more than across them, and one dictionary has longer codes"
    if path in before.coded:
        return "because one dictionary for the values of all files would be too big"
    if path in after.coded:
        return "because it was given a dictionary by a sample of its rows, which differ from the others"
    return "because it was compressed less well than by its writer"
