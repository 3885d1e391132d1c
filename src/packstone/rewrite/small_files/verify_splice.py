"""Prove a file that was made by copying pages: by the bytes of copied pages, by the rows of the other columns.

For each copied column, the proof is a digest of the bytes of its chunks (page headers and bodies, one after another,
wherever the chunk boundaries are) and the number of values that the footers state. Inputs and output are opened again,
and PyArrow, which had no part in writing the output's footer, reads the offsets of the chunks from the footers. Columns
that were encoded again are decoded on both sides, and their rows are digested in order.

Equal bytes under equal schemas decode to equal values, but this does not prove that they can be decoded. So the
copied columns of the *output* are also decoded completely, with their checksums: this shows that a reader gets the
number of rows that the footer states, and it finds a page that was already damaged in an input. Such a page would make
the whole merged file unreadable; then the input it came from is found and reported. The values decoded here are not
digested: that would only repeat what the bytes prove.

The fingerprint can be computed again from the originals or from the output, given the numbers of the copied columns,
which are recorded with it.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from packstone.errors import UnreadableFileError, VerificationError
from packstone.rewrite.data_files.batches import read_ahead
from packstone.rewrite.formats.parquet_footer import open_parquet
from packstone.rewrite.proof.fingerprint import Fingerprint
from packstone.rewrite.proof.ordered_digest import digest_batches
from packstone.rewrite.proof.verify_files import all_rows
from packstone.rewrite.small_files.spliced_file import copied_fields, encoded_fields

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    import pyarrow.parquet as pq

    from packstone.storage.fileio import FileIO

_DIGEST_BYTES = 16


def fingerprint_splice(
    io: FileIO, paths: Sequence[str], *, copied: Sequence[int], checks_text: bool = False
) -> Fingerprint:
    """Fingerprint files of which some columns were copied, page by page, and the others encoded again."""
    chunks = _Chunks(io, copied)
    with open_parquet(io, paths[0]) as first:
        fields = list(encoded_fields(first, copied))
    if fields:
        rows = digest_batches(
            read_ahead(all_rows(io, paths, columns=fields, on_open=chunks.add, checks_text=checks_text))
        )
    else:
        for path in paths:
            with open_parquet(io, path) as file:
                chunks.add(file, path)
        rows = Fingerprint(rows=chunks.rows, lo=0, hi=0)
    whole = hashlib.sha256(chunks.digest() + str(rows).encode()).digest()[:_DIGEST_BYTES]
    return Fingerprint(rows=rows.rows, lo=int.from_bytes(whole[:8], "little"), hi=int.from_bytes(whole[8:], "little"))


def check_readable(
    io: FileIO, output: str, inputs: Sequence[str], *, copied: Sequence[int], checks_text: bool = False
) -> None:
    """Decode the copied columns of the output; if that fails, raise for the input that cannot be decoded either."""
    try:
        _decode(io, output, copied, checks_text=checks_text)
    except UnreadableFileError as error:
        for path in inputs:
            _decode(io, path, copied, checks_text=checks_text)
        raise VerificationError(f"The output cannot be read back: {error.message}", file=output) from error


class _Chunks:
    """Counts the values and digests the bytes of each copied column's chunks, over all files."""

    def __init__(self, io: FileIO, copied: Sequence[int]) -> None:
        self._io, self._copied = io, copied
        self._digests = [hashlib.sha256() for _ in copied]
        self._values = [0] * len(copied)
        self.rows = 0

    def add(self, file: pq.ParquetFile, path: str) -> None:
        """Add the next file."""
        _check_columns(file, self._copied, path)
        metadata = file.metadata
        self.rows += metadata.num_rows
        with self._io.open_input(path) as source:
            for number in range(metadata.num_row_groups):
                group = metadata.row_group(number)
                for at, leaf in enumerate(self._copied if group.num_rows else ()):
                    chunk = group.column(leaf)
                    self._digests[at].update(_chunk_bytes(source, chunk, path))
                    self._values[at] += chunk.num_values

    def digest(self) -> bytes:
        """Concatenate the digests, in the order of the columns."""
        return b"".join(
            leaf.to_bytes(4, "little") + values.to_bytes(8, "little") + digest.digest()
            for leaf, values, digest in zip(self._copied, self._values, self._digests, strict=True)
        )


def _check_columns(file: pq.ParquetFile, copied: Sequence[int], path: str) -> None:
    if max(copied, default=0) >= file.metadata.num_columns:
        raise VerificationError(f"{path} has fewer columns than were copied.", file=path)


def _chunk_bytes(source: pa.NativeFile, chunk: pq.ColumnChunkMetaData, path: str) -> pa.Buffer:
    source.seek(chunk.dictionary_page_offset if chunk.has_dictionary_page else chunk.data_page_offset)
    data = source.read_buffer(chunk.total_compressed_size)
    if data.size < chunk.total_compressed_size:
        raise UnreadableFileError(f"{path} ends before the last page that its footer lists.", file=path)
    return data


def _decode(io: FileIO, path: str, copied: Sequence[int], *, checks_text: bool) -> None:
    with open_parquet(io, path) as file:
        _check_columns(file, copied, path)
        fields = copied_fields(file, copied)
    if not fields:
        return
    for _ in all_rows(io, [path], columns=list(fields), checks_text=checks_text):
        pass
