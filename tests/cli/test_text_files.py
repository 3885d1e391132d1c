"""Text, CSV and JSON lines: joined as bytes where that is right, left alone where it is not."""

import bz2
import gzip
import json
import pickle
import pickletools
import zlib
from itertools import count

import pytest

from packstone.model.files import FileFormat
from packstone.tables.hive.file_facts import sniff_format


def compact(packstone, lake):
    """Compact the table; the exit code must be 0."""
    done = packstone("compact", lake.table, "--format", "json")
    assert done.code == 0, done.out
    return done


def the_merged_file(folder):
    """The bytes of the one output."""
    (path,) = folder.glob("packstone-*")
    return path.read_bytes()


class TestJoined:
    """Lines of all files, in name order, each once and unchanged."""

    @pytest.mark.parametrize(
        ("contents", "joined"),
        [
            ([b"a\n", b"b\n", b"c\n"], b"a\nb\nc\n"),
            ([b"a", b"b", b"c"], b"a\nb\nc\n"),
            ([b"a\r\nx\r\n", b"b\r\ny", b"c\r\n"], b"a\r\nx\r\nb\r\ny\r\nc\r\n"),
            ([b"\n", b"\n\n", b"a"], b"\n\n\na\n"),
            ([b"a\n\n", b"b", b"\x80\xff"], b"a\n\nb\n\x80\xff\n"),
            ([b"  ", b"ab\x02\\N", b"\x1a"], b"  \nab\x02\\N\n\x1a\n"),
        ],
    )
    @pytest.mark.parametrize("ending", ["txt", "csv", "jsonl", ""])
    def test_missing_newlines_are_added_and_nothing_else(self, packstone, lake, contents, joined, ending):
        """Two lines never become one, and no other byte is added or lost."""
        names = [f"f{at}.{ending}".rstrip(".") for at in range(len(contents))]
        folder = lake.text("", dict(zip(names, contents, strict=True)))
        done = packstone("compact", lake.table, "--set", "min-files=2", "--format", "json")
        assert done.code == 0, done.out
        assert the_merged_file(folder) == joined
        assert done.json["units"][0]["how"] == "concatenate"
        assert done.json["rows"] == joined.count(b"\n")

    @pytest.mark.parametrize("ending", ["txt", "jsonl", ""])
    def test_free_text_may_hold_delimiters(self, packstone, lake, ending):
        """Only names that promise a table are held to one number of columns."""
        contents, joined = [b"  \t", b"a\x01b\x02\\N", b"\x1a"], b"  \t\na\x01b\x02\\N\n\x1a\n"
        self.test_missing_newlines_are_added_and_nothing_else(packstone, lake, contents, joined, ending)

    def test_json_lines(self, packstone, lake):
        """Each object stays on its line, also with one object a file and no newline."""
        folder = lake.text("", {f"{at}.json": b'{"id": %d}' % at for at in range(6)})
        compact(packstone, lake)
        assert [json.loads(line)["id"] for line in the_merged_file(folder).splitlines()] == list(range(6))

    def test_endings_are_kept_apart(self, packstone, lake):
        """Files of one ending become a file of that ending; ``.csv`` and ``.json`` are not mixed."""
        names = [f"{at}.{ending}" for at in range(5) for ending in ("csv", "json", "txt")]
        folder = lake.text("", dict.fromkeys(names, b"1\n"))
        done = compact(packstone, lake)
        assert len(done.json["units"]) == 3
        assert sorted(path.suffix for path in folder.iterdir()) == [".csv", ".json", ".txt"]

    def test_long_lines_and_big_files(self, packstone, lake):
        """A line longer than any buffer survives."""
        long = b"x" * 5_000_000
        folder = lake.text("", {f"{at}.txt": b"%d" % at + long for at in range(5)})
        done = compact(packstone, lake)
        assert the_merged_file(folder) == b"".join(b"%d" % at + long + b"\n" for at in range(5))
        assert done.json["rows"] == 5

    def test_restored_byte_for_byte(self, packstone, lake, tree):
        """The originals come back without the newline that was added."""
        lake.text("", {f"{at}.txt": b"%d has no newline" % at for at in range(6)})
        before = tree(lake.table)
        run = compact(packstone, lake).json["run"]
        assert packstone("restore", run, "--yes").code == 0
        assert tree(lake.table) == before


LEFT_ALONE = {
    "bom.txt": (b"\xef\xbb\xbfa\n", "byte-order mark"),
    "utf16.txt": ("a\n".encode("utf-16"), ""),
    "cjk.txt": (b"\xff\xfe\x2d\x4e\x87\x65", "byte-order mark"),
    "doc.xml": (b"<?xml version='1.0'?>\n<a/>\n", "XML"),
    "bare.xml": (b"<orders>\n<order/>\n</orders>\n", "XML"),
    "page.html": (b"<!DOCTYPE html>\n<html></html>\n", "HTML"),
    "doc.json": (b'{\n  "a": 1\n}\n', "JSON document"),
    "array.json": (b"[\n1,\n2\n]\n", "JSON document"),
    "x.lzo": (b"\x89LZO\x00\r\n\x1a\n", "compressed text"),
    "no-ending": (gzip.compress(b"a\n"), "its name does not say so"),
    "x.tar.gz": (gzip.compress(b"a.txt" + bytes(95) + b"0000644"), "content is not text"),
    "bom.csv.gz": (gzip.compress(b"\xef\xbb\xbfa\n"), "byte-order mark"),
    "doc.json.bz2": (bz2.compress(b'{\n  "a": 1\n}\n'), "JSON document"),
    "x.txt.xz": (b"\xfd7zXZ\x00\x00", "compressed text"),
    "x.zip": (b"PK\x03\x04abc", "compressed text"),
    "x.seq": (b"SEQ\x04\x00", "a SequenceFile of version 4; versions 5 and 6 are merged"),
    "x.rc": (b"RCF\x02\x00", "an RCFile of version 2; version 1 is merged"),
    "binary": (b"\x00\x01\x02", "its format is unknown"),
}


LINES = (b"".join(b"%d,%d\n" % (at * at * first, at) for at in range(40)) for first in count(1))
BINARY = {
    "zlib": next(stream for stream in map(zlib.compress, LINES) if b"\0" not in stream),
    "gpg": b"\x85\x02\x0c\x03\xd1\x9a\x14\x7f\x62\n\xe8\x11\xc4\x5b\xd2\x3f\x01\xee",
    "pickle": pickletools.optimize(pickle.dumps([17, 18, 127], protocol=2)),
}


class TestLeftAlone:
    """What is not lines of text stays as it is, with the reason, and is not a failure."""

    @pytest.mark.parametrize("name", LEFT_ALONE)
    def test_stays_byte_for_byte(self, packstone, lake, tree, name):
        """Beside files that are merged, and alone in its folder."""
        content, why = LEFT_ALONE[name]
        lake.text("dt=1", {f"ok-{at}.txt": b"%d\n" % at for at in range(5)} | {name: content})
        lake.text("dt=2", {f"{at}-{name}": content for at in range(6)})
        before = tree(lake.table)
        done = compact(packstone, lake)
        assert done.json["status"] == "committed"
        assert why in done.skipped(f"dt=1/{name}")
        after = tree(lake.table)
        assert after[f"dt=1/{name}"] == before[f"dt=1/{name}"]
        assert {key: value for key, value in after.items() if key.startswith("dt=2")} == {
            key: value for key, value in before.items() if key.startswith("dt=2")
        }

    @pytest.mark.parametrize("ending", ["", ".txt", ".csv", ".br", ".gpg", ".pkl"])
    @pytest.mark.parametrize("kind", BINARY)
    def test_binary_without_nul_bytes(self, packstone, lake, tree, kind, ending):
        """Bytes that no text holds show a binary file, under whatever name; it stays byte for byte."""
        content = BINARY[kind]
        assert b"\0" not in content
        lake.text("", {f"{at}{ending}": content for at in range(6)})
        before = tree(lake.table)
        done = packstone("compact", lake.table, "--format", "json")
        assert done.json["units"] == []
        why = "its name says text but its content is unknown" if ending in (".txt", ".csv") else "its format is unknown"
        assert why in done.skipped(f"3{ending}")
        after = tree(lake.table)
        assert {name: after[name] for name in before} == before

    @pytest.mark.parametrize("byte", [*range(1, 0x0E), *range(0x1A, 0x20), *range(0x80, 0x100)])
    def test_bytes_that_stay_text(self, byte):
        """Delimiters of Hive, white space, the bytes from 0x1a to 0x1f and whatever is not ASCII are bytes of text."""
        assert sniff_format(b"a" + bytes([byte]) + b"b\n") is FileFormat.TEXT

    def test_words_that_look_like_magic_without_an_ending(self, packstone, lake):
        """Hive names its files without an ending, and its first delimiter is the byte 1."""
        words = (b"SEQ\x01", b"SEQ\x06", b"SEQUENCE", b"RCF\x01", b"RCF ")
        lake.text("", {f"00000{at}_0": word + b"x\n" for at, word in enumerate(words)})
        done = compact(packstone, lake)
        assert (done.json["files_after"], done.json["rows"]) == (1, 5)

    def test_words_that_look_like_magic(self, packstone, lake):
        """A text file that begins with the letters of a magic number is text."""
        lake.text(
            "", {f"{at}.txt": word + b" is a word\n" for at, word in enumerate((b"ORC", b"SEQ", b"RCF", b"BZ", b"PAR"))}
        )
        done = compact(packstone, lake)
        assert (done.json["files_after"], done.json["rows"]) == (1, 5)
