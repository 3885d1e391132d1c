"""Parquet: pages copied where that can be done, else decoded and encoded again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from packstone.model.unit import How
from packstone.rewrite.kernels.merge_kernel import Written
from packstone.rewrite.parquet import rewrite as parquet_rewrite
from packstone.rewrite.parquet import verify_splice
from packstone.rewrite.parquet.footer import open_parquet
from packstone.rewrite.parquet.growth import explain_growth
from packstone.rewrite.parquet.splice import splice_parquet
from packstone.rewrite.parquet.splice_plan import CannotSpliceError
from packstone.rewrite.proof import verify

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packstone.model.unit import UnitSpec
    from packstone.rewrite.proof.fingerprint import Fingerprint
    from packstone.storage.fileio import FileIO


def write(io: FileIO, paths: Sequence[str], output: str, *, spec: UnitSpec) -> Written:
    """Write the output: copy pages where that can be done and is asked for by nothing but speed."""
    if spec.codec == "keep":
        try:
            plan = splice_parquet(io, paths, output)
            done = Written(how=How.SPLICE, ordered=True, copied=plan.copied, checks_text=spec.checks_text)
            return _explain_size(io, paths, output, spec=spec, done=done)
        except CannotSpliceError:
            io.remove(output)
    ordered = parquet_rewrite.rewrite_parquet(io, paths, output, codec=spec.codec)
    done = Written(how=How.REWRITE, ordered=ordered, checks_text=spec.checks_text)
    return _explain_size(io, paths, output, spec=spec, done=done)


def _explain_size(io: FileIO, paths: Sequence[str], output: str, *, spec: UnitSpec, done: Written) -> Written:
    found = io.stat(output)
    if spec.codec != "keep" or found is None or not spec.is_bigger(found.size_bytes):
        return done
    return replace(done, why_bigger=explain_growth(io, paths, (output,)))


def check_readable(io: FileIO, paths: Sequence[str], output: str, *, written: Written) -> None:
    """Decode what was copied without being decoded: it may have been broken before."""
    if written.how is How.SPLICE:
        verify_splice.check_readable(io, output, paths, copied=written.copied, checks_text=written.checks_text)


def count(io: FileIO, paths: Sequence[str], *, written: Written) -> int:  # noqa: ARG001 - the same however written
    """Add up what the footers state."""
    return verify.count_parquet(io, paths)


def fingerprint(io: FileIO, paths: Sequence[str], *, written: Written) -> Fingerprint:
    """Fingerprint the rows; of a splice, the bytes of what was copied."""
    if written.how is How.SPLICE:
        return verify_splice.fingerprint_splice(io, paths, copied=written.copied, checks_text=written.checks_text)
    return verify.fingerprint_parquet(io, paths, ordered=written.ordered, checks_text=written.checks_text)


def check_same_shape(io: FileIO, paths: Sequence[str], output: str, *, written: Written) -> None:  # noqa: ARG001
    """Compare schema trees and key-value metadata."""
    verify.check_same_parquet_shape(io, paths, output)


def read_through(io: FileIO, path: str) -> None:
    """Decode all columns."""
    with open_parquet(io, path) as file:
        for _ in file.iter_batches(use_threads=False):
            pass
