"""Roaring bitmaps, read and written in the public format."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packstone.errors import CorruptionError
from packstone.rewrite.formats.roaring import decode_roaring, decode_roaring64, encode_roaring

# Serialised by CRoaring (pyroaring, after run_optimize), which is not ours.
GOLDEN = [
    ([], "3a30000000000000"),
    ([0, 1, 5, 65535], "3a300000010000000000030010000000000001000500ffff"),
    ([3, 65536, 65540], "3a300000020000000000000001000100180000001a000000030000000400"),
    (list(range(10, 20)), "3b300000010000090001000a000900"),
    ([2**32 - 1], "3a30000001000000ffff000010000000ffff"),
    (list(range(100, 70_000)), "3b3001000300009bff01006f11010064009bff010000006f11"),
]
GOLDEN_64 = "0200000000000000000000003a3000000100000000000000100000000100020000003a3000000100000000000000100000000700"


@pytest.mark.parametrize(("positions", "data"), GOLDEN)
def test_bitmaps_of_another_library_are_read(positions, data):
    """Arrays, several containers, runs and the last position; bytes that follow are not touched."""
    found, used = decode_roaring(bytes.fromhex(data) + b"more")
    assert found.tolist() == positions
    assert used == len(data) // 2


def test_a_64_bit_bitmap_is_read():
    """Upper halves of positions are put in front."""
    assert decode_roaring64(bytes.fromhex(GOLDEN_64)).tolist() == [1, 2**33 + 7]


def test_a_bit_set_is_read():
    """A container of more than 4,096 positions is a bit set."""
    positions = np.arange(0, 65536, 3)
    bits = np.zeros(65536, dtype=np.uint8)
    bits[positions] = 1
    body = struct.pack("<IIHHI", 12346, 1, 7, len(positions) - 1, 16) + np.packbits(bits, bitorder="little").tobytes()
    found, used = decode_roaring(body)
    assert np.array_equal(found, positions + (7 << 16))
    assert used == len(body)


def test_runs_of_many_containers_have_offsets():
    """From four containers on a bitmap with runs has a table of offsets too."""
    head = struct.pack("<I", 12347 | 3 << 16) + bytes([0b1111])
    keys = b"".join(struct.pack("<HH", key, 1) for key in range(4))
    offsets = bytes(16)
    runs = b"".join(struct.pack("<HHH", 1, 5, 1) for _ in range(4))
    found, used = decode_roaring(head + keys + offsets + runs)
    assert found.tolist() == [(key << 16) + low for key in range(4) for low in (5, 6)]
    assert used == len(head + keys + offsets + runs)


@pytest.mark.parametrize("data", [b"", b"\x00" * 8, bytes.fromhex("3a300000010000000000"), b"Obj\x01...."])
def test_a_damaged_bitmap_is_a_corruption(data):
    """Nothing is guessed."""
    with pytest.raises(CorruptionError):
        decode_roaring(data)


@pytest.mark.parametrize(("positions", "data"), GOLDEN)
def test_a_bitmap_is_written_as_another_library_writes_it(positions, data):
    """Byte for byte: arrays, runs, several containers."""
    assert encode_roaring(np.array(positions, dtype=np.int64)).hex() == data


spans = st.tuples(st.integers(0, 2**32 - 1), st.integers(1, 9000), st.sampled_from([1, 2, 3, 700]))


@given(st.lists(spans, max_size=8))
def test_what_is_written_is_read(found):
    """Arrays, bit sets and runs, in any number of containers; the length is known, so bytes may follow."""
    parts = [np.arange(first, min(2**32, first + count * step), step) for first, count, step in found]
    positions = np.unique(np.concatenate([np.empty(0, dtype=np.int64), *parts]))
    data = encode_roaring(positions)
    again, used = decode_roaring(data + b"more")
    assert np.array_equal(again, positions)
    assert used == len(data)


@pytest.mark.parametrize("positions", [[-1], [2**32], [1, 1], [2, 1]])
def test_other_positions_are_refused(positions):
    """They have no place in a bitmap."""
    with pytest.raises(ValueError, match="ascending, and below"):
        encode_roaring(np.array(positions, dtype=np.int64))
