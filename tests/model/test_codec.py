"""Records are validated when they are read: types, ranges, names, nesting, a digest, the version of their format."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from packstone.errors import CorruptionError, RefusedError
from packstone.model.codec import (
    FORMAT_VERSION,
    AbsolutePath,
    Count,
    Name,
    Pid,
    RelativePath,
    RunId,
    dump_record,
    from_plain,
    load_record,
    seal,
    to_plain,
)


class Colour(StrEnum):
    """A closed set."""

    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    """A record inside another."""

    name: Name
    size: Count = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One field of each kind, and a relation between two."""

    text: str
    number: int
    ratio: float
    flag: bool
    data: bytes
    colour: Colour
    at: datetime
    inner: Inner
    many: tuple[Inner, ...]
    pair: tuple[str, int]
    maybe: Inner | None = None
    low: int = 0
    high: int = 10

    def __post_init__(self) -> None:
        """The relation."""
        if self.low > self.high:
            raise ValueError("low is above high")


SAMPLE = Sample(
    text="dt=\udcff",  # a file name that is not text
    number=-5,
    ratio=0.5,
    flag=True,
    data=b"\x00\xff",
    colour=Colour.BLUE,
    at=datetime(2026, 1, 2, tzinfo=UTC),
    inner=Inner(name="a"),
    many=(Inner(name="b", size=1), Inner(name="c")),
    pair=("x", 1),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """A type that holds values of its own type, as a nested column does."""

    name: Name
    below: tuple["Tree", ...] = ()


def load(data: bytes) -> Sample:
    """Read it as a sample."""
    return load_record(Sample, data, path="/state/sample.json")


def test_a_record_comes_back_as_it_was():
    """Every kind of field survives being written and read."""
    assert load(dump_record(SAMPLE)) == SAMPLE
    assert from_plain(Sample, json.loads(json.dumps(to_plain(SAMPLE)))) == SAMPLE


def test_a_type_that_holds_itself():
    """Nested columns come back; nested without end is damage."""
    tree = Tree(name="a", below=(Tree(name="b", below=(Tree(name="c"),)), Tree(name="d")))
    assert load_record(Tree, dump_record(tree), path="p") == tree
    plain: dict[str, Any] = {"name": "a"}
    for _ in range(400):
        plain = {"name": "a", "below": [plain]}
    with pytest.raises(CorruptionError, match="damaged"):
        load_record(Tree, seal(json.dumps({"format_version": 2, **plain}).encode()), path="p")


def test_every_flipped_bit_is_found():
    """No single bit of a record can change unnoticed."""
    data = dump_record(SAMPLE)
    for at in range(len(data)):
        for bit in range(8):
            changed = bytearray(data)
            changed[at] ^= 1 << bit
            with pytest.raises((CorruptionError, RefusedError)) as caught:
                load(bytes(changed))
            assert "/state/sample.json" in caught.value.message


@pytest.mark.parametrize("cut", [0, 1, 10, -1, -30, -50])
def test_a_record_that_is_cut_is_damaged(cut):
    """A torn write is found, wherever it was torn."""
    with pytest.raises(CorruptionError, match="is damaged"):
        load(dump_record(SAMPLE)[:cut])


@pytest.mark.parametrize("version", [FORMAT_VERSION + 1, 99, 10**30])
def test_a_newer_format_is_refused(version):
    """Whatever else is in it, and with or without a digest that we know."""
    with pytest.raises(RefusedError, match="newer packstone"):
        load(json.dumps({"format_version": version, "unknown": []}).encode())


@pytest.mark.parametrize("version", [None, "1", 0, -1, 1.0, True, [1]])
def test_a_version_that_is_none_is_damage(version):
    """Only whole numbers from 1 are versions."""
    with pytest.raises(CorruptionError, match="format_version"):
        load(json.dumps({"format_version": version}).encode())


def test_the_first_version_had_no_digest():
    """Its records are read; a later one without its digest is damaged."""
    plain = {"format_version": 1, **to_plain(SAMPLE)}
    assert load(json.dumps(plain).encode()) == SAMPLE
    with pytest.raises(CorruptionError, match="digest"):
        load(json.dumps({**plain, "format_version": 2}).encode())
    with pytest.raises(CorruptionError, match="digest"):
        load(json.dumps({**plain, "digest": "00"}).encode())


@pytest.mark.parametrize("data", [b"[" * 100_000, b'{"a":' * 100_000, b"[]", b"7", b"null", b"", b"\xff", b'"x"'])
def test_what_is_not_a_record(data):
    """Nested without end, of another shape, not JSON: one error, no crash."""
    with pytest.raises(CorruptionError, match="is damaged"):
        load(data)


WRONG: dict[str, list[Any]] = {
    "text": [7, None, ["x"], {"a": 1}, True, "\ud800"],
    "number": ["7", 7.0, None, True, 2**63, -(2**63) - 1, 10**30, [7]],
    "ratio": ["0.5", None, True, 2**70, [0.5]],
    "flag": [0, 1, "true", None],
    "data": ["not base64!", 7, None],
    "colour": ["green", "RED", 1, None, ["red"]],
    "at": ["yesterday", "2026-01-02T00:00:00", 7, None],
    "inner": [None, [], "a", {}, {"name": 7}, {"name": "../a"}],
    "many": [None, {}, "ab", [None], [{"name": ""}], [[]]],
    "pair": [[], ["x"], ["x", 1, 2], ["x", "1"], None],
    "maybe": [7, [], "x"],
    "low": [11],
}


@pytest.mark.parametrize(("field", "value"), [(field, value) for field, values in WRONG.items() for value in values])
def test_a_value_of_a_wrong_type_names_its_field(field, value):
    """A record that somebody made, digest and all, is checked field by field."""
    plain = {"format_version": FORMAT_VERSION, **to_plain(SAMPLE), field: value}
    with pytest.raises(CorruptionError) as caught:
        load(seal(json.dumps(plain).encode()))
    assert field in caught.value.message
    assert "/state/sample.json" in caught.value.message


def test_numbers_that_json_does_not_have():
    """NaN and infinity would slip through every comparison."""
    text = json.dumps({"format_version": FORMAT_VERSION, **to_plain(SAMPLE)})
    for word in ("NaN", "Infinity", "-Infinity", "1e999"):
        with pytest.raises(CorruptionError):
            load(seal(text.replace('"ratio": 0.5', f'"ratio": {word}').encode()))


def test_a_missing_field_is_named():
    """Fields with a default may be missing, others not."""
    plain = {"format_version": FORMAT_VERSION, **to_plain(SAMPLE)}
    del plain["maybe"], plain["low"]
    assert load(seal(json.dumps(plain).encode())) == SAMPLE
    del plain["colour"]
    with pytest.raises(CorruptionError, match="colour is missing"):
        load(seal(json.dumps(plain).encode()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Fields whose values lead somewhere."""

    name: Name = "a"
    below: RelativePath = ""
    path: AbsolutePath = "/"
    run: RunId = "20260101T000000-abcdef"
    pid: Pid = 1


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("name", ["", ".", "..", "a/b", "/a", "a\0b"]),
        ("below", ["/a", "a//b", "a/../b", "..", ".", "a/", "a/./b"]),
        ("path", ["", "a", "a/b", "/a/../b", "/..", "s3://b/../c", "a b://x/y", "../a", "/a\0"]),
        ("run", ["", "..", "a/b", "../x", "-a", "a" * 100, "a b"]),
        ("pid", [0, -1, 2**31, 10**12]),
    ],
)
def test_names_and_paths_stay_where_they_are(field, values):
    """A name is one component, a path has no way up, an id can be the name of a folder."""
    for value in values:
        with pytest.raises(ValueError, match=field):
            from_plain(Places, {field: value})


def test_names_and_paths_of_every_store():
    """What our own records hold."""
    for path in ("/", "/a/b=1", "hdfs://nn:9000/a", "s3://bucket/a b/ü", "/a/..b/c..", "/odd://name"):
        assert from_plain(Places, {"path": path}).path == path
    for below in ("", "dt=1", "a=1/b=..2", "x y/%2F"):
        assert from_plain(Places, {"below": below}).below == below


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(field=st.sampled_from(list(WRONG)), value=PLAIN)
def test_any_json_in_any_field(field, value):
    """Either a sample that can be written and read again, or ValueError; nothing else."""
    try:
        found = from_plain(Sample, {**to_plain(SAMPLE), field: value})
    except ValueError:
        return
    assert from_plain(Sample, to_plain(found)) == found
