"""Spark itself evaluates each row's truth, for hundreds of random filters in one query."""

import random
import sys
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))  # for filter_model: tests are imported by path, not as packages

from filter_model import INTEGERS, SCHEMA, batch_of, random_filter, random_rows, random_value

import packstone
from packstone.query.filter.evaluate import evaluate, select
from packstone.query.filter.resolve import prepare_filter, resolve


def _value(rng, name):
    """All but one kind: of `n < 9223372036854775808`, no long, Spark (3.5 to 4.3) makes TRUE, also for NULL.

    SQL's answer for NULL is unknown, and it is ours; Spark's own for `b < 300` on bytes is unknown too.
    """
    while True:
        value = random_value(rng, name)
        if name not in INTEGERS or not isinstance(value, int | Decimal) or -(2**63) <= value <= 2**63 - 1:
            return value


@pytest.mark.slow
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_spark_says_the_same(spark, hostile, tmp_path, zone):
    """TRUE, FALSE and unknown are Spark's in ANSI mode, for literals of every kind that it compares."""
    as_written = {"spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED"}  # the default since Spark 4
    hostile({"spark.sql.ansi.enabled": "true", "spark.sql.session.timeZone": zone, **as_written})
    rng = random.Random(zone)
    rows = random_rows(rng, 150)
    batch = batch_of(rows)
    numbered = pa.Table.from_batches([batch]).append_column("row", pa.array(range(len(rows))))
    pq.write_table(numbered, tmp_path / "rows.parquet")
    nodes = [random_filter(rng, depth=2, value_of=_value) for _ in range(300)]
    frame = spark.read.parquet(str(tmp_path / "rows.parquet"))
    asked = frame.selectExpr("row", f"array({', '.join(f'({node})' for node in nodes)}) AS truths")
    answers = [row.truths for row in sorted(asked.collect(), key=lambda row: row.row)]
    for node, expected in zip(nodes, zip(*answers, strict=True), strict=True):
        found = evaluate(resolve(node, SCHEMA, zone=zone), batch).to_pylist()
        wrong = [row for row, *both in zip(rows, found, expected, strict=True) if both[0] is not both[1]]
        assert not wrong, (str(node), wrong[:1])
        selected = select(prepare_filter(node, SCHEMA, zone=zone), batch).to_pylist()
        assert selected == [truth is True for truth in expected], str(node)


def test_spark_gets_values_of_the_columns_own_types(spark, hostile, tmp_path):
    """A resolved filter, printed, means the same to Spark; as written, `d = 1.5` finds 2 in a decimal(38,0)."""
    hostile({"spark.sql.ansi.enabled": "true", "spark.sql.session.timeZone": "UTC"})
    rng = random.Random(7)
    rows = random_rows(rng, 60)
    batch = batch_of(rows)
    numbered = pa.Table.from_batches([batch]).append_column("row", pa.array(range(len(rows))))
    pq.write_table(numbered, tmp_path / "rows.parquet")
    nodes = [resolve(random_filter(rng, depth=2, value_of=_value), SCHEMA, zone="UTC") for _ in range(200)]
    frame = spark.read.parquet(str(tmp_path / "rows.parquet"))
    asked = frame.selectExpr("row", f"array({', '.join(f'({node})' for node in nodes)}) AS truths")
    answers = [row.truths for row in sorted(asked.collect(), key=lambda row: row.row)]
    for node, expected in zip(nodes, zip(*answers, strict=True), strict=True):
        assert evaluate(node, batch).to_pylist() == list(expected), str(node)


@pytest.mark.slow
def test_dataframes_compare_decimals_exactly(spark, hostile, tmp_path, monkeypatch):
    """Read by Spark's own reader or by tasks, a literal with more digits than the column is between its values."""
    hostile({"spark.sql.session.timeZone": "UTC"})
    values = [Decimal(number) for number in (-2, -1, 0, 1, 2, 3, 10**37, 10**38 - 1)]
    table = packstone.create(str(tmp_path / "t"), "d decimal(38,0), e decimal(38,37), n long")
    shifted = [Decimal(f"{value:f}e-37") for value in values]  # exact, unlike what is computed
    table.segments.load(
        pa.table(
            {
                "d": pa.array(values, pa.decimal128(38, 0)),
                "e": pa.array(shifted, pa.decimal128(38, 37)),
                "n": range(len(values)),
            }
        )
    )
    wanted = {
        "d = 1.5": 0, "d <> 1.5": 8, "d < 1.5": 4, "d > 1.5": 4, "d IN (1.5, 2)": 1, "NOT d = 2.5": 8,
        "d BETWEEN 0.5 AND 2.5": 2, "d > 99999999999999999999999999999999999999.5": 0, "e < 10.5": 8,
        "n = 1.00000000000000000000000000001": 0, "d = 2.0": 1, "NOT (d = 1.5 OR upper(string(n)) = 'X')": 8,
    }  # fmt: skip
    for few_bytes in (0, 64 << 20):
        monkeypatch.setattr("packstone.spark.frames._FEW_BYTES", few_bytes)
        found = {where: table.scan(["n"], where).to_df(spark, driver_bytes=0).count() for where in wanted}
        assert found == wanted
