"""Addresses: what users type, and the one string that names it."""

import pickle
import posixpath

import pytest

from packstone.errors import InvalidInputError, UnsupportedSchemeError
from packstone.storage import location, stores
from packstone.storage.local import LocalFileIO
from packstone.storage.location import is_store_root, join_location, parse_location, scheme_of, split_store
from packstone.storage.stores import open_store


@pytest.fixture
def remote(monkeypatch):
    """A scheme that is served under two names."""
    monkeypatch.setitem(location._REMOTE_SCHEMES, "lake", "lake")
    monkeypatch.setitem(location._REMOTE_SCHEMES, "lakea", "lake")


@pytest.mark.parametrize(
    ("typed", "path"),
    [
        ("lake://nn:9000/data/t/dt=a%3Ab/", "lake://nn:9000/data/t/dt=a%3Ab"),
        ("LAKE://nn:9000//data/./t/../u", "lake://nn:9000/data/u"),
        ("lakea://bucket/key with space#x?y", "lake://bucket/key with space#x?y"),
        ("lake://nn:9000", "lake://nn:9000"),
        ("lake://nn:9000/", "lake://nn:9000"),
        ("lake://nn:9000/..", "lake://nn:9000"),
    ],
)
def test_other_stores(remote, typed, path):
    """One folder has one name; percent signs, spaces and question marks are part of it."""
    found = parse_location(typed)
    assert (found.scheme, found.path) == ("lake", path)
    assert parse_location(found.path) == found


@pytest.mark.parametrize("typed", ["lake:/data", "lake:///data"])
def test_a_host_is_required(remote, typed):
    """Without a host nobody knows which store is meant."""
    with pytest.raises(InvalidInputError, match="names no host; write lake://HOST/PATH"):
        parse_location(typed)


def test_the_classic_arguments(remote, tmp_path):
    """The first one is a file system, the second a path in it."""
    assert join_location("lake://nn:9000/", "/data/t/dt=1").path == "lake://nn:9000/data/t/dt=1"
    assert join_location("lake://nn:9000/data", "t/dt=1").path == "lake://nn:9000/data/t/dt=1"
    assert join_location(str(tmp_path), "t").path == f"{tmp_path.resolve()}/t"
    assert join_location("file:///", "lake://nn/t").path == "lake://nn/t"


def test_unknown_schemes_are_named():
    """With those that are known."""
    with pytest.raises(UnsupportedSchemeError, match=r"ftp: storage is not supported .* \(file:"):
        parse_location("ftp://host/data")
    with pytest.raises(UnsupportedSchemeError, match="ftp: storage"):
        open_store("ftp://host/data")


@pytest.mark.parametrize(("top", "below"), [("/", "/data"), ("lake://nn:9000", "lake://nn:9000/data")])
def test_the_top_of_a_store(top, below):
    """Walking up ends there."""
    assert is_store_root(top)
    assert not is_store_root(below)
    assert posixpath.dirname(below) == top
    assert scheme_of(top) == scheme_of(below)


def test_split():
    """The root of the store, and the path in it."""
    assert split_store("lake://nn:9000/data/t") == ("lake://nn:9000", "/data/t")
    assert split_store("lake://nn:9000") == ("lake://nn:9000", "/")
    assert split_store("/data/t") == ("", "/data/t")


def test_every_scheme_that_is_understood_is_served():
    """And what is opened travels to other processes."""
    assert set(location._REMOTE_SCHEMES.values()) | {"file"} == set(stores._OPENERS)
    assert isinstance(pickle.loads(pickle.dumps(open_store("/data"))), LocalFileIO)  # noqa: S301 - our own
