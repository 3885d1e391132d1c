"""What a driver decides about a scan: splits that executors read one by one, and a report of what is left out.

A split holds plain values only, so it pickles and travels as JSON (model/codec.py); the filter in it is resolved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packstone.model.sizes import format_bytes
from packstone.rewrite.merge.merge_spec import ColumnSource, InputFile, MergeSpec

if TYPE_CHECKING:
    import pyarrow as pa

    from packstone.pruning.expression import Expression
    from packstone.scan.prune_report import PruneReport


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanFile:
    """Row groups of one Parquet file that may hold matching rows."""

    path: str
    size_bytes: int  # of the whole file; with the path it names a version of the file
    row_groups: tuple[int, ...] = ()  # ascending; none: all that may match by the file's own footer
    row_counts: tuple[int, ...] = ()  # of these row groups, one for one; else one number for the file
    must_match: tuple[int, ...] = ()  # those of them in which every row matches: nobody has to test
    read_bytes: int = 0  # of these row groups
    # Which column of the file each of the table's is; one that is not named has the same name, or none in this file.
    columns: tuple[ColumnSource, ...] = ()
    deleted: str = ""  # positions of rows that are gone, as `pack_positions` writes them

    @property
    def rows(self) -> int:
        """How many rows the row groups have, deleted ones included."""
        return sum(self.row_counts)

    def __str__(self) -> str:
        return f"{self.path} {len(self.row_groups)} row groups {self.rows} rows {format_bytes(self.read_bytes)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """What one task reads: row groups of Parquet files, whole files of any format, or a merge of versions."""

    schema: str  # pack_schema of the columns that come out
    filter: str = ""  # pack_filter of what rows are tested with; empty: all rows come out
    filter_schema: str = ""  # pack_schema of the columns that the filter needs, in the table's types
    files: tuple[ScanFile, ...] = ()
    inputs: tuple[InputFile, ...] = ()
    merge: MergeSpec | None = None  # its output is not used: nothing is written
    read_bytes: int = 0
    rows: int = 0  # in what is read; not all of them need come out

    @property
    def needs_merge(self) -> bool:
        """Whether versions of rows are merged."""
        return self.merge is not None

    def __str__(self) -> str:
        files = self.merge.files if self.merge is not None else (*self.files, *self.inputs)
        what = "merge of " if self.needs_merge else ""
        return f"{what}{len(files)} files {self.rows} rows {format_bytes(self.read_bytes)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanPlan:
    """A scan of one version of a table.

    ``residual`` is what rows of the splits are still tested with (``read_split`` does it); None if all of them match.
    ``unpushed`` are parts of the filter that only Spark can evaluate: ``read_split`` leaves them out, so whoever has no
    Spark must refuse them (``check_pushed``), and who has applies them to what comes out.
    """

    schema: pa.Schema
    splits: tuple[Split, ...]
    report: PruneReport
    residual: Expression | None = None
    unpushed: tuple[Expression, ...] = ()
    needs_merge: bool = False
