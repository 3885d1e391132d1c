"""What is read of inputs, and that little memory gives the same answer as much."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from merge_model import INSERT, Case, Record

from packstone.errors import VerificationError
from packstone.model.unit import Verify
from packstone.rewrite.merge_tree.spec import ColumnAggregate, EngineSpec, Expiry, pack_positions
from packstone.rewrite.proof.merged_rows import group_by_key, pick_rows
from packstone.rewrite.proof.merged_view import is_fresh
from packstone.rewrite.proof.spread import Spread
from packstone.rewrite.proof.verify_merge import verify_merge

TYPES = {"k": pa.int64(), "v": pa.int64(), "c": pa.string()}


def row(key: int, sequence: int, **values) -> Record:
    """A record."""
    return Record((key,), sequence, INSERT, {"k": key, "v": sequence, "c": f"city {key % 3}", **values})


def many(engine: EngineSpec) -> Case:
    """Three runs of a few thousand keys."""
    runs = [[row(key, 10_000 * n + key) for key in range(n, 6_000, n + 1)] for n in range(3)]
    return Case(runs, TYPES, engine=engine, drop_deletes=True)


@pytest.mark.parametrize("mode", Verify)
@pytest.mark.parametrize("engine", ["deduplicate", "partial-update", "aggregation"])
@pytest.mark.sample(3)
def test_rows_on_disk_give_the_same_answer(engine: str, mode: Verify, tmp_path: Path) -> None:
    """Spilled or held, the view is the same; no file stays behind, also not after a mismatch."""
    case = many(
        EngineSpec(name=engine, aggregates=(ColumnAggregate(column="v", function="sum"),) * (engine == "aggregation"))
    )
    case.options["verify"] = mode
    expected = case.expected()
    file = case.write(expected, "out")
    held = verify_merge(case.io, case.spec, (file,))
    case.options["memory_bytes"] = 64 << 10
    spilled = verify_merge(case.io, case.spec, (file,), temp_folder=str(tmp_path))
    assert (held.spilled, spilled.spilled) == (False, True)
    assert held.fingerprint_before == spilled.fingerprint_before == spilled.fingerprint_after
    with pytest.raises(VerificationError, match=r"key \(0,\) is missing"):
        verify_merge(case.io, case.spec, (case.write(expected[1:], "out"),), temp_folder=str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_parts_keep_the_order_of_rows(tmp_path: Path) -> None:
    """All rows of a key are in one part, in the order in which they came, spilled or not."""
    keys = np.arange(1000, dtype=np.uint64) % np.uint64(50) << np.uint64(57)
    numbers = np.arange(1000)
    for memory_bytes in (1, 1 << 30):
        with Spread(bits=3, memory_bytes=memory_bytes, folder=str(tmp_path)) as spread:
            for start in range(0, 1000, 300):
                block = [keys[start : start + 300], keys[start : start + 300], numbers[start : start + 300]]
                spread.add(pa.record_batch([pa.array(a) for a in block], names=["lo", "hi", "n"]))
            parts = [part for number in range(len(spread)) if (part := spread.part(number)) is not None]
        assert sorted(n for part in parts for n in part.column("n").to_pylist()) == numbers.tolist()
        for part in parts:
            assert part.column("n").to_pylist() == sorted(part.column("n").to_pylist())


def test_keys_that_share_their_top_bits_are_still_told_apart() -> None:
    """Where the bits that are sorted do not tell, all 128 do."""
    lo = np.array([5, 6, 5, 5, 6, 5], dtype=np.uint64)
    hi = np.array([1, 1, 2, 1, 1, 2], dtype=np.uint64)
    groups = group_by_key(lo, hi)
    found = [groups.rows[a:b].tolist() for a, b in zip(groups.starts, [*groups.starts[1:], None], strict=True)]
    assert sorted(found) == [[0, 3], [1, 4], [2, 5]]
    newest = pick_rows(groups, [np.array([1, 1, 9, 1, 0, 8])], newest=True)
    assert sorted(newest.tolist()) == [1, 2, 3]


def test_deleted_positions_do_not_take_part() -> None:
    """A row that a deletion vector hides neither wins nor stays."""
    case = Case([[row(1, 1), row(2, 2)], [row(1, 5), row(3, 6)]], TYPES)
    first, second = case.inputs
    hidden = replace(second[0], deleted=pack_positions(np.array([0])))
    case.inputs = (first, (hidden,))
    file = case.write([row(1, 1), row(2, 2), row(3, 6)], "out")
    assert verify_merge(case.io, case.spec, (file,)).rows == 3


def test_a_sequence_number_for_the_whole_file() -> None:
    """The override decides, and is what is written."""
    case = Case([[row(1, 100, v=7)], [row(1, 1, v=8)]], TYPES)
    first, second = case.inputs
    case.inputs = ((replace(first[0], sequence_override=3),), (replace(second[0], sequence_override=4),))
    file = case.write([row(1, 4, v=8)], "out")
    assert verify_merge(case.io, case.spec, (file,)).rows == 1


@pytest.mark.parametrize(
    ("kind", "values", "fresh"),
    [
        (pa.int32(), [0, 899, 900, 901, None], [False, False, True, True, True]),
        (pa.int64(), [899, 900, 10**12, None], [False, True, True, True]),
        (pa.timestamp("s"), [899, 900], [False, True]),
        (pa.timestamp("ms"), [899_999, 900_000], [False, True]),
        (pa.timestamp("us"), [899_999_999, 900_000_000, None], [False, True, True]),
        (pa.timestamp("ns"), [899_999_999_999, 900_000_000_000], [False, True]),
    ],
)
def test_rows_expire_by_their_seconds(kind: pa.DataType, values: list, fresh: list[bool]) -> None:
    """A row stays while now <= time + expiry; a BIGINT from 10^12 on holds milliseconds."""
    column = pa.array(values, pa.int64() if pa.types.is_timestamp(kind) else kind).cast(kind)
    assert is_fresh(column, Expiry(column="t", now_seconds=1000, expire_seconds=100)).tolist() == fresh


def test_times_before_1970_round_towards_zero() -> None:
    """Milliseconds round down, seconds towards zero, as in Java."""
    expiry = Expiry(column="t", now_seconds=-2, expire_seconds=0)
    times = pa.array([-3_000_000, -2_999_500, -2_999_000, -2_000_000], pa.timestamp("us"))
    assert is_fresh(times, expiry).tolist() == [False, False, True, True]


def test_expired_rows_do_not_take_part() -> None:
    """They vanish before merging: an older record that is still fresh comes back."""
    types = {**TYPES, "t": pa.timestamp("ms")}
    old, new = (dt.datetime(1970, 1, 1, 0, 0, seconds) for seconds in (5, 50))  # noqa: DTZ001 - without a zone
    case = Case([[row(1, 1, t=new), row(2, 2, t=old), row(3, 3, t=None)], [row(1, 9, t=old)]], types)
    case.options["expiry"] = Expiry(column="t", now_seconds=60, expire_seconds=20)
    file = case.write([row(1, 1, t=new), row(3, 3, t=None)], "out")
    for mode in Verify:
        case.options["verify"] = mode
        assert verify_merge(case.io, case.spec, (file,)).rows == 2


def test_files_coded_in_different_ways_are_the_same_rows() -> None:
    """Strings that come as codes from one file and as themselves from another hash alike, and have the same range."""
    case = many(EngineSpec())
    expected = case.expected()
    file = case.write(expected, "out")
    table = pq.read_table(pa.BufferReader(case.io.read_bytes(file.path)))
    for number, use_dictionary in enumerate((True, False)):
        path = f"/t/coded-{number}"
        with case.io.open_output(path) as sink:
            pq.write_table(table, sink, use_dictionary=use_dictionary)
        coded = replace(file, path=path, size_bytes=case.io.stat(path).size_bytes)
        assert verify_merge(case.io, case.spec, (coded,)).rows == len(expected)


def test_the_note_tells_of_float_sums_that_may_round_otherwise() -> None:
    """Only where deletes stay, older files may be merged later."""
    engine = EngineSpec(name="aggregation", aggregates=(ColumnAggregate(column="f", function="sum"),))
    for drop, note in ((True, ""), (False, "f: compared bit by bit")):
        case = Case([[row(1, 1, f=0.5)]], {**TYPES, "f": pa.float64()}, engine=engine, drop_deletes=drop)
        verified = verify_merge(case.io, case.spec, (case.write(case.expected(), "out"),))
        assert verified.note.startswith(note)
        assert bool(verified.note) == bool(note)
