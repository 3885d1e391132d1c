"""Random schemas and rows of ORC: whatever is nested or null, the merged file holds what the files held."""

import random
from datetime import date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest
from pyarrow import orc

from packstone import HiveOptions, Table

PLAIN = {
    pa.int8(): (0, -128, 127),
    pa.int16(): (0, -(1 << 15), 7),
    pa.int32(): (0, -(1 << 31), 99),
    pa.int64(): (0, -(1 << 63), (1 << 63) - 1),
    pa.float32(): (0.0, -0.0, 1.5, float("inf"), float("nan")),
    pa.float64(): (0.0, -0.0, 1.1, float("-inf"), float("nan"), -1e300),
    pa.bool_(): (True, False),
    pa.string(): ("", "a", "üüü", "x" * 2000),
    pa.binary(): (b"", b"\0\xff", b"z" * 50),
    pa.date32(): (date(1, 1, 1), date(1582, 10, 10), date(9999, 12, 31)),
    pa.decimal128(5, 2): (Decimal("0.00"), Decimal("-999.99")),
    pa.decimal128(38, 0): (Decimal(0), Decimal(10**38 - 1), Decimal(1 - 10**38)),
    pa.timestamp("us"): tuple(datetime(1971, 1, 1) + timedelta(microseconds=at) for at in (0, 1, 10**15 + 7)),  # noqa: DTZ001
}


def pick_type(dice: random.Random, depth: int) -> pa.DataType:
    """Choose a type, nested up to a depth."""
    match dice.randrange(6 if depth else 1):
        case 3:
            return pa.list_(pick_type(dice, depth - 1))
        case 4:
            return pa.map_(pa.string(), pick_type(dice, depth - 1))
        case 5:
            return pa.struct([(f"f{at}", pick_type(dice, depth - 1)) for at in range(dice.randint(1, 3))])
        case _:
            return dice.choice(list(PLAIN))


def pick_value(dice: random.Random, kind: pa.DataType) -> object:
    """Choose a value of a type, or null."""
    if dice.random() < 0.25:
        return None
    if pa.types.is_list(kind):
        return [pick_value(dice, kind.value_type) for _ in range(dice.choice([0, 1, 3]))]
    if pa.types.is_map(kind):
        return [(f"k{at}", pick_value(dice, kind.item_type)) for at in range(dice.choice([0, 1, 3]))]
    if pa.types.is_struct(kind):
        return {field.name: pick_value(dice, field.type) for field in kind}
    return dice.choice(PLAIN[kind])


def check_seed(folder, seed):
    """Write files of one schema, merge them, and compare rows and schema by their text: NaN and -0.0 too."""
    dice = random.Random(seed)
    schema = pa.schema([(f"c{at}", pick_type(dice, 3)) for at in range(dice.randint(1, 5))])
    codec = dice.choice(["zlib", "snappy", "zstd", "uncompressed", "lz4"])
    folder.mkdir()
    for at in range(3):
        rows = [{field.name: pick_value(dice, field.type) for field in schema} for _ in range(dice.randint(0, 20))]
        orc.write_table(pa.Table.from_pylist(rows, schema=schema), folder / f"{at}.orc", compression=codec)
    before = pa.concat_tables(orc.read_table(path) for path in sorted(folder.iterdir()))
    outcome = Table(str(folder)).compact(HiveOptions(min_files=2))
    (path,) = folder.iterdir()
    after = orc.read_table(path)
    assert repr(after.to_pylist()) == repr(before.to_pylist()), (seed, schema)
    assert after.schema.equals(before.schema, check_metadata=True), (seed, schema)
    return outcome.units[0].how


def test_random_schemas(tmp_path):
    """Some seeds; both ways of merging are met."""
    assert {check_seed(tmp_path / str(seed), seed) for seed in range(12)} == {"rewrite", "stitch"}


@pytest.mark.soak
def test_many_random_schemas(tmp_path):
    """The long form."""
    for seed in range(1000, 1600):
        check_seed(tmp_path / str(seed), seed)
