"""Merge runs and prove the result; with a core to spare, both read the inputs at the same time.

The view of the inputs needs nothing of the merge, so it can be made beside it: PyArrow and NumPy work without the
interpreter's lock. Only the outputs are read afterwards. The memory is shared out between the two; below
``_LEAST_BYTES`` the merge would have to put runs aside on disk. Ten runs of a million rows in 256 MB took 1.8 to 3.4
CPU seconds more that way (of 12 to 17), in 512 MB 0.1 to 0.7 (of 11 to 15).
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from packstone.rewrite.merge.run_merge import run_merge
from packstone.rewrite.merged_view.verify_merge import InputView, Verified, verify_merge

if TYPE_CHECKING:
    from collections.abc import Callable

    from packstone.rewrite.merge.merge_spec import MergeResult, MergeSpec
    from packstone.storage.fileio import FileIO

_LEAST_BYTES = 512 << 20
_VIEW_SHARE, _MERGE_SHARE = 1 / 4, 5 / 8  # of the memory; the rest is what two heaps of pieces waste


def merge_and_verify(
    io: FileIO, spec: MergeSpec, *, name_file: Callable[[int], str], has_idle_core: bool
) -> tuple[MergeResult, Verified]:
    """Write the merged rows and prove them."""
    if not has_idle_core or spec.memory_bytes < _LEAST_BYTES:
        result = run_merge(io, spec, name_file=name_file)
        return result, verify_merge(io, spec, result.files)
    view_bytes = int(spec.memory_bytes * _VIEW_SHARE)
    with InputView(io, replace(spec, memory_bytes=view_bytes)) as inputs:
        reading = _Reading(inputs)
        try:
            left = replace(spec, memory_bytes=int(spec.memory_bytes * _MERGE_SHARE))
            result = run_merge(io, left, name_file=name_file)
            reading.finish()
        except BaseException:
            reading.abandon()
            raise
        return result, inputs.verify(result.files)


class _Reading:
    """The inputs being read by a thread."""

    def __init__(self, inputs: InputView) -> None:
        self._inputs = inputs
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True, name="packstone-view")
        self._thread.start()

    def finish(self) -> None:
        """Wait until all is read; an error that ended it is raised here."""
        self._thread.join()
        if self._error is not None:
            raise self._error

    def abandon(self) -> None:
        """Give up: what was merged is thrown away."""
        self._inputs.stop()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._inputs.read()
        except BaseException as caught:  # noqa: BLE001 - it is raised again by the one who waits
            self._error = caught
