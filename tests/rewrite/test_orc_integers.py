"""ORC's integers by our own codec: PyArrow's streams decode to the same values, and ours to what went in."""

import random

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import orc

from packstone.rewrite.formats.orc_streams import (
    StreamKind,
    bound_integers,
    decode_integers,
    encode_integers,
    read_stream,
    read_streams,
)
from packstone.rewrite.formats.orc_tail import read_tail
from packstone.storage.local import LocalFileIO

IO = LocalFileIO()
WIDTHS = (1, 3, 8, 17, 23, 25, 31, 33, 40, 47, 55, 62, 63)


def shapes(dice):
    """Values that make a writer use each form of run."""
    for bits in WIDTHS:
        yield dice.integers(-(1 << bits), (1 << bits) - 1, 1_500)
    yield np.arange(2_000) * 7
    yield np.arange(2_000)[::-1] * -3
    outliers = dice.integers(-1_000, 100, 3_000)
    outliers[::97] = 1 << 40
    yield outliers
    yield np.cumsum(dice.integers(0, 50, 3_000))
    yield -np.cumsum(dice.integers(0, 50, 3_000))
    yield np.repeat(dice.integers(0, 1 << 30, 300), 7)
    yield np.array([-(1 << 63), (1 << 63) - 1, 0, -1] * 10)
    yield np.full(1_300, -9)
    yield np.array([5])


@pytest.mark.parametrize("codec", ["uncompressed", "zlib"])
def test_streams_of_pyarrow(tmp_path, codec):
    """Every form of run that PyArrow writes is decoded to the values written."""
    path = str(tmp_path / "a.orc")
    for values in shapes(np.random.default_rng(1)):
        orc.write_table(pa.table({"a": values.astype(np.int64)}), path, compression=codec)
        tail = read_tail(IO, path)
        with IO.open_input(path) as source:
            streams = read_streams(source, tail.stripes[0], tail=tail)
            content = read_stream(source, streams.find(StreamKind.DATA, 1), tail=tail)
        found = decode_integers(content, is_signed=True, version=streams.version_of(1), max_values=len(values))
        assert np.array_equal(found.values, values)


def test_what_is_encoded_is_decoded():
    """A run begins at each break, whatever the values are, and a bound of the values bounds them."""
    dice = random.Random(2)
    for values in shapes(np.random.default_rng(2)):
        breaks = sorted({0, *(dice.randrange(len(values) + 1) for _ in range(3))})
        for is_signed, given in ((True, values.astype(np.int64)), (False, np.abs(values >> 1).astype(np.int64))):
            content, starts = encode_integers(given, is_signed=is_signed, breaks=breaks)
            found = decode_integers(content, is_signed=is_signed, max_values=len(given))
            assert np.array_equal(found.values, given)
            places = dict(zip(found.byte_starts, found.value_starts, strict=True)) | {len(content): len(given)}
            assert [places[start] for start in starts] == breaks
            assert is_signed or bound_integers(content) >= given.max()


def test_the_first_version():
    """Runs and literals of files from before 2013, as the specification shows them."""
    found = decode_integers(
        bytes([0x61, 0x00, 0x07, 0xFB, 2, 3, 4, 7, 0xB]), is_signed=False, version=1, max_values=200
    )
    assert found.values.tolist() == [7] * 100 + [2, 3, 4, 7, 11]
    found = decode_integers(bytes([0x61, 0xFF, 0x64]), is_signed=False, version=1, max_values=200)
    assert found.values.tolist() == list(range(100, 0, -1))


def test_broken_bytes():
    """Cut off or changed anywhere, a stream is ValueError or other numbers, never anything else."""
    content, _ = encode_integers(np.arange(2_000) * 977 % 4_001, is_signed=True)
    dice = random.Random(3)
    for _ in range(300):
        broken = bytearray(content[: dice.randrange(len(content))])
        for _ in range(dice.randrange(3) if broken else 0):
            broken[dice.randrange(len(broken))] = dice.randrange(256)
        for version in (1, 2):
            try:
                decode_integers(bytes(broken), is_signed=True, version=version, max_values=10**6)
                bound_integers(bytes(broken), version=version)
            except ValueError:
                continue
    with pytest.raises(ValueError, match="more than the 10 integers"):
        decode_integers(content, is_signed=True, max_values=10)
