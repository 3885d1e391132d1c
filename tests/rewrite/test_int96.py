"""INT96 timestamps come back with all their digits and all their years, or are left alone."""

from __future__ import annotations

import struct

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from footer_edit import set_created_by

from packstone import HiveOptions, Table
from packstone.model.outcome import SkipKind

DAY_NS = 86_400 * 10**9
JULIAN_1970 = 2_440_588
FIRST, LAST = -62_135_596_800_000_000, 253_402_300_799_999_999  # 0001-01-01 and 9999-12-31, in microseconds
ORDINARY = 1_577_836_800_000_000
INT96 = {"use_deprecated_int96_timestamps": True, "use_dictionary": False, "compression": "none"}


def raw(nanoseconds):
    """The twelve bytes of an instant: nanoseconds of the day, Julian day."""
    day, rest = divmod(nanoseconds, DAY_NS)
    return struct.pack("<qi", rest, day + JULIAN_1970)


def write(folder, name, columns, **options):
    """Write a file with INT96 timestamps."""
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table(columns), folder / f"{name}.parquet", **INT96, **options)


def merge(folder):
    """Merge all files; return the outcome."""
    return Table(str(folder)).compact(HiveOptions(min_files=2))


def content(folder):
    """The bytes of the only file, which must be a merged one; neither codec nor encoding hides the values in them."""
    (merged,) = folder.iterdir()
    assert merged.name.startswith("packstone-")
    schema = pq.read_metadata(merged).schema
    assert "INT96" in {schema.column(at).physical_type for at in range(len(schema))}
    return merged.read_bytes()


def kept(folder, nanoseconds):
    """Whether the merged file holds exactly this instant."""
    return raw(nanoseconds) in content(folder)


@pytest.mark.parametrize("store_schema", [True, False])
def test_all_years_survive(tmp_path, store_schema):
    """0001-01-01 and 9999-12-31, which PyArrow turns into other centuries by default, come back as they were."""
    folder = tmp_path / "t"
    for name, stamp in (("a", FIRST), ("b", LAST), ("c", ORDINARY)):
        write(folder, name, {"t": pa.array([stamp, None], pa.timestamp("us"))}, store_schema=store_schema)
    assert merge(folder).skipped == ()
    assert all(kept(folder, 1000 * stamp) for stamp in (FIRST, LAST, ORDINARY))


@pytest.mark.parametrize("store_schema", [True, False])
def test_nanoseconds_survive(tmp_path, store_schema):
    """Digits below the microsecond come back, before and after 1970."""
    folder = tmp_path / "t"
    stamps = (1, -1, 1_577_836_800_123_456_789, -2_208_988_800_000_000_001, 2**63 - 1)
    for at, stamp in enumerate(stamps):
        write(folder, str(at), {"t": pa.array([stamp], pa.timestamp("ns"))}, store_schema=store_schema)
    assert merge(folder).skipped == ()
    assert all(kept(folder, stamp) for stamp in stamps)


def test_both_together_are_left_alone(tmp_path):
    """Nanoseconds in one file and far years in another fit no Arrow type: the files stay, with the reason."""
    folder = tmp_path / "t"
    write(folder, "a", {"t": pa.array([1], pa.timestamp("ns"))}, store_schema=False)
    write(folder, "b", {"t": pa.array([LAST], pa.timestamp("us"))}, store_schema=False)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    outcome = merge(folder)
    (skip,) = outcome.skipped
    assert skip.kind is SkipKind.LEFT_ALONE
    assert "nanosecond digits as well as dates outside 1677-2262" in skip.why
    assert outcome.units == ()
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize("day", [2**31 - 1, -(2**31)])
def test_years_beyond_microseconds_are_left_alone(tmp_path, day):
    """A day so far off that even microseconds wrap is not written back as another one."""
    folder = tmp_path / "t"
    for name in ("a", "b"):
        write(folder, name, {"t": pa.array([ORDINARY], pa.timestamp("us"))}, store_schema=False)
    odd = folder / "b.parquet"
    odd.write_bytes(odd.read_bytes().replace(raw(1000 * ORDINARY), struct.pack("<qi", 0, day)))
    before = odd.read_bytes()
    (skip,) = merge(folder).skipped
    assert "294" in skip.why
    assert odd.read_bytes() == before


NESTED = {
    "list": (pa.list_, lambda stamp: [stamp, None]),
    "large list": (pa.large_list, lambda stamp: [stamp, None]),
    "fixed list": (lambda kind: pa.list_(kind, 2), lambda stamp: [stamp, stamp]),
    "list view": (pa.list_view, lambda stamp: [stamp]),
    "struct": (lambda kind: pa.struct({"x": kind}), lambda stamp: {"x": stamp}),
    "map": (lambda kind: pa.map_(pa.string(), kind), lambda stamp: [("k", stamp), ("l", None)]),
    "map key": (lambda kind: pa.map_(kind, pa.string()), lambda stamp: [(stamp, "v")]),
    "deep": (lambda kind: pa.list_(pa.struct({"m": pa.map_(pa.string(), pa.list_(kind))})),
             lambda stamp: [{"m": [("k", [None, stamp])]}, None]),
}  # fmt: skip


@pytest.mark.parametrize("store_schema", [True, False])
@pytest.mark.parametrize("shape", NESTED)
def test_nested_timestamps_survive(tmp_path, shape, store_schema):
    """In lists, structs and maps too: far years with microseconds, nanoseconds in our time."""
    make, wrap = NESTED[shape]
    for unit, stamps, factor in (("us", (FIRST, LAST, ORDINARY), 1000), ("ns", (1, -1, 2**62 + 1), 1)):
        folder = tmp_path / unit
        missing = wrap(stamps[0]) if shape == "fixed list" else None  # before 26, PyArrow reads no null among them
        for at, stamp in enumerate(stamps):
            column = pa.array([missing, wrap(stamp)], make(pa.timestamp(unit)))
            write(folder, str(at), {"x": column, "other": [1, 2]}, store_schema=store_schema)
        assert merge(folder).skipped == ()
        assert all(kept(folder, factor * stamp) for stamp in stamps)


def test_int96_beside_int64(tmp_path):
    """A file with both kinds of timestamps is left alone: PyArrow has one switch for all columns."""
    folder = tmp_path / "t"
    for name in ("a", "b"):
        write(folder, name, {"t": pa.array([ORDINARY], pa.timestamp("us")), "n": [7]}, store_schema=False)
        mark_as_timestamp(folder / f"{name}.parquet", column=b"n")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    outcome = merge(folder)
    assert outcome.units == ()
    assert "cannot be written back identically" in outcome.skipped[0].why
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def mark_as_timestamp(path, *, column):
    """Annotate an INT64 column as TIMESTAMP_MICROS: in Thrift's compact form the field 6 with the value 10."""
    whole = path.read_bytes()
    begin = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    plain = b"\x18" + bytes([len(column)]) + column
    head, name, rest = whole[begin:-8].partition(plain)
    footer = head + name + b"\x25\x14" + rest
    path.write_bytes(whole[:begin] + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    assert "TIMESTAMP_MICROS" in str(pq.read_metadata(path).schema) or "Timestamp" in str(pq.read_metadata(path).schema)


def test_odd_column_names(tmp_path):
    """INT96 columns are found by their path, also where names hold dots or stand twice in a file."""
    folder = tmp_path / "t"
    for name, stamp in (("a", LAST), ("b", FIRST)):
        stamps = pa.array([stamp], pa.timestamp("us"))
        inner = pa.StructArray.from_arrays([stamps], ["b"])
        table = pa.table([stamps, inner, stamps, stamps], names=["a.b", "a", "twice", "twice"])
        folder.mkdir(exist_ok=True)
        pq.write_table(table, folder / f"{name}.parquet", **INT96, store_schema=False)
    outcome = merge(folder)
    assert outcome.skipped == ()
    assert content(folder).count(raw(1000 * LAST)) >= 4


def test_many_rows_and_row_groups(tmp_path):
    """The units are compared batch by batch, over the ends of row groups."""
    folder = tmp_path / "t"
    numbers = [ORDINARY + at for at in range(70_000)]
    write(folder, "a", {"t": pa.array(numbers, pa.timestamp("us")), "s": ["x" * (at % 50) for at in range(70_000)]},
          row_group_size=7001, store_schema=False)  # fmt: skip
    write(folder, "b", {"t": pa.array([LAST], pa.timestamp("us")), "s": [""]}, store_schema=False)
    assert merge(folder).skipped == ()
    (merged,) = folder.iterdir()
    read = pq.read_table(merged, partitioning=None, coerce_int96_timestamp_unit="us")
    assert read["t"].cast(pa.int64()).to_pylist() == [*numbers, LAST]


HIVE = "parquet-mr version 1.10.1 (build a89df8f9932b6ef6633d06069e50c9b7970bebd1)"
OLD_HIVE = "parquet-mr version 1.6.0"


@pytest.mark.parametrize(
    "names", [(HIVE, HIVE), (HIVE, OLD_HIVE), (OLD_HIVE, HIVE), ("impala version 2.9.0",), (None,)]
)
def test_the_writer_is_still_named(tmp_path, names):
    """Hive, Impala and Spark read INT96 by the writer's name: a merged file has the first one's, byte for byte."""
    folder = tmp_path / "t"
    for at in range(4):
        write(folder, str(at), {"t": pa.array([ORDINARY + at], pa.timestamp("us"))})
        set_created_by(folder / f"{at}.parquet", names[at % len(names)])
    assert merge(folder).skipped == ()
    (merged,) = folder.iterdir()
    assert pq.read_metadata(merged).created_by == (names[0] or "")
    assert all(kept(folder, 1000 * (ORDINARY + at)) for at in range(4))


def test_writers_that_mean_different_times_are_not_mixed(tmp_path):
    """The same bytes are another time if parquet-mr wrote them: such files never share one."""
    folder = tmp_path / "t"
    for at in range(6):
        write(folder, str(at), {"t": pa.array([ORDINARY + at], pa.timestamp("us"))})
        set_created_by(folder / f"{at}.parquet", (HIVE, "impala version 2.9.0", None)[at % 3])
    merge(folder)
    found = {pq.read_metadata(path).created_by: pq.read_metadata(path).num_rows for path in folder.iterdir()}
    assert found == {HIVE: 2, "impala version 2.9.0": 2, "": 2}


def test_the_writer_does_not_matter_without_int96(tmp_path):
    """Files of other timestamps are merged whoever wrote them, and the merged file does not name an old writer."""
    folder = tmp_path / "t"
    folder.mkdir()
    for at in range(4):
        pq.write_table(pa.table({"t": pa.array([at], pa.timestamp("us"))}), folder / f"{at}.parquet")
        set_created_by(folder / f"{at}.parquet", (OLD_HIVE, None)[at % 2])
    merge(folder)
    (merged,) = folder.iterdir()
    assert pq.read_metadata(merged).created_by.startswith("parquet-cpp-arrow")
