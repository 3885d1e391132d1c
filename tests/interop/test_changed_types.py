"""Old files of Java's after a column changed: carried over as Java reads them, or left alone; and times of Java's."""

import shutil

import pytest

ROW = {"type": "ROW", "fields": [{"id": 20, "name": "x", "type": "INT"}, {"id": 21, "name": "y", "type": "STRING"}]}
TIMES = [
    ["id", "BIGINT NOT NULL"],
    ["t", "TIMESTAMP(9)"],
    ["u", "TIMESTAMP(3)"],
    ["z", "TIMESTAMP(6) WITH LOCAL TIME ZONE"],
    [
        "r",
        {
            "type": "ROW",
            "fields": [
                {"id": 20, "name": "a", "type": "TIMESTAMP(9)"},
                {"id": 21, "name": "b", "type": "TIMESTAMP(6)"},
            ],
        },
    ],
    ["l", {"type": "ARRAY", "element": "TIMESTAMP(3)"}],
]
MODERN, OLD, ANCIENT = "2024-01-01T00:00:00.123456789", "1955-11-05T06:15:00.000123456", "1500-01-01T00:00:00.123456789"


def to(kind):
    """The change of a column's type."""
    return [["update_column_type", "x", kind]]


# Type before, changes, value before, value after, and what becomes of the table.
CHANGES = {
    "shorter": ("VARCHAR(20)", to("VARCHAR(5)"), "abcdefgh", "xyz", "refused"),
    "shorter-fits": ("VARCHAR(20)", to("VARCHAR(5)"), "äöüab", "xyz", "committed"),
    "longer-holds-more": ("VARCHAR(2)", to("VARCHAR(4)"), "abcdef", "xyz", "refused"),
    "string": ("STRING", to("VARCHAR(3)"), "abcdefgh", "xyz", "refused"),
    "char": ("CHAR(4)", to("CHAR(8)"), "ab", "xyz", "refused"),
    "char-fits": ("VARCHAR(9)", to("CHAR(3)"), "abc", "xyz", "committed"),
    "binary": ("VARBINARY(10)", to("VARBINARY(2)"), "0a0b0c0d", "0102", "refused"),
    "binary-padded": ("BYTES", to("BINARY(2)"), "01", "0102", "refused"),
    "wider": ("INT", to("BIGINT"), 1, 2, "committed"),
    "finer": ("TIMESTAMP(3)", to("TIMESTAMP(6)"), "1955-01-01T00:00:00.123", "2024-01-01T00:00:00.1234", "committed"),
    "coarser": ("TIMESTAMP(6)", to("TIMESTAMP(3)"), "2024-01-01T00:00:00.123456", "2024-01-01T00:00:00.123", "refused"),
    "decimal": ("DECIMAL(5, 2)", to("DECIMAL(9, 2)"), "1.25", "3.5", "committed"),
    "again": (ROW, [["drop_column", "x.y"], ["add_column", "x.y", "STRING"]], [1, "dropped"], [2, "new"], "refused"),
    "nested-wider": (ROW, [["add_column", "x.z", "INT"]], [1, "a"], [2, "b", 3], "refused"),
    "nested-dropped": (ROW, [["drop_column", "x.y"]], [1, "a"], [2], "refused"),
}  # fmt: skip


@pytest.mark.parametrize("keys", [["id"], []], ids=["keys", "append"])
@pytest.mark.parametrize("change", CHANGES)
def test_java_reads_the_same_rows(java, packstone, tmp_path, change, keys):
    """Java reads the same rows before and after, whatever was changed; what cannot be carried over is refused."""
    before_type, changes, before_value, after_value, expected = CHANGES[change]
    table = tmp_path / "warehouse/d.db/t"
    options = {"bucket": "1" if keys else "-1", "write-only": "true"}
    java.call(
        "create", table, fields=[["id", "BIGINT NOT NULL"], ["x", before_type]], primary_keys=keys, options=options
    )
    for key in range(3):
        java.call("write", table, rows=[[key, before_value]])
    for one in changes:
        java.call("alter", table, changes=[one])
    for key in range(10, 13):
        java.call("write", table, rows=[[key, after_value]])
    before = java.call("read", table)
    result = packstone("compact", table, "--strategy", "full")
    assert result["status"] == expected, result
    assert java.call("read", table) == before
    if expected == "refused":
        assert "x" in result["skipped"][0]["why"]


@pytest.mark.parametrize(("instant", "expected"), [(MODERN, "committed"), (OLD, "committed"), (ANCIENT, "refused")])
def test_nanoseconds_beside_coarser_times(java, python, packstone, tmp_path, instant, expected):
    """TIMESTAMP(9) beside others, also inside rows and lists, is what Java reads; what Arrow cannot hold is refused."""
    table = tmp_path / "warehouse/d.db/t"
    java.call("create", table, fields=TIMES, primary_keys=["id"], options={"bucket": "1", "write-only": "true"})
    for key in range(5):
        other = "1950-01-01T00:00:00.5"
        java.call(
            "write", table, rows=[[key, instant, other, other, [instant, "1969-12-31T23:59:59.999999"], [other, None]]]
        )
    copy = table.with_name("copy")
    shutil.copytree(table, copy)
    before = java.call("read", table)
    result = packstone("compact", table, "--strategy", "full")
    assert result["status"] == expected, result
    assert java.call("read", table) == before
    if expected == "refused":
        assert "outside 1677-2262" in result["skipped"][0]["why"]
    else:
        assert python.call("read", table) == python.call("read", table, rust=True)
        java.call("compact", copy, full=True)
        assert java.call("read", copy) == before
