"""Prove that files without keys were joined: the rows of the outputs are those of the inputs, in their order."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pyarrow as pa

from packstone.errors import VerificationError
from packstone.model.unit import Verify
from packstone.rewrite.data_files.rows import read_rows
from packstone.rewrite.merge.merge_spec import AppendSpec, InputFile, WrittenFile, unpack_schema
from packstone.rewrite.merged_view.check_facts import FileFacts
from packstone.rewrite.merged_view.check_shape import check_shape
from packstone.rewrite.merged_view.read_view import as_input, blame_output
from packstone.rewrite.merged_view.verify_merge import Verified
from packstone.rewrite.proof.check_text import check_text
from packstone.rewrite.proof.fingerprint import Fingerprint
from packstone.rewrite.proof.ordered_digest import digest_batches
from packstone.rewrite.read_ahead import read_ahead

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packstone.storage.fileio import FileIO

_READ_SHARE = 16  # of the memory, a batch; some are decoded ahead
_MOST_BATCH_BYTES = 8 << 20


def verify_append(io: FileIO, spec: AppendSpec, written: tuple[WrittenFile, ...]) -> Verified:
    """Raise VerificationError unless the outputs hold the rows of the inputs in order, and are described right.

    With ``count`` one column is read and rows are counted.
    """
    whole = unpack_schema(spec.arrow_schema)
    schema = whole if spec.verify is Verify.CONTENT else pa.schema([whole.field(0)])
    batch_bytes = min(_MOST_BATCH_BYTES, max(1, spec.memory_bytes // _READ_SHARE))
    began = time.perf_counter()
    before = _digest(spec, _read(io, spec.inputs, schema, batch_bytes=batch_bytes, checks_text=spec.checks_text))
    read = time.perf_counter()
    outputs = tuple(as_input(file, spec.output, schema) for file in written)
    facts = {file.path: FileFacts(schema, ()) for file in written}
    with blame_output():
        for file in written:
            check_shape(io, file, spec.output, schema=whole)
        after = _digest(spec, _read(io, outputs, schema, batch_bytes=batch_bytes, facts=facts))
    for file in written:
        facts[file.path].check(io, file)
    ended = time.perf_counter()
    if before != after:
        raise VerificationError(
            f"The rows written are not those of the {len(spec.inputs)} inputs in their order: {before} expected, "
            f"{after} found."
        )
    return Verified(
        fingerprint_before=before,
        fingerprint_after=after,
        rows=after.rows,
        seconds_before=read - began,
        seconds_after=ended - read,
    )


def _digest(spec: AppendSpec, batches: Iterator[pa.RecordBatch]) -> Fingerprint:
    if spec.verify is Verify.CONTENT:
        return digest_batches(batches)
    return Fingerprint(rows=sum(batch.num_rows for batch in batches), lo=0, hi=0)


def _read(
    io: FileIO,
    files: tuple[InputFile, ...],
    schema: pa.Schema,
    *,
    batch_bytes: int,
    facts: dict[str, FileFacts] | None = None,
    checks_text: bool = False,
) -> Iterator[pa.RecordBatch]:
    for file in files:
        for batch in read_ahead(read_rows(io, file, schema, batch_bytes=batch_bytes)):
            if facts is not None:
                facts[file.path].add(batch)
            if checks_text:
                check_text(batch, file.path)
            yield batch
