"""Every way in which a merge can go wrong is detected: one row of the outputs changed, or one fact about them."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from merge_model import DELETE, INSERT, UPDATE_AFTER, Case, Record

from packstone.errors import UnreadableFileError, VerificationError
from packstone.model.unit import Verify
from packstone.rewrite.merge_tree.spec import (
    EngineSpec,
    KeyRange,
    OutputSpec,
    WrittenFile,
    pack_schema,
    pack_value,
)
from packstone.rewrite.proof.verify_merge import verify_merge

TYPES = {"k": pa.int64(), "a": pa.int64(), "b": pa.float64(), "c": pa.string()}


def record(key: int, sequence: int, kind: int = INSERT) -> Record:
    """A row whose values tell its version."""
    values = {"k": key, "a": sequence, "b": None if sequence % 3 else 0.0, "c": f"{key} in {sequence}"}
    return Record((key,), sequence, kind, values)


def make_case(*, drop_deletes: bool) -> Case:
    """Forty keys in three runs: every key in the oldest, most once more, some deleted in the newest."""
    oldest = [record(key, key) for key in range(40)]
    middle = [record(key, 100 + key, UPDATE_AFTER) for key in range(0, 40, 2)]
    newest = [record(key, 200 + key, DELETE if key % 4 == 0 else UPDATE_AFTER) for key in range(0, 40, 5)]
    # The newest first: the order of runs must not decide.
    return Case([newest, middle, oldest], TYPES, drop_deletes=drop_deletes)


def change(rows: list[Record], key: int, **changed) -> list[Record]:
    """One row otherwise."""
    at = [row.key for row in rows].index((key,))
    return [*rows[:at], replace(rows[at], **changed), *rows[at + 1 :]]


def change_value(rows: list[Record], key: int, **changed) -> list[Record]:
    """One value otherwise."""
    found = next(row for row in rows if row.key == (key,))
    return change(rows, key, values={**found.values, **changed})


def swap_sequences(rows: list[Record]) -> list[Record]:
    """Two rows exchange their sequence numbers: sums over the column would not show it."""
    found = {row.key[0]: row.sequence for row in rows}
    return change(change(rows, 3, sequence=found[7]), 7, sequence=found[3])


def swap_values(rows: list[Record]) -> list[Record]:
    """Two rows exchange a value."""
    found = {row.key[0]: row.values["c"] for row in rows}
    return change_value(change_value(rows, 3, c=found[7]), 7, c=found[3])


ROW_MUTATIONS = {
    "a row is lost": lambda rows: [*rows[:5], *rows[6:]],
    "the last row is lost": lambda rows: rows[:-1],
    "a value changed": lambda rows: change_value(rows, 4, a=-1),
    "a value became null": lambda rows: change_value(rows, 4, c=None),
    "a null became a value": lambda rows: change_value(rows, 1, b=0.0),
    "zero lost its sign": lambda rows: change_value(rows, 9, b=-0.0),
    "a string became empty": lambda rows: change_value(rows, 4, c=""),
    "two rows exchanged a value": swap_values,
    "two rows exchanged their sequence numbers": swap_sequences,
    "a sequence number changed": lambda rows: change(rows, 4, sequence=7),
    "an insert became an update": lambda rows: change(rows, 1, kind=UPDATE_AFTER),
    "an older version won": lambda rows: change(rows, 2, **vars_of(record(2, 2))),
    "a row nobody wrote": lambda rows: [*rows, record(99, 5)],
    "a row became another key": lambda rows: [*rows[:-1], record(98, rows[-1].sequence)],
}


def vars_of(found: Record) -> dict:
    """The fields of a record, but for its key."""
    return {"sequence": found.sequence, "kind": found.kind, "values": found.values}


def outputs(case: Case, rows: list[Record]) -> tuple:
    """Two files of rows."""
    half = len(rows) // 2
    return (case.write(rows[:half], "out-0"), case.write(rows[half:], "out-1"))


@pytest.mark.parametrize("name", ROW_MUTATIONS)
@pytest.mark.parametrize("drop_deletes", [True, False])
@pytest.mark.sample(3)
def test_a_changed_row_is_told(name: str, drop_deletes: bool) -> None:
    """Whatever is wrong with the rows, facts recomputed to match it do not hide it."""
    case = make_case(drop_deletes=drop_deletes)
    rows = case.expected()
    verify_merge(case.io, case.spec, outputs(case, rows))
    with pytest.raises(VerificationError, match="key \\("):
        verify_merge(case.io, case.spec, outputs(case, ROW_MUTATIONS[name](rows)))


@pytest.mark.parametrize("name", [name for name in ROW_MUTATIONS if "value" not in name and "string" not in name])
def test_count_tells_keys_versions_and_kinds(name: str) -> None:
    """The cheap form sees everything but values."""
    case = make_case(drop_deletes=False)
    case.options["verify"] = Verify.COUNT
    rows = case.expected()
    verify_merge(case.io, case.spec, outputs(case, change_value(rows, 4, a=-1)))
    changed = ROW_MUTATIONS[name](rows)
    if name == "zero lost its sign":
        verify_merge(case.io, case.spec, outputs(case, changed))
    else:
        with pytest.raises(VerificationError, match="key \\("):
            verify_merge(case.io, case.spec, outputs(case, changed))


def test_a_kept_delete_is_told() -> None:
    """Where deletes are dropped no retract row may be left."""
    case = make_case(drop_deletes=False)
    files = outputs(case, case.expected())
    case.drop_deletes = True
    with pytest.raises(VerificationError, match="retract row"):
        verify_merge(case.io, case.spec, files)


def test_a_dropped_delete_is_told() -> None:
    """Where older versions may lie below, a delete must stay."""
    case = make_case(drop_deletes=True)
    files = outputs(case, case.expected())
    case.drop_deletes = False
    with pytest.raises(VerificationError, match=r"key \(\d+,\) is missing"):
        verify_merge(case.io, case.spec, files)


@pytest.mark.parametrize("at", [(3, 4), (18, 22)], ids=["inside a batch", "across files"])
def test_an_unsorted_output_is_told(at: tuple[int, int]) -> None:
    """Readers search files by their keys' order."""
    case = make_case(drop_deletes=False)
    rows = case.expected()
    first, second = at
    rows[first], rows[second] = rows[second], rows[first]
    with pytest.raises(VerificationError, match="not sorted by its key"):
        verify_merge(case.io, case.spec, outputs(case, rows))


def test_a_doubled_row_is_told() -> None:
    """One row for each key."""
    case = make_case(drop_deletes=False)
    rows = case.expected()
    with pytest.raises(VerificationError, match="not sorted by its key"):
        verify_merge(case.io, case.spec, outputs(case, [*rows[:5], *rows[4:]]))


def test_overlapping_outputs_are_told() -> None:
    """Files of one level must not overlap: each is sorted, together they are not."""
    case = make_case(drop_deletes=False)
    rows = case.expected()
    files = (case.write(rows[::2], "out-0"), case.write(rows[1::2], "out-1"))
    with pytest.raises(VerificationError, match="not sorted by its key"):
        verify_merge(case.io, case.spec, files)


def test_the_same_output_twice_is_told() -> None:
    """A file listed twice would be read twice."""
    case = make_case(drop_deletes=False)
    file = case.write(case.expected(), "out-0")
    with pytest.raises(VerificationError, match="twice"):
        verify_merge(case.io, case.spec, (file, file))


def test_a_key_that_differs_from_the_column_it_mirrors_is_told() -> None:
    """Both have the same value."""
    case = make_case(drop_deletes=False)
    rows = change_value(case.expected(), 4, k=1000)
    with pytest.raises(VerificationError, match="_KEY_k differs from k"):
        verify_merge(case.io, case.spec, outputs(case, rows))


FACTS = {
    "size_bytes": 1,
    "rows": 3,
    "first_key": (-1,),
    "last_key": (1000,),
    "min_sequence": -1,
    "max_sequence": 1000,
    "delete_rows": 17,
}


@pytest.mark.parametrize("name", FACTS)
def test_a_wrong_fact_is_told(name: str) -> None:
    """Readers trust what is recorded of a file."""
    case = make_case(drop_deletes=False)
    file = case.write(case.expected(), "out-0", **{name: FACTS[name]})
    with pytest.raises(VerificationError, match=r"recorded|metadata"):
        verify_merge(case.io, case.spec, (file,))


@pytest.mark.parametrize(
    ("column", "changed"),
    [
        ("a", {"minimum": -5}),
        ("a", {"maximum": 5000}),
        ("b", {"null_count": 0}),
        ("b", {"minimum": 0.0}),
        ("b", {"maximum": None}),
        ("c", {"minimum": ""}),
        ("c", {"maximum": b"9"}),
        ("_KEY_k", {"maximum": 4}),
    ],
)
def test_a_wrong_column_range_is_told(column: str, changed: dict) -> None:
    """Filters skip files by these."""
    case = make_case(drop_deletes=False)
    file = case.write(case.expected(), "out-0")
    columns = tuple(replace(facts, **changed) if facts.name == column else facts for facts in file.columns)
    with pytest.raises(VerificationError, match=f"of {column} is"):
        verify_merge(case.io, case.spec, (replace(file, columns=columns),))


def test_a_column_without_facts_is_told() -> None:
    """Nothing recorded is not the same as no range."""
    case = make_case(drop_deletes=False)
    file = case.write(case.expected(), "out-0")
    with pytest.raises(VerificationError, match="nothing is recorded of column c"):
        verify_merge(case.io, case.spec, (replace(file, columns=file.columns[:-1]),))


def test_a_row_outside_the_key_range_is_told() -> None:
    """A bucket is split over tasks by ranges; each writes its own share only."""
    case = make_case(drop_deletes=False)
    bounds = KeyRange(lower=pack_value(pa.scalar(10, pa.int64())), upper=pack_value(pa.scalar(30, pa.int64())))
    case.options["key_range"] = bounds
    inside = [row for row in case.expected() if 10 <= row.key[0] < 30]
    assert verify_merge(case.io, case.spec, (case.write(inside, "out-0"),)).rows == 20
    for wrong in ([record(9, 9), *inside], [*inside, case.expected()[30]]):
        with pytest.raises(VerificationError, match="outside the range"):
            verify_merge(case.io, case.spec, (case.write(wrong, "out-0"),))


@pytest.mark.parametrize("order", [(1, 0, 2), (0, 1, 1)], ids=["unsorted", "a key twice"])
def test_an_unsorted_input_is_named(order: tuple[int, ...]) -> None:
    """Merging windows relies on the order of runs, so the file is blamed, not the merge."""
    case = Case([[record(0, 0)], [record(key, key) for key in order]], TYPES)
    with pytest.raises(UnreadableFileError, match=r"run-1\.parquet is not sorted") as raised:
        verify_merge(case.io, case.spec, ())
    assert raised.value.facts["file"] == "/t/run-1.parquet"


def test_an_output_that_is_gone_is_told() -> None:
    """Outputs are opened from storage again."""
    case = make_case(drop_deletes=False)
    file = case.write(case.expected(), "out-0")
    case.io.remove(file.path)
    with pytest.raises(VerificationError, match="cannot be read"):
        verify_merge(case.io, case.spec, (file,))


def test_nothing_may_remain_of_deleted_keys() -> None:
    """No output at all is right where every key is deleted, and wrong where one is not."""
    rows = [[record(1, 1)], [record(1, 2, DELETE)]]
    case = Case(rows, TYPES, drop_deletes=True)
    assert verify_merge(case.io, case.spec, ()).rows == 0
    case = Case([*rows, [record(2, 1)]], TYPES, drop_deletes=True)
    with pytest.raises(VerificationError, match=r"key \(2,\) is missing"):
        verify_merge(case.io, case.spec, ())


def test_thin_outputs_have_their_keys_in_the_value_columns() -> None:
    """A file without key columns is read by the columns that mirror them."""
    case = make_case(drop_deletes=False)
    file = case.write(case.expected(), "out-0")
    case.options["output"] = OutputSpec(directory="/t", thin=True)
    with pytest.raises(VerificationError, match="has the columns"):
        verify_merge(case.io, case.spec, (file,))
    thin = rewrite(case, file, lambda table: table.drop_columns("_KEY_k"))
    assert verify_merge(case.io, case.spec, (thin,)).rows == 40


def rewrite(case: Case, file: WrittenFile, change_table) -> WrittenFile:
    """The same file with its columns otherwise."""
    table = change_table(pq.read_table(pa.BufferReader(case.io.read_bytes(file.path))))
    path = "/t/rewritten.parquet"
    with case.io.open_output(path) as sink:
        pq.write_table(table, sink)
    return replace(file, path=path, size_bytes=case.io.stat(path).size_bytes)


@pytest.mark.parametrize(
    ("change_table", "message"),
    [
        (lambda table: table.select([*table.column_names[:-2], "c", "b"]), "has the columns"),
        (lambda table: table.append_column("d", table.column("a")), "has the columns"),
        (lambda table: table.set_column(4, "a", table.column("a").cast(pa.int32())), "column a is int32, not int64"),
    ],
    ids=["other order", "one more", "narrower"],
)
def test_columns_stored_otherwise_are_told(change_table, message: str) -> None:
    """Rows that read alike are not enough."""
    case = make_case(drop_deletes=False)
    file = rewrite(case, case.write(case.expected(), "out-0"), change_table)
    with pytest.raises(VerificationError, match=message):
        verify_merge(case.io, case.spec, (file,))


def test_a_lost_field_id_is_told() -> None:
    """Field ids are how columns are found after renames."""
    case = make_case(drop_deletes=False)
    file = case.write(case.expected(), "out-0")
    fields = [field.with_metadata({"PARQUET:field_id": str(at)}) for at, field in enumerate(case.schema)]
    case.options["arrow_schema"] = pack_schema(pa.schema(fields))
    with pytest.raises(VerificationError, match="field id"):
        verify_merge(case.io, case.spec, (file,))
    kept = rewrite(case, file, lambda table: table.cast(pa.schema(fields)))
    assert verify_merge(case.io, case.spec, (kept,)).rows == 40


def test_a_wrong_aggregate_is_told() -> None:
    """Engines that make new rows are held to every value of them."""
    engine = EngineSpec(name="partial-update", remove_record_on_delete=True)
    case = replace(make_case(drop_deletes=False), engine=engine)
    rows = case.expected()
    verify_merge(case.io, case.spec, outputs(case, rows))
    with pytest.raises(VerificationError, match=r"key \(4,\) has a different row"):
        verify_merge(case.io, case.spec, outputs(case, change_value(rows, 4, a=-1)))
