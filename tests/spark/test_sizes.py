"""Files that Spark wrote do not grow when they are merged."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests import size_shapes


@pytest.mark.slow
@pytest.mark.parametrize("times", ["INT96", "TIMESTAMP_MICROS"])
@pytest.mark.parametrize("version", ["v1", "v2"])
def test_files_of_spark_do_not_grow(spark, packstone, lake, tmp_path, version, times):
    """Twenty snappy files of ids, prices, names and times become one that is not bigger: Spark writes ids plainly."""
    rows = pa.concat_tables([size_shapes.orders(at, 2000) for at in range(20)])
    pq.write_table(rows, tmp_path / "rows.parquet")
    spark.conf.set("spark.sql.parquet.outputTimestampType", times)
    try:
        frame = spark.read.parquet(str(tmp_path / "rows.parquet")).repartitionByRange(20, "id")
        frame.write.option("parquet.writer.version", version).parquet(str(lake.table))
    finally:
        spark.conf.unset("spark.sql.parquet.outputTimestampType")
    assert len(list(lake.table.glob("*.parquet"))) == 20
    done = packstone("compact", lake.table, "--format", "json")
    (unit,) = done.json["units"]
    assert len(unit["inputs"]) == 20
    assert unit["bytes_after"] <= unit["bytes_before"] * 1.02
    assert spark.read.parquet(str(lake.table)).exceptAll(frame).count() == 0
