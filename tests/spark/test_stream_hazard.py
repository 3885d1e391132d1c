"""A stream that reads the files of a directory as they come, while the directory is merged (hazard 14)."""

import pytest


@pytest.fixture
def run_stream(spark, tmp_path):
    """Read what is new since the last time, and say how many rows that was."""

    def run(directory, **options):
        frame = spark.readStream.schema("id long, name string").options(**options).parquet(str(directory))
        sink = frame.writeStream.format("parquet").trigger(availableNow=True)
        where = tmp_path / "sink"
        before = spark.read.parquet(str(where)).count() if where.exists() else 0
        query = sink.option("checkpointLocation", f"{tmp_path}/checkpoint").start(str(where))
        query.awaitTermination()
        return spark.read.parquet(str(where)).count() - before

    return run


def test_hazard_14_a_stream_that_leaves_merged_files_out_reads_no_row_twice(lake, packstone, run_stream):
    """Merged files are called packstone-*: a stream that takes only its writers' names does not see them."""
    folder = lake.parquet(files=6, rows=10)
    only = {"pathGlobFilter": "part-*"}
    assert run_stream(folder, **only) == 60
    assert packstone("compact", folder, "--engine", "inline").code == 0
    assert [name.startswith("packstone-") for name in lake.names() if not name.startswith(".")] == [True]
    assert run_stream(folder, **only) == 0
    lake.parquet(files=1, rows=10)
    assert run_stream(folder, **only) == 10
