"""Text is joined as bytes: every line comes back once, and no two lines become one."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packstone import HiveOptions, Table
from packstone.errors import UnfaithfulError, UnreadableFileError
from packstone.model.unit import How
from packstone.rewrite.proof.fingerprint import fingerprint_lines
from packstone.rewrite.proof.ordered_digest import are_equal_parts, digest_parts
from packstone.rewrite.small_files.merge_unit import Written
from packstone.rewrite.small_files.text_kernel import (
    concatenate_text,
    count_lines,
    count_text,
    fingerprint,
    text_digest,
)
from packstone.storage.local import LocalFileIO

IO = LocalFileIO()


def join(folder, contents, *, header_lines=0):
    """Join texts; return the bytes, having checked that the proof agrees with Python about the lines."""
    paths = []
    for at, content in enumerate(contents):
        paths.append(str(folder / f"{at}.txt"))
        Path(paths[-1]).write_bytes(content)
    output = str(folder / "out")
    concatenate_text(IO, paths, output, header_lines=header_lines)
    for ordered in (True, False):
        written = Written(how=How.CONCATENATE, ordered=ordered, header_lines=header_lines)
        assert fingerprint(IO, [output], written=written) == fingerprint(IO, paths, written=written)
    assert count_text(IO, [output], header_lines=header_lines) == count_text(IO, paths, header_lines=header_lines)
    return Path(output).read_bytes()


@pytest.mark.parametrize(
    ("contents", "joined"),
    [
        ([b"a\n", b"b\n"], b"a\nb\n"),
        ([b"a", b"b"], b"a\nb\n"),
        ([b"a\r\n", b"b\r\n"], b"a\r\nb\r\n"),
        ([b"a\r", b"b"], b"a\r\nb\n"),
        ([b"a\r\nb", b"c\r\nd\r"], b"a\r\nb\r\nc\r\nd\r\n"),
        ([b"\r\nb", b"a\nb"], b"\r\nb\r\na\nb\n"),
        ([b"\n", b"\n\n"], b"\n\n\n"),
        ([b"", b"a", b""], b"a\n"),
        ([b"", b""], b""),
        ([b"caf\xe9\n", "café".encode()], b"caf\xe9\n" + "café\n".encode()),
        ([b'1,"a\nb', b'"\n2,x'], b'1,"a\nb\n"\n2,x\n'),
    ],
)
def test_bytes_are_kept(tmp_path, contents, joined):
    """Only a missing last newline is added, as the first line ends; carriage returns, blank lines, encodings stay."""
    assert join(tmp_path, contents) == joined


@pytest.mark.parametrize(
    ("header_lines", "contents", "joined"),
    [
        (1, [b"h\na\n", b"h\nb\n"], b"h\na\nb\n"),
        (1, [b"h\na", b"h", b"h\n"], b"h\na\n"),
        (1, [b"h", b"h\nb"], b"h\nb\n"),
        (2, [b"h\ni\na\n", b"h\ni\n"], b"h\ni\na\n"),
        (1, [b"h\r\na\r\n", b"h\r\nb\r\n"], b"h\r\na\r\nb\r\n"),
        (1, [b"h\nh\n", b"h\nh\n"], b"h\nh\nh\n"),
        (1, [b"h\r\na", b"h\r\nb"], b"h\r\na\r\nb\r\n"),
        (2, [b"h\r\ni", b"h\r\ni\r\nb"], b"h\r\ni\r\nb\r\n"),
        (1, [b"\na\n", b"\nb\n"], b"\na\nb\n"),
    ],
)
def test_the_header_is_kept_once(tmp_path, header_lines, contents, joined):
    """The first file's header stays; a row that looks like it is a row."""
    assert join(tmp_path, contents, header_lines=header_lines) == joined


@pytest.mark.parametrize("contents", [[b"h\na\n", b"g\nb\n"], [b"h\na\n", b"h\r\nb\n"], [b"h\na\n", b"h \nb\n"]])
def test_another_header_is_left_alone(tmp_path, contents):
    """Files whose headers differ, even by a space, are not joined."""
    with pytest.raises(UnfaithfulError, match="different header"):
        join(tmp_path, contents, header_lines=1)


def test_nul_bytes_are_no_text(tmp_path):
    """A file that turns out to be binary after its first 64 kB is blamed by name."""
    with pytest.raises(UnreadableFileError, match="NUL") as blamed:
        join(tmp_path, [b"a\n", b"b\n" * 50_000 + b"\0\n"])
    assert blamed.value.facts["file"].endswith("/1.txt")


LINES = st.lists(st.binary(max_size=8).map(lambda line: line.replace(b"\n", b"").replace(b"\0", b"")), max_size=5)
TEXTS = st.tuples(LINES, st.booleans()).map(lambda text: b"\n".join(text[0]) + (b"\n" if text[1] and text[0] else b""))


@settings(deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=6))
def test_every_line_comes_back(contents):
    """The multiset of lines is the same before and after, whatever the files end with."""
    with tempfile.TemporaryDirectory() as folder:
        joined = join(Path(folder), contents)
    lines = Counter(line for content in contents for line in lines_of(content))
    assert Counter(lines_of(joined)) == lines


def lines_of(content):
    """Cut at newlines; the last line may lack one."""
    lines = content.split(b"\n")
    return lines[:-1] if lines[-1] == b"" else lines


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.lists(st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1), max_size=4), min_size=2)
)
def test_duckdb_reads_the_same_rows(files):
    """Another engine reads the same rows of CSV files with a header before and after."""
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root) / "t"
        folder.mkdir()
        for at, words in enumerate(files):
            (folder / f"{at}.csv").write_text("\n".join(["word", *words]))
        query = f"select * from read_csv('{folder}/*.csv', header = true, columns = {{'word': 'varchar'}}, delim = '|')"
        before = Counter(duckdb.sql(query).fetchall())
        outcome = Table(str(folder)).compact(HiveOptions(min_files=2, header_lines=1))
        assert (len(outcome.units), outcome.skipped) == (1, ())
        assert Counter(duckdb.sql(query).fetchall()) == before


def test_a_line_longer_than_a_chunk(tmp_path):
    """Lines are not cut where the reading is."""
    long = b"x" * (5 << 20)
    assert join(tmp_path, [long, b"a\n" + long]) == long + b"\na\n" + long + b"\n"


def digest(*parts):
    """The digest of a text that arrives in parts."""
    return digest_parts(count_lines(parts), text_digest())


def test_the_digest_of_a_text_is_that_of_its_bytes_however_they_arrive():
    """It counts lines, does not depend on how the text is cut, and is what it was in earlier versions."""
    assert digest(b"a\r\n", b"", b"\nla", b"st\n") == digest(b"a\r\n\nlast\n")
    assert str(digest(b"a\r\n\nlast\n")) == "3 rows bb5badc29d43236886480649c442a707"
    assert digest() == digest(b"")


@pytest.mark.parametrize(
    "changed", [b"b\na\nb\n", b"a\nb\n", b"a\nb\nb\nb\n", b"a\nb\nc\n", b"a\nb\n\nb\n", b"a\nb\nb\r\n", b"ab\n\nb\n"]
)
def test_the_digest_shows_every_change(changed):
    """Lines that are exchanged, lost, doubled, altered or joined."""
    assert digest(changed) != digest(b"a\nb\nb\n")


@given(texts=st.tuples(st.binary(max_size=6), st.binary(max_size=6)), data=st.data())
def test_texts_in_parts_are_equal_if_their_bytes_are(texts, data):
    """However both sides are cut, with empty parts too, they are equal if and only if they are when joined."""
    before, other = texts
    after = data.draw(st.sampled_from([before, before + b"a", before[:-1], other]))
    sides = []
    for text in (before, after):
        cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=4)))
        sides.append([(text[begin:end], 0) for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True)])
    assert are_equal_parts(*sides) == (before == after)


def test_files_that_an_earlier_version_merged_are_proved_as_they_were(tmp_path):
    """Its journal has the sum of the hashes of the lines, which a record without an order asks for."""
    (tmp_path / "a").write_bytes(b"a\r\n\nlast")
    found = fingerprint(IO, [str(tmp_path / "a")], written=Written(how=How.CONCATENATE))
    assert found == fingerprint_lines([b"a\r\n\nlast\r\n"])
