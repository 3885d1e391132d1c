"""Planning the compaction of a Paimon table with a million files, starting from its manifests: seconds and memory.

    python bench/paimon_planning.py [--files 1000000] [--buckets 100000]

The table is the example (created by Java Paimon) with manifests of the requested number of files, each with its own
keys, statistics and name; they are written before the clock starts. The timed part is what `packstone plan` does: read
the snapshot and all manifests, decide for every bucket. It runs in a separate process, which has its own memory peak.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

from packstone.model.limits import Filters
from packstone.storage.local import LocalFileIO
from packstone.tables.paimon.format.binary_row import encode_row
from packstone.tables.paimon.format.data_file import BucketFiles, FileKind, ManifestEntry, SimpleStats
from packstone.tables.paimon.format.data_type import parse_data_type
from packstone.tables.paimon.format.live_files import read_live_files
from packstone.tables.paimon.format.manifest import write_manifests
from packstone.tables.paimon.format.manifest_list import write_manifest_list
from packstone.tables.paimon.format.snapshot import (
    dump_snapshot,
    read_latest_snapshot,
    snapshot_path,
    write_latest_hint,
)
from packstone.tables.paimon.format.store import open_store
from packstone.tables.paimon.options import PaimonOptions
from packstone.tables.paimon.table import PaimonPlanner

KEY = (parse_data_type("BIGINT"),)
ROW = tuple(map(parse_data_type, ("STRING", "BIGINT", "STRING", "STRING", "DECIMAL(10, 2)")))
EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "paimon" / "orders"


def make_table(path: Path, *, files: int, buckets: int) -> None:
    """Copy the example, with a new snapshot of the requested number of files and buckets."""
    shutil.copytree(EXAMPLE, path)
    for schema in (path / "schema").iterdir():
        content = json.loads(schema.read_text())
        content["options"]["bucket"] = str(buckets)
        schema.write_text(json.dumps(content))
    io, table = LocalFileIO(), str(path)
    store, snapshot = open_store(io, table), read_latest_snapshot(io, table)
    assert snapshot is not None
    model = next(iter(read_live_files(io, table, snapshot)))
    folder = f"{table}/manifest"
    metas = write_manifests(
        io,
        folder,
        _entries(model, files=files, buckets=buckets),
        names=(f"manifest-bench-{at}" for at in itertools.count()),
        partition_types=store.schema.partition_types,
    )
    base, _ = write_manifest_list(io, folder, metas, name="manifest-list-bench-0")
    delta, _ = write_manifest_list(io, folder, (), name="manifest-list-bench-1")
    made = replace(
        snapshot, id=snapshot.id + 1, base_manifest_list=base, delta_manifest_list=delta, index_manifest=None
    )
    io.write_new(snapshot_path(table, made.id), dump_snapshot(made))
    write_latest_hint(io, table, made.id)


def _entries(model: BucketFiles, *, files: int, buckets: int) -> Iterator[ManifestEntry]:
    """Files with distinct keys, statistics, sizes and names, random enough for realistic compression."""
    each, draw = max(1, files // buckets), random.Random(7)
    for number in range(files):
        age, bucket = divmod(number, buckets)
        first, last = sorted((draw.getrandbits(40), draw.getrandbits(40)))
        lowest, highest = encode_row([first], KEY), encode_row([last], KEY)
        low = [f"2024-05-{bucket % 28 + 1:02d}", first, f"customer-{draw.getrandbits(24):08d}", "new", Decimal(1)]
        high = [low[0], last, f"customer-{draw.getrandbits(30):08d}", "shipped", Decimal(draw.getrandbits(20))]
        file = replace(
            model.files[0],
            file_name=f"data-{uuid.UUID(int=draw.getrandbits(128))}-0.parquet",
            file_size=draw.randrange(10_000, 200_000_000),
            level=0 if age < each - 1 else 5,
            min_key=lowest,
            max_key=highest,
            key_stats=SimpleStats(min_values=lowest, max_values=highest, null_counts=(0,)),
            value_stats=SimpleStats(
                min_values=encode_row(low, ROW), max_values=encode_row(high, ROW), null_counts=(0,) * len(ROW)
            ),
            min_sequence_number=age * 100,
            max_sequence_number=age * 100 + 99,
        )
        yield ManifestEntry(
            kind=FileKind.ADD, partition=model.partition, bucket=bucket, total_buckets=buckets, file=file
        )


def plan(table: str) -> None:
    """Plan, and print time and memory."""
    io = LocalFileIO()
    began, cpu = time.perf_counter(), time.process_time()
    store, snapshot = open_store(io, table), read_latest_snapshot(io, table)
    assert snapshot is not None
    planner = PaimonPlanner(store=store, snapshot=snapshot, options=PaimonOptions(), filters=Filters())
    picked = sum(1 for each in planner.plan() if each.units)
    took, used = time.perf_counter() - began, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{planner.totals.files:,} files in {planner.totals.buckets:,} buckets, {picked:,} to compact: ", end="")
    print(f"{took:.1f} s wall, {used:.1f} CPU s, peak memory {peak:.0f} MiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--buckets", type=int, default=100_000)
    parser.add_argument("--plan", metavar="TABLE", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.plan:
        plan(arguments.plan)
        return
    with tempfile.TemporaryDirectory(prefix="packstone-bench-") as folder:
        table = Path(folder) / "orders"
        make_table(table, files=arguments.files, buckets=arguments.buckets)
        subprocess.run([sys.executable, __file__, "--plan", str(table)], check=True)


if __name__ == "__main__":
    main()
