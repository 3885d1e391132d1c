"""Values of any type as values of a table, as strict as Spark in ANSI mode; what does not fit is reported."""

import datetime as dt
import json
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packstone.errors import InvalidInputError
from packstone.rewrite.load.convert_rows import BadRecords, Converter, InputBatch, Place, convert_values, to_json_lines

BAD = "bad"
UTC = dt.UTC
US, USZ = pa.timestamp("us"), pa.timestamp("us", "UTC")


def outcome(values, kind, target, zone="UTC"):
    """What each value becomes: a value, None, or the word for bad; alone and in company it is the same."""
    array = pa.array(values, kind)
    got = convert_values(array, target, zone=zone)
    assert got.values.type == target
    got.values.validate(full=True)
    bad = np.zeros(len(array), bool) if got.bad is None else got.bad
    assert not (bad & np.array(got.values.is_valid())).any()
    return [BAD if is_bad else value for is_bad, value in zip(bad, got.values.to_pylist(), strict=True)]


def each_alone(values, kind, target, zone="UTC"):
    """Each value in a column of its own."""
    return [outcome([value], kind, target, zone)[0] for value in values]


def at(*parts, **more):
    """A moment in UTC."""
    return dt.datetime(*parts, **more, tzinfo=UTC)


TEXTS = [
    (
        pa.int32(),
        {"12": 12, " 12 ": 12, "+12": 12, "-0": 0, "0012": 12, "12abc": BAD, "12.0": BAD, "0x1F": BAD, "": BAD},
    ),
    (pa.int32(), {"2147483647": 2**31 - 1, "-2147483648": -(2**31), "2147483648": BAD, "9" * 50: BAD, "1e3": BAD}),
    (pa.int8(), {"300": BAD, "127": 127, "-129": BAD, "١٢": BAD}),
    (pa.int64(), {"9223372036854775807": 2**63 - 1, "9223372036854775808": BAD, "-9223372036854775808": -(2**63)}),
    (pa.float64(), {"1.5": 1.5, " .5": 0.5, "5.": 5.0, "1e3": 1000.0, "1d": BAD, "1e999": BAD, "x": BAD, "--1": BAD}),
    (pa.float64(), {"Infinity": float("inf"), "-inf": float("-inf"), "+Inf": float("inf"), "0x1p3": BAD}),
    (pa.float32(), {"1.5": 1.5, "1e40": BAD}),
    (pa.decimal128(5, 2), {"1.2": Decimal("1.20"), "999.99": Decimal("999.99"), "1000": BAD, "1.239": BAD, " 1 ": 1}),
    (pa.decimal128(5, 2), {"1e2": Decimal(100), "abc": BAD, "": BAD, "NaN": BAD}),
    (pa.bool_(), {"true": True, "T": True, "yes": True, "1": True, "F": False, "no": False, "2": BAD, "": BAD}),
    (pa.date32(), {"2024-02-29": dt.date(2024, 2, 29), "2024-2-9": dt.date(2024, 2, 9), "2024-02-30": BAD, "x": BAD}),
    (pa.date32(), {"2024-02-29T10:00": dt.date(2024, 2, 29), "2023-02-29": BAD, "2024-13-01": BAD, "20240101": BAD}),
    (US, {"2024-02-29 10:11:12": dt.datetime(2024, 2, 29, 10, 11, 12), "2024-02-29": dt.datetime(2024, 2, 29)}),  # noqa: DTZ001
    (US, {"2024-02-29 10:11:12+02:00": dt.datetime(2024, 2, 29, 10, 11, 12), "2024-02-29 25:00:00": BAD}),  # noqa: DTZ001
    (USZ, {"2024-02-29T10:11:12Z": at(2024, 2, 29, 10, 11, 12), "2024-02-29 10:11": at(2024, 2, 29, 10, 11)}),
    (
        USZ,
        {
            "2024-02-29T10:11:12+02:00": at(2024, 2, 29, 8, 11, 12),
            "2024-02-29 10:11:12-0130": at(2024, 2, 29, 11, 41, 12),
        },
    ),
    (USZ, {"2024-07-01 12:00:00 Europe/Berlin": at(2024, 7, 1, 10), "2024-07-01 12:00:00 No/Where": BAD}),
    (USZ, {"2024-07-01 12:00:00.123456": at(2024, 7, 1, 12, microsecond=123456), "2024-07-01 12:00:00.1234567": BAD}),
    (USZ, {"2024-07-01 12:00:00.123456000": at(2024, 7, 1, 12, microsecond=123456), "2024-07-01 12:60:00": BAD}),
    (USZ, {"2024-07-01 12:00:00.5+24:00": BAD, "noon": BAD, "2024-7-1 1:2:3": at(2024, 7, 1, 1, 2, 3)}),
    (pa.binary(), {"ä": "ä".encode()}),
]


@pytest.mark.parametrize(("target", "cases"), TEXTS, ids=[f"{at}-{case[0]}" for at, case in enumerate(TEXTS)])
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_text(kind, target, cases):
    """Each text becomes what Spark makes of it or is bad, in a column of its own and beside any others."""
    assert each_alone(cases, kind, target) == list(cases.values())
    assert outcome([*cases, None], kind, target) == [*cases.values(), None]


def test_nan():
    """Any case of NaN is one."""
    assert [str(value) for value in outcome(["NaN", "nan", " NAN"], pa.string(), pa.float64())] == ["nan"] * 3


def test_session_zone():
    """A time without a zone is of the session's; one with a zone is not."""
    texts = ["2024-07-01 12:00:00", "2024-07-01 12:00:00Z", "2024-07-01", "2024-10-27 02:30:00", "2024-03-31 02:30:00"]
    assert outcome(texts, pa.string(), USZ, "Europe/Berlin") == [
        at(2024, 7, 1, 10),
        at(2024, 7, 1, 12),
        at(2024, 6, 30, 22),
        at(2024, 10, 27, 0, 30),
        at(2024, 3, 31, 1),
    ]


NUMBERS = [
    (pa.int64(), pa.int32(), {5: 5, 2**31: BAD, -(2**31): -(2**31)}),
    (pa.uint64(), pa.int64(), {2**63: BAD, 2**63 - 1: 2**63 - 1}),
    (pa.uint8(), pa.int8(), {255: BAD, 127: 127}),
    (
        pa.float64(),
        pa.int32(),
        {1.0: 1, 1.5: BAD, float("nan"): BAD, float("inf"): BAD, 2.0**31: BAD, -(2.0**31): -(2**31)},
    ),
    (pa.float64(), pa.int64(), {2.0**63: BAD, 2.0**62: 2**62, -0.0: 0}),
    (pa.int64(), pa.float64(), {2**53: 2.0**53, 2**53 + 1: BAD, 2**60: 2.0**60, 2**63 - 1: BAD}),
    (pa.float64(), pa.float32(), {1.5: 1.5, 1e300: BAD, float("inf"): float("inf")}),
    (pa.int64(), pa.decimal128(5, 2), {5: Decimal(5), 999: Decimal(999), 1000: BAD, -999: Decimal(-999)}),
    (pa.float64(), pa.decimal128(5, 2), {0.1: Decimal("0.10"), 0.123: BAD, 1e9: BAD, float("nan"): BAD}),
    (
        pa.decimal128(10, 3),
        pa.decimal128(5, 2),
        {Decimal("1.230"): Decimal("1.23"), Decimal("1.234"): BAD, Decimal(1000): BAD},
    ),
    (pa.decimal128(10, 3), pa.int8(), {Decimal("7.000"): 7, Decimal("7.5"): BAD, Decimal(300): BAD}),
    (pa.int64(), pa.string(), {12: "12"}),
    (pa.binary(), pa.string(), {b"abc": "abc", b"\xff": BAD}),
    (pa.timestamp("ns"), US, {1_000: dt.datetime(1970, 1, 1, microsecond=1), 1_001: BAD}),  # noqa: DTZ001
    (pa.timestamp("s"), US, {1: dt.datetime(1970, 1, 1, second=1), 2**62: BAD}),  # noqa: DTZ001
    (pa.timestamp("us", "Asia/Tokyo"), USZ, {0: at(1970, 1, 1)}),
    (USZ, pa.date32(), {0: dt.date(1970, 1, 1), 1: BAD, -86_400_000_000: dt.date(1969, 12, 31)}),
    (pa.date32(), USZ, {1: at(1970, 1, 2)}),
]


@pytest.mark.parametrize(("kind", "target", "cases"), NUMBERS, ids=[f"{case[0]}-{case[1]}" for case in NUMBERS])
def test_numbers(kind, target, cases):
    """A value converts if nothing of it is lost."""
    assert each_alone(cases, kind, target) == list(cases.values())
    assert outcome([*cases, None], kind, target) == [*cases.values(), None]


def test_wall_clock_and_instants():
    """Between instants and wall clocks the session's zone stands."""
    noon = dt.datetime(2024, 7, 1, 12)  # noqa: DTZ001
    assert outcome([noon, None], US, USZ, "Europe/Berlin") == [at(2024, 7, 1, 10), None]
    assert outcome([at(2024, 7, 1, 10), None], USZ, US, "Europe/Berlin") == [noon, None]


def test_encoded_columns():
    """Dictionaries and null columns convert like the values they represent."""
    coded = pa.array(["1", "x", None, "1"]).dictionary_encode()
    got = convert_values(coded, pa.int32(), zone="UTC")
    assert got.values.to_pylist() == [1, None, None, 1]
    assert got.bad.tolist() == [False, True, False, False]
    assert convert_values(pa.nulls(2), pa.int32(), zone="UTC").values.to_pylist() == [None, None]


def test_nested():
    """A bad element makes its row bad, in slices too; fields of structs are found by name."""
    lists = pa.array([["9"], ["1", "2"], None, [], ["x"], [None]])
    got = convert_values(lists.slice(1), pa.list_(pa.int8()), zone="UTC")
    assert got.values.to_pylist() == [[1, 2], None, [], None, [None]]
    assert got.bad.tolist() == [False, False, False, True, False]
    structs = pa.array([{"B": "1", "a": "q"}, None, {"B": "z", "a": None}])
    target = pa.struct([("a", pa.string()), ("b", pa.int64()), ("c", pa.date32())])
    got = convert_values(structs, target, zone="UTC")
    assert got.values.to_pylist() == [{"a": "q", "b": 1, "c": None}, None, None]
    assert got.bad.tolist() == [False, False, True]
    maps = pa.array([[("k", "1"), ("l", "2")], None, [("m", "x")]], pa.map_(pa.string(), pa.string()))
    got = convert_values(maps, pa.map_(pa.string(), pa.int32()), zone="UTC")
    assert got.values.to_pylist() == [[("k", 1), ("l", 2)], None, None]
    assert got.bad.tolist() == [False, False, True]


SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("price", pa.decimal128(6, 2)), ("day", pa.date32())])
ROWS = {
    "ID": ["1", "2", "x", None, "5"],
    "day": ["2024-01-01", "2024-02-30", "2024-01-03", None, None],
    "Price": ["1.5", "2", "3", "4", "5.555"],
}


def convert(action, rows=None, **place):
    """Convert rows of text."""
    batch = pa.RecordBatch.from_pydict(ROWS if rows is None else rows)
    return Converter(SCHEMA, action=action).convert(InputBatch(batch=batch, place=Place(source="in.csv", **place)))


def test_fail():
    """The first bad row is reported with all its facts."""
    with pytest.raises(InvalidInputError, match=r"in\.csv, row 8, column day: '2024-02-30' is not a date") as error:
        convert(BadRecords.FAIL, first_row=7)
    assert error.value.facts["row"] == 8
    assert error.value.facts["column"] == "day"


@pytest.mark.parametrize("action", [BadRecords.IGNORE, BadRecords.REDIRECT])
def test_left_out(action):
    """Bad rows are left out, each counted once, each bad field reported; redirected ones are kept whole."""
    got = convert(action)
    assert got.batch.schema == SCHEMA
    assert got.batch.to_pylist() == [{"id": 1, "price": Decimal("1.50"), "day": dt.date(2024, 1, 1)}]
    assert got.bad_rows == 4
    lines = [json.loads(line) for line in to_json_lines(got.bad).splitlines()]
    assert [(line["row"], line["column"]) for line in lines] == [(3, "id"), (4, "id"), (5, "price"), (2, "day")]
    whole = {"ID": "x", "day": "2024-01-03", "Price": "3"} if action is BadRecords.REDIRECT else None
    assert lines[0].get("whole_row") == whole


def test_force():
    """Bad fields become null, and only rows that may not be null there are left out."""
    got = convert(BadRecords.FORCE)
    assert [(row["id"], row["price"], row["day"]) for row in got.batch.to_pylist()] == [
        (1, Decimal("1.50"), dt.date(2024, 1, 1)),
        (2, Decimal("2.00"), None),
        (5, None, None),
    ]
    assert got.bad_rows == 4


def test_missing_columns():
    """What the input lacks is null, and bad where that is not allowed."""
    got = convert(BadRecords.FAIL, {"id": [1, 2]})
    assert got.batch.to_pylist() == [{"id": n, "price": None, "day": None} for n in (1, 2)]
    with pytest.raises(InvalidInputError, match=r"row 1, column id: '' is null, and the column is NOT NULL"):
        convert(BadRecords.FAIL, {"day": ["2024-01-01"]})


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"id": [1], "colour": ["x"], "size": [1]}, "columns that the table does not have: colour, size;"),
        ({"id": [1], "ID": [2]}, "the column 'ID' twice"),
        ({"id": [[1]]}, "column id is list<item: int64>, which cannot become int64"),
        ({"id": [1], "day": [7]}, "column day is int64, which cannot become date32"),
    ],
)
def test_wrong_columns(rows, message):
    """Columns that can never fit are one error of the whole input, whatever is done with bad rows."""
    with pytest.raises(InvalidInputError, match=message):
        convert(BadRecords.IGNORE, rows)


def test_nothing_is_copied():
    """Columns of the table's own types are taken as they are."""
    batch = pa.RecordBatch.from_arrays(
        [pa.array([1]), pa.nulls(1, SCHEMA.field(1).type), pa.nulls(1, pa.date32())], SCHEMA.names
    )
    got = Converter(SCHEMA).convert(InputBatch(batch=batch, place=Place(source="frame")))
    assert got.batch.column(0).buffers()[1].address == batch.column(0).buffers()[1].address


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.none(),
            st.integers(-(2**70), 2**70).map(str),
            st.text(max_size=5),
            st.sampled_from(["0x1", "+7", " 8", "007"]),
        ),
        max_size=8,
    )
)
def test_whole_numbers_agree_with_python(texts):
    """A text is a short exactly if Python reads it as a whole number of that range, written in ASCII digits."""

    def expect(text):
        if text is None:
            return None
        trimmed = text.strip()
        shaped = trimmed.isascii() and trimmed.lstrip("+-").isdigit() and len(trimmed) - len(trimmed.lstrip("+-")) <= 1
        return int(trimmed) if shaped and -(2**15) <= int(trimmed) < 2**15 else BAD

    assert outcome(texts, pa.string(), pa.int16()) == [expect(text) for text in texts]
