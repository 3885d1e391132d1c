"""One merge by another tool, in a process of its own: python bench/rivals.py <tool> <folder> <output folder> <files>.

As many output files as given; 0 for one file (or a few, where the tool writes one per thread) in each partition `dt`.
Nothing is counted or proved.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def duckdb(folder: Path, out: Path, outputs: int) -> None:
    import duckdb

    connection = duckdb.connect()
    connection.sql(f"set threads = {os.cpu_count()}")
    connection.sql("set preserve_insertion_order = false")
    if outputs:
        size = sum(path.stat().st_size for path in folder.iterdir())
        connection.sql(
            f"copy (from read_parquet('{folder}/*.parquet')) to '{out}' "
            f"(format parquet, compression snappy, file_size_bytes {size // outputs})"
        )
    else:
        connection.sql(
            f"copy (from read_parquet('{folder}/*/*.parquet', hive_partitioning = true)) to '{out}' "
            "(format parquet, compression snappy, partition_by (dt))"
        )


def polars(folder: Path, out: Path, outputs: int) -> None:
    """Stream the files of each output; with partitions hold the whole table in memory."""
    import polars as pl

    if not outputs:
        frame = pl.read_parquet(folder, hive_partitioning=True)
        frame.write_parquet(out, compression="snappy", partition_by="dt", mkdir=True)
        return
    names = sorted(folder.glob("*.parquet"))
    out.mkdir()
    share = -(-len(names) // outputs)
    for number in range(outputs):
        part = names[number * share : (number + 1) * share]
        pl.scan_parquet(part).sink_parquet(out / f"{number}.parquet", compression="snappy")


def main() -> None:
    tool, folder, out, outputs = sys.argv[1:]
    {"duckdb": duckdb, "polars": polars}[tool](Path(folder), Path(out), int(outputs))


if __name__ == "__main__":
    main()
