"""Statistics of new files: the modes, the cuts, and Java's own answers."""

from decimal import Decimal
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packstone.errors import InvalidInputError
from packstone.rewrite.merge_tree.spec import ColumnFacts
from packstone.storage.local import LocalFileIO
from packstone.tables.paimon.format.binary_row import decode_row
from packstone.tables.paimon.format.data_file import key_stats, parse_stats_mode, stats_modes, value_stats
from packstone.tables.paimon.format.data_type import DataField, parse_data_type
from packstone.tables.paimon.format.live_files import read_live_files
from packstone.tables.paimon.format.schema import read_schema
from packstone.tables.paimon.format.snapshot import list_snapshot_ids, read_snapshot
from packstone.tables.paimon.format.table_options import TableOptions

FIXTURES = Path(__file__).parents[2] / "testdata" / "paimon"


def field(name, text="STRING"):
    """One column."""
    return DataField(id=0, name=name, type=parse_data_type(text))


def facts(minimum, maximum, *, name="c", nulls=0):
    """What the kernel found in a column."""
    return ColumnFacts(name=name, minimum=minimum, maximum=maximum, null_count=nulls)


def one(minimum, maximum, mode, *, text="STRING"):
    """Smallest, largest and nulls of a single column in a mode."""
    stats, names = value_stats([facts(minimum, maximum, nulls=3)], [field("c", text)], [parse_stats_mode(mode)])
    if names == ():
        return None
    kinds = [parse_data_type(text)]
    return (*decode_row(stats.min_values, kinds), *decode_row(stats.max_values, kinds), *stats.null_counts)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("none", None),
        ("counts", (None, None, 3)),
        ("full", ("abcdef", "uvwxyz", 3)),
        ("truncate(3)", ("abc", "uvx", 3)),
    ],
)
def test_modes_keep_what_they_say(mode, expected):
    """None, counts, full and truncate keep nothing, nulls, all, and cut values."""
    assert one("abcdef", "uvwxyz", mode) == expected


@pytest.mark.parametrize(
    ("maximum", "expected"),
    [
        ("abc", "abc"),
        ("abcd", "abd"),
        ("ab\U0010ffffd", "ac"),
        ("漢漢漢漢", "漢漢" + chr(ord("漢") + 1)),
        ("😀😀😀😀", "😀😀😁"),
    ],
)
def test_a_cut_maximum_is_raised_in_its_last_character(maximum, expected):
    """Short values stay; otherwise the last character that can be raised is, and what follows it goes."""
    got = one("a", maximum, "truncate(3)")[1]
    assert got == expected if expected is not None else got > maximum


def test_a_character_before_the_surrogates_is_raised_beyond_them():
    """There is no character between U+D7FF and U+E000; half a surrogate would not be text."""
    assert one("a", "\ud7ffx", "truncate(1)")[1] == "\ue000"


def test_without_an_upper_bound_neither_value_is_kept():
    """If no character can be raised there is no maximum, and then no minimum either; the nulls stay counted."""
    assert one("a", "\U0010ffff" * 5, "truncate(3)") == (None, None, 3)
    assert one(b"a", b"\xff\xff\xff\xff", "truncate(3)", text="BYTES") == (None, None, 3)


def test_bytes_are_cut_by_bytes():
    """Trailing 0xFF bytes cannot be raised and go."""
    assert one(b"\x01\x02\x03\x04", b"\x01\xff\xff\x00", "truncate(3)", text="BYTES") == (b"\x01\x02\x03", b"\x02", 3)


@given(st.text(min_size=1), st.integers(1, 5))
def test_cut_values_still_hold_the_value(text, length):
    """Whatever the text: the cut minimum is not greater and the cut maximum not smaller, by bytes."""
    low, high, _ = one(text, text, f"truncate({length})")
    if high is not None:
        assert low.encode() <= text.encode() <= high.encode()
    assert low is None or len(low) <= length


def test_numbers_are_never_cut():
    """Only texts and binaries are cut."""
    assert one(Decimal("-1.50"), Decimal("999.25"), "truncate(1)", text="DECIMAL(20, 2)")[:2] == (
        Decimal("-1.50"),
        Decimal("999.25"),
    )


def test_dense_statistics_leave_columns_out():
    """Columns in mode none and nested ones are not in the rows, and the names say which are."""
    array = DataField(id=1, name="a", type=parse_data_type({"type": "ARRAY", "element": "INT"}))
    modes = [parse_stats_mode(mode) for mode in ("full", "full", "none", "full")]
    columns = [field("x"), array, field("n"), field("y", "INT")]
    values = [facts("a", "b"), facts(None, None, nulls=9), facts("q", "r"), facts(1, 2)]
    stats, names = value_stats(values, columns, modes)
    assert names == ("x", "y")
    assert decode_row(stats.min_values, [columns[0].type, columns[3].type]) == ("a", 1)
    assert stats.null_counts == (0, 0)


def test_sparse_statistics_hold_nulls():
    """With metadata.stats-dense-store = false every column has its place, and no names are given."""
    stats, names = value_stats([facts("a", "b"), facts(1, 2)], [field("x"), field("y", "INT")],
                               [parse_stats_mode("none"), parse_stats_mode("full")], dense=False)  # fmt: skip
    assert names is None
    assert decode_row(stats.min_values, [field("x").type, field("y", "INT").type]) == (None, 1)
    assert stats.null_counts == (None, 0)


def test_all_columns_with_statistics_need_no_names():
    """If every column has statistics the list of names is left out; if none has it is empty."""
    assert value_stats([facts(1, 2)], [field("y", "INT")], [parse_stats_mode("full")])[1] is None
    assert value_stats([facts(1, 2)], [field("y", "INT")], [parse_stats_mode("none")])[1] == ()


def test_a_column_of_nulls_has_a_count_only():
    """No value, no smallest; in every mode that counts."""
    assert one(None, None, "full") == (None, None, 3)
    assert one(None, None, "truncate(16)") == (None, None, 3)


def test_modes_come_from_field_level_and_number():
    """A column's own option wins; then the level's mode; columns beyond the kept ones have none."""
    given_options = {
        "metadata.stats-mode": "full",
        "metadata.stats-mode.per.level": "0:counts",
        "metadata.stats-keep-first-n-columns": "2",
        "fields.c.stats-mode": "truncate(4)",
    }
    options = TableOptions.parse(given_options.items(), is_primary_key=True)
    columns = [field(name) for name in "abcd"]
    at_top = stats_modes(columns, options, level=5, given=given_options)
    assert [str(mode) for mode in at_top] == ["full", "full", "truncate(4)", "none"]
    at_zero = stats_modes(columns, options, level=0, given=given_options)
    assert [str(mode) for mode in at_zero] == ["counts", "counts", "truncate(4)", "none"]


@pytest.mark.parametrize("bad", ["", "some", "truncate", "truncate(0)", "truncate(x)", "full(3)"])
def test_a_bad_mode_is_refused(bad):
    """One sentence says what to write."""
    with pytest.raises(InvalidInputError, match="is not a statistics mode"):
        parse_stats_mode(bad)


@pytest.mark.parametrize("name", ["java_levels", "java_compacted", "java_deletes", "java_append"])
def test_our_statistics_are_java_s_byte_for_byte(name):
    """For every Parquet file that Java wrote we compute the statistics that Java put in its manifest."""
    io, table, compared = LocalFileIO(), str(FIXTURES / name / "table"), 0
    for number in list_snapshot_ids(io, table):
        for bucket in read_live_files(io, table, read_snapshot(io, table, number)):
            for file in bucket.files:
                schema = read_schema(io, table, file.schema_id)
                options = TableOptions.parse(schema.options, is_primary_key=schema.is_primary_key)
                content = pq.read_table(f"{table}/bucket-{bucket.bucket}/{file.file_name}")
                modes = stats_modes(schema.fields, options, level=file.level, given=dict(schema.options))
                values = [found(content, column.name) for column in schema.fields]
                assert value_stats(values, schema.fields, modes) == (file.value_stats, file.value_stats_cols)
                if schema.is_primary_key:
                    keys = [found(content, column.name) for column in schema.key_fields]
                    assert key_stats(keys, schema.trimmed_key_fields) == file.key_stats
                compared += 1
    assert compared > 0


def found(content, name):
    """What a file's column holds."""
    column = content[name]
    extremes = pc.min_max(column).as_py()
    return facts(extremes["min"], extremes["max"], name=name, nulls=column.null_count)
