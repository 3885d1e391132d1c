"""Parquet files are merged if they can be written back identically."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packstone.errors import UnfaithfulError
from packstone.rewrite.parquet.footer import read_footer_facts
from packstone.rewrite.parquet.writer import why_unfaithful

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO
    from packstone.tables.hive.file_verdict import FileFacts, LookedAt

_REMEMBERED = 10_000
_UNFAITHFUL: dict[tuple[str, str], str] = {}


def parquet_facts(look: LookedAt) -> FileFacts:
    """Files that agree in schema, codec and their writer's semantics are merged."""
    try:
        footer = read_footer_facts(look.io, look.path, codec=look.codec)
    except UnfaithfulError as error:
        return look.left_alone(error.message)
    unfaithful = _why_unfaithful(look.io, look.path, agreement=footer.agreement, codec=look.codec)
    if unfaithful:
        return look.left_alone(f"it cannot be written back identically: {unfaithful}")
    written = footer.codec if look.codec == "keep" else look.codec
    shared = f"schema={footer.columns} codec={written} {footer.agreement}"
    return look.mergeable(shared, rows=footer.rows, codec=footer.codec)


def _why_unfaithful(io: FileIO, path: str, *, agreement: str, codec: str) -> str:
    """Ask once for all files that agree; the answer depends on nothing else."""
    key = (agreement, codec)
    if key not in _UNFAITHFUL:
        if len(_UNFAITHFUL) >= _REMEMBERED:
            _UNFAITHFUL.clear()
        _UNFAITHFUL[key] = why_unfaithful(io, path, codec=codec)
    return _UNFAITHFUL[key]
