"""Bloom filters of Parquet files: PyArrow and Spark write them, DuckDB asks them too."""

import random

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packstone.query.scan.bloom import hash_value, read_bloom_filter

VALUES = 2000


def filters(path, column=0):
    """The bloom filters of a column, row group by row group."""
    metadata = pq.read_metadata(path)
    with pa.OSFile(str(path)) as source:
        chunks = [metadata.row_group(at).column(column) for at in range(metadata.num_row_groups)]
        return [read_bloom_filter(source, chunk.bloom_filter_offset, chunk.bloom_filter_length) for chunk in chunks]


def hashes(values):
    """Of values as Parquet stores them."""
    return np.array([hash_value(value) for value in values], dtype=np.uint64)


def probe(path, column, value):
    """How many row groups DuckDB excludes."""
    rows = duckdb.execute("select * from parquet_bloom_probe($1, $2, $3)", [str(path), column, value]).fetchall()
    return [row[-1] for row in rows]


def test_the_hash_has_its_published_values():
    """Every length goes another way through the hash: none, bytes, half a lane, lanes, stripes."""
    assert hash_value(b"") == 0xEF46DB3751D8E999
    assert hash_value(b"abc") == 0x44BC2CF5AD770999
    assert hash_value(b"Nobody inspects the spammish repetition") == 0xFBCEA83C8A378BF1


@settings(deadline=None, max_examples=30)
@given(st.lists(st.binary(max_size=100), min_size=1, max_size=200))
def test_what_is_there_is_found(tmp_path_factory, values):
    """Values of every length that were written may be there, says the filter."""
    path = tmp_path_factory.mktemp("bloom") / "f.parquet"
    options = {"v": {"ndv": len(values), "fpp": 0.01}}
    pq.write_table(pa.table({"v": pa.array(values, pa.binary())}), path, bloom_filter_options=options)
    (found,) = filters(path)
    assert all(found.may_hold_any(hashes([value])) for value in values)


@pytest.mark.parametrize("fpp", [0.01, 0.2])
def test_what_is_not_there_is_rarely_found(tmp_path, fpp):
    """Wrong answers are about as frequent as requested, and the same as DuckDB's."""
    path, there = tmp_path / "f.parquet", [f"there {number}" for number in range(VALUES)]
    pq.write_table(
        pa.table({"v": there}), path, row_group_size=VALUES // 2, bloom_filter_options={"v": {"ndv": 1000, "fpp": fpp}}
    )
    wrong = 0
    found = filters(path)
    assert len(found) == 2
    for number in range(VALUES):
        absent = f"absent {number}"
        answers = [one.may_hold_any(hashes([absent.encode()])) for one in found]
        wrong += sum(answers)
        if number < 50:
            assert probe(path, "v", absent) == [not answer for answer in answers]
    assert 0 < wrong < 2 * VALUES * fpp * 1.5


def test_many_values_are_asked_at_once(tmp_path):
    """One of them there is enough."""
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"v": range(VALUES)}), path, bloom_filter_options={"v": {"ndv": VALUES, "fpp": 0.001}})
    (found,) = filters(path)
    absent = [(10_000 + at).to_bytes(8, "little") for at in range(5)]
    assert not found.may_hold_any(hashes(absent))
    assert found.may_hold_any(hashes([*absent, (7).to_bytes(8, "little")]))
    assert not found.may_hold_any(hashes([]))


def test_what_is_not_understood_is_not_asked(tmp_path):
    """Noise, a filter that is cut off, one of another kind or of an impossible size: all are none."""
    rng, path = random.Random(3), tmp_path / "f.parquet"
    pq.write_table(pa.table({"v": range(10)}), path, bloom_filter_options={"v": {"ndv": 10, "fpp": 0.01}})
    chunk = pq.read_metadata(path).row_group(0).column(0)
    begin, length = chunk.bloom_filter_offset, chunk.bloom_filter_length
    whole = path.read_bytes()[begin : begin + length]
    assert read_bloom_filter(pa.BufferReader(whole), 0, None) is not None
    header = whole[: whole.index(b"\x1c")]
    bad = [rng.randbytes(40) for _ in range(200)]
    bad += [whole[:-1], whole[:3], b"", whole.replace(b"\x1c\x1c", b"\x1c\x2c", 1), b"\x15\x02" + whole[len(header) :]]
    for data in bad:
        assert read_bloom_filter(pa.BufferReader(data), 0, len(data)) is None
