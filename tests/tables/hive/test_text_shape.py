"""Text files that a reader guesses differently are not joined: line ends, delimiters, numbers of columns."""

import gzip

import duckdb
import pandas as pd
import polars as pl
import pytest

from packstone.tables.hive.file_facts import FREE_TEXT, ONE_COLUMN, RAGGED, Reading
from packstone.tables.hive.text_facts import LineEnd, agree_on_readings, find_line_end, read_shape

ROWS = 300


def lines(file, *, delimiter=",", end="\n", columns=2, last=True):
    """Some rows of numbers as text."""
    text = end.join(delimiter.join(str(at + file * 1000) for _ in range(columns)) for at in range(ROWS))
    return (text + (end if last else "")).encode()


def rows_by_duckdb(folder):
    """What DuckDB finds when it has to guess everything."""
    found = duckdb.sql(f"select * from read_csv('{folder}/*', hive_partitioning=false)")
    return [str(kind) for kind in found.types], sorted(found.fetchall())


def rows_by_pandas(folder):
    """What pandas finds, file by file."""
    return sorted(row for file in folder.iterdir() for row in pd.read_csv(file, header=None).itertuples(index=False))


def rows_by_polars(folder):
    """What Polars finds, file by file."""
    return sorted(row for file in folder.iterdir() for row in pl.read_csv(file, has_header=False).rows())


def by_all(folder):
    """What all of them find."""
    return rows_by_duckdb(folder), rows_by_pandas(folder), rows_by_polars(folder)


MIXES = {
    "one CRLF": ([lines(at, end="\r\n" if at == 5 else "\n") for at in range(6)], 2),
    "one CRLF, first": ([lines(at, end="\r\n" if at == 0 else "\n") for at in range(6)], 2),
    "one LF": ([lines(at, end="\n" if at == 2 else "\r\n") for at in range(6)], 2),
    "CRLF": ([lines(at, end="\r\n") for at in range(6)], 1),
    "CRLF, last line end missing": ([lines(at, end="\r\n", last=False) for at in range(6)], 1),
    "LF, last line end missing": ([lines(at, last=False) for at in range(6)], 1),
    "tabs": ([lines(at, delimiter="\t") for at in range(6)], 1),
    "quoted delimiters": ([b'%d,"a,b"\n2,"c,d,e"\n3,f\n4,"g"\n' % at for at in range(6)], 1),
}


@pytest.mark.parametrize("pack", [("csv", bytes), ("csv.gz", gzip.compress)])
@pytest.mark.parametrize("name", MIXES)
def test_duckdb_guesses_the_same(packstone, lake, name, pack):
    """DuckDB finds the same rows and types before and after; files that differ stay by themselves."""
    contents, files_after = MIXES[name]
    folder = lake.text("p=1", {f"f{at}.{pack[0]}": pack[1](text) for at, text in enumerate(contents)})
    before = rows_by_duckdb(folder)
    assert packstone("compact", lake.table).code == 0
    assert (len(list(folder.iterdir())), rows_by_duckdb(folder)) == (files_after, before)


@pytest.mark.parametrize("name", ["one CRLF", "one LF", "CRLF", "CRLF, last line end missing"])
def test_other_readers_find_the_same(packstone, lake, name):
    """So do pandas and Polars."""
    folder = lake.text("p=1", {f"f{at}.csv": text for at, text in enumerate(MIXES[name][0])})
    before = by_all(folder)
    assert packstone("compact", lake.table).code == 0
    assert len(list(folder.iterdir())) < 6
    assert by_all(folder) == before


def test_line_breaks_in_quotes(packstone, lake):
    """Excel ends rows by CRLF and breaks lines within a cell by LF: that is one line end, for pandas too."""
    texts = [b'%d,"a\nb"\r\n2,"c"\r\n3,"d"\r\n4,"x\ny"\r\n5,z\r\n' % at for at in range(6)]
    folder = lake.text("p=1", {f"f{at}.csv": text for at, text in enumerate(texts)})
    before = rows_by_pandas(folder)
    assert packstone("compact", lake.table).code == 0
    assert (len(list(folder.iterdir())), rows_by_pandas(folder)) == (1, before)


def test_one_file_of_another_delimiter(packstone, lake):
    """It stays by itself; joined, DuckDB would find a single column."""
    folder = lake.text("p=1", {f"f{at}.csv": lines(at, delimiter=";" if at == 5 else ",") for at in range(6)})
    before = rows_by_duckdb(folder)
    assert packstone("compact", lake.table).code == 0
    assert (folder / "f5.csv").exists()
    assert (len(list(folder.iterdir())), rows_by_duckdb(folder)) == (2, before)


@pytest.mark.parametrize(("prefix", "files_after"), [("f", 6), ("part-", 2)])
def test_one_file_of_more_columns(packstone, lake, prefix, files_after):
    """DuckDB takes the columns from the first file by name: files are merged if that one has as many after it."""
    names = {f"{prefix}{at}.csv": lines(at, columns=3 if at == 5 else 2) for at in range(6)}
    folder = lake.text("p=1", names)
    before = rows_by_duckdb(folder)
    done = packstone("compact", lake.table, "--format", "json")
    assert (done.code, len(list(folder.iterdir())), rows_by_duckdb(folder)) == (0, files_after, before)
    if files_after == 6:
        assert "2 and 3 columns" in done.skipped("p=1")
        assert packstone("compact", lake.table, "--header", "0").code == 0
        assert len(list(folder.iterdir())) == 2


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"1,2\r3,4\r5,6", "CR only"),
        (b"1,2\r", "CR only"),
        (b"1,2\n3,4\r\n", "different ways"),
        (b"1,2\r\n3,4\r", "different ways"),
        (b"1,2\n3,4\r5,6\n", "different ways"),
    ],
)
@pytest.mark.parametrize("pack", [("csv", bytes), ("csv.gz", gzip.compress)])
def test_line_ends_that_are_left_alone(packstone, lake, tree, text, why, pack):
    """CR, and several line ends in one delimited file, are read in different ways."""
    lake.text("p=1", {f"f{at}.{pack[0]}": pack[1](text) for at in range(6)})
    before = tree(lake.table)
    done = packstone("compact", lake.table, "--format", "json")
    assert (done.code, done.json["units"], tree(lake.table)) == (0, [], before)
    assert why in done.skipped(f"p=1/f0.{pack[0]}")


def test_the_end_of_a_long_file_counts(packstone, lake, tree):
    """A file whose line ends or columns change behind what is looked at first is not joined with others."""
    long = lines(1) * 40
    lake.text("p=crlf", {f"f{at}.csv": long + b"1,2\r\n" * 50 for at in range(6)})
    lake.text("p=wide", {f"f{at}.csv": long + b"1,2,3\n" * 50 for at in range(6)})
    before = tree(lake.table)
    done = packstone("compact", lake.table, "--format", "json")
    assert (done.json["units"], tree(lake.table)) == ([], before)
    assert "different ways" in done.skipped("p=crlf/f0.csv")
    assert "lines of 2 columns and of 3" in done.skipped("p=wide")


FREE = {
    "log": [b"2024-05-01 10:00:00,1 INFO a, b\n" * 2 + b"x\n", b"2024-05-01 10:00:01,2 INFO c\n", b"x, y, z\n"],
    "txt": [b"hello, world\n", b"hello\n", b"one, two, three\n"],
    "": [b"a b\nc\n", b"x|y\n", b"p;q\nr\n"],
}


@pytest.mark.parametrize("ending", FREE)
def test_free_text_is_merged(packstone, lake, ending):
    """Lines of a log or a note have commas by chance: such files are joined as bytes."""
    contents = FREE[ending] * 2
    names = {f"f{at}.{ending}".rstrip("."): b"%d " % at + text for at, text in enumerate(contents)}
    folder = lake.text("p=1", names)
    assert packstone("compact", lake.table).code == 0
    (merged,) = folder.iterdir()
    assert merged.read_bytes() == b"".join(names.values())


def test_text_of_columns_without_a_name(packstone, lake):
    """Hive's own files have no ending; if all are delimited, those of other columns stay by themselves."""
    names = {f"00000{at}_x": b"%d\x01a\n" % at * 9 for at in range(6)} | {"zzz": b"1\x01a\x01b\n" * 9}
    folder = lake.text("p=1", names)
    assert packstone("compact", lake.table).code == 0
    assert len(list(folder.iterdir())) == 2
    assert (folder / "zzz").read_bytes() == names["zzz"]


PREAMBLES = {
    "a comment": lambda at: b"# exported at 12:0%d\nid,amount\n" % at,
    "a title and a blank line": lambda at: b"report %d\n\nid,amount\n" % at,
    "a comment and no header": lambda at: b"# exported at 12:0%d\n" % at,
    "four lines": lambda at: b"a %d\nb %d\nc %d\nd %d\nid,amount\n" % (at, at, at, at),
}


@pytest.mark.parametrize(
    ("name", "ending"),
    [
        *((name, ending) for name in PREAMBLES for ending in ("csv", "csv.gz")),
        *((name, "txt") for name in PREAMBLES if name != "a comment and no header"),  # nothing says that it is a table
    ],
)
def test_lines_above_a_table(packstone, lake, tree, name, ending):
    """A header below lines that differ from file to file is noticed; DuckDB finds what it found."""
    pack = gzip.compress if ending.endswith("gz") else bytes
    folder = lake.text("p=1", {f"f{at}.{ending}": pack(PREAMBLES[name](at) + lines(at)) for at in range(6)})
    before, files = rows_by_duckdb(folder), tree(lake.table)
    done = packstone("compact", lake.table, "--format", "json")
    assert (done.code, done.json["units"], tree(lake.table), rows_by_duckdb(folder)) == (0, [], files, before)
    assert "--header 0" in done.skipped("p=1")


def test_header_lines_below_the_first_are_counted_in_the_file(packstone, lake):
    """The number in the reason is the one to give: with it the merged file has the header once."""
    text = b"report\n\nid,amount\n"
    folder = lake.text("p=1", {f"f{at}.csv": text.replace(b"rep", b"%d rep" % at) + lines(at) for at in range(6)})
    done = packstone("compact", lake.table, "--format", "json")
    assert "--header 3" in done.skipped("p=1")
    for at, file in enumerate(sorted(folder.iterdir())):
        file.write_bytes(text + lines(at))
    before = rows_by_duckdb(folder)
    assert packstone("compact", lake.table, "--header", "3").code == 0
    assert len(list(folder.iterdir())) == 1
    assert rows_by_duckdb(folder) == before


def test_rows_that_recur_are_no_header(packstone, lake):
    """The same row at the same place of all files is not a sign, if nothing below is of another type."""
    texts = [f"x{at},{at}\nsame,2\nother,3\nword,4\n".encode() for at in range(6)]
    folder = lake.text("p=1", {f"f{at}.csv": text for at, text in enumerate(texts)})
    assert packstone("compact", lake.table).code == 0
    (merged,) = folder.iterdir()
    assert merged.read_bytes() == b"".join(texts)


@pytest.mark.parametrize(
    ("samples", "end"),
    [
        ([b"a"], LineEnd.LF),
        ([b"a\nb"], LineEnd.LF),
        ([b"a\r\nb", b"c\r\n"], LineEnd.CRLF),
        ([b"a\r\nb", b"c\n"], LineEnd.MIXED),
        ([b'1,"a\nb\rc"\r\n'], LineEnd.CRLF),
        ([b"a\rb"], LineEnd.CR),
        ([b"a\rb\n"], LineEnd.MIXED),
    ],
)
def test_line_ends(samples, end):
    """Line breaks in quotes do not count, unless there are no others."""
    assert find_line_end(*samples) is end


def shape(text, *, ending="csv"):
    """The shape of a whole file."""
    return read_shape(text, b"", is_whole=True, ending=ending)


@pytest.mark.parametrize(
    ("text", "reading"),
    [
        (b"1,2\n3,4\n", Reading(",", 2)),
        (b'1,"a,b"\n2,"c""d,e"\n', Reading(",", 2)),
        (b'1,"a\\",b"\n2,"c"\n', Reading(",", 2)),
        (b"1,'a,b'\n2,'c'\n", Reading(",", 2, "'")),
        (b"a\n\nb\n", ONE_COLUMN),
        (b"1,2\n\n3,4\n\n", Reading(",", 2)),
        (b"1,2\n3\n4,5\n", RAGGED),
        (b"1,2\n3,4,5\n6,7,8\n", RAGGED),
    ],
)
def test_readings(text, reading):
    """Quotes of all kinds are understood; lines that differ are ragged."""
    assert agree_on_readings([shape(text)]) == (reading,)


def test_files_agree_on_a_delimiter():
    """A decimal comma makes two readings of a file; the one that all files have counts."""
    both, one = shape(b"1;2,5\n3;4,5\n"), shape(b"1;2\n3;4\n")
    assert agree_on_readings([both, one]) == (Reading(";", 2), Reading(";", 2))


def test_one_file_of_free_text_is_enough():
    """Without a name that says so, text is delimited only if all files are."""
    table, note = shape(b"1,2\n", ending="txt"), shape(b"hello\n", ending="txt")
    assert agree_on_readings([table, note]) == (FREE_TEXT, FREE_TEXT)
    assert agree_on_readings([table, table]) == (Reading(",", 2), Reading(",", 2))


def test_blank_files_go_with_the_others(packstone, lake):
    """A file of blank lines has no columns, and keeps no other file from being merged."""
    table, blank = shape(b"1,2\n"), shape(b"\n\n")
    assert agree_on_readings([blank, table, table]) == (Reading(",", 2),) * 3
    assert agree_on_readings([blank, blank]) == (FREE_TEXT, FREE_TEXT)
    folder = lake.text("p=1", {f"f{at}.csv": b"\n" if at == 1 else b"%d,2\n" % at for at in range(6)})
    assert packstone("compact", lake.table).code == 0
    assert len(list(folder.iterdir())) == 1


def test_free_text_of_several_line_ends_stays_by_itself(packstone, lake):
    """A log with several line ends is merged with logs like it, and not with those of one line end."""
    plain = {f"a{at}.log": b"%d started\nx\n" % at for at in range(6)}
    mixed = {f"b{at}.log": b"%d started\r\nx\n" % at for at in range(6)}
    folder = lake.text("p=1", plain | mixed)
    assert packstone("compact", lake.table).code == 0
    merged = sorted(file.read_bytes() for file in folder.iterdir())
    assert merged == sorted([b"".join(plain.values()), b"".join(mixed.values())])
