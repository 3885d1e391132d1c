"""The merged view by hash groups is that of a plain loop over the records of each key."""

from __future__ import annotations

import math
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from merge_model import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, Case, Record

from packstone.errors import VerificationError
from packstone.model.unit import Verify
from packstone.rewrite.merge_tree.spec import ColumnAggregate, EngineSpec
from packstone.rewrite.proof.verify_merge import verify_merge

ADDS, ALL_KINDS = (INSERT, UPDATE_AFTER), (INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE)
FLOATS = st.sampled_from([0.0, -0.0, 1.5, -2.25, 0.1, 1e300, math.inf, math.nan]) | st.floats(width=64)
TEXTS = st.sampled_from(["", " ", "a", "b", "a,b", "long enough for words", "x" * 70, "é"])


def runs_of(values: dict[str, st.SearchStrategy], *, kinds=ALL_KINDS) -> st.SearchStrategy:
    """Up to four sorted runs; every key at most once in each."""

    def record(key: int, drawn) -> Record:
        sequence, kind, columns = drawn
        return Record((key,), sequence, kind, {"k": key, **columns})

    drawn = st.tuples(st.integers(0, 6), st.sampled_from(kinds), st.fixed_dictionaries(values))
    run = st.dictionaries(st.integers(0, 5), drawn, max_size=6)
    sort = lambda found: [record(key, found[key]) for key in sorted(found)]  # noqa: E731 - in the place where it is used
    return st.lists(run.map(sort), min_size=1, max_size=4).filter(any)


def nullable(values: st.SearchStrategy) -> st.SearchStrategy:
    """Values, or none."""
    return st.none() | values


def check(case: Case, *, modes=tuple(Verify)) -> None:
    """Files of the model's rows are accepted; without one of the rows they are not."""
    expected = case.expected()
    half = len(expected) // 2
    files = tuple(case.write(rows, name) for name, rows in (("a", expected[:half]), ("b", expected[half:])) if rows)
    for mode in modes:
        case.options["verify"] = mode
        verified = verify_merge(case.io, case.spec, files)
        assert verified.rows == len(expected)
        assert verified.fingerprint_before == verified.fingerprint_after
    if expected:
        rest = expected[:-1]
        files = (case.write(rest, "less"),) if rest else ()
        for mode in modes:
            case.options["verify"] = mode
            with pytest.raises(VerificationError, match="is missing"):
                verify_merge(case.io, case.spec, files)


VALUES = {"k": pa.int64(), "a": pa.int64(), "b": pa.float64(), "c": pa.string()}
DRAWN = {"a": nullable(st.integers(-(2**63), 2**63 - 1)), "b": nullable(FLOATS), "c": nullable(TEXTS)}


@settings(max_examples=30, deadline=None)
@given(runs=runs_of(DRAWN), ignore_delete=st.booleans(), drop=st.booleans())
def test_deduplicate_keeps_the_newest_record(runs, ignore_delete, drop) -> None:
    """The newest record wins; retracts are skipped, kept or dropped as requested."""
    check(Case(runs, VALUES, engine=EngineSpec(ignore_delete=ignore_delete), drop_deletes=drop))


@settings(max_examples=30, deadline=None)
@given(
    runs=runs_of(
        {**DRAWN, "s": nullable(st.integers(0, 3)), "t": nullable(FLOATS.filter(lambda value: not math.isnan(value)))}
    ),
    descending=st.booleans(),
)
def test_sequence_columns_decide_before_the_sequence_number(runs, descending) -> None:
    """Nulls are oldest in both directions; equal ones leave it to the sequence number."""
    kinds = {**VALUES, "s": pa.int32(), "t": pa.float64()}
    runs = [[plus_zero(record) for record in run] for run in runs]
    check(Case(runs, kinds, sequence_columns=("s", "t"), sequence_descending=descending))


def plus_zero(record: Record) -> Record:
    """The model compares as Python does, which knows one zero only."""
    value = record.values["t"]
    return Record(
        record.key, record.sequence, record.kind, {**record.values, "t": value if value is None else value + 0.0}
    )


@settings(max_examples=40, deadline=None)
@given(
    runs=runs_of({**DRAWN, "s": nullable(TEXTS), "d": nullable(st.decimals(-9, 9, places=2))}),
    descending=st.booleans(),
)
def test_sequence_columns_of_other_types(runs, descending) -> None:
    """Strings and wide decimals order versions too."""
    kinds = {**VALUES, "s": pa.string(), "d": pa.decimal128(30, 2)}
    check(Case(runs, kinds, sequence_columns=("d", "s"), sequence_descending=descending))


@settings(max_examples=20, deadline=None)
@given(runs=runs_of(DRAWN, kinds=ADDS) | runs_of(DRAWN), drop=st.booleans())
def test_first_row_keeps_the_oldest_record(runs, drop) -> None:
    """The oldest record that adds wins."""
    check(Case(runs, VALUES, engine=EngineSpec(name="first-row", ignore_delete=True), drop_deletes=drop))


@settings(max_examples=40, deadline=None)
@given(
    runs=runs_of({**DRAWN, "l": nullable(st.lists(st.integers(0, 3), max_size=3))}),
    option=st.sampled_from(["ignore_delete", "remove_record_on_delete"]),
    drop=st.booleans(),
)
def test_partial_update_keeps_the_latest_values(runs, option, drop) -> None:
    """Each field has its latest value, with all that retracts do to the row, its number and its kind."""
    engine = EngineSpec(name="partial-update", **{option: True})
    check(Case(runs, {**VALUES, "l": pa.list_(pa.int64())}, engine=engine, drop_deletes=drop))


NUMBERS = {
    "sum": (pa.int64(), st.integers(-1000, 1000)),
    "product": (pa.int32(), st.integers(-9, 9)),
    "max": (pa.float64(), FLOATS),
    "min": (pa.string(), TEXTS),
    "last_value": (pa.int8(), st.integers(-128, 127)),
    "last_non_null_value": (pa.timestamp("us"), st.datetimes()),
    "first_value": (pa.date32(), st.dates()),
    "first_non_null_value": (pa.binary(), st.binary(max_size=9)),
    "bool_and": (pa.bool_(), st.booleans()),
    "bool_or": (pa.bool_(), st.booleans()),
    "listagg": (pa.string(), TEXTS),
}


def aggregation(*, kinds=ALL_KINDS, **options) -> st.SearchStrategy:
    """Runs with a column for each function, and one that has none."""
    drawn = {name: nullable(values) for name, (_, values) in NUMBERS.items()}
    return runs_of({**drawn, "plain": nullable(st.integers(0, 9))}, kinds=kinds)


def rules(*, ignore_retract: bool = False, distinct: bool = False) -> tuple[ColumnAggregate, ...]:
    """Each function on the column of its name."""
    return tuple(
        ColumnAggregate(column=name, function=name, ignore_retract=ignore_retract, distinct=distinct)
        for name in NUMBERS
    )


AGGREGATED = {"k": pa.int64(), **{name: kind for name, (kind, _) in NUMBERS.items()}, "plain": pa.int64()}


@settings(max_examples=40, deadline=None)
@given(runs=aggregation(kinds=ADDS), distinct=st.booleans())
def test_aggregates_of_adds(runs, distinct) -> None:
    """Every function folds from the oldest to the newest."""
    check(Case(runs, AGGREGATED, engine=EngineSpec(name="aggregation", aggregates=rules(distinct=distinct))))


@settings(max_examples=40, deadline=None)
@given(runs=aggregation(), remove=st.booleans(), distinct=st.booleans())
def test_aggregates_that_ignore_retracts(runs, remove, distinct) -> None:
    """A retract changes nothing where it is ignored, unless a -D removes the record."""
    aggregates = rules(ignore_retract=True, distinct=distinct)
    check(
        Case(
            runs,
            AGGREGATED,
            engine=EngineSpec(name="aggregation", aggregates=aggregates, remove_record_on_delete=remove),
        )
    )


@settings(max_examples=40, deadline=None)
@given(
    runs=runs_of(
        {
            "sum": nullable(st.integers(-60, 60)),
            "float": nullable(FLOATS),
            "single": nullable(st.floats(width=32)),
            "price": nullable(st.decimals(-999, 999, places=2)),
            "product": nullable(st.integers(1, 9)),
            "ratio": nullable(st.floats(0.1, 9)),
            "last_value": nullable(TEXTS),
            "plain": nullable(TEXTS),
            "s": nullable(st.integers(0, 2)),
        }
    ),
    remove=st.booleans(),
    drop=st.booleans(),
)
def test_aggregates_that_retract(runs, remove, drop) -> None:
    """Sums subtract, products divide, values become null; floats have the bits of a plain loop."""
    functions = {
        "sum": "sum",
        "float": "sum",
        "single": "sum",
        "price": "sum",
        "product": "product",
        "ratio": "product",
    }
    aggregates = tuple(ColumnAggregate(column=name, function=f) for name, f in functions.items())
    aggregates += (ColumnAggregate(column="last_value", function="last_value"),)
    kinds = {
        "k": pa.int64(),
        "sum": pa.int16(),
        "float": pa.float64(),
        "single": pa.float32(),
        "price": pa.decimal128(20, 2),
        "product": pa.int64(),
        "ratio": pa.float64(),
        "last_value": pa.string(),
        "plain": pa.string(),
        "s": pa.int64(),
    }
    engine = EngineSpec(name="aggregation", aggregates=aggregates, remove_record_on_delete=remove)
    check(Case(runs, kinds, engine=engine, sequence_columns=("s",), drop_deletes=drop))


@pytest.mark.parametrize("engine", ["first-row", "partial-update"])
def test_a_retract_without_an_option_for_it_is_an_error(engine: str) -> None:
    """An engine that cannot merge a retract does not pass over it."""
    rows = [[Record((1,), 1, INSERT, {"k": 1})], [Record((1,), 2, DELETE, {"k": 1})]]
    case = Case(rows, {"k": pa.int64()}, engine=EngineSpec(name=engine))
    with pytest.raises(VerificationError, match="retract"):
        verify_merge(case.io, case.spec, ())


def test_a_product_of_decimals_rounds_half_up() -> None:
    """As Java's BigDecimal does."""
    rows = [[Record((1,), n, INSERT, {"k": 1, "p": Decimal("0.05")})] for n in (1, 2)]
    engine = EngineSpec(name="aggregation", aggregates=(ColumnAggregate(column="p", function="product"),))
    case = Case(rows, {"k": pa.int64(), "p": pa.decimal128(10, 2)}, engine=engine)
    file = case.write([Record((1,), 2, INSERT, {"k": 1, "p": Decimal("0.00")})], "out")
    assert verify_merge(case.io, case.spec, (file,)).rows == 1


def test_a_sum_that_overflows_is_told() -> None:
    """A total that wrapped around would be wrong on both sides."""
    rows = [[Record((1,), n, INSERT, {"k": 1, "p": 100})] for n in (1, 2)]
    engine = EngineSpec(name="aggregation", aggregates=(ColumnAggregate(column="p", function="sum"),))
    case = Case(rows, {"k": pa.int64(), "p": pa.int8()}, engine=engine)
    with pytest.raises(VerificationError, match="overflows"):
        verify_merge(case.io, case.spec, ())
