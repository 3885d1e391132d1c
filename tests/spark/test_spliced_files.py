"""Spark reads files that were merged by copying pages."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from packstone import HiveOptions, Table
from packstone.model.unit import How

ROWS = 4_000
FILTERS = (
    "id = 7000",
    "text = 'text 77'",
    "word = 'word 3' and price > 100",
    "flag",
    "id < 0",
    "text is null",
    "x = 9",
)


def write_files(folder, *, pages):
    """Files in which only the words have a dictionary."""
    for at in range(4):
        numbers = np.arange(at * ROWS, at * ROWS + ROWS)
        table = pa.table(
            {
                "id": numbers,
                "price": pa.array(numbers * 0.25, mask=numbers % 7 == 0),
                "flag": pa.array(numbers % 3 == 0, mask=numbers % 7 == 0),
                "text": pa.array([f"text {n * 7919 % 10_007}" for n in numbers], mask=numbers % 11 == 0),
                "word": [f"word {n % 10}" for n in numbers],
                "list": pa.array(
                    [None if n % 5 == 0 else [int(n), None][: n % 3] for n in numbers], pa.list_(pa.int64())
                ),
                "pair": [None if n % 8 == 0 else {"x": int(n), "y": str(n)} for n in numbers],
            }
        )
        pq.write_table(
            table.append_column("x", pa.array(numbers, pa.int32())),
            folder / f"{at}.parquet",
            use_dictionary=["word"],
            data_page_version=pages,
            row_group_size=2_000,
            store_schema=False,
        )


@pytest.mark.slow
@pytest.mark.parametrize("pages", ["1.0", "2.0"])
def test_spark_reads_a_spliced_file(spark, tmp_path, pages):
    """The vectorised reader and the plain one see the same rows, split anywhere, with filters pushed down."""
    folder = tmp_path / "t"
    folder.mkdir()
    write_files(folder, pages=pages)
    was = spark.read.parquet(str(folder))
    rows, counts = sorted(map(str, was.collect())), [was.where(one).count() for one in FILTERS]

    outcome = Table(str(folder)).compact(HiveOptions(min_files=2))

    assert [unit.how for unit in outcome.units] == [How.SPLICE]
    for vectorised in ("true", "false"):
        settings = {
            "spark.sql.files.maxPartitionBytes": "64k",
            "spark.sql.parquet.enableVectorizedReader": vectorised,
        }
        before = {key: spark.conf.get(key) for key in settings}
        try:
            for key, value in settings.items():
                spark.conf.set(key, value)
            now = spark.read.parquet(str(folder))
            assert now.schema == was.schema
            assert sorted(map(str, now.collect())) == rows
            assert [now.where(one).count() for one in FILTERS] == counts
        finally:
            for key, value in before.items():
                spark.conf.set(key, value)
