"""Each merge engine, as column operations, gives what merging record by record gives."""

from __future__ import annotations

import dataclasses
import functools
import math
from decimal import Decimal

import plain_model as model
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from make_runs import make_io, make_schema, make_spec, merge, read_back, sort_run, with_keys

from packstone.errors import CorruptionError, InvalidInputError, RefusedError
from packstone.rewrite.merge_tree.spec import ColumnAggregate, EngineSpec, pack_schema

ALL_KINDS, ADDS = (0, 1, 2, 3), (0, 2)
FLOATS = st.sampled_from([0.0, -0.0, 1.5, -2.25, 0.1, 1e300, math.inf, math.nan]) | st.floats()
TEXTS = st.sampled_from(["", " ", "a", "b", "a,b", "b,c", "x" * 40])
SCHEMA = make_schema([("k", pa.int64())], [("a", pa.int32()), ("b", pa.string()), ("c", pa.float64())])
VALUES = {"a": st.integers(-9, 9), "b": TEXTS, "c": FLOATS}


def runs_of(values, *, kinds=ALL_KINDS, nulls=True):
    """Up to five runs of up to eight keys, with ties of the sequence number among them."""
    columns = {name: (st.none() | drawn) if nulls else drawn for name, drawn in values.items()}
    record = st.fixed_dictionaries(
        {
            "k": st.integers(0, 7),
            "_SEQUENCE_NUMBER": st.integers(0, 5),
            "_VALUE_KIND": st.sampled_from(kinds),
            **columns,
        }
    )
    run = st.lists(record, max_size=8).map(lambda rows: sort_run([with_keys(row, ["k"]) for row in rows], ["k"]))
    return st.lists(run, min_size=1, max_size=5)


def comparable(records):
    """Records as texts: NaN equals itself and -0.0 is not 0.0."""
    return [[repr(value) for value in record.values()] for record in records]


def check(runs, merge_key, engine, *, schema=SCHEMA, row_group_rows=None, **more):
    """The kernel's rows are the model's, or both refuse."""
    io = make_io()
    more.setdefault("drop_deletes", False)
    spec = make_spec(io, runs, schema, engine=engine, row_group_rows=row_group_rows, **more)
    ordering = {"sequence_columns": spec.sequence_columns, "descending": spec.sequence_descending}
    try:
        expected = model.merge_runs(
            runs, keys=spec.key_columns, merge=merge_key, drop_deletes=more["drop_deletes"], **ordering
        )
    except model.ModelError:
        with pytest.raises(RefusedError):
            merge(io, spec)
        return
    result = merge(io, spec)
    found = read_back(io, result.files, schema)
    ordered = [{name: record[name] for name in schema.names} for record in expected]
    assert comparable(found) == comparable(ordered)
    assert result.rows_in == sum(map(len, runs))
    assert result.rows_out == len(expected)


@settings(max_examples=150, deadline=None)
@given(runs=runs_of(VALUES), ignore=st.booleans(), drop=st.booleans(), rows=st.sampled_from([None, 1, 3]))
def test_deduplicate_keeps_the_last_record(runs, ignore, drop, rows):
    """The newest record of each key stays, with its kind; ties go to the one that adds."""
    check(
        runs,
        functools.partial(model.deduplicate, ignore_delete=ignore),
        EngineSpec(name="deduplicate", ignore_delete=ignore),
        drop_deletes=drop,
        row_group_rows=rows,
    )


@settings(max_examples=80, deadline=None)
@given(
    runs=runs_of({"a": st.integers(-2, 2), "b": st.sampled_from(["", "a", "ab", "a\0"]), "c": FLOATS}),
    columns=st.sampled_from([("a",), ("b",), ("c",), ("a", "b"), ("c", "a")]),
    descending=st.booleans(),
)
def test_the_users_sequence_columns_come_first(runs, columns, descending):
    """Sequence columns decide before the sequence number, nulls first in both directions."""
    check(
        runs,
        model.deduplicate,
        EngineSpec(name="deduplicate"),
        sequence_columns=columns,
        sequence_descending=descending,
        row_group_rows=2,
    )


@settings(max_examples=80, deadline=None)
@given(runs=runs_of(VALUES), ignore=st.booleans(), rows=st.sampled_from([None, 1]))
def test_first_row_keeps_the_first_record(runs, ignore, rows):
    """The oldest record stays; a retract among several is refused unless deletes are ignored."""
    check(
        runs,
        functools.partial(model.first_row, ignore_delete=ignore),
        EngineSpec(name="first-row", ignore_delete=ignore),
        row_group_rows=rows,
    )


@settings(max_examples=150, deadline=None)
@given(
    runs=st.one_of(runs_of(VALUES), runs_of(VALUES, kinds=ADDS)),
    option=st.sampled_from(["", "ignore_delete", "remove_on_delete"]),
    drop=st.booleans(),
)
def test_partial_update_takes_the_newest_value_of_each_column(runs, option, drop):
    """Of each column the newest value that is not null; retracts as the options say."""
    options = {option: True} if option else {}
    engine = EngineSpec(
        name="partial-update",
        ignore_delete=option == "ignore_delete",
        remove_record_on_delete=option == "remove_on_delete",
    )
    merge_key = functools.partial(model.partial_update, values=["k", "a", "b", "c"], **options)
    check(runs, merge_key, engine, drop_deletes=drop, row_group_rows=2)


NUMBERS = {
    "int8": (pa.int8(), st.integers(-128, 127), 8),
    "int16": (pa.int16(), st.integers(-300, 300), 16),
    "int32": (pa.int32(), st.integers(-(2**31), 2**31 - 1), 32),
    "int64": (pa.int64(), st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1), 64),
    "double": (pa.float64(), FLOATS, None),
    "decimal": (pa.decimal128(6, 2), st.decimals("-99.99", "99.99", places=2), (6, 2)),
    "big decimal": (pa.decimal128(30, 4), st.decimals(-(10**20), 10**20, places=4), (30, 4)),
}
ORDERED = {
    "date": (pa.date32(), st.dates()),
    "text": (pa.string(), TEXTS),
    "boolean": (pa.bool_(), st.booleans()),
    "binary": (pa.binary(), st.binary(max_size=3)),
}


def aggregation_case(functions, kinds):
    """Runs with a column `v` of some type, and a function that folds it."""

    @st.composite
    def draw_case(draw):
        name = draw(st.sampled_from(sorted(kinds)))
        kind, values, width = (*kinds[name], None)[:3]
        runs = draw(runs_of({"v": values}, kinds=draw(st.sampled_from([ALL_KINDS, ADDS]))))
        return draw(st.sampled_from(functions)), kind, width, runs

    return draw_case()


def check_aggregation(case, ignore_retract, remove, drop=False):
    """One function on one column against the model."""
    function, kind, width, runs = case
    engine = EngineSpec(
        name="aggregation",
        remove_record_on_delete=remove,
        aggregates=(
            ColumnAggregate(column="v", function=function, ignore_retract=ignore_retract),
            ColumnAggregate(column="k", function="primary-key"),
        ),
    )
    functions = {
        "v": (model.fold_of(function, width), ignore_retract),
        "k": (model.fold_of("primary-key", None), False),
    }
    merge_key = functools.partial(model.aggregate, functions=functions, remove_on_delete=remove)
    schema = make_schema([("k", pa.int64())], [("v", kind)])
    check(runs, merge_key, engine, schema=schema, drop_deletes=drop, row_group_rows=2)


@settings(max_examples=250, deadline=None)
@given(case=aggregation_case(["sum", "product"], NUMBERS), ignore=st.booleans(), remove=st.booleans())
def test_sum_and_product_fold_oldest_to_newest(case, ignore, remove):
    """Exact integers and decimals that refuse to overflow, floats to the last bit; sums retract."""
    function, _, _, runs = case
    retracts = any(record["_VALUE_KIND"] % 2 for run in runs for record in run)
    if function == "product" and retracts:
        ignore = True  # what Java's division gives is tested by example
    check_aggregation((function, *case[1:]), ignore, remove)


@settings(max_examples=250, deadline=None)
@given(
    case=aggregation_case(
        ["max", "min", "last_value", "last_non_null_value", "first_value", "first_non_null_value"],
        {**NUMBERS, **ORDERED},
    ),
    ignore=st.booleans(),
    remove=st.booleans(),
)
def test_functions_that_choose_a_value(case, ignore, remove):
    """First, last, smallest and largest value, with and without retracts."""
    check_aggregation(case, ignore, remove)


@settings(max_examples=60, deadline=None)
@given(case=aggregation_case(["bool_and", "bool_or"], {"b": (pa.bool_(), st.booleans())}), ignore=st.booleans())
def test_boolean_functions(case, ignore):
    """And, or; nulls do not count."""
    check_aggregation(case, ignore, remove=False)


@settings(max_examples=100, deadline=None)
@given(runs=runs_of({"v": TEXTS}), ignore=st.booleans(), distinct=st.booleans(), delimiter=st.sampled_from([",", "--"]))
def test_listagg_joins_texts(runs, ignore, distinct, delimiter):
    """Texts joined oldest first, blanks left out, each once if distinct."""
    engine = EngineSpec(
        name="aggregation",
        aggregates=(
            ColumnAggregate(
                column="v", function="listagg", ignore_retract=ignore, delimiter=delimiter, distinct=distinct
            ),
            ColumnAggregate(column="k", function="primary-key"),
        ),
    )
    functions = {
        "v": (model.list_aggregate(delimiter, distinct=distinct), ignore),
        "k": (model.fold_of("primary-key", None), False),
    }
    schema = make_schema([("k", pa.int64())], [("v", pa.string())])
    check(runs, functools.partial(model.aggregate, functions=functions), engine, schema=schema)


def one_key(values, kinds, kind=None):
    """One key with these values, a run each."""
    schema = make_schema([("k", pa.int64())], [("v", kind or pa.int32())])
    runs = [
        [with_keys({"k": 1, "_SEQUENCE_NUMBER": at, "_VALUE_KIND": sort, "v": value}, ["k"])]
        for at, (value, sort) in enumerate(zip(values, kinds, strict=True))
    ]
    return schema, runs


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        (pa.int32(), [-7, 2], -3),
        (pa.int64(), [7, -2], -3),
        (pa.float64(), [1.0, 0.0], math.inf),
    ],
)
def test_product_retracts_by_division(kind, values, expected):
    """Integers divide towards zero, floats as floats do."""
    schema, runs = one_key(values, [0, 3], kind)
    io = make_io()
    engine = EngineSpec(name="aggregation", aggregates=(ColumnAggregate(column="v", function="product"),))
    result = merge(io, make_spec(io, runs, schema, engine=engine))
    assert [row["v"] for row in read_back(io, result.files, schema)] == [expected]


def test_decimal_product_is_refused_where_it_would_divide():
    """What Java does there depends on the digits."""
    schema, runs = one_key([Decimal("1.50"), Decimal("2.00")], [0, 3], pa.decimal128(6, 2))
    io = make_io()
    engine = EngineSpec(name="aggregation", aggregates=(ColumnAggregate(column="v", function="product"),))
    with pytest.raises(RefusedError, match="cannot retract"):
        merge(io, make_spec(io, runs, schema, engine=engine))


@pytest.mark.parametrize(
    ("engine", "error", "message"),
    [
        (EngineSpec(name="versioned"), RefusedError, "merge engine versioned"),
        (
            EngineSpec(name="aggregation", aggregates=(ColumnAggregate(column="v", function="hll_sketch"),)),
            RefusedError,
            "aggregate function hll_sketch of column v",
        ),
        (
            EngineSpec(name="aggregation", aggregates=(ColumnAggregate(column="v", function="listagg"),)),
            InvalidInputError,
            "listagg takes strings",
        ),
        (
            EngineSpec(name="aggregation", aggregates=(ColumnAggregate(column="v", function="bool_or"),)),
            InvalidInputError,
            "bool_or cannot aggregate column v",
        ),
        (
            EngineSpec(name="partial-update", aggregates=(ColumnAggregate(column="v", function="sum"),)),
            RefusedError,
            "sequence groups",
        ),
        (
            EngineSpec(name="partial-update", ignore_delete=True, remove_record_on_delete=True),
            InvalidInputError,
            "cannot be set together",
        ),
    ],
)
def test_what_is_not_supported_is_refused_by_name(engine, error, message):
    """Before anything is read or written."""
    schema, runs = one_key([1, 2], [0, 0])
    io = make_io()
    with pytest.raises(error, match=message):
        merge(io, make_spec(io, runs, schema, engine=engine))
    assert not [entry.name for entry in io.list_dir("/t") if entry.name.startswith("out")]


def test_a_null_in_a_not_null_column_is_named():
    """partial-update must not carry it on."""
    schema, runs = one_key([1, None], [0, 0])
    at = schema.get_field_index("v")
    io = make_io()
    spec = make_spec(io, runs, schema, engine=EngineSpec(name="partial-update"))
    strict = schema.set(at, schema.field(at).with_nullable(False))
    spec = dataclasses.replace(spec, arrow_schema=pack_schema(strict))
    with pytest.raises(CorruptionError, match="Column v is NOT NULL"):
        merge(io, spec)
