"""Decode many small Parquet files as one: PyArrow opens one virtual file that has the row groups of all.

Most of the time that PyArrow needs for a file of a few kilobytes goes into opening it and its columns, not into its
values: 0.5 ms for 71 rows of 19 columns, of which three quarters are saved where row groups follow one another in one
file::

    a.parquet  PAR1 pages of a | footer                  PAR1 pages of a, pages of b, pages of c
    b.parquet  PAR1 pages of b | footer        ->        footer: schema of a; the row groups of a, b and c, moved
    c.parquet  PAR1 pages of c | footer

The files of a bundle have the same bytes before and after the row groups of their footers: schema, key-values, writer.
All else that decides how pages are decoded is stated by each column chunk.

**What could go wrong**: a damaged page header may state more rows than its row group. On its own, such a file reads as
if the extra rows were not there; in a bundle they would move the rows of all later files in that column. So the number
of rows must be that of all footers, and the last file is decoded on its own too and must have the same rows as at the
end of the bundle. And a fault in the virtual footer could read one file twice and another not at all, in the merge and
in its proof alike; so PyArrow's reading of that footer must name pages of every file, and no byte twice. A bundle that
fails here, or anywhere, is decoded file by file, which names the broken file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from packstone.errors import CorruptionError, PackstoneError
from packstone.rewrite.blame_file import blame_file
from packstone.rewrite.formats.parquet_batches import is_harmless
from packstone.rewrite.formats.parquet_checks import INT96, MAGIC
from packstone.rewrite.formats.parquet_footer import int96_schema, open_parquet
from packstone.rewrite.formats.parquet_scan import list_head, scan_small_file
from packstone.rewrite.formats.parquet_thrift import write_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from packstone.rewrite.formats.parquet_scan import FooterKind, GroupPlace, ScannedFooter
    from packstone.storage.fileio import FileIO

# What decoders raise for damaged bytes.
DECODING_ERRORS: Final = (
    PackstoneError,
    pa.ArrowException,
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    OSError,
    TypeError,
    ValueError,
)
# The most that the rows of a bundle can take when they are decoded, if every row held every byte.
_MAX_DECODED_BYTES: Final = 64 << 20
_VALUE_BYTES: Final = 12  # of a value with its levels
_RAW_INT96: Final = b"\x15\x0e"  # the field of ColumnMetaData that states the type of twelve raw bytes


@dataclass(slots=True)
class FileBundle:
    """Small files whose footers differ only in their row groups, in their order."""

    paths: list[str]
    footers: list[ScannedFooter]
    _data: pa.Buffer | None = field(default=None, repr=False)
    _metadata: pq.FileMetaData | None = field(default=None, repr=False)

    @property
    def rows(self) -> int:
        """The number of rows that the footers state."""
        return sum(footer.rows for footer in self.footers)

    @property
    def kind(self) -> FooterKind:
        """The kind of its first footer."""
        return self.footers[0].kind

    def open(self, io: FileIO, *, unit: str) -> pq.ParquetFile:
        """Open the virtual file, with INT96 in this unit."""
        if self._metadata is None:
            kind = self.kind
            self._metadata = _parse(self._footer(kind.prefix, kind.suffix, leaves=tuple(range(len(kind.leaves)))))
            self._check_places(self._metadata)
        return self._open(io, self._metadata, coerce_int96_timestamp_unit=unit)

    def open_raw_int96(self, io: FileIO) -> pq.ParquetFile:
        """Open the virtual file with only the fields that hold INT96, as twelve raw bytes."""
        prefix, suffix, leaves = int96_schema(self.kind)
        raw = frozenset(leaf for leaf in leaves if self.kind.leaves[leaf].kind == INT96)
        return self._open(io, _parse(self._footer(prefix, suffix, leaves=leaves, raw=raw)))

    def check_last(self, io: FileIO, rows: pa.Table, *, unit: str) -> None:
        """Raise CorruptionError unless these are the rows of all files, with those of the last one at the end."""
        if rows.num_rows != self.rows:
            raise CorruptionError(f"{len(self.paths)} files hold {rows.num_rows} rows; their footers say {self.rows}.")
        at = max((at for at, footer in enumerate(self.footers) if footer.rows), default=0)
        with open_parquet(io, self.paths[at], coerce_int96_timestamp_unit=unit) as file:
            alone = file.read(use_threads=False)
        count = self.footers[at].rows
        if not _are_equal(rows.slice(rows.num_rows - count), alone):
            raise CorruptionError(f"{self.paths[at]} holds other rows on its own than with other files.")

    def _check_places(self, metadata: pq.FileMetaData) -> None:
        """Raise CorruptionError unless PyArrow finds, for each file, pages among its own bytes, and no byte twice."""
        number, begin = 0, len(MAGIC)
        for path, footer in zip(self.paths, self.footers, strict=True):
            end = begin + footer.data_end - len(MAGIC)
            places = []
            for _ in footer.groups:
                group = metadata.row_group(number)
                number += 1
                for leaf in range(metadata.num_columns):
                    chunk = group.column(leaf)
                    at = chunk.dictionary_page_offset or chunk.data_page_offset  # 0: no dictionary
                    places.append((at, at + chunk.total_compressed_size))
            bounds = [begin, *(bound for place in sorted(places) for bound in place), end]
            if bounds != sorted(bounds):
                raise CorruptionError(f"The pages of {path} are not where the footer of many files says.", file=path)
            begin = end
        if number != metadata.num_row_groups:
            raise CorruptionError(f"{len(self.paths)} files do not have {metadata.num_row_groups} row groups.")

    def close(self) -> None:
        """Release the data."""
        self._data = self._metadata = None

    def _open(self, io: FileIO, metadata: pq.FileMetaData, **options: Any) -> pq.ParquetFile:
        if self._data is None:
            self._data = pa.py_buffer(b"".join(self._pieces(io)))
        return pq.ParquetFile(
            pa.BufferReader(self._data),
            metadata=metadata,
            pre_buffer=False,
            page_checksum_verification=True,
            **options,
        )

    def _pieces(self, io: FileIO) -> Iterable[bytes]:
        yield MAGIC
        for path, footer in zip(self.paths, self.footers, strict=True):
            with blame_file(path, "cannot be read"), io.open_input(path) as source:
                yield source.read_at(footer.data_end - len(MAGIC), len(MAGIC))

    def _footer(
        self, prefix: bytes, suffix: bytes, *, leaves: tuple[int, ...], raw: frozenset[int] = frozenset()
    ) -> bytes:
        """A footer with these leaves of the row groups of all files."""
        shift, groups = 0, []
        for footer in self.footers:
            groups += [_write_group(group, leaves, raw, shift=shift) for group in footer.groups]
            shift += footer.data_end - len(MAGIC)
        rows = b"\x16" + write_number(self.rows)
        return b"".join((prefix, rows, b"\x19", list_head(len(groups)), *groups, suffix))


def find_bundles(io: FileIO, paths: Sequence[str]) -> list[FileBundle | str]:
    """Combine files that follow one another to bundles where that is possible; the others are returned as paths."""
    found: list[FileBundle | str] = []
    room = 0
    for path in paths:
        footer = scan_small_file(io, path)
        cost = sum(_decoded_bytes(group) for group in footer.groups) if footer is not None else 0
        if footer is None or not _can_bundle(footer, cost):
            found.append(path)
            continue
        last = found[-1] if found else None
        if not isinstance(last, FileBundle) or not _read_alike(last.kind, footer.kind) or room < cost:
            last, room = FileBundle([], []), _MAX_DECODED_BYTES
            found.append(last)
        last.paths.append(path)
        last.footers.append(footer)
        room -= cost
    return [one.paths[0] if isinstance(one, FileBundle) and len(one.paths) == 1 else one for one in found]


def _read_alike(kind: FooterKind, other: FooterKind) -> bool:
    """Whether the pages of both are decoded in the same way; codecs and encodings are stated by each chunk."""
    return kind is other or (kind.prefix == other.prefix and kind.suffix == other.suffix)


def _decoded_bytes(group: GroupPlace) -> int:
    return group.rows * group.plain_bytes + _VALUE_BYTES * sum(group.chunks.values)


def _can_bundle(footer: ScannedFooter, decoded_bytes: int) -> bool:
    is_harmless_here = decoded_bytes <= _MAX_DECODED_BYTES and is_harmless(footer)
    return is_harmless_here and footer.is_whole and _is_regular(footer) and _has_plain_types(footer.kind)


def _is_regular(footer: ScannedFooter) -> bool:
    """Whether columns without lists have a value, or a null, for each row; a group without rows may have no pages."""
    flat = footer.kind.remembered.get("flat leaves")
    if flat is None:
        flat = [at for at, leaf in enumerate(footer.kind.leaves) if not leaf.repetition]
        footer.kind.remembered["flat leaves"] = flat
    return all(group.rows > 0 and all(group.chunks.values[at] == group.rows for at in flat) for group in footer.groups)


def _has_plain_types(kind: FooterKind) -> bool:
    """Whether no column becomes an Arrow dictionary, which differs between files."""
    found = kind.remembered.get("plain types")
    if found is None:
        empty = _parse(b"".join((kind.prefix, b"\x16\x00\x19\x0c", kind.suffix)))
        found = kind.remembered["plain types"] = "dictionary<" not in str(empty.schema.to_arrow_schema())
    return bool(found)


def _are_equal(some: pa.Table, others: pa.Table) -> bool:
    if some.equals(others):
        return True
    from packstone.rewrite.proof.ordered_digest import digest_batches  # NaN are not equal, but their bits may be

    return digest_batches(some.to_batches()) == digest_batches(others.to_batches())


def _parse(footer: bytes) -> pq.FileMetaData:
    return pq.read_metadata(pa.BufferReader(MAGIC + footer + len(footer).to_bytes(4, "little") + MAGIC))


def _write_group(group: GroupPlace, leaves: Sequence[int], raw: frozenset[int], *, shift: int) -> bytes:
    """A row group whose pages are ``shift`` bytes farther than in its file."""
    heads, counts, _, _, _, data, dictionaries, statistics = group.chunks[:8]
    parts = [b"\x19", list_head(len(leaves))]
    for leaf in leaves:
        parts += (
            b"\x26\x00\x1c",
            _RAW_INT96 + heads[leaf][2:] if leaf in raw else heads[leaf],
            counts[leaf],
            b"\x26",
            write_number(data[leaf] + shift),
        )
        if dictionaries[leaf]:
            parts += (b"\x26", write_number(dictionaries[leaf] + shift))
        if statistics[leaf] and leaf not in raw:
            parts += (b"\x1c" if dictionaries[leaf] else b"\x3c", statistics[leaf])
        parts.append(b"\x00\x00")
    parts += (b"\x16", write_number(group.plain_bytes), b"\x16", write_number(group.rows), b"\x00")
    return b"".join(parts)
