"""Files that leave the key columns out (thin mode): there a key is read from the value column that it mirrors.

Whether a file does is told by the file only: tables switch the mode on and off, and other writers have their own way.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from packstone.rewrite.data_files.rows import open_rows
from packstone.rewrite.merge.merge_spec import ColumnSource, InputFile, MergeSpec

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO

_KEY_PREFIX: Final = "_KEY_"


def with_real_keys(io: FileIO, spec: MergeSpec) -> MergeSpec:
    """Look into each file, and let key columns come from where they are."""
    sections = tuple(tuple(tuple(_fit_keys(io, file) for file in run) for run in section) for section in spec.sections)
    return replace(spec, sections=sections)


def _fit_keys(io: FileIO, file: InputFile) -> InputFile:
    names = {column.source for column in file.columns if column.source is not None}
    names |= {name.removeprefix(_KEY_PREFIX) for name in names}
    rows = open_rows(io, file, sorted(names))
    held = set(rows.schema.names)
    rows.close()
    columns = tuple(_fit_key(column, held) for column in file.columns)
    return file if columns == file.columns else replace(file, columns=columns)


def _fit_key(column: ColumnSource, held: set[str]) -> ColumnSource:
    source = column.source
    if source is None or source in held or not source.startswith(_KEY_PREFIX):
        return column
    return replace(column, source=source.removeprefix(_KEY_PREFIX))
