"""What people see of segments: CarbonData's columns, its long form, and its tablestatus file."""

import json
from dataclasses import replace

import pytest

from packstone.errors import InvalidInputError
from packstone.model.segment import SegmentId, SegmentStatus
from packstone.tables.segments.format.columns import parse_columns
from packstone.tables.segments.format.edits import new_table
from packstone.tables.segments.format.status import StatusEntry
from packstone.tables.segments.show import (
    COLUMNS,
    export_tablestatus,
    format_ms,
    iso_duration,
    show_segments,
    status_words,
)

START = 1_767_225_599_007  # 2025-12-31 23:59:59.007


def entry(name, status=SegmentStatus.SUCCESS, **changes):
    """A finished load of 3.5 seconds."""
    known = {
        "id": SegmentId.parse(name),
        "status": status,
        "load_start_ms": START,
        "load_end_ms": START + 3500,
        "newest_load_ms": START,
        "data_bytes": 1_500_000,
        "index_bytes": 900,
        "rows": 10,
        "files": 2,
        "segment_file": f"{name}_a.json",
        "attempt": "a",
    }
    return StatusEntry(**(known | changes))


RUNNING = {"load_end_ms": None, "segment_file": None, "data_bytes": 0, "index_bytes": 0, "rows": 0, "files": 0}
STATUS = replace(
    new_table(parse_columns("id long"), {}, table_id="t", commit="c", now_ms=1),
    entries=(
        entry("0.10", is_major=True),
        entry("4", SegmentStatus.PARTIAL_SUCCESS, bad_rows=2),
        entry("12", SegmentStatus.IN_PROGRESS, **RUNNING),
        entry("13", SegmentStatus.OVERWRITE_IN_PROGRESS, **RUNNING),
    ),
)
RETIRED = (
    entry("0.9", SegmentStatus.COMPACTED, merged_into=SegmentId(0, 10), modified_ms=START + 9000),
    entry("3", SegmentStatus.MARKED_FOR_DELETE, modified_ms=START + 9000),
)
HISTORY = (entry("0", SegmentStatus.COMPACTED, merged_into=SegmentId(0, 1), modified_ms=START + 9),)


def test_the_eight_columns():
    """In CarbonData's order and words; what is unfinished or not kept is NA."""
    rows = [row.to_texts() for row in show_segments(STATUS, retired=RETIRED)]
    assert all(len(row) == len(COLUMNS) for row in rows)
    assert rows[0] == (
        "13", "Insert Overwrite In Progress", "2025-12-31 23:59:59.007", "NA", "NA", "0 B", "0 B", "parquet"
    )  # fmt: skip
    assert rows[2] == ("4", "Partial Success", "2025-12-31 23:59:59.007", "3.5S", "NA", "1.4 MB", "900 B", "parquet")


def test_ids_descend_as_pairs_of_numbers():
    """12 stands above 4, 0.10 above 0.9; the history adds what is cleaned; a limit keeps the newest."""
    assert [row.id for row in show_segments(STATUS, retired=RETIRED)] == ["13", "12", "4", "3", "0.10", "0.9"]
    rows = show_segments(STATUS, retired=RETIRED, history=HISTORY)
    assert [(row.id, row.is_cleaned) for row in rows[-2:]] == [("0.9", False), ("0", True)]
    assert [row.id for row in show_segments(STATUS, retired=RETIRED, limit=2)] == ["13", "12"]
    with pytest.raises(InvalidInputError, match="limit is 0"):
        show_segments(STATUS, limit=0)


def test_the_long_form():
    """CarbonData's twelve names, then ours."""
    rows = {row.id: row.to_json() for row in show_segments(STATUS, retired=RETIRED)}
    assert rows["0.9"] == {
        "id": "0.9",
        "status": "Compacted",
        "loadStartTime": "2025-12-31 23:59:59.007",
        "timeTakenMs": 3500,
        "partitions": "NA",
        "dataSize": 1_500_000,
        "indexSize": 900,
        "mergedToId": "0.10",
        "format": "parquet",
        "path": "NA",
        "loadEndTime": "2026-01-01 00:00:02.507",
        "segmentFileName": "0.9_a.json",
        "rows": 10,
        "files": 2,
        "badRows": 0,
        "majorCompacted": False,
        "cleaned": False,
        "deletedRows": 0,
    }
    assert (rows["12"]["timeTakenMs"], rows["12"]["loadEndTime"], rows["12"]["segmentFileName"]) == (-1, "NA", "NA")
    assert (rows["0.10"]["majorCompacted"], rows["4"]["badRows"]) == (True, 2)


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(0, "0S"), (7, "0.007S"), (1000, "1S"), (61_500, "1M1.5S"), (60_000, "1M"), (90_061_001, "25H1M1.001S")],
)
def test_durations(milliseconds, text):
    """ISO durations without their PT."""
    assert iso_duration(milliseconds) == text


def test_words_and_moments():
    """Statuses as CarbonData stores them; a moment beyond the calendar is still a text."""
    assert status_words(SegmentStatus.MARKED_FOR_DELETE) == "Marked for Delete"
    assert status_words(SegmentStatus.IN_PROGRESS, shown=False) == "In Progress"
    assert status_words(SegmentStatus.OVERWRITE_IN_PROGRESS, shown=False) == "Overwrite In Progress"
    assert format_ms(-1) == "1969-12-31 23:59:59.999"
    assert format_ms(10**18) == "1000000000000000000 ms"


def test_tablestatus():
    """One line, all values texts, in id order; fields with their default are left out."""
    text = export_tablestatus(STATUS, retired=RETIRED, history=HISTORY)
    assert "\n" not in text
    found = {details["loadName"]: details for details in json.loads(text)}
    assert list(found) == ["0", "0.9", "0.10", "3", "4", "12", "13"]
    assert all(isinstance(value, str) for details in found.values() for value in details.values())
    assert found["0.9"] == {
        "timestamp": str(START + 3500),
        "loadStatus": "Compacted",
        "loadName": "0.9",
        "dataSize": "1500000",
        "indexSize": "900",
        "modificationOrDeletionTimestamp": str(START + 9000),
        "loadStartTime": str(START),
        "mergedLoadName": "0.10",
        "segmentFile": "0.9_a.json",
        "fileFormat": "parquet",
    }
    assert found["12"] == {
        "loadStatus": "In Progress",
        "loadName": "12",
        "loadStartTime": str(START),
        "fileFormat": "parquet",
    }
    assert found["0.10"]["majorCompacted"] == "true"
    assert found["0"]["visibility"] == "false"
    assert found["3"]["loadStatus"] == "Marked for Delete"
