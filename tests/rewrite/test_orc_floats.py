"""Statistics of floats in ORC files that are encoded again hide no row: NaN, infinities, both zeros."""

import math
import random
import struct

import pyarrow as pa
import pytest
from orc_files import read_orc_files
from pyarrow import orc

from packstone import HiveOptions, Table
from packstone.rewrite.formats.orc_protobuf import find_all, read_message
from packstone.rewrite.formats.orc_streams import StreamKind, read_stream, read_streams
from packstone.rewrite.formats.orc_tail import read_tail
from packstone.storage.local import LocalFileIO

IO = LocalFileIO()
VALUES = (math.nan, -0.0, 0.0, math.inf, -math.inf, 7.5, -1.0, None)


def stated(path, column):
    """What the file, its stripes and its row groups state of a column: smallest, largest and sum of each."""
    tail = read_tail(IO, str(path))
    found = [tail.column_statistics[column]]
    found += [find_all(read_message(one), 1)[column] for one in tail.stripe_statistics]
    with IO.open_input(str(path)) as source:
        for stripe in tail.stripes:
            streams = read_streams(source, stripe, tail=tail)
            index = read_stream(source, streams.find(StreamKind.ROW_INDEX, column), tail=tail)
            found += [find_all(read_message(entry), 2)[0] for entry in find_all(read_message(index), 1)]
    return [
        {number: struct.unpack("<d", value)[0] for number, _, value in read_message(typed)}
        for one in found
        for typed in find_all(read_message(one), 3)
    ]


def order(value):
    """Java's order of doubles."""
    return value, math.copysign(1.0, value)


def check_seed(folder, seed):
    """Merge random floats; wherever no NaN is stated, the range holds all values in the order of Java."""
    dice = random.Random(seed)
    some = dice.choice([VALUES, (-0.0, 0.0), (-0.0, 0.0, 7.5, None), (-0.0, 0.0, -1.0), (math.nan, 7.5, -1.0, 0.0)])
    pool = dice.sample(some, dice.randint(1, len(some)))
    folder.mkdir()
    codec = dice.choice(["zlib", "uncompressed", "snappy", "zstd"])
    for at in range(3):
        values = [dice.choice(pool) for _ in range(dice.choice([1, 3, 40]))]
        table = pa.table(
            {
                "x": pa.array(values, pa.float64()),
                "f": pa.array(values, pa.float32()),
                "l": pa.array([[value, value] for value in values], pa.list_(pa.float64())),
            }
        )
        orc.write_table(table, folder / f"{at}.orc", compression=codec, row_index_stride=1_000)
    before = read_orc_files(folder)
    Table(str(folder)).compact(HiveOptions(min_files=2))
    (path,) = folder.iterdir()
    assert repr(read_orc_files(folder).to_pylist()) == repr(before.to_pylist())
    values = [value for value in before["x"].to_pylist() if value is not None]
    for column in (1, 2, 4):
        for one in stated(path, column) if values else ():
            if any(math.isnan(one.get(number, math.nan)) for number in (1, 2, 3)):
                continue  # readers do not trust a range beside a sum that is not a number
            assert order(one[1]) <= min(map(order, values)), (seed, column)
            assert order(one[2]) >= max(map(order, values)), (seed, column)
        if any(map(math.isnan, values)):
            assert all(math.isnan(one[3]) for one in stated(path, column)[:1]), (seed, column)


def test_ranges_of_floats(tmp_path):
    """Some seeds."""
    for seed in range(30):
        check_seed(tmp_path / str(seed), seed)


@pytest.mark.soak
def test_many_ranges_of_floats(tmp_path):
    """The long form."""
    for seed in range(1000, 6000):
        check_seed(tmp_path / str(seed), seed)
