"""A merge and its proof decode the inputs once, and the proof still finds what the merge does wrong."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from merge_model import DELETE, INSERT, Case, Record

from packstone.errors import UnreadableFileError, VerificationError
from packstone.rewrite.merge_tree.spec import Expiry
from packstone.rewrite.proof import verify_merge as tested
from packstone.rewrite.proof.verify_merge import InputView, merge_and_verify, verify_merge

TYPES = {"k": pa.int64(), "v": pa.int64()}
IDLE = pytest.mark.parametrize("has_idle_core", [True, False], ids=["ahead", "in turn"])


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
    return [thread for thread in threading.enumerate() if thread.name.startswith("packstone-view")]


def change_merge(monkeypatch: pytest.MonkeyPatch, change) -> None:
    """Put a fault into the merge: ``change`` gets the reader of files and returns another."""
    right = tested.run_merge

    def faulty(*arguments, read_file, **options):
        return right(*arguments, read_file=change(read_file), **options)

    monkeypatch.setattr(tested, "run_merge", faulty)


@IDLE
def test_one_reading_proves_the_same_as_two(has_idle_core: bool) -> None:
    """Fed by the merge or read again: the same rows, the same fingerprint."""
    case = make_case()
    result, verified = run(case, has_idle_core=has_idle_core)
    assert result.rows_out == 6_000
    assert verified.fingerprint_before == verified.fingerprint_after
    assert verified.fingerprint_before == verify_merge(case.io, case.spec, result.files).fingerprint_before
    assert view_threads() == []


@pytest.mark.parametrize("memory_bytes", [64 << 10, 1 << 20])
def test_little_memory_proves_the_same(memory_bytes: int) -> None:
    """Runs that are copied to disk and batches of a few rows, in any order of the runs, give the same view."""
    case = make_case()
    expected = run(case, has_idle_core=False)[1].fingerprint_before
    case.options["memory_bytes"] = memory_bytes
    assert run(case, has_idle_core=True)[1].fingerprint_before == expected


@pytest.mark.parametrize("engine", ["deduplicate", "first-row"])
def test_of_equal_records_the_run_decides(engine: str) -> None:
    """Records equal in key, sequence number and kind differ only by their run, whichever is read first."""
    runs = [
        [Record((key,), 7, INSERT, {"k": key, "v": n}) for key in range(0 if n else 500, 5_000, n + 1)]
        for n in range(3)
    ]
    case = Case(runs, TYPES)
    case.options["engine"] = replace(case.spec.engine, name=engine)
    case.options["memory_bytes"] = 64 << 10
    result, verified = run(case, has_idle_core=False)
    assert verified.rows == result.rows_out == len({record.key for run in runs for record in run})


@IDLE
def test_a_lost_row_is_found(monkeypatch: pytest.MonkeyPatch, has_idle_core: bool) -> None:
    """A row that the merge loses is in the view, which is made during the merge."""
    case = make_case()
    file = case.write(case.expected()[1:], "out")
    right = tested.run_merge

    def lose_a_row(*arguments, **options):
        result = right(*arguments, **options)
        object.__setattr__(result, "files", (file,))
        return result

    monkeypatch.setattr(tested, "run_merge", lose_a_row)
    with pytest.raises(VerificationError, match=r"key \(0,\) is missing"):
        run(case, has_idle_core=has_idle_core)


@IDLE
def test_a_merge_that_drops_a_batch_is_found(monkeypatch: pytest.MonkeyPatch, has_idle_core: bool) -> None:
    """The view has the rows of a batch that the merge leaves out after it got it."""

    def drop_first(read_file):
        def read(file, schema, **options):
            batches = read_file(file, schema, **options)
            next(batches)
            yield from batches

        return read

    change_merge(monkeypatch, drop_first)
    with pytest.raises(VerificationError, match="is not what was written"):
        run(make_case(), has_idle_core=has_idle_core)


@IDLE
def test_a_merge_that_writes_into_its_batches_is_found(monkeypatch: pytest.MonkeyPatch, has_idle_core: bool) -> None:
    """The view of a batch is complete before the merge gets it: values changed in place do not reach the view."""

    def overwrite(read_file):
        def read(file, schema, **options):
            for batch in read_file(file, schema, **options):
                buffer = batch.column("v").buffers()[1]
                address = np.ctypeslib.as_array(
                    (np.ctypeslib.ctypes.c_int64 * batch.num_rows).from_address(buffer.address)
                )
                address[0] += 1
                yield batch

        return read

    change_merge(monkeypatch, overwrite)
    with pytest.raises(VerificationError, match="has a different row than expected"):
        run(make_case(), has_idle_core=has_idle_core)


def test_a_merge_that_skips_a_file_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that was not opened is named, although no row of it is in the view."""
    case = make_case()
    skipped = case.spec.files[1].path
    change_merge(
        monkeypatch, lambda read: lambda file, *a, **o: iter(()) if file.path == skipped else read(file, *a, **o)
    )
    with pytest.raises(VerificationError, match="did not read all of"):
        run(case, has_idle_core=False)


def test_a_merge_that_stops_in_a_file_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that was not read to its end is named."""

    def stop_early(read_file):
        def read(file, schema, **options):
            yield next(read_file(file, schema, **options))

        return read

    change_merge(monkeypatch, stop_early)
    with pytest.raises(VerificationError, match="did not read all of"):
        run(make_case(), has_idle_core=False)


def test_a_merge_that_reads_a_file_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second reading of a file is refused: its rows would be in the view twice."""

    def twice(read_file):
        def read(file, schema, **options):
            yield from read_file(file, schema, **options)
            yield from read_file(file, schema, **options)

        return read

    change_merge(monkeypatch, twice)
    with pytest.raises(VerificationError, match="twice"):
        run(make_case(), has_idle_core=False)


def test_expired_rows_are_decided_by_both() -> None:
    """The merge gets expired rows too, and drops them itself; so does the view."""
    case = Case([[Record((key,), key, INSERT, {"k": key, "v": key}) for key in range(1_000)]], TYPES)
    case.options["expiry"] = Expiry(column="v", now_seconds=1_100, expire_seconds=500)
    result, verified = run(case, has_idle_core=False)
    assert result.rows_out == verified.rows == 400


def test_deletes_are_dropped_by_both() -> None:
    """A delete that is newest removes its key, wherever its run is read."""
    runs = [
        [Record((key,), key, INSERT, {"k": key, "v": 0}) for key in range(2_000)],
        [Record((key,), 5_000 + key, DELETE, {"k": key, "v": 1}) for key in range(0, 2_000, 4)],
    ]
    case = Case(runs, TYPES, drop_deletes=True)
    assert run(case, has_idle_core=False)[1].rows == 1_500


@IDLE
def test_a_merge_that_fails_ends_the_view(monkeypatch: pytest.MonkeyPatch, has_idle_core: bool) -> None:
    """The error of the merge comes through, and no thread stays behind."""

    def fail_late(read_file):
        def read(file, schema, **options):
            yield from read_file(file, schema, **options)
            raise OSError("disk full")

        return read

    change_merge(monkeypatch, fail_late)
    with pytest.raises(OSError, match="disk full"):
        run(make_case(), has_idle_core=has_idle_core)
    assert view_threads() == []


@IDLE
def test_a_view_that_fails_ends_the_merge(monkeypatch: pytest.MonkeyPatch, has_idle_core: bool) -> None:
    """What goes wrong in the view is raised by the merge, which removes what it wrote."""
    case = make_case()

    def fail(_self, _block):
        raise UnreadableFileError("cannot read", file="")

    monkeypatch.setattr(InputView, "_add", fail)
    with pytest.raises(UnreadableFileError, match="cannot read"):
        run(case, has_idle_core=has_idle_core)
    assert view_threads() == []
