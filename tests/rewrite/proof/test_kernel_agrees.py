"""What the kernel writes is what the merged view expects: two algorithms, one answer."""

from __future__ import annotations

import datetime as dt
import string
from dataclasses import replace
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from merge_model import Case, Record

from packstone.model.unit import Verify
from packstone.rewrite.merge_tree.merge import run_merge
from packstone.rewrite.merge_tree.spec import ColumnAggregate, DataFormat, EngineSpec, OutputSpec
from packstone.rewrite.proof.verify_merge import verify_merge

KEY_TYPES = {
    "tiny": (pa.int8(), st.integers(-128, 127)),
    "long": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "float": (pa.float32(), st.sampled_from([-0.0, 0.0, 1.5, -2.5, float("inf"), float("-inf")])),
    "double": (pa.float64(), st.sampled_from([-0.0, 0.0, 1.5, -2.5, 1e300])),
    "text": (pa.string(), st.text(string.printable, max_size=12) | st.sampled_from(["é", "x" * 70, "x" * 71])),
    "bytes": (pa.binary(), st.binary(max_size=12)),
    "date": (pa.date32(), st.dates()),
    "time": (pa.timestamp("us"), st.datetimes()),
    "price": (pa.decimal128(10, 2), st.decimals(-99, 99, places=2)),
    "wide": (pa.decimal128(38, 0), st.integers(-(10**37), 10**37).map(Decimal)),
    "flag": (pa.bool_(), st.booleans()),
}


def java_key(value):
    """How keys sort."""
    if isinstance(value, float):
        return (value, str(value))
    return value.encode() if isinstance(value, str) else value


@pytest.mark.parametrize("kinds", [(kind,) for kind in KEY_TYPES] + [("text", "long"), ("double", "bytes", "date")])
@settings(max_examples=4, deadline=None)
@given(data=st.data())
def test_keys_of_every_type(kinds: tuple[str, ...], data: st.DataObject) -> None:
    """Keys of any type, and several columns of them, are grouped, ordered and described alike."""
    names = [f"k{place}" for place in range(len(kinds))]
    keys = st.lists(
        st.tuples(*(KEY_TYPES[kind][1] for kind in kinds)),
        max_size=8,
        unique_by=lambda key: tuple(map(java_key, key)),
    )
    runs = []
    for number in range(3):
        drawn = sorted(data.draw(keys), key=lambda key: tuple(map(java_key, key)))
        runs.append([Record(key, number, 0, {**dict(zip(names, key, strict=True)), "v": number}) for key in drawn])
    types = {name: KEY_TYPES[kind][0] for name, kind in zip(names, kinds, strict=True)}
    check(Case(runs, {**types, "v": pa.int64()}, keys=tuple(names)))


def check(case: Case) -> None:
    """Merge by the kernel, prove by the view, in both modes."""
    if not any(case.runs):
        return
    made = run_merge(case.io, case.spec, name_file=lambda number: f"out-{number}")
    for mode in Verify:
        verified = verify_merge(case.io, replace(case.spec, verify=mode), made.files)
        assert verified.rows == made.rows_out


VALUES = {
    "k": pa.int64(),
    "i": pa.int64(),
    "f": pa.float64(),
    "s": pa.string(),
    "p": pa.decimal128(20, 2),
    "t": pa.timestamp("ms"),
    "b": pa.bool_(),
}
DRAWN = {
    "i": st.none() | st.integers(-999, 999),
    "f": st.none() | st.floats(),
    "s": st.none() | st.sampled_from(["", " ", "a", "b", "a,b", "x" * 70]),
    "p": st.none() | st.decimals(-99, 99, places=2),
    "t": st.none() | st.integers(0, 10**12).map(lambda ms: dt.datetime(1970, 1, 1) + dt.timedelta(milliseconds=ms)),  # noqa: DTZ001 - a timestamp without a zone
    "b": st.none() | st.booleans(),
}


def draw_runs(kinds: tuple[int, ...]) -> st.SearchStrategy:
    """Runs of a few keys; no two records of one key with the same sequence number."""
    records = st.tuples(st.integers(0, 4), st.sampled_from(kinds), st.fixed_dictionaries(DRAWN))
    run = st.dictionaries(st.integers(0, 6), records, max_size=6)

    def sort(found: list[dict]) -> list[list[Record]]:
        return [
            [
                Record((key,), drawn[0] * 8 + number, drawn[1], {"k": key, **drawn[2]})
                for key, drawn in sorted(run.items(), key=lambda item: item[0])
            ]
            for number, run in enumerate(found)
        ]

    return st.lists(run, min_size=1, max_size=4).map(sort)


SUMS = (("k", "primary-key"), ("i", "sum"), ("f", "sum"), ("p", "sum"))
OTHERS = (
    ("k", "primary-key"),
    ("i", "max"),
    ("f", "min"),
    ("s", "listagg"),
    ("p", "max"),
    ("t", "first_value"),
    ("b", "bool_or"),
)
ENGINES = {
    "deduplicate": (EngineSpec(), (0, 1, 2, 3)),
    "deduplicate, ignore-delete": (EngineSpec(ignore_delete=True), (0, 1, 2, 3)),
    "first-row": (EngineSpec(name="first-row", ignore_delete=True), (0, 2, 3)),
    "partial-update": (EngineSpec(name="partial-update"), (0, 2)),
    "partial-update, ignore-delete": (EngineSpec(name="partial-update", ignore_delete=True), (0, 1, 2, 3)),
    "partial-update, remove": (EngineSpec(name="partial-update", remove_record_on_delete=True), (0, 1, 2, 3)),
    "sums": (
        EngineSpec(name="aggregation", aggregates=tuple(ColumnAggregate(column=c, function=f) for c, f in SUMS)),
        (0, 1, 2, 3),
    ),
    "sums, remove": (
        EngineSpec(
            name="aggregation",
            aggregates=tuple(ColumnAggregate(column=c, function=f) for c, f in SUMS),
            remove_record_on_delete=True,
        ),
        (0, 1, 2, 3),
    ),
    "others": (
        EngineSpec(
            name="aggregation",
            aggregates=tuple(ColumnAggregate(column=c, function=f, ignore_retract=c != "k") for c, f in OTHERS),
            remove_record_on_delete=True,
        ),
        (0, 1, 2, 3),
    ),
}


@pytest.mark.parametrize("name", ENGINES)
@settings(max_examples=8, deadline=None)
@given(data=st.data(), drop=st.booleans())
def test_every_engine(name: str, data: st.DataObject, drop: bool) -> None:
    """Engines, options and retracts."""
    engine, kinds = ENGINES[name]
    sequence = () if name == "first-row" else data.draw(st.sampled_from([(), ("i",), ("s", "t")]))
    case = Case(data.draw(draw_runs(kinds)), VALUES, engine=engine, drop_deletes=drop, sequence_columns=sequence)
    check(replace(case, sequence_descending=data.draw(st.booleans())))


@pytest.mark.parametrize("file_format", DataFormat)
@pytest.mark.parametrize("thin", [False, True])
@settings(max_examples=3, deadline=None)
@given(runs=draw_runs((0, 2, 3)))
def test_every_format(file_format: DataFormat, thin: bool, runs: list[list[Record]]) -> None:
    """Outputs of any format, with and without key columns, rolled into several files."""
    output = OutputSpec(directory="/t", file_format=file_format, thin=thin, target_bytes=1)
    check(Case(runs, VALUES, options={"output": output}))
