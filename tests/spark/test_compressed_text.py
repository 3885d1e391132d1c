"""Spark reads the same lines of compressed text before and after, whoever wrote it."""

from __future__ import annotations

import pytest
from text_codecs import WRITERS

from packstone import HiveOptions, Table


def lines_of(spark, folder):
    """All lines."""
    return sorted(row.value for row in spark.read.text(str(folder)).collect())


@pytest.mark.parametrize("codec", ["gzip", "bzip2", "deflate", "snappy", "lz4"])
@pytest.mark.sample(5)
def test_text_that_spark_wrote(spark, tmp_path, codec):
    """Files of Spark's own codecs, Hadoop's framing among them."""
    folder = tmp_path / "t"
    spark.range(0, 20_000, 1, 5).selectExpr("concat('line ', id)").write.option("compression", codec).text(str(folder))
    for marker in (*folder.glob("_*"), *folder.glob(".*")):
        marker.unlink()
    before = lines_of(spark, folder)
    outcome = Table(str(folder)).compact(HiveOptions(min_files=2))
    assert (len(outcome.units), len(list(folder.iterdir())), len(before)) == (1, 1, 20_000)
    assert lines_of(spark, folder) == before


@pytest.mark.parametrize("codec", ["gzip", "bzip2", "deflate", "zstd", "hadoop-lz4", "hadoop-snappy"])
@pytest.mark.sample(3)
def test_text_that_others_wrote(spark, tmp_path, codec, hostile):
    """Members of other writers, last newlines missing; bzip2, which Spark reads from many places at once, too."""
    if codec == "zstd" and spark.version.startswith("3."):
        pytest.skip("Hadoop before 3.4 reads zstd by its native library only")
    folder = tmp_path / "t"
    folder.mkdir()
    ending, compress = WRITERS[codec]
    for at in range(6):
        text = "\n".join(f"{at} {line * line * 7919}" for line in range(3000))
        (folder / f"{at}.txt.{ending}").write_bytes(compress(text.encode() + (b"\n" if at % 2 else b"")))
    before = lines_of(spark, folder)
    outcome = Table(str(folder)).compact(HiveOptions(min_files=2))
    assert (len(outcome.units), len(list(folder.iterdir())), len(before)) == (1, 1, 18_000)
    assert lines_of(spark, folder) == before
    hostile({"spark.sql.files.maxPartitionBytes": "10000", "spark.sql.files.openCostInBytes": "0"})
    assert lines_of(spark, folder) == before


def test_header_of_csv(spark, tmp_path):
    """Spark's reader of CSV finds one header in the merged file where it found one in each."""
    folder = tmp_path / "t"
    frame = spark.range(0, 1000, 1, 5).selectExpr("id", "concat('name ', id) name")
    frame.write.option("compression", "gzip").option("header", "true").csv(str(folder))
    for marker in (*folder.glob("_*"), *folder.glob(".*")):
        marker.unlink()

    def rows():
        return sorted(map(tuple, spark.read.option("header", "true").csv(str(folder)).collect()))

    before = rows()
    Table(str(folder)).compact(HiveOptions(min_files=2, header_lines=1))
    assert (len(list(folder.iterdir())), len(before)) == (1, 1000)
    assert rows() == before
