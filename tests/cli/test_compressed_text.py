"""Compressed text of a Hive directory from the command line: the same lines under the same codec."""

import gzip
from collections import Counter

import duckdb
import pytest
from text_codecs import WRITERS

from packstone.rewrite.formats.codecs import TextCodec, read_text
from packstone.storage.local import LocalFileIO

TEXTS = [b"".join(b"%d,%d\n" % (file, at) for at in range(50)) for file in range(6)]
TEXTS[2] = TEXTS[2][:-1]


def fill(lake, codec, folder="", *, texts=TEXTS, inner="csv"):
    """Write files of a codec."""
    ending, compress = WRITERS[codec]
    return lake.text(folder, {f"{at}.{inner}.{ending}": compress(text) for at, text in enumerate(texts)})


def lines_of(folder, codec):
    """The lines of all files."""
    texts = (b"".join(read_text(LocalFileIO(), str(path), codec=TextCodec(codec))) for path in folder.iterdir())
    return Counter(line for text in texts for line in text.splitlines())


@pytest.mark.parametrize("codec", WRITERS)
def test_from_health_to_restore(packstone, lake, tree, codec):
    """Every codec: health names it, the lines stay, the ending stays, verify proves it and restore undoes it."""
    folder = fill(lake, codec, "dt=1")
    lines, before = lines_of(folder, codec), tree(lake.table)
    assert packstone("health", lake.table, "--format", "json").json["formats"] == {f"{codec} text": 6}
    done = packstone("compact", lake.table, "--format", "json")
    (unit,) = done.json["units"]
    assert (done.code, unit["how"], unit["rows"]) == (0, "concatenate", 300)
    (name,) = lake.names("dt=1")
    assert name.endswith(f"m.csv.{WRITERS[codec][0]}")
    assert lines_of(folder, codec) == lines
    assert packstone("verify", done.json["run"], lake.table).code == 0
    assert packstone("compact", lake.table, "--format", "json").json["units"] == []
    assert packstone("restore", done.json["run"], lake.table, "--yes").code == 0
    assert tree(lake.table) == before


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_duckdb_reads_the_same_rows(packstone, lake, codec):
    """Another engine reads the members of a merged file as one; the header of each file is removed but one."""
    folder = fill(lake, codec, texts=[b"file,line\n" + text for text in TEXTS])
    query = f"select * from read_csv('{folder}/*.csv.*', header = true, columns = {{'file': 'int', 'line': 'int'}})"
    before = Counter(duckdb.sql(query).fetchall())
    done = packstone("compact", lake.table, "--header", "1", "--format", "json")
    assert (done.code, len(lake.names())) == (0, 1)
    assert Counter(duckdb.sql(query).fetchall()) == before
    assert len(before) == 300


def test_headers_that_nobody_named(packstone, lake, tree):
    """Files that all begin with one line are left alone, with the two options that decide it, in health too."""
    fill(lake, "gzip", texts=[b"file,line\n" + text for text in TEXTS])
    before = tree(lake.table)
    hazards = packstone("health", lake.table, "--format", "json").json["hazards"]
    assert [one["hazard"] for one in hazards] == ["header-line"]
    done = packstone("compact", lake.table, "--format", "json")
    assert (done.code, done.json["units"]) == (0, [])
    assert "--header 1" in done.skipped("orders")
    assert "--header 0" in done.skipped("orders")
    assert tree(lake.table) == before


def test_codecs_and_endings_are_not_mixed(packstone, lake):
    """CSV and JSON, gzip and bzip2, frames and Hadoop's blocks: each becomes a file of its own."""
    for codec in WRITERS:
        ending, compress = WRITERS[codec]
        for inner in ("csv", "json"):
            lake.text("", {f"{codec}-{at}.{inner}.{ending}": compress(b'{"a": 1}\n') for at in range(5)})
    done = packstone("compact", lake.table, "--format", "json")
    assert (done.code, len(done.json["units"]), len(lake.names())) == (0, 16, 16)


def test_names_with_numbers_or_capitals(packstone, lake):
    """Digits before the ending are no ending, and capitals make no other: readers still know the codec by the name."""
    packed = gzip.compress(b"1\n")
    names = ["events.2024.01.gz", "events.2024.02.gz", "x.c000.gz", "plain.gz", "loud.GZ"]
    folder = lake.text("", dict.fromkeys(names, packed))
    assert packstone("compact", lake.table).code == 0
    (name,) = lake.names()
    assert name.endswith("m.gz")
    assert gzip.decompress((folder / name).read_bytes()) == b"1\n" * 5


BROKEN = {
    "cut.csv.gz": (gzip.compress(TEXTS[0])[:-3], "not a complete gzip file"),
    "zeros.csv.gz": (gzip.compress(TEXTS[0]) + bytes(512), "not a complete gzip file"),
    "wrong.csv.gz": (WRITERS["bzip2"][1](TEXTS[0]), "its name says gzip but its content is bzip2"),
    "plain.csv.gz": (TEXTS[0], "its name says compressed text but its content is text"),
    "wrong.csv.snappy": (WRITERS["gzip"][1](TEXTS[0]), "its name says hadoop-snappy but its content is gzip"),
    "noise.csv.lz4": (b"\x00\x00\x00\x09noise is not a block", "not a complete hadoop-lz4 file"),
    "plain.csv.deflate": (TEXTS[0], "not a complete deflate file"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_reported(packstone, lake, tree, name):
    """Cut files, files with something behind their end, and names that say another codec stay, with the reason."""
    content, why = BROKEN[name]
    folder = fill(lake, "gzip")
    (folder / name).write_bytes(content)
    before = tree(folder)[name]
    done = packstone("compact", lake.table, "--format", "json")
    assert (done.code, done.json["status"], len(done.json["units"][0]["inputs"])) == (1, "partial", 6)
    assert why in done.skipped(name)
    assert tree(folder)[name] == before


def test_a_long_file_broken_at_its_end(packstone, lake, tree):
    """What the first look cannot see the merge does: the file is blamed, the others are merged."""
    folder = fill(lake, "gzip")
    long = gzip.compress(b"".join(b"9,%d\n" % (at * at) for at in range(400_000)))
    (folder / "9-long.csv.gz").write_bytes(long[:-4] + b"\0\0\0\0")
    before = tree(folder)["9-long.csv.gz"]
    done = packstone("compact", lake.table, "--format", "json")
    assert (done.code, done.json["status"], len(done.json["units"][0]["inputs"])) == (1, "partial", 6)
    assert "not a complete gzip file" in done.skipped("9-long.csv.gz")
    assert tree(folder)["9-long.csv.gz"] == before
