"""Table properties: names, values, defaults, what is refused and how it is said."""

import pytest

from packstone.errors import InvalidInputError
from packstone.rewrite.load.convert_rows import BadRecords
from packstone.strategy.segment_view import DaysRule
from packstone.tables.segments.format.columns import parse_columns
from packstone.tables.segments.format.properties import (
    PROPERTY_NAMES,
    Compression,
    Properties,
    SortScope,
    alter,
    describe,
    parse_properties,
)

COLUMNS = parse_columns("id long, ts timestamp, name string, tags array<string>, price decimal(10,2)")


def test_defaults():
    """Nothing given is nothing sorted, two levels of 4 and 3, and no merge by itself."""
    found = parse_properties({}, COLUMNS)
    assert found == Properties()
    assert (found.sort_scope, found.compaction_level_threshold, found.major_compaction_size) == (
        "NO_SORT",
        (4, 3),
        1024,
    )
    assert (found.minor_compaction_size, found.auto_load_merge, found.table_blocksize) == (None, False, 256)


def test_all_are_read_whatever_their_case():
    """Names and words in any case; sort columns as the schema spells them; sizes with or without their unit."""
    given = {
        "sort_columns": "ID , Name",
        "Sort_Scope": "global",
        "compaction_level_threshold": "5, 2,3",
        "compaction_preserve_segments": "2",
        "allowed_compaction_days": "3",
        "compaction_days_rule": "RECENT",
        "compaction_deleted_pct": "30",
        "major_compaction_size": "512MB",
        "minor_compaction_size": "64m",
        "auto_load_merge": "TRUE",
        "table_blocksize": "128",
        "table_blocklet_rows": "1000",
        "bloom_columns": "NAME",
        "bloom_fpp": "0.05",
        "compression": "SNAPPY",
        "bad_records_action": "redirect",
        "segment_retention_days": "0",
        "max_query_minutes": "5",
        "trash_retention_days": "365",
    }
    assert {name.upper() for name in given} == set(PROPERTY_NAMES)
    assert parse_properties(given, COLUMNS) == Properties(
        sort_columns=("id", "name"),
        sort_scope=SortScope.GLOBAL_SORT,
        compaction_level_threshold=(5, 2, 3),
        compaction_preserve_segments=2,
        allowed_compaction_days=3,
        compaction_days_rule=DaysRule.RECENT,
        compaction_deleted_pct=30,
        major_compaction_size=512,
        minor_compaction_size=64,
        auto_load_merge=True,
        table_blocksize=128,
        table_blocklet_rows=1000,
        bloom_columns=("name",),
        bloom_fpp=0.05,
        compression=Compression.SNAPPY,
        bad_records_action=BadRecords.REDIRECT,
        segment_retention_days=0,
        max_query_minutes=5,
        trash_retention_days=365,
    )


def test_what_is_described_reads_back():
    """All values as text, defaults included, are a set of properties with the same meaning."""
    found = parse_properties({"SORT_COLUMNS": "name,id", "MINOR_COMPACTION_SIZE": "7"}, COLUMNS)
    assert parse_properties(describe(found), COLUMNS) == found
    assert parse_properties(describe(Properties()), COLUMNS) == Properties()


def test_sort_columns_alone_sort_locally():
    """Who names sort columns wants them used."""
    assert parse_properties({"SORT_COLUMNS": "price"}, COLUMNS).sort_scope is SortScope.LOCAL_SORT
    assert parse_properties({"SORT_COLUMNS": "id", "SORT_SCOPE": "none"}, COLUMNS).sort_scope is SortScope.NO_SORT
    assert parse_properties({"SORT_COLUMNS": ""}, COLUMNS).sort_columns == ()


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("SORT_COLUMN", "id", "'SORT_COLUMN' is not a table property; use one of SORT_COLUMNS, SORT_SCOPE"),
        ("SORT_COLUMNS", "nmae", "names 'nmae', which is not a column; the columns are id, ts"),
        ("SORT_COLUMNS", "tags", "names 'tags', which is array<string>"),
        ("SORT_COLUMNS", "id,ID", "names 'id' twice"),
        ("SORT_COLUMNS", "id,", "names '', which is not a column"),
        ("BLOOM_COLUMNS", "nmae", "names 'nmae', which is not a column; the columns are id, ts"),
        ("BLOOM_COLUMNS", "tags", "names 'tags', which is array<string>; bloom filters support whole numbers"),
        ("BLOOM_COLUMNS", "id,ID", "BLOOM_COLUMNS names 'id' twice"),
        ("BLOOM_FPP", "0", "a number from 0.0001 to 0.5"),
        ("BLOOM_FPP", "nan", "a number from 0.0001 to 0.5"),
        ("BLOOM_FPP", "1e-2", "a number from 0.0001 to 0.5"),
        ("SORT_SCOPE", "LOCAL_SORT", "SORT_SCOPE is LOCAL_SORT but no SORT_COLUMNS are given"),
        ("SORT_SCOPE", "some", "must be one of NO_SORT, LOCAL_SORT, GLOBAL_SORT"),
        ("COMPACTION_LEVEL_THRESHOLD", "4,x", "must be one to 3 numbers from 0 to 10000"),
        ("COMPACTION_LEVEL_THRESHOLD", "4,3,2,1", "must be one to 3 numbers"),
        ("COMPACTION_LEVEL_THRESHOLD", "10001", "must be one to 3 numbers"),
        ("COMPACTION_LEVEL_THRESHOLD", "-1", "must be one to 3 numbers"),
        ("COMPACTION_LEVEL_THRESHOLD", "", "must be one to 3 numbers"),
        ("COMPACTION_PRESERVE_SEGMENTS", "101", "a whole number from 0 to 100"),
        ("ALLOWED_COMPACTION_DAYS", "1.5", "a whole number from 0 to 100"),
        ("COMPACTION_DAYS_RULE", "x", "one of window, recent"),
        ("MAJOR_COMPACTION_SIZE", "-1", "a whole number of megabytes, at least 0"),
        ("MAJOR_COMPACTION_SIZE", "1GB", "a whole number of megabytes"),
        ("MINOR_COMPACTION_SIZE", "0", "a whole number of megabytes, at least 1"),
        ("AUTO_LOAD_MERGE", "yes", "must be true or false"),
        ("TABLE_BLOCKSIZE", "2049", "a whole number from 1 to 2048"),
        ("TABLE_BLOCKLET_ROWS", "999", "a whole number from 1000 to 10000000"),
        ("COMPRESSION", "brotli", "one of zstd, snappy, gzip, lz4, none"),
        ("BAD_RECORDS_ACTION", "skip", "one of FAIL, FORCE, REDIRECT, IGNORE"),
        ("SEGMENT_RETENTION_DAYS", "366", "a whole number from 0 to 365"),
        ("MAX_QUERY_MINUTES", "x", "a whole number from 1"),
        ("MAX_QUERY_MINUTES", "0", "a whole number from 1 to 10080"),
        ("TRASH_RETENTION_DAYS", "²", "a whole number from 0 to 365"),
    ],
)
def test_bad_values_name_the_property_and_what_is_allowed(name, value, sentence):
    """At create and at alter alike, in one sentence."""
    for call in (lambda: parse_properties({name: value}, COLUMNS), lambda: alter((), {name: value}, COLUMNS)):
        with pytest.raises(InvalidInputError, match=sentence) as caught:
            call()
        assert "\n" not in caught.value.message


def test_a_name_given_twice():
    """In two cases it is still one name."""
    with pytest.raises(InvalidInputError, match="COMPRESSION is given twice"):
        parse_properties({"compression": "zstd", "COMPRESSION": "none"}, COLUMNS)


def test_alter():
    """Values are replaced, None goes back to the default; what would contradict the rest is refused."""
    raw = alter((), {"sort_columns": "id", "sort_scope": "global"}, COLUMNS)
    assert raw == (("SORT_COLUMNS", "id"), ("SORT_SCOPE", "global"))
    assert alter(raw, {"Sort_Scope": None, "compression": "none"}, COLUMNS) == (
        ("SORT_COLUMNS", "id"),
        ("COMPRESSION", "none"),
    )
    with pytest.raises(InvalidInputError, match="no SORT_COLUMNS are given"):
        alter(raw, {"SORT_COLUMNS": None}, COLUMNS)
    with pytest.raises(InvalidInputError, match="No property is given"):
        alter(raw, {}, COLUMNS)
    with pytest.raises(InvalidInputError, match="'x' is not a table property"):
        alter(raw, {"x": None}, COLUMNS)
