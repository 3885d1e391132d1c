"""What bloom filters leave of the row groups of a planned scan; only for who wants it explained.

Tasks ask the filters when they read. To tell beforehand what they will find out, they are asked here too, which reads
footers and filters but no row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from packstone.scan.bloom_test import asked_columns
from packstone.scan.prune_report import PruneLevel
from packstone.scan.scanned_file import ScannedFile

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from packstone.scan.caches import ScanCaches
    from packstone.scan.scan_plan import ScanFile
    from packstone.scan.scan_request import ScanRequest
    from packstone.storage.fileio import FileIO

_MOST_GROUPS: Final = 10_000


def explain_blooms(
    io: FileIO, files: Sequence[ScanFile], request: ScanRequest, *, columns: Collection[str], caches: ScanCaches
) -> PruneLevel | None:
    """The level of the bloom filters of these columns; None if the filter asks none of them."""
    expression = request.expression
    asked = sorted(asked_columns(expression, columns)) if expression is not None else []
    if expression is None or not asked:
        return None
    total = sum(len(file.row_groups) for file in files)
    names = ", ".join(asked)
    if total > _MOST_GROUPS:
        return PruneLevel(name="bloom filters", total=total, kept=total, how=f"of {names}: too many to ask here")
    kept = 0
    for file in files:
        opened = ScannedFile(io, file, request.filter_schema.names, caches=caches)
        try:
            groups = opened.ask_bloom_filters(
                expression, request.filter_schema, groups=file.row_groups, sure=frozenset(file.must_match)
            )
        finally:
            opened.close()
        kept += len(groups)
    return PruneLevel(name="bloom filters", total=total, kept=kept, how=f"of {names}")
