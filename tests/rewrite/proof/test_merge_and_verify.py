"""Merging and viewing the inputs at the same time proves the same as one after the other."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest
from merge_model import INSERT, Case, Record

from packstone.errors import VerificationError
from packstone.rewrite.proof import verify_merge as tested
from packstone.rewrite.proof.verify_merge import InputView, merge_and_verify

TYPES = {"k": pa.int64(), "v": pa.int64()}


def make_case() -> Case:
    """Three runs of a few thousand keys."""
    runs = [
        [Record((key,), 10_000 * n + key, INSERT, {"k": key, "v": n}) for key in range(n, 6_000, n + 1)]
        for n in range(3)
    ]
    case = Case(runs, TYPES, drop_deletes=True)
    case.options["memory_bytes"] = 512 << 20
    return case


def run(case: Case, *, has_idle_core: bool):
    """Merge and prove."""
    return merge_and_verify(case.io, case.spec, name_file=lambda at: f"{at}.parquet", has_idle_core=has_idle_core)


def view_threads() -> list[threading.Thread]:
    """Threads that still read."""
    return [thread for thread in threading.enumerate() if thread.name == "packstone-view"]


def test_both_ways_prove_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside each other or one after the other: the same rows, the same fingerprint."""
    read_by = []
    read = InputView.read
    monkeypatch.setattr(InputView, "read", lambda view: (read_by.append(threading.current_thread().name), read(view)))
    one, other = (run(make_case(), has_idle_core=idle) for idle in (True, False))
    assert one[0].rows_out == other[0].rows_out == 6_000
    assert one[1].fingerprint_before == other[1].fingerprint_before == one[1].fingerprint_after
    assert read_by == ["packstone-view", "MainThread"]
    assert view_threads() == []


def test_a_wrong_merge_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that the merge loses is missed by the view, which was made meanwhile."""
    case = make_case()
    file = case.write(case.expected()[1:], "out")
    right = tested.run_merge

    def lose_a_row(*arguments, **options):
        result = right(*arguments, **options)
        object.__setattr__(result, "files", (file,))
        return result

    monkeypatch.setattr(tested, "run_merge", lose_a_row)
    with pytest.raises(VerificationError, match=r"key \(0,\) is missing"):
        run(case, has_idle_core=True)


def test_a_merge_that_fails_ends_the_view(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of the merge comes through, and no thread stays behind."""

    def fail(*_arguments, **_options):
        raise OSError("disk full")

    monkeypatch.setattr(tested, "run_merge", fail)
    with pytest.raises(OSError, match="disk full"):
        run(make_case(), has_idle_core=True)
    assert view_threads() == []


def test_a_view_that_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """What goes wrong in the thread is raised where its result is needed."""

    def fail(_self):
        raise OSError("cannot read")

    monkeypatch.setattr(InputView, "read", fail)
    with pytest.raises(OSError, match="cannot read"):
        run(make_case(), has_idle_core=True)
