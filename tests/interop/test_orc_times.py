"""Timestamps in ORC files of Java writers in many zones: Java and Rust read the same after Packstone's compaction."""

import pytest
from paimon_interop.client import Worker, java_command, why_no_java

WHOLE = (
    "1700-03-01T00:00:00", "1899-12-31T23:59:59", "1900-01-01T00:00:00", "1901-01-01T00:00:00", "1927-12-31T23:54:08",
    "1941-03-15T02:30:00", "1955-11-05T06:15:00", "1969-12-31T12:00:00", "1969-12-31T16:00:00", "1969-12-31T23:59:58",
    "1970-01-01T00:00:00", "1970-01-01T00:00:01", "1970-01-01T05:29:59", "1970-01-01T07:59:59", "1970-01-01T08:00:00",
    "1986-06-01T00:00:00", "2014-12-31T23:59:59", "2024-03-31T02:30:00", "2024-10-27T02:30:00", "2024-11-03T01:30:00",
    "2038-01-19T03:14:08", "2040-07-01T00:00:00", "2100-07-01T12:00:00",
)  # fmt: skip
FRACTIONS = ("", ".5", ".001", ".000123", ".000999", ".999999")
FIELDS = (
    ("id", "BIGINT NOT NULL"),
    ("a", "TIMESTAMP(6)"),
    ("b", "TIMESTAMP(3)"),
    ("c", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
    ("day", "DATE"),
    ("amount", "DECIMAL(38, 10)"),
    ("code", "CHAR(6)"),
    ("word", "VARCHAR(9)"),
    ("tiny", "TINYINT"),
    ("flag", "BOOLEAN"),
)
ZONES = (
    "UTC",
    "Asia/Shanghai",
    "America/New_York",
    "Europe/Berlin",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "Etc/GMT+5",
)
OPTIONS = {"bucket": "1", "write-only": "true", "file.format": "orc"}


def rows():
    """Each time with each fraction; dates before the Gregorian calendar and wide decimals beside them."""
    times = [(whole, part) for whole in WHOLE for part in FRACTIONS]
    found = []
    for at, (whole, part) in enumerate(times):
        amount = f"{'-' if at % 2 else ''}1234567890123456789012345678.{at:010d}"
        short = part if len(part) < len(".0001") else ""
        row = [at, whole + part, whole + short, whole + part, f"{1400 + at * 4}-02-28", amount]
        found.append([*row, f"c{at}", f"w {at}", at % 100 - 50, at % 3 == 0])
    return [*found, [len(found), *[None] * (len(FIELDS) - 1)]]


@pytest.fixture
def java_in(tmp_path):
    """Java Paimon in a zone."""
    if why := why_no_java():
        pytest.skip(why)
    started = []

    def start(zone):
        command, *rest = java_command()
        started.append(Worker([command, f"-Duser.timezone={zone}", *rest], log=tmp_path / "java.log"))
        return started[-1].__enter__()

    yield start
    for worker in started:
        worker.__exit__(None, None, None)


def create(worker, table):
    """A table of three commits."""
    table.parent.mkdir(parents=True, exist_ok=True)
    fields = [list(field) for field in FIELDS]
    worker.call("create", table, fields=fields, primary_keys=["id"], partition_keys=[], options=OPTIONS)
    for _ in range(3):
        worker.call("write", table, rows=rows())


@pytest.mark.parametrize("zone", ZONES)
def test_times_of_a_writer(java_in, java, python, packstone, tmp_path, zone):
    """Before and after 1970, with every fraction: Java, in UTC and in the writer's zone, and Rust read the same."""
    table, writer = tmp_path / "warehouse/d.db/t", java_in(zone)
    create(writer, table)
    before = [worker.call("read", table) for worker in (java, writer)]
    assert packstone("compact", table, "--strategy", "full")["status"] == "committed"
    assert [worker.call("read", table) for worker in (java, writer)] == before
    found = python.call("read", table, rust=True)["rows"]
    code = [name for name, _ in FIELDS].index("code")  # Rust shows the blanks at the end of a CHAR, Java does not
    trimmed = [[*row[:code], row[code] and row[code].rstrip(), *row[code + 1 :]] for row in found]
    assert trimmed == before[0]["rows"]


@pytest.mark.parametrize(
    ("zone", "why"),
    [
        ("Europe/Amsterdam", "other clocks before 1970"),
        ("GMT+08:00", "does not know"),
        ("Africa/Windhoek", "before 1900"),
    ],
)
def test_zones_that_are_not_agreed_about(java_in, java, packstone, tmp_path, zone, why):
    """Where Java's clocks may differ from ours the bucket is left alone with the reason."""
    table = tmp_path / "warehouse/d.db/t"
    create(java_in(zone), table)
    before = java.call("read", table)
    done = packstone("compact", table, "--strategy", "full")
    assert done["status"] == "refused"
    assert why in str(done)
    assert java.call("read", table) == before


def test_the_last_second_before_1970(java_in, java, packstone, tmp_path):
    """23:59:59.5, which ORC cannot store in UTC, comes from a writer in Shanghai: refused, not moved by a second."""
    table, writer = tmp_path / "warehouse/d.db/t", java_in("Asia/Shanghai")
    fields = [["id", "BIGINT NOT NULL"], ["a", "TIMESTAMP(3)"]]
    writer.call("create", table, fields=fields, primary_keys=["id"], partition_keys=[], options=OPTIONS)
    for at in range(3):
        writer.call("write", table, rows=[[at, "1969-12-31T23:59:59.5"]])
    before = java.call("read", table)
    done = packstone("compact", table, "--strategy", "full")
    assert done["status"] == "refused"
    assert "the last second before 1970" in str(done)
    assert java.call("read", table) == before
